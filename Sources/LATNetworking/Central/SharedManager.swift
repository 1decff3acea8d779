import HTTPCore
import Synchronization

extension CentralRequestManager {
    private struct Shared {
        var manager: CentralRequestManager?
        var isUsed = false
    }

    private static let sharedState = Mutex(Shared())

    /// The manager of the process, made at its first use.
    ///
    /// When the system cannot start an engine, every call of the shared manager fails with the reason.
    public static var shared: CentralRequestManager {
        sharedState.withLock { state in
            state.isUsed = true
            if let manager = state.manager { return manager }
            let manager = make(Configuration())
            state.manager = manager
            return manager
        }
    }

    /// Sets ``shared`` up, before its first use.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` when it is in use already, or for a configuration that cannot
    ///   work.
    public static func configureShared(_ configuration: Configuration) throws {
        try sharedState.withLock { state in
            guard !state.isUsed else {
                throw NetworkError.invalidRequest(
                    "CentralRequestManager.shared is in use already; call configureShared(_:) before the first request, "
                        + "or make a manager of your own")
            }
            state.manager = try CentralRequestManager(configuration: configuration)
        }
    }

    private static func make(_ configuration: Configuration) -> CentralRequestManager {
        do {
            return try CentralRequestManager(configuration: configuration)
        } catch {
            return CentralRequestManager(configuration, .custom(FailingTransport(error: error)))
        }
    }
}

/// Stands in for an engine that could not be started.
private struct FailingTransport: Transport {
    let error: any Error

    func send(_ request: HTTPRequest) async throws -> HTTPResponse { throw error }
}
