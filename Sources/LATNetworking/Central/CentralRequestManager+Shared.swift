public import CurlTransport
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

extension CentralRequestManager {
    /// Cancels the calls that are under way now and meant by a selection, in whatever form they were started: with
    /// closures or `await`, as streams, entities, uploads or downloads.
    ///
    /// ```swift
    /// manager.cancelRequests(.tag("feed"))
    /// ```
    ///
    /// A call ends at once, wherever it waits: for a connection, the transfer, its repetition, the network, a token, a
    /// provider, a barrier, a limit, the answer to an equal request, or the queue of callbacks. Calls in closure form get
    /// their failure of kind ``NetworkError/Kind/cancelled``, asynchronous ones throw it; `CancellationError` is thrown
    /// only where the Swift task was cancelled. A streamed body ends with it; a download keeps what has come. A call that
    /// stands in an interceptor of the app ends when that returns, or at once when it has a deadline; sealers, signers and
    /// outcome observers are waited for. Calls that begin later are not touched. Returns at
    /// once.
    ///
    /// - Returns: how many calls were told.
    @discardableResult
    public func cancelRequests(_ selection: RequestSelection) -> Int { calls.cancel(kind(of: selection)) }

    /// How many calls are under way that are meant by a selection.
    public func runningRequests(_ selection: RequestSelection = .all) -> Int { calls.count(kind(of: selection)) }

    /// What happens to this manager's calls, as it happens.
    public var events: CallEvents { CallEvents(hub) }

    private func kind(of selection: RequestSelection) -> RequestSelection.Kind {
        guard case .url(let url) = selection.kind else { return selection.kind }
        return .url(RequestBuilder.absoluteURL(url, base: baseURL))
    }
}

extension CentralRequestManager {
    /// The manager's cookies, to look at, set and clear; `nil` when ``Configuration`` says `.off`, which is the default,
    /// and with a transport of the app's own.
    public var cookies: CookieJar? { engine?.cookies }
}
