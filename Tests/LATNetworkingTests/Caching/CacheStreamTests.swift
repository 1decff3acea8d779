import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

/// Streams through the cache: stored while they are read, and delivered as streams.
@Suite(.timeLimit(.minutes(2))) struct CacheStreamTests {
    private static let size: Int64 = 3 << 20

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func fullyReadStreamIsStored(_ policy: CachePolicy) async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: Self.size).header("Cache-Control", "max-age=60") }
        let manager = try CentralRequestManager.caching(policy) {
            $0.cacheStorage = .memoryAndDisk
            $0.cacheDirectory = directory.path + "/cache"
        }
        for source in [HTTPResponse.Source.network, .diskCache] {
            let response = try await manager.stream("GET", server.url())
            #expect(response.source == source)
            #expect(response.body.isStream)
            var count: Int64 = 0
            for try await chunk in response.body { count += Int64(chunk.count) }
            #expect(count == Self.size)
        }
        let collected = try await manager.startRequest("GET", server.url())
        #expect(collected.data.count == Int(Self.size))
        #expect(collected.source != .network)
        #expect(server.requestCount == 1)
    }

    @Test func storedStreamEndsWithItsCall() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: Self.size) }
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            $0.cacheStorage = .memoryAndDisk
            $0.cacheDirectory = directory.path + "/cache"
        }
        _ = try await manager.startRequest("GET", server.url())
        try await manager.cache.flush()
        let response = try await manager.stream("GET", server.url())
        #expect(response.source == .diskCache)
        var chunks = response.body.makeAsyncIterator()
        #expect(try await chunks.next() != nil)
        #expect(manager.cancelRequests(.all) == 1)
        do {
            _ = try await chunks.next()
            Issue.record("the body goes on")
        } catch {
            #expect((error as? NetworkError)?.kind == .cancelled)
        }
    }

    @Test func abandonedStreamIsNotStored() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: Self.size).header("Cache-Control", "max-age=60") }
        let manager = try CentralRequestManager.caching(.http)
        do {
            let response = try await manager.stream("GET", server.url())
            for try await _ in response.body { break }
        }
        #expect(try await manager.stream("GET", server.url()).source == .network)
        #expect(try await manager.cache.usage().entryCount == 0)
    }

    @Test func truncatedStreamIsNotStored() async throws {
        let server = try MockServer()
        server.fallback { _ in
            .pattern(byteCount: 100_000).header("Cache-Control", "max-age=60").announcingLength(200_000)
        }
        let manager = try CentralRequestManager.caching(.http)
        let response = try await manager.stream("GET", server.url())
        await #expect(throws: NetworkError.self) { for try await _ in response.body {} }
        #expect(try await manager.cache.usage().entryCount == 0)
    }
}
