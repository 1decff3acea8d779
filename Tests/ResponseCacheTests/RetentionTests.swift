import Foundation
import HTTPCore
import LATTesting
import SQLite
import TestSupport
import Testing

@testable import ResponseCache

/// Entries whose `retainUntil` has passed are evicted first, and are found until they are removed.
@Suite(.timeLimit(.minutes(2))) struct RetentionTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// Stores entries of 10,000 bytes whose `retainUntil` is alternately past, future and `nil`.
    private func fill(_ store: any CacheStore, _ numbers: Range<Int>) async throws {
        for number in numbers {
            var entry = Make.entry("k\(number)")
            entry.retainUntil = [Date() - 200, Date() + 86_400, nil][number % 3]
            try await store.put(entry, Make.body(10_000))
        }
    }

    private func pin(_ key: String, in store: any CacheStore) async throws {
        var entry = try #require(try await store.first(key))
        entry.isPinned = true
        try await store.update(entry)
    }

    private func numbers(_ store: any CacheInspecting) async throws -> Set<Int> {
        Set(try await store.entries(.all).compactMap { Int($0.key.primary.dropFirst()) })
    }

    @Test(arguments: Kind.allCases) func endedEntriesAreEvictedFirst(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 100_000)
        try await fill(store, 0..<9)
        try await pin("k0", in: store)
        // The ended entries are the most recently used ones.
        for number in [0, 3, 6] { try await store.touch(CacheKey(primary: "k\(number)"), at: Date()) }
        #expect(try await numbers(store) == Set(0..<9))
        for number in 10..<12 { try await store.put(Make.entry("k\(number)"), Make.body(10_000)) }
        #expect(try await numbers(store) == [0, 1, 2, 4, 5, 7, 8, 10, 11])
        // Without ended entries, the least recently used one is evicted.
        try await store.put(Make.entry("k12"), Make.body(10_000))
        #expect(try await numbers(store) == [0, 2, 4, 5, 7, 8, 10, 11, 12])
    }

    @Test(arguments: Kind.allCases) func endedEntriesAreFoundUntilCollected(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        try await fill(store, 0..<9)
        try await pin("k0", in: store)
        // An update replaces the retention time.
        var updated = try #require(try await store.first("k3"))
        updated.retainUntil = nil
        try await store.update(updated)
        updated = try #require(try await store.first("k4"))
        updated.retainUntil = Date() - 200
        try await store.update(updated)
        for number in 0..<9 { #expect(try await store.data("k\(number)") == Make.body(10_000)) }
        let before = try await store.usage()
        let removed = try await store.collectGarbage()
        #expect(removed.entryCount == 2 && removed.byteCount > 20_000)
        #expect(try await numbers(store) == [0, 1, 2, 3, 5, 7, 8])
        for number in [4, 6] { #expect(try await store.first("k\(number)") == nil) }
        let after = try await store.usage()
        #expect(before.byteCount - after.byteCount == removed.byteCount && after.entryCount == 7)
        #expect(try await store.collectGarbage() == CacheUsage())
    }

    @Test(arguments: Kind.allCases) func pinnedEntryLeavesItsRoomToItsSuccessor(_ kind: Kind) async throws {
        let store = try kind.make(in: directory, limit: 100_000)
        var entry = Make.entry("a")
        entry.isPinned = true
        try await store.put(entry, Make.body(60_000))
        for seed in 1...2 as ClosedRange<UInt8> {
            try await store.put(Make.entry("a"), Make.body(70_000, seed: seed))
            #expect(try await store.data("a") == Make.body(70_000, seed: seed))
        }
        #expect(try await store.first("a")?.isPinned == true)
        // Other entries and variants get none of its room.
        for other in [Make.entry("b"), Make.entry("a", variant: "x")] {
            let error = await #expect(throws: NetworkError.self) { try await store.put(other, Make.body(60_000)) }
            #expect(error?.underlying is CacheEntryTooLarge)
        }
        #expect(try await store.usage().entryCount == 1)
    }

    @Test func damagedSizeDoesNotStopTheCollection() async throws {
        let folder = directory.path(of: "cache")
        let store = try DiskStore.plain(folder)
        for number in 0..<3 {
            var entry = Make.entry("k\(number)")
            entry.retainUntil = Date() - 1
            try await store.put(entry, Make.body(10))
        }
        let connection = try SQLiteConnection(
            path: folder + "/index-4.sqlite", mode: .creating, busyTimeout: .seconds(5))
        try connection.execute("UPDATE entries SET size = CASE id WHEN 1 THEN -1 ELSE \(Int64.max) END")
        try await store.collectGarbage()
        try await store.collectGarbage()
        #expect(try await store.entries(.all).isEmpty)
    }

    @Test func manyEndedEntriesLoseTheirFiles() async throws {
        let folder = directory.path(of: "cache")
        let store = try DiskStore.plain(folder)
        let count = CacheIndex.portion + 100
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                group.addTask {
                    var entry = Make.entry("k\(number)")
                    entry.retainUntil = Date() - 1
                    try await store.put(entry, Make.body(number % 100 == 0 ? 20_000 : 10))
                }
            }
            try await group.waitForAll()
        }
        try await store.put(Make.entry("other"), Make.body(20_000))
        #expect(directory.bodyFiles("cache").count == 12)
        #expect(try await store.collectGarbage().entryCount == count)
        #expect(directory.bodyFiles("cache").count == 1)
        #expect(try await store.usage().entryCount == 1)
    }

    @Test func diskCollectsGarbageByItself() async throws {
        var options = DiskStore.Options()
        options.minimumFreeBytes = 0
        options.collectionInterval = .milliseconds(20)
        let store = try DiskStore(directory: directory.path(of: "cache"), options: options)
        try await fill(store, 0..<3)
        try await eventually { try await store.usage().entryCount <= 2 }
        #expect(try await numbers(store) == [1, 2])
    }
}
