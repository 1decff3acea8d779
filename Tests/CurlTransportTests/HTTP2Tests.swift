import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct HTTP2Tests {
    private func trusting(_ change: (inout EngineConfiguration) -> Void = { _ in })
        -> EngineConfiguration
    {
        testConfiguration {
            $0.tls.caFile = Servers.authority
            change(&$0)
        }
    }

    @Test(.needsNginx)
    func concurrentRequestsShareConnections() async throws {
        let url = try #require(Servers.nginxTLS) + "/4k.bin"
        try await withTransport(trusting()) { transport async throws in
            let first = try await transport.get(url)
            #expect(first.version == .http2)
            #expect(first.data.count == 4096)
            try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for _ in 0..<50 { group.addTask { try await transport.get(url) } }
                for try await response in group {
                    #expect(response.data == first.data)
                    #expect(response.version == .http2)
                }
            }
            #expect(await transport.gauges.sockets <= 5)
        }
    }

    /// The server sends GOAWAY after every third request and refuses the others in flight, which must be retried.
    @Test(.needsNginx, arguments: [1, 6, 20])
    func goAwayFailsNoRequest(inFlight: Int) async throws {
        let url = try #require(Servers.nginxGoAway) + "/1k.bin"
        try await withTransport(trusting()) { transport async throws in
            try await withThrowingTaskGroup(of: Int.self) { group in
                for index in 0..<100 {
                    if index >= inFlight { #expect(try await group.next() == 1024) }
                    group.addTask { try await transport.get(url).data.count }
                }
                for try await count in group { #expect(count == 1024) }
            }
        }
    }

    @Test(.needsNginx, arguments: [false, true])
    func priorKnowledgeWorksInClearText(isOfEngine: Bool) async throws {
        let base = try #require(Servers.nginxClearHTTP2)
        let version = HTTPVersionPolicy.http2PriorKnowledge
        let configuration = testConfiguration { if isOfEngine { $0.version = version } }
        try await withTransport(configuration) { transport async throws in
            let request = HTTPRequest("GET", base + "/1m.bin").with { if !isOfEngine { $0.version = version } }
            let response = try await transport.answer(to: request)
            #expect(response.version == .http2)
            #expect(response.data.count == 1 << 20)
            #expect(try await transport.answer(to: request).data == response.data)
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<30 { group.addTask { try await transport.answer(to: request).data.count } }
                for try await count in group { #expect(count == 1 << 20) }
            }
        }
    }

    @Test(.needsNginx)
    func requestCanForceHTTP1() async throws {
        let url = try #require(Servers.nginxTLS) + "/1k.bin"
        try await withTransport(trusting()) { transport async throws in
            #expect(try await transport.get(url).version == .http2)
            let request = HTTPRequest("GET", url).with { $0.version = .http1 }
            #expect(try await transport.answer(to: request).version == .http1_1)
        }
    }

    @Test(.needsNginx)
    func untrustedCertificateFails() async throws {
        let url = try #require(Servers.nginxTLS) + "/1k.bin"
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", url))
            #expect([.tls(.untrusted), .tls(.selfSigned)].contains(error.kind))
        }
    }

    /// Makes a frame without padding (RFC 9113 §4.1).
    private static func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF), type, flags, 0, 0, 0, stream] + payload
    }

    private static let settings = frame(4, stream: 0, [])
    /// `:status: 200` from the static table, with END_HEADERS.
    private static let ok = frame(1, flags: 4, stream: 1, [0x88])

    /// The bytes that follow the settings, and the errors that they may cause.
    private static let breaks: [(name: String, bytes: [UInt8], kinds: [NetworkError.Kind])] = [
        ("RST_STREAM: INTERNAL_ERROR", frame(3, stream: 1, [0, 0, 0, 2]), [.connectionLost, .protocolViolation]),
        (
            "RST_STREAM: CANCEL in the body", ok + frame(0, stream: 1, [0x61]) + frame(3, stream: 1, [0, 0, 0, 8]),
            [.connectionLost]
        ),
        (
            "GOAWAY: ENHANCE_YOUR_CALM", frame(7, stream: 0, [0, 0, 0, 0, 0, 0, 0, 11]),
            [.connectionLost, .protocolViolation]
        ),
        ("data before headers", frame(0, stream: 1, [0x61]), [.protocolViolation, .connectionLost]),
        ("a frame too large", [0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1], [.protocolViolation, .connectionLost]),
        (
            "headers that do not decode", frame(1, flags: 4, stream: 1, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
            [.protocolViolation, .connectionLost]
        ),
        // libcurl 8 considers the connection finished but waits for more from the server, until the idle timeout.
        ("no HTTP/2 at all", plain, [.protocolViolation, .connectionLost, .timeout(.idle)]),
        ("no HTTP/2, and closed", plain, [.protocolViolation, .connectionLost]),
    ]

    private static let plain = Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)

    @Test(arguments: breaks.indices)
    func brokenStreamFailsWithItsKind(index: Int) async throws {
        let (name, bytes, kinds) = Self.breaks[index]
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write((name.hasPrefix("no HTTP/2") ? [] : Self.settings) + bytes)
            if !name.hasSuffix("closed") { connection.drain() }
        }
        let other = try MockServer()
        other.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.version = .http2PriorKnowledge
                $0.idleTimeout = .seconds(3)
            }
            let error = try await transport.failure(of: request)
            #expect(kinds.contains(error.kind), "\(name): \(error.kind) \(error.curlCode ?? -1) \(error.message)")
            #expect(try await transport.get(other.url()).text == "x")
        }
    }

    private static let refusedStream = frame(3, stream: 1, [0, 0, 0, 7])
    /// A GOAWAY with NO_ERROR, and 0 as the last stream.
    private static let goAway = frame(7, stream: 0, [0, 0, 0, 0, 0, 0, 0, 0])

    @Test(arguments: ["GET", "POST"], [refusedStream, goAway])
    func refusedStreamIsRetried(method: String, refusal: [UInt8]) async throws {
        let connections = Box(0)
        let server = try RawServer { connection in
            _ = connection.read()
            connections.change { $0 += 1 }
            let hello = Self.frame(0, flags: 1, stream: 1, Array("hello".utf8))
            connection.write(Self.settings + (connections.value == 1 ? refusal : Self.ok + hello))
            connection.drain()
        }
        try await withTransport { transport async throws in
            let body = method == "POST" ? HTTPBody.text("pay") : nil
            let request = HTTPRequest(method, server.url(), body: body).with { $0.version = .http2PriorKnowledge }
            #expect(try await transport.answer(to: request).text == "hello")
            #expect(connections.value == 2)
        }
    }

    @Test func retriesStopAfterRepeatedGoAway() async throws {
        let connections = Box(0)
        let server = try RawServer { connection in
            _ = connection.read()
            connections.change { $0 += 1 }
            connection.write(Self.settings + Self.goAway)
            connection.drain()
        }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.version = .http2PriorKnowledge }
            let error = try await transport.failure(of: request)
            #expect(error.attempts == 2)
            // libcurl 8 opens another connection before it asks whether to repeat the request, and closes it unused.
            #expect(connections.value == 2 || GlobalCurl.runtimeVersion >= 0x08_00_00 && connections.value == 3)
        }
    }

    @Test func responseFromRawFramesIsParsed() async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Self.settings + Self.ok + Self.frame(0, flags: 1, stream: 1, Array("hello".utf8)))
            connection.drain()
        }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.version = .http2PriorKnowledge }
            let response = try await transport.answer(to: request)
            #expect(response.version == .http2)
            #expect(response.text == "hello")
        }
    }
}
