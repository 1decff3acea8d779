import FoundationEssentials
import HTTPCore
import ResponseCache

/// A store that forwards every operation that it does not implement to another store.
package protocol ForwardingStore: CacheStore {
    var store: any CacheStore { get }
}

extension ForwardingStore {
    package func entries(for primaryKey: String) async throws -> [CacheEntry] {
        try await store.entries(for: primaryKey)
    }

    package func body(of entry: CacheEntry) async throws -> ResponseBody? { try await store.body(of: entry) }

    package func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        try await store.writer(for: entry, replacing: replacing)
    }

    package func update(_ entry: CacheEntry) async throws -> Bool { try await store.update(entry) }

    package func touch(_ key: CacheKey, at time: Date) async throws { try await store.touch(key, at: time) }

    package func remove(_ selection: CacheSelection) async throws -> CacheUsage { try await store.remove(selection) }
}
