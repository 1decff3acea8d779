import LATNetworking

/// Shows each request as it goes to the network, put together and with all its headers: one for each hop.
struct TracingTransport: Transport {
    let engine: CurlTransport
    let willSend: @Sendable (HTTPRequest) -> Void

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        willSend(request)
        return try await engine.send(request)
    }
}
