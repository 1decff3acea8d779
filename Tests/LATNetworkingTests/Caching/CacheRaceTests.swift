import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

/// An entry whose body is gone when it is read, because it was replaced or lost after the look-up.
@Suite(.timeLimit(.minutes(1))) struct CacheRaceTests {
    private static let policies: [CachePolicy] = [.http, .cacheOnly, .networkElseCache]

    @Test(arguments: policies) func missingBodyIsLookedUpAgain(policy: CachePolicy) async throws {
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

    @Test func lostBodyIsFetchedUnlessForbidden() async throws {
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
        // Otherwise the pending write would be found.
        try await manager.cache.flush()
        #expect(await failure { try await manager.startRequest("GET", url, cache: .cacheOnly) }?.kind == .cache)
    }
}

/// A memory store that loses the next `toLose` bodies.
private final class LosingStore: ForwardingStore {
    let store: any CacheStore = MemoryStore()
    let toLose = Mutex(0)

    func entries(for primaryKey: String) async throws -> [CacheEntry] {
        try await store.entries(for: primaryKey).map { entry in
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
        return isLost ? nil : try await store.body(of: entry)
    }
}
