import Foundation
import LATTesting
import Testing

@testable import ResponseCache

/// A hundred thousand entries under a thousand URL prefixes.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ManyEntriesTests {
    @Test func prefixSelectsExactlyItsEntries() async throws {
        let directory = try TemporaryDirectory()
        let store = try DiskStore.plain(directory.path(of: "cache"), limit: 1 << 32)
        // Entries that wait at the same time share a transaction.
        for round in 0..<10 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in round * 10_000..<(round + 1) * 10_000 {
                    group.addTask {
                        let url = "http://h/\(number % 1_000)/\(number)"
                        try await store.put(Make.entry("k\(number)", url: url), Data("\(number)".utf8))
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(try await store.usage().entryCount == 100_000)
        // "/7/" is not a prefix of "/70/" or "/77/…".
        let listed = try await store.entries(.urlPrefix("http://h/7/"))
        #expect(Set(listed.map(\.url)) == Set((0..<100).map { "http://h/7/\($0 * 1_000 + 7)" }))
        #expect(try await store.remove(.urlPrefix("http://h/7/")).entryCount == 100)
        #expect(try await store.entries(.urlPrefix("http://h/7/")).isEmpty)
        #expect(try await store.usage().entryCount == 99_900)
        #expect(try await store.data("k70") == Data("70".utf8))
        // 111 of the thousand prefixes begin with 9.
        #expect(try await store.remove(.urlPrefix("http://h/9")).entryCount == 11_100)
        #expect(try await store.usage().entryCount == 88_800)
        #expect(try await store.remove(.all).entryCount == 88_800)
    }
}
