package import Glibc

/// Starts named threads that block the app's signals, so that other threads handle them.
package enum BackgroundThread {
    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// The signals that a thread causes itself. They stay unblocked, because a blocked one would end the process without
    /// running the app's handler, which may write a backtrace.
    private static let faults = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP]

    /// Runs `body` on a new detached thread. Returns `false` when no thread can be created.
    package static func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
        guard let thread = make(name, body) else { return false }
        pthread_detach(thread)
        return true
    }

    /// Runs `body` on a new thread, which the caller joins or detaches. Returns `nil` and sets `errno` when no thread can
    /// be created.
    ///
    /// - Parameter name: the name that system tools show, cut to 15 bytes.
    package static func make(_ name: String, _ body: @escaping @Sendable () -> Void) -> pthread_t? {
        // A new thread inherits the signal mask of its creator.
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
