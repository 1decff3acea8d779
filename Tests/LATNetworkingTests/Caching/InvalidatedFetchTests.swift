import FoundationEssentials
import HTTPCore
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATClient

/// A response that was asked for before its URL was invalidated or removed does not come back from the cache (RFC 9111 §4.4).
@Suite(.timeLimit(.minutes(2))) struct InvalidatedFetchTests {
    /// A profile that a PUT replaces. The first GET has read it, and is answered when it is told so.
    private struct Server: Transport {
        let hasRead = Event()
        let mayAnswer = Event()
        let methods = Log<String>()

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            let before = methods.elements
            methods.append(request.method.rawValue)
            guard request.method == .get else {
                // Its group is that of the profile.
                let headers: HTTPHeaders = request.method == .post ? ["Cache-Group-Invalidation": "\"g\""] : [:]
                return HTTPResponse(status: 200, headers: headers, url: request.url)
            }
            let content = before.contains("PUT") || before.contains("POST") ? "new" : "old"
            if !before.contains("GET") {
                hasRead.happen()
                await mayAnswer.wait()
            }
            return HTTPResponse(
                status: 200, headers: ["Cache-Control": "max-age=3600", "Cache-Groups": "\"g\""],
                body: ResponseBody(Data(content.utf8)), url: request.url)
        }
    }

    private static let url = "http://a.example/profile"
    private let server = Server()
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func manager(
        _ policy: CachePolicy, isOnDisk: Bool, _ transport: (any Transport)?
    ) throws -> CentralRequestManager {
        try .caching(policy) {
            $0.transport = transport
            $0.cacheStorage = isOnDisk ? .memoryAndDisk : .memory
            $0.cacheDirectory = folder.path + "/cache"
            // In the time of tests, all happens at once.
            $0.cacheClock = { Date() }
        }
    }

    @Test(arguments: [false, true], [CachePolicy.http, .cacheElseNetwork(.forever)])
    func contentFromBeforeAChangeIsNotStored(isOnDisk: Bool, _ policy: CachePolicy) async throws {
        let manager = try manager(policy, isOnDisk: isOnDisk, server)
        let first = Task { try await manager.startRequest("GET", Self.url).text }
        await server.hasRead.wait()
        _ = try await manager.startRequest("PUT", Self.url)
        // A call after the change does not wait for the old content.
        #expect(try await manager.startRequest("GET", Self.url).text == "new")
        server.mayAnswer.happen()
        #expect(try await first.value == "old")
        let last = try await manager.startRequest("GET", Self.url)
        #expect(last.text == "new" && last.source != .network)
        await manager.shutdown()
    }

    @Test func contentFromBeforeARemovalIsNotStored() async throws {
        let manager = try manager(.http, isOnDisk: true, server)
        let first = Task { try await manager.startRequest("GET", Self.url).text }
        await server.hasRead.wait()
        try await manager.cache.removeAll()
        server.mayAnswer.happen()
        #expect(try await first.value == "old")
        #expect(try await manager.startRequest("GET", Self.url).source == .network)
        #expect(try await manager.startRequest("GET", Self.url).source != .network)
        await manager.shutdown()
    }

    /// The removal counts from when it is requested, not from when the store has made what waits before it.
    @Test func contentThatArrivesWhileARemovalWaitsIsNotStored() async throws {
        let store = AwkwardStore(.hangs)
        let manager = try CentralRequestManager.caching(.http) {
            $0.transport = server
            $0.cacheStore = store
            $0.cacheLookUpTimeout = .milliseconds(5)
            $0.cacheClock = { Date() }
        }
        let first = Task { try await manager.startRequest("GET", Self.url).text }
        await server.hasRead.wait()
        _ = try await manager.startRequest("GET", "http://a.example/other")
        let removal = Task { try await manager.cache.removeAll() }
        let behind = try #require(manager.pipeline.cacheOperations.storage.behind)
        let old = CacheEntry(
            key: CacheKey(primary: ""), method: "GET", url: Self.url, status: 200, headers: [:],
            requestTime: .distantPast, responseTime: .distantPast)
        try await eventually("the removal") { behind.hasRemoved(old) }
        server.mayAnswer.happen()
        #expect(try await first.value == "old")
        #expect(manager.cache.statistics.notStored == 1)
        store.release()
        _ = try await removal.value
        #expect(try await manager.startRequest("GET", Self.url).source == .network)
    }

    @Test func contentOfAnInvalidatedGroupIsNotStored() async throws {
        let manager = try manager(.http, isOnDisk: false, server)
        let first = Task { try await manager.startRequest("GET", Self.url).text }
        await server.hasRead.wait()
        _ = try await manager.startRequest("POST", "http://a.example/order")
        server.mayAnswer.happen()
        #expect(try await first.value == "old")
        let next = try await manager.startRequest("GET", Self.url)
        #expect(next.text == "new" && next.source == .network)
    }

    @Test(arguments: [false, true]) func streamFromBeforeAChangeIsNotStored(isOnDisk: Bool) async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1 << 20).header("Cache-Control", "max-age=60") }
        let manager = try manager(.http, isOnDisk: isOnDisk, nil)
        let response = try await manager.stream("GET", server.url())
        var chunks = response.body.makeAsyncIterator()
        #expect(try await chunks.next() != nil)
        _ = try await manager.startRequest("DELETE", server.url())
        while try await chunks.next() != nil {}
        #expect(try await manager.cache.explain(server.url()).lastRefusal?.reason == .invalidated)
        #expect(try await manager.startRequest("GET", server.url()).source == .network)
        #expect(try await manager.startRequest("GET", server.url()).source != .network)
        await manager.shutdown()
    }

    /// The response to a POST may be stored as that to a later GET, though its own request invalidated what was stored.
    @Test func responseOfTheChangeItselfIsStored() async throws {
        let server = try MockServer()
        server.fallback { request in
            MockReply.text(request.method).header("Cache-Control", "max-age=60")
                .header("Content-Location", server.url("/profile"))
        }
        let manager = try manager(.http, isOnDisk: false, nil)
        _ = try await manager.startRequest("POST", server.url("/profile"))
        let stored = try await manager.startRequest("GET", server.url("/profile"))
        #expect(stored.text == "POST" && stored.source == .memoryCache)
    }
}
