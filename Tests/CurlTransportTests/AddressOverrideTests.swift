import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

@Suite struct AddressOverrideTests {
    @Test func engineUnixSocketServesAllRequests() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer(unixSocketPath: directory.path(of: "s"))
        server.fallback { .text($0.headers["Host"] ?? "-") }
        let configuration = testConfiguration { $0.unixSocketPath = directory.path(of: "s") }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get("http://docker/v1").text == "docker")
            #expect(try await transport.get("http://other.example:81/").text == "other.example:81")
            #expect(server.requests.map(\.target) == ["/v1", "/"])
        }
    }

    @Test func requestUnixSocketAppliesToItOnly() async throws {
        let directory = try TemporaryDirectory()
        let local = try MockServer(unixSocketPath: directory.path(of: "s"))
        let other = try MockServer(unixSocketPath: directory.path(of: "t"))
        let tcp = try MockServer()
        local.fallback { _ in .text("local") }
        other.fallback { _ in .text("other") }
        tcp.fallback { _ in .text("tcp") }
        try await withTransport { transport async throws in
            let plain = HTTPRequest("GET", tcp.url())
            let unix = plain.with { $0.unixSocketPath = directory.path(of: "s") }
            let second = plain.with { $0.unixSocketPath = directory.path(of: "t") }
            for _ in 0..<3 {
                #expect(try await transport.answer(to: unix).text == "local")
                #expect(try await transport.answer(to: plain).text == "tcp")
                #expect(try await transport.answer(to: second).text == "other")
            }
            #expect((local.acceptedConnections, other.acceptedConnections, tcp.acceptedConnections) == (1, 1, 1))
        }
    }

    @Test(arguments: ["missing", "too long", "no socket"])
    func missingUnixSocketFailsToConnect(kind: String) async throws {
        let directory = try TemporaryDirectory()
        let path =
            switch kind {
            case "missing": directory.path(of: "missing")
            case "no socket": try directory.write(Data(), to: "file")
            default: directory.path(of: String(repeating: "a", count: 200))
            }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", "http://localhost/").with { $0.unixSocketPath = path }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .connect || kind == "too long" && error.kind == .invalidRequest, "\(error)")
        }
    }

    @Test func resolveOverridesHostAddresses() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "-") }
        let configuration = testConfiguration {
            $0.resolve = ["api.example.org:\(server.port)": "127.0.0.1", "b.example:\(server.port)": "127.0.0.1"]
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<2 {
                #expect(
                    try await transport.get("http://api.example.org:\(server.port)/").text
                        == "api.example.org:\(server.port)")
                #expect(try await transport.get("http://b.example:\(server.port)/").text == "b.example:\(server.port)")
                // The overrides survive a reset of the handle.
                let post = HTTPRequest(
                    "POST", "http://b.example:\(server.port)/", body: .stream { AsyncStream { $0.finish() } })
                #expect(try await transport.answer(to: post).status == 200)
            }
        }
    }

    @Test func connectToOverridesTheDestination() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "-") }
        let configuration = testConfiguration { $0.connectTo = ["api.example.org:80:127.0.0.1:\(server.port)"] }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get("http://api.example.org/").text == "api.example.org")
            #expect(try await transport.get("http://api.example.org/").text == "api.example.org")
            #expect(server.acceptedConnections == 1)
        }
    }
}
