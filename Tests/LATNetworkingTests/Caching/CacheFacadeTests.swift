import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

/// The operations of `manager.cache`, and requests with a failing store.
@Suite(.timeLimit(.minutes(2))) struct CacheFacadeTests {
    @Test func entriesAreFoundPinnedAndCleared() async throws {
        let server = try MockServer.counting()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.sliding(.seconds(60))), clock) {
            $0.baseURL = server.url("/api")
        }
        for path in ["a", "b/1", "b/2"] { _ = try await manager.startRequest("GET", path) }
        #expect(try await manager.cache.usage().entryCount == 3)
        #expect(try await manager.cache.entries(withPrefix: "b/").count == 2)
        #expect(try await manager.cache.pin("a") == 1)
        #expect(try await manager.cache.entries(.url("a")).first?.isPinned == true)
        #expect(try await manager.cache.unpin("a") == 1)
        #expect(try await manager.cache.entries(.url("a")).first?.isPinned == false)
        clock.advance(by: 50)
        #expect(try await manager.cache.touch("a") == 1)
        clock.advance(by: 20)
        #expect(try await manager.startRequest("GET", "a").source == .memoryCache)
        #expect(try await manager.startRequest("GET", "b/1").source == .network)
        #expect(try await manager.cache.removeAll(olderThan: .seconds(60)).entryCount == 2)
        #expect(try await manager.cache.remove(.urlPrefix("b")).entryCount == 1)
        _ = try await manager.cache.collectGarbage()
        #expect(try await manager.cache.removeAll().entryCount == 0)
    }

    @Test func directoryIsCreatedAtTheFirstWrite() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/cache"
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        func manager() throws -> CentralRequestManager {
            try .caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = path
            }
        }
        let first = try manager()
        _ = try await first.startRequest("GET", server.url(), cache: .networkOnly)
        #expect(!FileManager.default.fileExists(atPath: path))
        _ = try await first.startRequest("GET", server.url())
        try await first.cache.flush()
        #expect(FileManager.default.fileExists(atPath: path))
        // A new manager stands in for another process.
        #expect(try await manager().startRequest("GET", server.url()).source == .diskCache)
    }

    @Test func storeFaultIsReportedOnceAndFailsNoCall() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let faults = Log<NetworkError>()
        let manager = try CentralRequestManager.caching(.http) {
            $0.cacheStore = BrokenStore()
            $0.cacheObserver = { faults.append($0) }
        }
        for count in 1...5 {
            #expect(try await manager.startRequest("GET", server.url()).text == "\(count)")
            // Otherwise the next request would find the pending write.
            try await manager.cache.flush()
        }
        #expect(try await manager.startRequest("GET", server.url()).source == .network)
        // One fault of a look-up and one of a write.
        #expect(faults.count == 2)
        #expect(faults.elements.allSatisfy { $0.kind == .cache })
        #expect(await failure { try await manager.cache.usage() }?.kind == .cache)
    }
}

/// A store whose every operation throws.
private struct BrokenStore: CacheInspecting {
    private let fault = NetworkError(.cache, message: "the disk is gone")

    func entries(for primaryKey: String) async throws -> [CacheEntry] { throw fault }
    func body(of entry: CacheEntry) async throws -> ResponseBody? { throw fault }
    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter { throw fault }
    func update(_ entry: CacheEntry) async throws -> Bool { throw fault }
    func touch(_ key: CacheKey, at time: Date) async throws { throw fault }
    func remove(_ selection: CacheSelection) async throws -> CacheUsage { throw fault }
    func entries(_ selection: CacheSelection) async throws -> [CacheEntry] { throw fault }
    func usage() async throws -> CacheUsage { throw fault }
    func collectGarbage() async throws -> CacheUsage { throw fault }
}
