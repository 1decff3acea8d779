import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

@Suite struct ConfigurationTests {
    typealias Change = @Sendable (inout EngineConfiguration) -> Void

    private static let invalid: [(name: String, change: Change)] = [
        ("timeout", { $0.timeout = .zero }), ("timeout", { $0.timeout = .seconds(-1) }),
        ("connectTimeout", { $0.connectTimeout = .zero }), ("idleTimeout", { $0.idleTimeout = .milliseconds(-1) }),
        ("idleConnectionLifetime", { $0.idleConnectionLifetime = .zero }),
        ("connectionLifetime", { $0.connectionLifetime = .zero }),
        ("dnsCacheLifetime", { $0.dnsCacheLifetime = .zero }),
        ("maxConnectionsPerHost", { $0.maxConnectionsPerHost = 0 }), ("maxConnections", { $0.maxConnections = 0 }),
        ("maxIdleConnections", { $0.maxIdleConnections = -1 }),
        ("maxDecompressionRatio", { $0.maxDecompressionRatio = 0 }),
        ("maxBodySize", { $0.maxBodySize = -1 }), ("tls.caFile", { $0.tls.caFile = "/no/such/file.pem" }),
        ("userAgent", { $0.userAgent = "a\nb" }), ("resolve", { $0.resolve = ["example.org": "127.0.0.1"] }),
        ("resolve", { $0.resolve = ["example.org:80": ""] }), ("connectTo", { $0.connectTo = ["nonsense"] }),
        ("proxy", { $0.proxy = "gopher://a:1" }), ("proxy", { $0.proxy = .url("ftp://a:1") }),
    ]

    @Test(arguments: invalid.indices)
    func invalidSettingIsRefusedByName(index: Int) {
        let (name, change) = Self.invalid[index]
        let error = #expect(throws: NetworkError.self) { try CurlTransport(configuration: testConfiguration(change)) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains(name) == true, "\(name): \(error?.message ?? "")")
    }

    @Test(arguments: ["timeout", "connectTimeout", "idleTimeout"], [Duration.zero, .seconds(-1), .nanoseconds(-1)])
    func requestTimeoutMustBePositive(name: String, duration: Duration) async throws {
        let server = try MockServer()
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                switch name {
                case "timeout": $0.timeout = duration
                case "connectTimeout": $0.connectTimeout = duration
                default: $0.idleTimeout = duration
                }
            }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .invalidRequest)
            #expect(error.message.contains(name))
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test func extremeSettingsAreAccepted() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let configuration = testConfiguration {
            $0.timeout = .seconds(Int64.max)
            $0.connectTimeout = .seconds(Int64.max)
            $0.idleTimeout = .seconds(Int64.max)
            $0.idleConnectionLifetime = .seconds(Int64.max)
            $0.connectionLifetime = .seconds(Int64.max)
            $0.dnsCacheLifetime = .nanoseconds(1)
            $0.maxConnectionsPerHost = .max
            $0.maxConnections = .max
            $0.maxIdleConnections = .max
            $0.maxBodySize = .max
            $0.maxDecompressionRatio = .max
        }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get(server.url()).text == "x")
            #expect(try await transport.get(server.url()).text == "x")
        }
        let none = testConfiguration {
            $0.timeout = nil
            $0.idleTimeout = nil
        }
        try await withTransport(none) { transport async throws in
            #expect(try await transport.get(server.url()).text == "x")
        }
    }

    @Test func requestUserAgentReplacesTheDefault() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            _ = try await transport.get(server.url())
            _ = try await transport.answer(to: HTTPRequest("GET", server.url(), headers: ["User-Agent": "mine"]))
            _ = try await transport.answer(to: HTTPRequest("GET", server.url(), headers: ["User-Agent": nil]))
        }
        try await withTransport(testConfiguration { $0.userAgent = "app/1" }) { transport async throws in
            _ = try await transport.get(server.url())
        }
        let sent = server.requests.map { $0.headers[values: "User-Agent"] }
        #expect(sent.dropFirst() == [["mine"], [], ["app/1"]])
        #expect(sent.first?.first?.hasPrefix("LATNetworking/\(CurlTransport.version) (") == true)
    }

    @Test func callerFieldsArriveOnceAndInOrder() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            var headers: HTTPHeaders = [
                "X-A": "1", "Host": "example.org", "X-Empty": "", "X-Blank": " \t", "Accept": nil,
            ]
            headers.append("X-A", "2")
            headers.append("X-Ü".replacing("Ü", with: "U"), "grün")
            _ = try await transport.answer(to: HTTPRequest("GET", server.url(), headers: headers))
            let got = try #require(server.requests.first).headers
            #expect(got[values: "X-A"] == ["1", "2"])
            #expect(got[values: "Host"] == ["example.org"])
            #expect(got[values: "X-Empty"] == [""])
            #expect(got[values: "X-Blank"].count == 1)
            #expect(got["X-U"] == "grün")
            #expect(got["Accept"] == nil)
        }
    }
}
