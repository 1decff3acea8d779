import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import Testing

/// What `manager.cache.statistics` counts.
@Suite(.timeLimit(.minutes(2))) struct CacheStatisticsTests {
    @Test func networkOnlyCountsNothing() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.networkOnly)
        _ = try await manager.startRequest("GET", server.url())
        #expect(manager.cache.statistics == CacheStatistics())
        #expect(manager.cache.statistics.hitRate == nil)
    }

    @Test func everyLookUpCountsOnce() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60", "ETag": "\"a\""])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock)
        for _ in 0..<3 { _ = try await manager.startRequest("GET", server.url()) }
        #expect(manager.cache.statistics.misses == 1)
        #expect(manager.cache.statistics.memoryHits == 2)
        clock.advance(by: 60)
        server.fallback { _ in .status(304).header("Cache-Control", "max-age=60, stale-if-error=60") }
        #expect(try await manager.startRequest("GET", server.url()).source == .revalidated)
        clock.advance(by: 61)
        server.fallback { _ in .status(503) }
        #expect(try await manager.startRequest("GET", server.url()).source == .stale)
        let impossible: HTTPHeaders = ["Cache-Control": "only-if-cached"]
        _ = try? await manager.startRequest("GET", server.url("/other"), headers: impossible)
        let statistics = manager.cache.statistics
        #expect(statistics.revalidated == 1)
        #expect(statistics.stale == 1)
        #expect(statistics.misses == 2)
        #expect(statistics.lookups == 6)
        #expect(statistics.hitRate == 4.0 / 6)
        #expect(statistics.stored == 1)
        #expect(statistics.storedBytes == 1)
        #expect(statistics.description.hasPrefix("6 look-ups, 67% hits"))
    }

    @Test func everyPolicyCountsItsLookUps() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.networkOnly)
        func get(_ policy: CachePolicy) async {
            _ = try? await manager.startRequest("GET", server.url(), cache: policy)
        }
        await get(.cacheOnly)
        #expect(manager.cache.statistics.misses == 1)
        await get(.writeOnly)
        await get(.networkElseCache)
        #expect(manager.cache.statistics.lookups == 1)
        await get(.cacheOnly)
        await get(.cacheElseNetwork(.forever))
        #expect(manager.cache.statistics.memoryHits == 2)
        server.fallback { _ in .status(503) }
        await get(.networkElseCache)
        #expect(manager.cache.statistics.stale == 1)
        #expect(manager.cache.statistics.lookups == 4)
        #expect(manager.cache.statistics.stored == 2)
    }

    @Test func diskHitsAndMemoryHitsAreSeparate() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let clock = TestClock()
        func manager() throws -> CentralRequestManager {
            try .caching(.http, clock) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
            }
        }
        let first = try manager()
        _ = try await first.startRequest("GET", server.url())
        try await first.cache.flush()
        let second = try manager()
        for _ in 0..<2 { _ = try await second.startRequest("GET", server.url()) }
        #expect(second.cache.statistics.diskHits == 1)
        #expect(second.cache.statistics.memoryHits == 1)
    }

    @Test func evictionsAreCountedInEveryStore() async throws {
        let server = try MockServer()
        server.fallback { _ in .text(String(repeating: "x", count: 3_000)).header("Cache-Control", "max-age=60") }
        let directory = try TemporaryDirectory()
        var options = DiskStore.Options()
        options.byteLimit = 8_000
        options.minimumFreeBytes = 0
        let disk = try DiskStore(directory: directory.path(of: "disk"), options: options)
        options.byteLimit = 16_000
        let second = try DiskStore(directory: directory.path(of: "tiered"), options: options)
        let stores: [any CacheStore] = [
            MemoryStore(byteLimit: 8_000), disk, TieredStore(memory: MemoryStore(byteLimit: 8_000), disk: second),
        ]
        for store in stores {
            let manager = try CentralRequestManager.caching(.http) { $0.cacheStore = store }
            for index in 0..<6 { _ = try await manager.startRequest("GET", server.url("/\(index)")) }
            let left = try await manager.cache.usage().entryCount
            #expect(left < 6)
            #expect(manager.cache.statistics.evicted.entryCount == 6 - left)
            #expect(manager.cache.statistics.evicted.byteCount > 3_000)
        }
    }

    @Test func refusalLogIsBounded() {
        let log = RefusalLog(limit: 3)
        let time = Date(timeIntervalSince1970: 0)
        for key in ["a", "b", "a", "c", "d"] { log.note(.noStore, of: key, at: time) }
        log.note(.incomplete, of: "d", at: time + 1)
        #expect(log.last(of: "a") == nil)
        #expect(log.last(of: "b")?.reason == .noStore)
        #expect(log.last(of: "d")?.reason == .incomplete)
        #expect(log.last(of: "d")?.time == time + 1)
    }
}
