import Dispatch
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import ResponseCache

/// What a 304, the response to a HEAD and a refresh do to a stored response (RFC 9111 §4.3).
@Suite(.timeLimit(.minutes(2))) struct ConfirmationTests {
    @Test func responseThatMayNotBeStoredAnyMoreIsRemoved() async throws {
        let server = try MockServer()
        server.fallback { request in
            request.headers["If-None-Match"] == nil
                ? .text("secret").header("ETag", "\"x\"").header("Cache-Control", "max-age=0")
                : .status(304).header("ETag", "\"x\"").header("Cache-Control", "no-store")
        }
        let manager = try CentralRequestManager.caching(.http)
        _ = try await manager.startRequest("GET", server.url())
        #expect(try await manager.cache.entries().count == 1)
        let confirmed = try await manager.startRequest("GET", server.url())
        #expect(confirmed.text == "secret" && confirmed.source == .revalidated)
        #expect(try await manager.cache.entries().isEmpty)
    }

    @Test(arguments: [401, 403, 405, 429]) func refusedHeadSaysNothingOfTheResponse(_ status: Int) async throws {
        #expect(try await source(afterHead: status) == .memoryCache)
    }

    @Test(arguments: [404, 410]) func headOfNothingOutdatesTheResponse(_ status: Int) async throws {
        #expect(try await source(afterHead: status) == .network)
    }

    /// Where a GET gets its response from, after one that was stored and a HEAD with a status.
    private func source(afterHead status: Int) async throws -> HTTPResponse.Source {
        let server = try MockServer()
        server.fallback { request in
            request.method == "HEAD"
                ? .status(status) : .text("content").header("Cache-Control", "max-age=600")
        }
        let manager = try CentralRequestManager.caching(.http)
        _ = try await manager.startRequest("GET", server.url())
        let head = HTTPRequest("HEAD", server.url(), headers: ["Cache-Control": "no-cache"])
        #expect(try await manager.send(head).status == status)
        return try await manager.startRequest("GET", server.url()).source
    }

    @Test func errorOfTheCacheDoesNotBlameTheServer() async throws {
        let manager = try CentralRequestManager.caching(.http)
        let headers: HTTPHeaders = ["Cache-Control": "only-if-cached"]
        let error = await failure { try await manager.startRequest("GET", "http://a.example/", headers: headers) }
        #expect(error?.kind == .httpStatus && error?.response?.status == 504)
        #expect(error?.message.contains("the server") == false && error?.message.contains("only-if-cached") == true)
    }

    /// A program that makes one request and exits would throw away what it has asked for.
    @Test func endOfTheProcessWaitsForARefresh() async throws {
        let server = try MockServer()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock)
        let mayAnswer = DispatchSemaphore(value: 0)
        server.fallback { _ in
            .text("content").header("Cache-Control", "max-age=1, stale-while-revalidate=600")
        }
        _ = try await manager.startRequest("GET", server.url())
        clock.advance(by: 60)
        server.fallback { _ in
            mayAnswer.wait()
            return .text("new").header("Cache-Control", "max-age=600")
        }
        #expect(try await manager.startRequest("GET", server.url()).source == .stale)
        let behind = try #require(manager.pipeline.cacheOperations.storage.behind)
        #expect(behind.state.withLock(\.pending.refreshes).count == 1)
        mayAnswer.signal()
        try await eventually { behind.state.withLock(\.pending.refreshes).isEmpty }
        #expect(try await manager.startRequest("GET", server.url()).text == "new")
    }
}
