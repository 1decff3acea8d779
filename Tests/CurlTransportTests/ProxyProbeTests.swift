import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// Probes through a SOCKS proxy whose replies the test chooses (RFC 1928).
@Suite struct ProxyProbeTests {
    private func proxy(answering code: UInt8) throws -> RawServer {
        try RawServer { connection in
            _ = connection.read()
            connection.write([5, 0])
            _ = connection.read()
            connection.write([5, code, 0, 1, 127, 0, 0, 1, 0, 80])
            connection.drain()
        }
    }

    private func probe(_ proxy: String) async throws -> ConnectionReport {
        let reports = Box<ConnectionReport?>(nil)
        try await withTransport(testConfiguration { $0.proxy = .url(proxy) }) { transport in
            let report = await transport.connect(for: HTTPRequest("GET", "http://server.example/"))
            reports.change { $0 = report }
        }
        return try #require(reports.value)
    }

    @Test func reportNamesTheProxysAddress() async throws {
        let server = try proxy(answering: 0)
        let report = try await probe("socks5h://127.0.0.1:\(server.port)")
        #expect(report.error == nil)
        #expect(report.address == "127.0.0.1")
        #expect(report.proxy == "socks5h://127.0.0.1:\(server.port)")
    }

    @Test(arguments: [
        (UInt8(5), ProxyFailure.refused), (4, .unreachable), (3, .unreachable), (6, .expired), (2, .failed),
    ])
    func proxyReplyIsReported(_ code: UInt8, _ verdict: ProxyFailure) async throws {
        let server = try proxy(answering: code)
        let report = try await probe("socks5h://127.0.0.1:\(server.port)")
        #expect(report.error?.kind == .proxy)
        #expect(report.proxyVerdict == verdict)
    }

    @Test func reportHidesThePassword() async throws {
        let closed = try ClosedPort()
        let report = try await probe("http://user:secret@127.0.0.1:\(closed.port)")
        #expect(report.error != nil)
        #expect(report.proxy?.contains("secret") == false)
    }
}
