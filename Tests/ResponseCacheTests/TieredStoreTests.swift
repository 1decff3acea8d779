import Foundation
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import ResponseCache

/// A tiered store with memory over disk.
@Suite struct TieredStoreTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func store() throws -> TieredStore {
        TieredStore(memory: MemoryStore(), disk: try DiskStore.plain(directory.path(of: "cache")))
    }

    @Test func hitIsCopiedFromDiskToMemory() async throws {
        try await store().put(Make.entry("a"), Make.body(50_000))
        let store = try store()
        let first = try #require(try await store.first("a"))
        #expect(first.tier == .disk)
        #expect(try await store.body(of: first)?.collect(upTo: .max) == Make.body(50_000))
        // Until the first store has closed the index, the second one may be unable to follow it.
        try await eventually { try await store.first("a")?.tier == .memory }
        let second = try #require(try await store.first("a"))
        #expect(second.tier == .memory)
        #expect(try await store.body(of: second)?.collect(upTo: .max) == Make.body(50_000))
        #expect(second.headers == first.headers && second.bodyByteCount == 50_000)
    }

    @Test func largeBodyStaysOnDisk() async throws {
        let store = try store()
        try await store.put(Make.entry("a"), Make.body(3_000_000))
        for _ in 0..<2 {
            #expect(try await store.first("a")?.tier == .disk)
            #expect(try await store.data("a") == Make.body(3_000_000))
        }
        // A large body replaces a small one in both stores.
        try await store.put(Make.entry("b"), Make.body(10))
        try await store.put(Make.entry("b"), Make.body(3_000_000))
        #expect(try await store.data("b") == Make.body(3_000_000))
    }

    @Test func changesByOthersAreSeen() async throws {
        let (one, two) = (try store(), try store())
        try await one.put(Make.entry("a"), Data("1".utf8))
        for _ in 0..<3 { #expect(try await two.data("a") == Data("1".utf8)) }
        try await eventually { try await two.first("a")?.tier == .memory }
        try await one.put(Make.entry("a"), Data("2".utf8))
        #expect(try await two.data("a") == Data("2".utf8))
        var entry = try #require(try await one.first("a"))
        entry.isExpired = true
        try await one.update(entry)
        #expect(try await two.first("a")?.isExpired == true)
        try await one.remove(.all)
        #expect(try await two.first("a") == nil)
    }

    @Test func ownChangesKeepMemoryUsable() async throws {
        let store = try store()
        try await store.put(Make.entry("a"))
        _ = try await store.data("a")
        for number in 0..<5 {
            try await store.put(Make.entry("other\(number)"))
            #expect(try await store.first("a")?.tier == .memory)
        }
    }

    @Test func variantsOnlyOnDiskAreFound() async throws {
        try await store().put(Make.entry("a", variant: "en"))
        let store = try store()
        try await store.put(Make.entry("a", variant: "de"))
        #expect(Set(try await store.entries(for: "a").map(\.key.variant)) == ["en", "de"])
    }

    @Test(.timeLimit(.minutes(1))) func removedFolderInvalidatesMemory() async throws {
        let store = try store()
        try await store.put(Make.entry("a"))
        #expect(try await store.has("a"))
        try FileManager.default.removeItem(atPath: directory.path(of: "cache"))
        // The watch checks the file every 100 ms.
        try await eventually { try await store.first("a") == nil }
        try await store.put(Make.entry("b"))
        #expect(try await store.has("b"))
    }
}

/// Stores with an encryption key.
@Suite struct SealedStoreTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func store(_ byte: UInt8?) throws -> DiskStore {
        try .plain(directory.path(of: "cache"), key: byte.map { Data(repeating: $0, count: 32) })
    }

    @Test func noPlaintextOfAnEntryIsOnDisk() async throws {
        let secret = "needle-in-clear"
        for byteCount in [0, 50_000] {
            let entry = Make.entry(
                "key-\(secret)-\(byteCount)", url: "http://h/\(secret)", server: "s-\(secret)", domain: "d-\(secret)",
                partition: "p-\(secret)", headers: ["X": secret])
            try await store(1).put(entry, Data(secret.utf8) + Make.body(byteCount))
        }
        try await store(1).collectGarbage()
        for name in directory.contents {
            guard let bytes = directory.read(name) else { continue }
            #expect(bytes.firstRange(of: Data(secret.utf8)) == nil, "\(name)")
        }
        #expect(try await store(1).entries(.urlPrefix("http://h/needle")).count == 2)
    }

    @Test func otherKeyFindsAndDamagesNothing() async throws {
        for byteCount in [100, 100_000] { try await store(1).put(Make.entry("a\(byteCount)"), Make.body(byteCount)) }
        for other in [try store(2), try store(nil)] {
            for byteCount in [100, 100_000] { #expect(try await other.first("a\(byteCount)") == nil) }
            #expect(try await other.entries(.all).isEmpty)
            #expect(try await other.entries(.urlPrefix("")).isEmpty)
            #expect(try await other.remove(.urlPrefix("http")) == CacheUsage())
            #expect(try await other.usage().entryCount == 2)
        }
        for byteCount in [100, 100_000] { #expect(try await store(1).data("a\(byteCount)") == Make.body(byteCount)) }
        #expect(try await store(2).remove(.all).entryCount == 2)
    }

    /// The tags of AES-GCM detect a changed body even if its checksum was changed to match.
    @Test func chunksCannotBeOmittedOrSwapped() throws {
        let sealer = try EntrySealer(key: Data(repeating: 1, count: 32))
        let cipher = try #require(try sealer.bodyCipher(salt: [1, 2, 3]))
        let chunks = try [0, 1, 2].map { number in
            Data(try cipher.seal(Make.body(65_536, seed: UInt8(number)), number: UInt64(number), isLast: number == 2))
        }
        #expect(try cipher.open(chunks[0] + chunks[1] + chunks[2]).count == 3 * 65_536)
        #expect(throws: (any Error).self) { try cipher.open(chunks[0] + chunks[1]) }
        #expect(throws: (any Error).self) { try cipher.open(chunks[1] + chunks[0] + chunks[2]) }
        #expect(throws: (any Error).self) { try cipher.open(chunks[0] + chunks[1] + chunks[2] + chunks[2]) }
        let other = try #require(try sealer.bodyCipher(salt: [1, 2, 4]))
        #expect(throws: (any Error).self) { try other.open(chunks[0] + chunks[1] + chunks[2]) }
    }
}
