import CurlTransport
import HTTPCore

extension CentralRequestManager {
    /// Opens connections to a domain before they are needed, name look-up and TLS done, and keeps them for its calls.
    ///
    /// ```swift
    /// try await manager.prewarm("shop", connections: 2)
    /// ```
    ///
    /// Nothing is sent on them (with libcurl 8 and in clear text one `HEAD` of `/` on each). Idle ones that are there
    /// count; where the server speaks HTTP/2 one is enough. Pins, proxy and the number of connections per host are those
    /// of the domain's row; the first of its addresses is meant, not its mirrors.
    ///
    /// - Parameters:
    ///   - domain: the name of a domain of the table, or an absolute URL.
    ///   - connections: how many, at most as many as there may be to one host. Default 1.
    /// - Throws: ``NetworkError`` when a connection does not come about, of kind ``NetworkError/Kind/unknownName`` for a
    ///   name the table does not have, and ``NetworkError/Kind/unsupported`` with a transport of the app's own.
    public func prewarm(_ domain: String, connections: Int = 1) async throws {
        guard let engine else {
            throw NetworkError(
                .unsupported, message: "prewarm needs the manager's own engine, and configuration.transport is set")
        }
        try await engine.prewarm(try warmRequest(domain), connections: connections)
    }

    private func warmRequest(_ domain: String) throws(NetworkError) -> HTTPRequest {
        if domain.contains("://") { return HTTPRequest("HEAD", domain) }
        let target = try ProbeTarget(domain, in: domains, ReachabilityConfiguration())
        var request = HTTPRequest("HEAD", target.urls.first ?? "")
        request.pinnedPublicKeys = target.pins
        if let settings = try domains?.resolve(domain: DomainName(domain), path: "").settings {
            request.proxy = settings.proxy
            request.connectTimeout = settings.connectTimeout
            request.maxConnectionsPerHost = settings.maxConnectionsPerHost
        }
        return request
    }
}
