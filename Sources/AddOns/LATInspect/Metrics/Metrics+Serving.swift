internal import FoundationEssentials
internal import LATNetworking

extension Metrics {
    /// An address at which metrics can be read. Its port is closed when it is released.
    public final class Endpoint: Sendable {
        private let server: LoopbackServer

        fileprivate init(_ server: LoopbackServer) { self.server = server }

        /// The port.
        public var port: Int { server.port }
        /// The address for the scraper: `http://127.0.0.1:9464/metrics`.
        public var url: String { "http://\(server.host):\(port)/metrics" }

        /// Closes the port. A second call does nothing.
        public func stop() { server.stop() }
    }

    /// Serves the metrics at `/metrics`, in the format that the scraper asks for.
    ///
    /// On 127.0.0.1, neither other machines nor pages of other origins in a browser can read them. On another address, everyone
    /// can who reaches it: there is neither TLS nor a password, so choose that of an internal network.
    ///
    /// - Parameters:
    ///   - address: an IP address of this machine; `0.0.0.0` or `::` for all of them. Default `127.0.0.1`.
    ///   - port: 0 for a free one. Default 9464, which OpenTelemetry's exporters use.
    /// - Throws: ``NetworkError`` when the port is in use, or the address is not one of this machine.
    public func serve(on address: String = "127.0.0.1", port: Int = 9_464) throws -> Endpoint {
        let server = try LoopbackServer(on: address, port: port) { [weak self] request in
            guard let self, request.path == "/metrics" else {
                return LoopbackServer.Response(status: 404, "nothing is here; the metrics are at /metrics")
            }
            guard request.method == "GET" || request.method == "HEAD" else {
                return LoopbackServer.Response(status: 405, "only GET and HEAD are allowed")
            }
            let format = Format(accept: request.headers[values: "Accept"].joined(separator: ","))
            return LoopbackServer.Response(format.contentType, Data(await text(format).utf8))
        }
        return Endpoint(server)
    }
}
