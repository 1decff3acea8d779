public import CurlTransport
import HTTPCore
import Synchronization

extension CentralRequestManager {
    private struct Shared {
        var manager: CentralRequestManager?
        var isUsed = false
    }

    private static let sharedState = Mutex(Shared())

    /// The manager of the process, created on first use. If the system cannot start its engine, all its calls fail with the
    /// reason.
    public static var shared: CentralRequestManager {
        let known = sharedState.withLock { state in
            state.isUsed = true
            return state.manager
        }
        if let known { return known }
        // Made without the lock, since it may call the app's warning handler.
        let made: CentralRequestManager
        do {
            made = try CentralRequestManager()
        } catch {
            made = CentralRequestManager(Configuration(), .custom(FailingTransport(error: error)))
        }
        return sharedState.withLock { state in
            let manager = state.manager ?? made
            state.manager = manager
            return manager
        }
    }

    /// Creates ``shared`` with a configuration, before its first use.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for invalid settings, or when ``shared`` is already in use.
    public static func configureShared(_ configuration: Configuration) throws {
        let inUse = NetworkError.invalidRequest(
            "CentralRequestManager.shared is in use already; call configureShared(_:) before the first request, "
                + "or make a manager of your own")
        guard !sharedState.withLock(\.isUsed) else { throw inUse }
        // Made without the lock, since it may call the app's handlers and observers.
        let manager = try CentralRequestManager(configuration: configuration)
        try sharedState.withLock { state in
            guard !state.isUsed else { throw inUse }
            state.manager = manager
        }
    }
}

/// Replaces an engine that failed to start.
private struct FailingTransport: Transport {
    let error: any Error

    func send(_ request: HTTPRequest) async throws -> HTTPResponse { throw error }
}

extension CentralRequestManager {
    /// Cancels the selected calls that are running now, in whatever form they were started.
    ///
    /// ```swift
    /// manager.cancelRequests(.tag("feed"))
    /// ```
    ///
    /// A call ends at once, whatever it waits for: a connection, the transfer, its retry, the network, a token, a provider, a
    /// barrier, a limit, the response to an equal request, or the callback executor. Its failure, which asynchronous calls
    /// throw, is of kind ``NetworkError/Kind/cancelled``; `CancellationError` is thrown only when the Swift task was
    /// cancelled. A streamed body ends with the call. A download keeps what it has received. A call that is inside a
    /// sealer, signer, outcome observer or interceptor of the app ends when that code returns; inside an interceptor it
    /// ends at once if it has a deadline. This method returns at once.
    ///
    /// - Returns: the number of calls that were cancelled.
    @discardableResult
    public func cancelRequests(_ selection: RequestSelection) -> Int { calls.cancel(kind(of: selection)) }

    /// The number of running calls that a selection matches. Default ``RequestSelection/all``.
    public func runningRequests(_ selection: RequestSelection = .all) -> Int { calls.count(kind(of: selection)) }

    /// The events of this manager's calls, as they happen.
    ///
    /// ```swift
    /// for await event in manager.events {
    ///     if case .retrying(let wait) = event.kind { print(event.call.request.url, "again in", wait) }
    /// }
    /// ```
    ///
    /// Each access returns a stream of its own, which collects events until it or the manager is released. A slow reader loses
    /// the oldest events, but never delays a call.
    public var events: AsyncStream<CallEvent> { hub.events() }

    private func kind(of selection: RequestSelection) -> RequestSelection.Kind {
        guard case .url(let url) = selection.kind else { return selection.kind }
        return .url(RequestBuilder.absoluteURL(url, base: baseURL))
    }
}

extension CentralRequestManager {
    /// The manager's cookies, to read, set and clear; `nil` when ``Configuration`` turns cookies off, which is the default,
    /// and with a custom transport.
    public var cookies: CookieJar? { engine?.cookies }

    /// Opens connections to a domain, through name look-up and TLS, and keeps them for later calls.
    ///
    /// ```swift
    /// try await manager.prewarm("shop", connections: 2)
    /// ```
    ///
    /// No request is sent, except that libcurl 8 sends one `HEAD` for `/` on each connection in clear text. An idle connection
    /// counts as the first. One is enough for a server with HTTP/2. TLS settings, proxy and the number of connections per host
    /// come from the domain's row. Mirrors are not connected to.
    ///
    /// - Parameters:
    ///   - domain: the name of a domain of the table, or an absolute URL.
    ///   - connections: how many connections to open. Default 1.
    /// - Throws: ``NetworkError`` when a connection fails; of kind ``NetworkError/Kind/unknownName`` for a name that is
    ///   not in the table, ``NetworkError/Kind/invalidRequest`` when `connections` is below 1 or above the limit per
    ///   host, and ``NetworkError/Kind/unsupported`` with a custom transport.
    public func prewarm(_ domain: some URLConvertible, connections: Int = 1) async throws {
        guard let engine else {
            throw NetworkError(
                .unsupported, message: "prewarm needs the manager's own engine; leave configuration.transport unset")
        }
        try await engine.prewarm(try warmRequest(domain.urlText), connections: connections)
    }

    private func warmRequest(_ domain: String) throws(NetworkError) -> HTTPRequest {
        if URLParts(domain).isAbsolute { return HTTPRequest("HEAD", domain) }
        let target = try ProbeTarget(domain, in: domains, Reachability.Configuration())
        var request = HTTPRequest("HEAD", target.urls.first ?? "")
        request.tls = target.tls
        if let settings = try domains?.resolve(domain: DomainName(domain), path: "").settings {
            request.proxy = settings.proxy
            request.connectTimeout = settings.connectTimeout
            request.maxConnectionsPerHost = settings.maxConnectionsPerHost
        }
        return request
    }
}
