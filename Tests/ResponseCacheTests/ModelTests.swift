import Foundation
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import ResponseCache

/// Random operations on a store and on a simple model, which must have the same results.
@Suite struct ModelTests {
    /// The model: the stored entries, most recently used last.
    private struct Model {
        let limit: Int64
        var entries: [(entry: CacheEntry, body: Data)] = []
        /// The keys of evicted entries, of which memory may still have a copy.
        var evicted: Set<CacheKey> = []
        var storings: UInt64 = 0

        var usage: CacheUsage {
            CacheUsage(entryCount: entries.count, byteCount: entries.reduce(0) { $0 + $1.entry.byteCount })
        }

        func holds(_ key: CacheKey) -> Bool { entries.contains { $0.entry.key == key } }

        mutating func store(_ entry: CacheEntry, _ body: Data) -> Bool {
            var entry = entry
            entry.bodyByteCount = Int64(body.count)
            let pinned = entries.reduce(0) { $0 + ($1.entry.isPinned ? $1.entry.byteCount : 0) }
            guard entry.byteCount <= limit - pinned else { return false }
            if let index = entries.firstIndex(where: { $0.entry.key == entry.key }) {
                entry.isPinned = entry.isPinned || entries[index].entry.isPinned
                entries.remove(at: index)
            }
            storings += 1
            entry.version = StoredVersion(storings)
            entries.append((entry, body))
            trim()
            return true
        }

        mutating func trim() {
            while usage.byteCount > limit, let index = entries.firstIndex(where: { !$0.entry.isPinned }) {
                evicted.insert(entries.remove(at: index).entry.key)
            }
        }

        /// A look-up in memory counts as a use of all found entries, the newest last.
        mutating func lookUp(_ primaryKey: String) {
            let found = entries.filter { $0.entry.key.primary == primaryKey }.sorted {
                $0.entry.version?.number ?? 0 < $1.entry.version?.number ?? 0
            }
            entries.removeAll { $0.entry.key.primary == primaryKey }
            entries += found
        }

        mutating func use(_ key: CacheKey, at time: Date) {
            guard let index = entries.firstIndex(where: { $0.entry.key == key }) else { return }
            var found = entries.remove(at: index)
            found.entry.lastUse = time
            entries.append(found)
        }

        mutating func remove(_ selection: CacheSelection) {
            entries.removeAll { selection.selects($0.entry) }
            // A removal also removes the copies of evicted entries.
            if case .primaryKey(let key) = selection { evicted = evicted.filter { $0.primary != key } }
            if case .key(let key) = selection { evicted.remove(key) }
        }
    }

    @Test(arguments: [Kind.memory, .disk, .sealedDisk, .tiered], [1, 2, 3] as [UInt64])
    func storeBehavesLikeTheModel(_ kind: Kind, _ seed: UInt64) async throws {
        let directory = try TemporaryDirectory()
        let store = try kind.make(in: directory, limit: 120_000)
        var model = Model(limit: 120_000)
        var random = SeededGenerator(seed: seed)
        for step in 0..<250 {
            let key = CacheKey(primary: "k\(Int.random(in: 0..<12, using: &random))", variant: "v\(step % 2)")
            let time = Date(timeIntervalSinceReferenceDate: .random(in: -1e10...1e10, using: &random))
            switch Int.random(in: 0..<10, using: &random) {
            case 0...4:
                let size = [0, 900, 16_384, 16_385, 40_000, 130_000].randomElement(using: &random) ?? 0
                let entry = Make.entry(
                    key.primary, variant: key.variant, at: time, server: "s\(step % 3)", domain: "d\(step % 2)")
                let isStored = model.store(entry, Make.body(size, seed: UInt8(step)))
                do {
                    try await store.put(entry, Make.body(size, seed: UInt8(step)))
                    #expect(isStored, "step \(step)")
                } catch let error as NetworkError {
                    #expect(!isStored && error.underlying is CacheEntryTooLarge, "step \(step): \(error)")
                }
            case 5, 6:
                try await store.touch(key, at: time)
                model.use(key, at: time)
            case 7:
                let selections: [CacheSelection] = [
                    .key(key), .primaryKey(key.primary), .server("s\(step % 3)"), .storedBefore(time - 9e9),
                    .urlPrefix("http://h/k1"),
                ]
                let selection = selections.randomElement(using: &random) ?? .all
                let before = model.usage
                model.remove(selection)
                let removed = try await store.remove(selection)
                #expect(removed.entryCount == before.entryCount - model.usage.entryCount, "step \(step)")
                #expect(removed.byteCount == before.byteCount - model.usage.byteCount, "step \(step)")
            case 8:
                try await store.collectGarbage()
            default:
                guard let index = model.entries.firstIndex(where: { $0.entry.key == key }) else { continue }
                model.entries[index].entry.isExpired = true
                model.entries[index].entry.headers["X"] = "\(step)"
                guard var entry = try await store.entries(for: key.primary).first(where: { $0.key == key }) else {
                    Issue.record("step \(step): \(key) is missing")
                    continue
                }
                if kind == .memory { model.lookUp(key.primary) }
                entry.isExpired = true
                entry.headers["X"] = "\(step)"
                try await store.update(entry)
                model.trim()
            }
            #expect(try await store.usage() == model.usage, "step \(step)")
            var found = try await store.entries(for: key.primary)
            if kind == .memory { model.lookUp(key.primary) }
            if kind == .tiered { found.removeAll { model.evicted.contains($0.key) && !model.holds($0.key) } }
            let expected = model.entries.filter { $0.entry.key.primary == key.primary }
            #expect(Set(found.map(\.key)) == Set(expected.map(\.entry.key)), "step \(step)")
            for entry in found {
                let other = expected.first { $0.entry.key == entry.key }?.entry
                #expect(entry.headers == other?.headers && entry.lastUse == other?.lastUse, "step \(step)")
                #expect(entry.isExpired == other?.isExpired, "step \(step)")
            }
        }
        for (entry, body) in model.entries {
            let found = try #require(try await store.entries(for: entry.key.primary).first { $0.key == entry.key })
            #expect(try await store.body(of: found)?.collect(upTo: .max) == body)
        }
    }

    @Test func minimumFreeBytesAndLimitBoundTheStore() {
        let rule = PruneRule(byteLimit: 100, freeFloor: 50)
        #expect(rule.limit(used: 0, freeByteCount: 1_000) == 100)
        #expect(rule.limit(used: 80, freeByteCount: 60) == 90)
        #expect(rule.limit(used: 80, freeByteCount: 20) == 50)
        #expect(rule.limit(used: 10, freeByteCount: 0) == 0)
        #expect(rule.limit(used: 10, freeByteCount: nil) == 100)
        #expect(rule.limit(used: .max, freeByteCount: .max) == 100)
    }
}
