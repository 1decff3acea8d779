import CLibcurl

/// A detached thread with a name.
enum EngineThread {
    private final class Start {
        let name: String
        let body: @Sendable () -> Void

        init(_ name: String, _ body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Runs `body` on a new thread. `false` when the system has none left.
    static func start(named name: String = "lat-engine", _ body: @escaping @Sendable () -> Void) -> Bool {
        let start = Unmanaged.passRetained(Start(name, body))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
                lat_name_thread(start.name)
                lat_use_utf8_names()
                start.body()
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
