import Foundation
import HTTPCore
import LATTesting
import SQLite
import TestSupport
import Testing

@testable import ResponseCache

/// The room that a store takes on the disk, and its counts of it.
@Suite(.timeLimit(.minutes(3))) struct DiskRoomTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var folder: String { directory.path(of: "cache") }
    private var index: String { folder + "/index-4.sqlite" }

    private func fill(_ store: DiskStore, _ count: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                group.addTask { try await store.put(Make.entry("k\(number)"), Make.body(10_000)) }
            }
            try await group.waitForAll()
        }
    }

    private func size(_ path: String) -> Int {
        (try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int) ?? 0
    }

    @Test(.enabled(if: SmallDisk.isPermitted, SmallDisk.reason), arguments: [CacheSelection.all, .responses])
    func everythingIsRemovedFromAFullDisk(_ selection: CacheSelection) async throws {
        let disk = try #require(try SmallDisk(byteCount: 40 << 20))
        let store = try DiskStore.plain(disk.path + "/cache")
        try await fill(store, 500)
        try await store.put(Make.entry("large"), Make.body(100_000))
        // Without a log, whose room a removal could use.
        try await store.collectGarbage()
        let other = try DiskStore.plain(disk.path + "/cache")
        #expect(try await other.has("k1"))
        disk.fill()
        #expect(try await store.remove(selection).entryCount > 0)
        #expect(try await store.usage() == CacheUsage())
        #expect(try await other.first("k1") == nil)
        try await other.put(Make.entry("a"))
        #expect(try await store.has("a"))
    }

    @Test(.enabled(if: SmallDisk.isPermitted, SmallDisk.reason))
    func aFullDiskKeepsTheOtherEntries() async throws {
        let disk = try #require(try SmallDisk(byteCount: 40 << 20))
        let store = try DiskStore.plain(disk.path + "/cache")
        try await fill(store, 500)
        try await store.put(Make.entry("value", url: "value:a"))
        try await store.collectGarbage()
        disk.fill()
        await #expect(throws: NetworkError.self) { try await store.remove(.responses) }
        #expect(try await store.has("value"))
    }

    @Test func largeRemovalReturnsItsRoom() async throws {
        let store = try DiskStore.plain(folder)
        try await fill(store, CacheIndex.portion + 200)
        try await store.collectGarbage()
        let full = size(index)
        #expect(try await store.remove(.urlPrefix("http://h/k")).entryCount == CacheIndex.portion + 200)
        #expect(full > 10_000_000 && size(index) < full / 10 && size(index + "-wal") < full / 10)
    }

    @Test func bodiesOfKilledProcessesAreRemovedByAShortProcess() async throws {
        try await DiskStore.plain(folder).put(Make.entry("a"), Make.body(50_000))
        let kept = directory.bodyFiles("cache")
        try directory.write(Make.body(70), to: "cache/bodies-4/4567.part")
        // A process that lives shorter than a minute collects no garbage.
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("b"), Make.body(50_000))
        try await eventually { directory.bodyFiles("cache").count == 2 }
        #expect(Set(directory.bodyFiles("cache")).isSuperset(of: kept))
    }

    @Test(arguments: [CacheSelection.all, .responses])
    func removalOfEverythingRemovesBodiesWithoutRows(_ selection: CacheSelection) async throws {
        let store = try DiskStore.plain(folder)
        try await store.put(Make.entry("a"), Make.body(50_000))
        // The store has removed what killed processes left before the following is left.
        try await store.collectGarbage()
        try directory.write(Make.body(700), to: "cache/bodies-4/0123")
        try directory.write(Make.body(70), to: "cache/bodies-4/4567.part")
        let removed = try await store.remove(selection)
        #expect(removed.entryCount == 1 && removed.byteCount >= 50_770)
        #expect(directory.bodyFiles("cache") == [])
    }

    @Test(arguments: [
        "UPDATE state SET pinned_bytes = -9223372036854775808", "UPDATE state SET bytes = 9223372036854775807",
        "UPDATE state SET bytes = -9223372036854775808", "UPDATE state SET bytes = bytes + 100000000",
        "UPDATE state SET entries = -5", "UPDATE state SET clock = 9223372036854775807", "DELETE FROM state",
        "UPDATE entries SET stored_size = 9223372036854775807", "UPDATE entries SET stored_size = -1",
        "UPDATE entries SET body_size = 9223372036854775807", "UPDATE entries SET body_size = -1",
        "UPDATE entries SET version = 9223372036854775807", "UPDATE entries SET size = 9223372036854775807",
    ])
    func wrongNumbersAreDamage(_ sql: String) async throws {
        for isSealed in [false, true] {
            let key = isSealed ? Data(repeating: 1, count: 32) : nil
            let open = try DiskStore.plain(folder, key: key)
            for variant in ["x", "y"] { try await open.put(Make.entry("a", variant: variant), Make.body(100)) }
            try await open.put(Make.entry("b"), Make.body(50_000))
            let held = try #require(try await open.first("a"))
            do {
                let connection = try SQLiteConnection(path: index, mode: .creating, busyTimeout: .seconds(5))
                try connection.execute(sql)
            }
            for store in [try DiskStore.plain(folder, key: key), open] {
                try await store.update(held)
                for (name, count) in [("a", 100), ("b", 50_000)] {
                    let found = try await store.data(name)
                    #expect(found == nil || found == Make.body(count))
                }
                try await store.put(Make.entry("c"))
                #expect(try await store.has("c"))
                #expect((1...4).contains(try await store.usage().entryCount))
                #expect((1...100_000).contains(try await store.usage().byteCount))
            }
            try await open.remove(.all)
        }
    }

    @Test(arguments: Kind.allCases) func oldVariantsMakeRoom(_ kind: Kind) async throws {
        let store = try kind.make(in: directory)
        for number in 0..<100 {
            try await store.put(Make.entry("a", variant: "v\(number)"))
            guard number == 3 else { continue }
            var entry = try #require(try await store.first("a"))
            entry.isPinned = true
            try await store.update(entry)
        }
        let newest = (36..<100).reversed().map { "v\($0)" }
        #expect(try await store.entries(for: "a").map(\.key.variant) == newest + ["v3"])
        #expect(try await store.usage().entryCount == 65)
    }

    @Test func tooLittleFreeSpaceIsSaid() async throws {
        var options = DiskStore.Options()
        options.minimumFreeBytes = .max
        let store = TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: folder, options: options))
        let error = await #expect(throws: NetworkError.self) { try await store.put(Make.entry("a")) }
        #expect(error?.message.contains("minimumFreeBytes") == true && error?.message.contains("free space") == true)
        #expect(!(error?.underlying is CacheEntryTooLarge))
        // Memory keeps it.
        #expect(try await store.data("a") == Data("hello".utf8))
    }
}
