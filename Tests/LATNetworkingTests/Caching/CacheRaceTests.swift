import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import Synchronization
import Testing

/// A body that is gone when it is asked for, since another answer was stored in its place or it is lost.
@Suite(.timeLimit(.minutes(1))) struct CacheRaceTests {
    private static let policies: [CachePolicy] = [.http, .cacheOnly, .networkElseCache]

    @Test(arguments: policies) func replacedAnswerIsLookedForAgain(policy: CachePolicy) async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=3600"])
        let store = LosingStore()
        let manager = try CentralRequestManager.caching(.http) { $0.cacheStore = store }
        let url = server.url()
        _ = try await manager.startRequest("GET", url)
        try await manager.cache.flush()
        store.toLose.withLock { $0 = 1 }
        if policy == .networkElseCache { server.stop() }
        #expect(try await manager.startRequest("GET", url, cache: policy).text == "1")
        #expect(store.toLose.withLock { $0 } == 0 && server.requestCount == 1)
    }

    @Test func lostAnswerIsFetchedUnlessForbidden() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=3600"])
        let store = LosingStore()
        let manager = try CentralRequestManager.caching(.http) { $0.cacheStore = store }
        let url = server.url()
        _ = try await manager.startRequest("GET", url)
        try await manager.cache.flush()
        store.toLose.withLock { $0 = .max }
        var request = HTTPRequest("GET", url, headers: ["Cache-Control": "only-if-cached"])
        #expect(try await manager.send(request).status == 504)
        request.headers = [:]
        #expect(try await manager.send(request).text == "2")
        // What waits to be written is found before that.
        try await manager.cache.flush()
        #expect(await failure { try await manager.startRequest("GET", url, cache: .cacheOnly) }?.kind == .cache)
    }
}

/// Memory that does not find the next bodies.
private final class LosingStore: CacheStore {
    private let memory = MemoryStore()
    let toLose = Mutex(0)

    func entries(for primaryKey: String) async throws -> [CacheEntry] {
        try await memory.entries(for: primaryKey).map { entry in
            var entry = entry
            entry.attachedBody = nil
            return entry
        }
    }

    func body(of entry: CacheEntry) async throws -> ResponseBody? {
        let isLost = toLose.withLock { count in
            defer { count = max(0, count - 1) }
            return count > 0
        }
        return isLost ? nil : try await memory.body(of: entry)
    }

    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        try await memory.writer(for: entry, replacing: replacing)
    }

    func update(_ entry: CacheEntry) async throws -> Bool { try await memory.update(entry) }
    func touch(_ key: CacheKey, at time: Date) async throws { try await memory.touch(key, at: time) }
    func remove(_ selection: CacheSelection) async throws -> CacheUsage { try await memory.remove(selection) }
}
