import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

/// Responses without content, whatever their heads announce (RFC 9112 §6.3).
@Suite struct BodilessResponseTests {
    @Test(arguments: [204, 304], [false, true])
    func announcedLengthWithoutContentIsIgnored(status: Int, streams: Bool) async throws {
        let server = try MockServer()
        server.enqueue(MockReply(status: status, headers: ["Content-Length": "5000", "ETag": "\"a\""]), .text("next"))
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.maxBodySize = 100
                $0.streamsBody = streams
            }
            let response = try await transport.answer(to: request)
            #expect(response.status == status)
            #expect(response.headers["ETag"] == "\"a\"")
            #expect(try await response.body.collect(upTo: 0) == Data())
            #expect(try await transport.get(server.url()).text == "next")
            #expect(server.acceptedConnections == 1)
        }
    }

    @Test(arguments: [false, true])
    func headResponseHasNoBody(streams: Bool) async throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 1 << 40), .pattern(byteCount: 5).inChunks(), .text("next"))
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let request = HTTPRequest("HEAD", server.url()).with { $0.streamsBody = streams }
            let response = try await transport.answer(to: request)
            #expect(response.headers["Content-Length"] == "\(1 << 40)")
            #expect(try await response.body.collect(upTo: 0) == Data())
            _ = try await transport.answer(to: request).body.collect(upTo: 0)
            #expect(try await transport.get(server.url()).text == "next")
            #expect(server.acceptedConnections == 1)
        }
    }

    @Test(arguments: [200, 205, 404, 500])
    func emptyBodyIsNoError(status: Int) async throws {
        let server = try MockServer()
        server.enqueue(.status(status))
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.status == status)
            #expect(response.data.isEmpty)
        }
    }

    @Test(arguments: [299, 399, 401, 407, 418, 599, 999])
    func everyStatusIsDelivered(status: Int) async throws {
        let server = try MockServer()
        server.enqueue(.text("x", status: status))
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.status == status)
            #expect(response.text == "x")
        }
    }

    @Test func trailersFollowTheBody() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").withTrailers(["X-Sum": "42"]))
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.text == "hello")
            #expect(response.trailers["X-Sum"] == "42")
            #expect(response.headers["X-Sum"] == nil)
        }
    }
}
