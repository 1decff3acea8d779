import Glibc

/// A detached thread with a name, deaf to the signals of the process.
enum WatchThread {
    private final class Start: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Runs `body` on a new thread. `false` when the system has none left.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        // A thread begins with the signals of the one that makes it.
        var all = sigset_t()
        var previous = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &previous)
        let hasStarted = create(Start(body))
        pthread_sigmask(SIG_SETMASK, &previous, nil)
        return hasStarted
    }

    private static func create(_ start: Start) -> Bool {
        let context = Unmanaged.passRetained(start)
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                if let argument { WatchThread.run(Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()) }
                return nil
            }, context.toOpaque())
        guard result == 0 else {
            context.release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    private static func run(_ start: Start) {
        setName("lat-table")
        start.body()
    }

    private static func setName(_ name: String) {
        let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = name.withCString { write(descriptor, $0, strlen($0)) }
        close(descriptor)
    }
}
