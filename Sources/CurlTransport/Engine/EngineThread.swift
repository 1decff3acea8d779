import CLibcurl

/// A detached thread with a name. The application's signals are for its other threads, as are those of the threads that
/// libcurl starts from here.
enum EngineThread {
    private final class Start {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Those that the code on a thread causes itself: blocked, they would end the process without the application's
    /// handler, which may write a backtrace.
    private static let faults = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP]

    /// Runs `body` on a new thread. `false` when the system has none left.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        // A thread begins with the signals of the one that makes it. SIGPIPE is among them: with CURLOPT_NOSIGNAL
        // libcurl does not keep it off, and OpenSSL writes with write(2).
        var blocked = sigset_t()
        var previous = sigset_t()
        sigfillset(&blocked)
        for fault in faults { sigdelset(&blocked, fault) }
        pthread_sigmask(SIG_SETMASK, &blocked, &previous)
        defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
        let start = Unmanaged.passRetained(Start(body))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                lat_name_thread("lat-engine")
                lat_use_utf8_names()
                Unmanaged<Start>.fromOpaque(context).takeRetainedValue().body()
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            return false
        }
        pthread_detach(thread)
        return true
    }
}
