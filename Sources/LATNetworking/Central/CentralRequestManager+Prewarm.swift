import CurlTransport
import HTTPCore

extension CentralRequestManager {
    /// Opens connections to a domain, through name look-up and TLS, and keeps them for later calls.
    ///
    /// ```swift
    /// try await manager.prewarm("shop", connections: 2)
    /// ```
    ///
    /// No request is sent, except that libcurl 8 sends one `HEAD` for `/` on each connection in clear text. An idle
    /// connection counts as the first. One is enough where the server speaks HTTP/2. TLS settings, proxy and the number of
    /// connections per host come from the domain's row. Mirrors are not connected to.
    ///
    /// - Parameters:
    ///   - domain: the name of a domain of the table, or an absolute URL.
    ///   - connections: how many connections to open. Default 1.
    /// - Throws: ``NetworkError`` when a connection fails; of kind ``NetworkError/Kind/unknownName`` for a name that is
    ///   not in the table, ``NetworkError/Kind/invalidRequest`` when `connections` is below 1 or above the limit per
    ///   host, and ``NetworkError/Kind/unsupported`` with a custom transport.
    public func prewarm(_ domain: String, connections: Int = 1) async throws {
        guard let engine else {
            throw NetworkError(
                .unsupported, message: "prewarm needs the manager's own engine; leave configuration.transport unset")
        }
        try await engine.prewarm(try warmRequest(domain), connections: connections)
    }

    private func warmRequest(_ domain: String) throws(NetworkError) -> HTTPRequest {
        if domain.contains("://") { return HTTPRequest("HEAD", domain) }
        let target = try ProbeTarget(domain, in: domains, Reachability.Configuration())
        var request = HTTPRequest("HEAD", target.urls.first ?? "")
        request.pinnedPublicKeys = target.pins
        request.tls = target.tls
        if let settings = try domains?.resolve(domain: DomainName(domain), path: "").settings {
            request.proxy = settings.proxy
            request.connectTimeout = settings.connectTimeout
            request.maxConnectionsPerHost = settings.maxConnectionsPerHost
        }
        return request
    }
}
