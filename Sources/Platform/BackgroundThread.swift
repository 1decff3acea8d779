package import Glibc

/// A thread of our own: it has a name, and the app's signals are for its other threads.
package enum BackgroundThread {
    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Those that the code on a thread causes itself: blocked, they would end the process without the app's handler, which
    /// may write a backtrace.
    private static let faults = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP]

    /// Runs `body` on a new thread that nobody waits for. `false` when the system has none left.
    package static func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
        guard let thread = make(name, body) else { return false }
        pthread_detach(thread)
        return true
    }

    /// Runs `body` on a new thread, which the caller joins or detaches. `nil`, with `errno`, when the system has none left.
    ///
    /// - Parameter name: what the system's tools show; 15 bytes of it.
    package static func make(_ name: String, _ body: @escaping @Sendable () -> Void) -> pthread_t? {
        // A thread begins with the signals of the one that makes it, and so do those that it starts.
        var blocked = sigset_t()
        var previous = sigset_t()
        sigfillset(&blocked)
        for fault in faults { sigdelset(&blocked, fault) }
        pthread_sigmask(SIG_SETMASK, &blocked, &previous)
        defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
        let start = Unmanaged.passRetained(Start(name, body))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { argument in
                if let argument { BackgroundThread.run(Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()) }
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            errno = code
            return nil
        }
        return thread
    }

    private static func run(_ start: Start) {
        let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        if descriptor >= 0 {
            _ = start.name.withCString { write(descriptor, $0, min(strlen($0), 15)) }
            close(descriptor)
        }
        start.body()
    }
}
