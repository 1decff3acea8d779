import Foundation
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import Synchronization
import TestSupport
import Testing

/// A manager with a store of the app: what the manager passes to it, and what a store without listing can do.
@Suite(.timeLimit(.minutes(2))) struct OwnStoreTests {
    @Test func storeGetsReplacementAndRetention() async throws {
        let server = try MockServer.counting([
            "Cache-Control": "max-age=60", "ETag": "\"1\"", "Cache-Tag": "news, front",
        ])
        let clock = TestClock()
        let store = RecordingStore()
        let manager = try CentralRequestManager.caching(.http, clock) { $0.cacheStore = store }
        _ = try await manager.startRequest("GET", server.url())
        try await manager.cache.flush()
        let first = try #require(store.writes.first)
        #expect(first.replacing == .anything && first.entry.tags == ["news", "front"])
        // 60 seconds of freshness and a week in which it can be revalidated.
        #expect(first.entry.retainUntil == clock.now.addingTimeInterval(60 + 7 * 86_400))
        let version = try await store.entries(for: first.entry.key.primary).first?.version
        clock.advance(by: 100)
        #expect(try await manager.startRequest("GET", server.url()).text == "2")
        try await manager.cache.flush()
        #expect(store.writes.last?.replacing == .version(try #require(version)))
        // Another process stores a newer response first. That one stays, and the caller still gets its own.
        store.beforeCommit = { primary in try await store.put(primary, "newer") }
        clock.advance(by: 100)
        #expect(try await manager.startRequest("GET", server.url()).text == "3")
        try await manager.cache.flush()
        #expect(try await store.entries(for: first.entry.key.primary).first?.attachedBody == Data("newer".utf8))
        _ = try await manager.startRequest("GET", server.url(), cache: .cacheElseNetwork(.fixed(.seconds(5))))
    }

    @Test func unsafeRequestInvalidatesASharedStore() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let store = MemoryStore()
        let reader = try CentralRequestManager.caching(.http) { $0.cacheStore = store }
        let writer = try CentralRequestManager.caching(.networkOnly) { $0.cacheStore = store }
        _ = try await reader.startRequest("GET", server.url())
        try await reader.cache.flush()
        #expect(try await reader.startRequest("GET", server.url()).text == "1")
        _ = try await writer.startRequest("DELETE", server.url())
        try await writer.cache.flush()
        #expect(try await reader.startRequest("GET", server.url()).text == "3")
    }

    /// A store that records what is removed.
    private struct Removals: ForwardingStore {
        let store: any CacheStore = MemoryStore()
        let selections = Log<CacheSelection>()

        func remove(_ selection: CacheSelection) async throws -> CacheUsage {
            selections.append(selection)
            return try await store.remove(selection)
        }
    }

    @Test func sealedPostInvalidatesOnce() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let store = Removals()
        let manager = try CentralRequestManager.caching(.http) {
            $0.cacheStore = store
            $0.sealer = PassingSealer()
        }
        _ = try await manager.startRequest("GET", server.url())
        _ = try await manager.startRequest("POST", server.url(), body: .text("x"))
        try await manager.cache.flush()
        let selections = store.selections.elements
        #expect(!selections.isEmpty && Set(selections).count == selections.count)
    }

    @Test func tagRemovesItsResponses() async throws {
        let server = try MockServer()
        server.fallback { request in
            .text(request.path).header("Cache-Control", "max-age=60")
                .header("Surrogate-Key", "all \(request.path.dropFirst())")
        }
        let manager = try CentralRequestManager.caching(.http)
        for path in ["/a", "/b", "/c"] { _ = try await manager.startRequest("GET", server.url(path)) }
        #expect(try await manager.cache.remove(.tag("b")).entryCount == 1)
        #expect(try await manager.startRequest("GET", server.url("/a")).source == .memoryCache)
        #expect(try await manager.startRequest("GET", server.url("/b")).source == .network)
        #expect(try await manager.cache.remove(.tag("all")).entryCount == 3)
    }

    @Test func missingCapabilityIsNamed() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let manager = try CentralRequestManager.caching(.http) {
            $0.cacheStore = FaultyCacheStore(MemoryStore(), .defective(.touch))
        }
        #expect(try await manager.startRequest("GET", server.url()).text == "1")
        #expect(try await manager.startRequest("GET", server.url()).source == .memoryCache)
        let missing = CacheCapabilityMissing(store: "FaultyCacheStore", capability: "CacheInspecting")
        for call in [
            { _ = try await manager.cache.usage() }, { _ = try await manager.cache.entries() },
            { _ = try await manager.cache.pin("/") },
        ] as [() async throws -> Void] {
            let error = await failure { try await call() }
            #expect(error?.kind == .cache && error?.underlying as? CacheCapabilityMissing == missing)
            #expect(error?.message.contains("FaultyCacheStore cannot do this") == true)
        }
        // Removal and invalidation work without listing.
        _ = try await manager.startRequest("POST", server.url())
        #expect(try await manager.startRequest("GET", server.url()).source == .network)
        try await manager.cache.removeAll()
        #expect(try await manager.startRequest("GET", server.url()).source == .network)
    }
}

/// Records writes and can run another write before a commit.
private final class RecordingStore: ForwardingStore {
    private struct State {
        var writes: [(entry: CacheEntry, replacing: CacheReplacement)] = []
        var beforeCommit: (@Sendable (String) async throws -> Void)?
    }

    let store: any CacheStore = MemoryStore()
    private let state = Mutex(State())

    var writes: [(entry: CacheEntry, replacing: CacheReplacement)] { state.withLock(\.writes) }

    /// Called once with the primary key, before the next write.
    var beforeCommit: (@Sendable (String) async throws -> Void)? {
        get { state.withLock { state in state.beforeCommit.take() } }
        set { state.withLock { $0.beforeCommit = newValue } }
    }

    func put(_ primary: String, _ body: String) async throws {
        guard let entry = try await store.entries(for: primary).first else { return }
        let writer = try await store.writer(for: entry)
        try await writer.append(Data(body.utf8))
        try await writer.commit()
    }

    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        state.withLock { $0.writes.append((entry, replacing)) }
        try await beforeCommit?(entry.key.primary)
        return try await store.writer(for: entry, replacing: replacing)
    }
}
