import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct LiveTransferTests {
    private func live(_ url: String, proxy: String? = nil) -> HTTPRequest {
        HTTPRequest("GET", url).with {
            $0.context.isLive = true
            $0.streamsBody = true
            $0.proxy = proxy.map { .url($0) }
        }
    }

    @Test func liveTransfersTakeNoConnectionOfTheHost() async throws {
        let server = try MockServer()
        server.route("GET", "/live") { _ in .text("live").stalling(.afterBodyBytes(2)) }
        server.route("GET", "/get") { _ in .text("x") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            var responses: [HTTPResponse] = []
            for _ in 0..<5 { responses.append(try await transport.answer(to: live(server.url("/live")))) }
            for _ in 0..<5 { #expect(try await transport.get(server.url("/get")).text == "x") }
            #expect(server.acceptedConnections == 6)
            #expect(responses.count == 5)
        }
    }

    @Test func idleTimeoutAndReleaseEndLiveTransfers() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("live").stalling(.afterBodyBytes(2)) }
        try await withTransport { transport async throws in
            let silent = live(server.url()).with { $0.idleTimeout = .seconds(2) }
            let response = try await transport.answer(to: silent)
            let error = await #expect(throws: NetworkError.self) { for try await _ in response.body {} }
            #expect(error?.kind == .timeout(.idle))
            var other: HTTPResponse? = try await transport.answer(to: live(server.url()))
            #expect(other?.status == 200)
            other = nil
            try await server.waitUntilDisconnected()
        }
    }

    @Test func pooledLiveConnectionIsReusedUnlessStale() async throws {
        let server = try MockServer()
        server.enqueue(.text("one"), .text("two").droppingConnection(), .text("three"))
        try await withTransport { transport async throws in
            for text in ["one", "two", "three"] {
                let response = try await transport.answer(to: live(server.url()))
                let body = try await response.body.collect(upTo: 100)
                #expect(String(decoding: body, as: UTF8.self) == text)
                if text == "two" { try await server.waitForClosedConnections(1) }
            }
            #expect(server.acceptedConnections == 2)
        }
    }

    @Test(.needs("squid"), .needs("microsocks")) func bytesPassProxiesAsTheyCome() async throws {
        let server = try MockServer()
        server.fallback { _ in .chunked([Data("first".utf8), Data("second".utf8)]).stalling(.afterBodyBytes(5)) }
        let squid = try await RealProxy.squid { _ in "http_access allow all" }
        let socks = try await RealProxy.microsocks()
        try await withTransport { transport async throws in
            for proxy in ["http://127.0.0.1:\(squid.port)", "socks5h://127.0.0.1:\(socks.port)"] {
                let response = try await transport.answer(to: live(server.url(), proxy: proxy))
                var chunks = response.body.makeAsyncIterator()
                #expect(try await chunks.next() == Data("first".utf8), "\(proxy)")
            }
        }
    }
}
