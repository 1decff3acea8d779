import Foundation
import LATTesting
import Testing

@testable import ResponseCache

/// Twenty thousand entries below a thousand prefixes: more than a statement takes, in every step.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ManyEntriesTests {
    @Test func prefixesAreCompleteAmongManyEntries() async throws {
        let directory = try TemporaryDirectory()
        let store = try DiskStore.plain(directory.path(of: "cache"), limit: 1 << 32)
        var settings = WriteBehind.Settings()
        settings.queueByteLimit = 1 << 30
        let behind = WriteBehind(store, settings, now: { Make.start }, prepare: {}, report: { _, _ in })
        for number in 0..<20_000 {
            let url = "http://h/\(number % 1_000)/\(number)"
            #expect(await behind.store(Make.entry("k\(number)", url: url), Data("\(number)".utf8)))
        }
        await behind.settle()
        #expect(try await store.usage().entryCount == 20_000)
        // "/7/" is no prefix of "/70/" or "/77/…".
        let listed = try await store.entries(.urlPrefix("http://h/7/"))
        #expect(Set(listed.map(\.url)) == Set((0..<20).map { "http://h/7/\($0 * 1_000 + 7)" }))
        #expect(try await store.remove(.urlPrefix("http://h/7/")).entryCount == 20)
        #expect(try await store.entries(.urlPrefix("http://h/7/")).isEmpty)
        #expect(try await store.usage().entryCount == 19_980)
        #expect(try await store.data("k70") == Data("70".utf8))
        // All that begin with 9: of a thousand prefixes, 111.
        #expect(try await store.remove(.urlPrefix("http://h/9")).entryCount == 2_220)
        #expect(try await store.usage().entryCount == 17_760)
        #expect(try await store.remove(.all).entryCount == 17_760)
    }
}
