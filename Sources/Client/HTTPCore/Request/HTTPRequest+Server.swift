extension HTTPRequest {
    /// The server that a URL names, in the form of the labels of metrics and traces (`server.address`, `server.port` and
    /// `url.scheme` of OpenTelemetry).
    ///
    /// ```swift
    /// HTTPRequest.Server("https://API.example.org/users")     // api.example.org, 443, https
    /// ```
    public struct Server: Hashable, Sendable {
        /// The host in lower case, an IPv6 address in brackets; the path of a Unix domain socket.
        public let address: String
        /// The port, that of the scheme if the URL has none; `nil` for a Unix domain socket and a scheme without a port.
        public let port: Int?
        /// The scheme in lower case.
        public let scheme: String

        /// Reads a URL, or only the part before its path. `nil` for a text without scheme and host.
        public init?(_ url: String) {
            if let unix = try? UnixAddress(url) {
                (address, port, scheme) = (unix.socketPath, nil, "unix")
                return
            }
            let parts = URLParts(url)
            guard parts.isAbsolute, let scheme = parts.scheme?.lowercased(), let host = parts.host, !host.isEmpty else {
                return nil
            }
            self.scheme = scheme
            address = host.lowercased()
            port = (parts.port ?? URLParts.standardPort(scheme)).flatMap { Int($0) }
        }
    }

    /// The server that the request is for; `nil` as long as its URL is a path, which is joined to a base URL later.
    public var server: Server? { Server(url) }
}
