import LATInspect
import LATNetworking
import TestSupport
import Testing

/// The address at which metrics are served.
@Suite(.timeLimit(.minutes(1))) struct MetricsAddressTests {
    private let metrics = Metrics()

    private func status(_ url: String, _ headers: HTTPHeaders = [:]) async throws -> Int {
        let manager = try CentralRequestManager.make { _ in }
        var request = HTTPRequest("GET", url)
        request.headers = headers
        return try await manager.send(request).status
    }

    @Test(arguments: ["127.0.0.1", "127.0.0.2", "::1", "0.0.0.0", "::"])
    func metricsAreServedOnTheAddress(_ address: String) async throws {
        let endpoint = try metrics.serve(on: address, port: 0)
        let host = address.contains(":") ? "[\(address)]" : address
        #expect(endpoint.url == "http://\(host):\(endpoint.port)/metrics")
        let reached = address == "::" ? "[::1]" : address == "0.0.0.0" ? "127.0.0.1" : host
        #expect(try await status("http://\(reached):\(endpoint.port)/metrics") == 200)
    }

    @Test func namesAreCheckedOnLoopbackOnly() async throws {
        let own = try metrics.serve(on: "127.0.0.1", port: 0)
        #expect(try await status(own.url, ["Host": "evil.example:\(own.port)"]) == 403)
        let all = try metrics.serve(on: "0.0.0.0", port: 0)
        let url = "http://127.0.0.1:\(all.port)/metrics"
        #expect(try await status(url, ["Host": "metrics.internal:\(all.port)"]) == 200)
        #expect(try await status(url, ["Origin": "http://evil.example"]) == 403)
    }

    @Test(arguments: [
        ("localhost", "is not an IP address"), ("", "is not an IP address"), ("192.0.2.1", "listen on 192.0.2.1"),
    ])
    func addressOfNoInterfaceIsAnError(_ address: String, _ words: String) {
        let error = #expect(throws: NetworkError.self) { try metrics.serve(on: address, port: 0) }
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    }
}
