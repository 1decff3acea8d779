import ResponseCache
import FoundationEssentials
import LATNetworking

/// A store that forwards every operation that it does not implement to another store.
protocol ForwardingStore: CacheStore {
    var store: any CacheStore { get }
}

extension ForwardingStore {
    func entries(for primaryKey: String) async throws -> [CacheEntry] { try await store.entries(for: primaryKey) }

    func body(of entry: CacheEntry) async throws -> ResponseBody? { try await store.body(of: entry) }

    func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        try await store.writer(for: entry, replacing: replacing)
    }

    func update(_ entry: CacheEntry) async throws -> Bool { try await store.update(entry) }

    func touch(_ key: CacheKey, at time: Date) async throws { try await store.touch(key, at: time) }

    func remove(_ selection: CacheSelection) async throws -> CacheUsage { try await store.remove(selection) }
}
