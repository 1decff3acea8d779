import Foundation
import HTTPCore
import LATTesting
import Testing

@testable import ResponseCache

/// Recorded uses, which are exact within the process and written to disk now and then.
@Suite(.timeLimit(.minutes(2))) struct TouchTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func disk() throws -> DiskStore { try DiskStore.plain(directory.path(of: "cache")) }

    /// The last use as another process sees it.
    private func written(_ store: DiskStore) async throws -> Date? {
        // This removal is queued behind the recorded uses.
        try await store.remove(.key(CacheKey(primary: "none")))
        return try await disk().first("a")?.lastUse
    }

    @Test func usesAreWrittenOncePerInterval() async throws {
        let store = try disk()
        try await store.put(Make.entry("a"))
        for (seconds, onDisk) in [(10.0, 0.0), (599, 0), (600, 600), (900, 600), (1_200, 1_200)] {
            _ = store.quickTouch(try #require(try await store.first("a")), at: Make.start + seconds, interval: 600)
            #expect(try await store.first("a")?.lastUse == Make.start + seconds)
            #expect(try await written(store) == Make.start + onDisk)
        }
        _ = store.quickTouch(try #require(try await store.first("a")), at: Make.start + 1_300, interval: 600)
        try await store.flush()
        #expect(try await written(store) == Make.start + 1_300)
    }

    @Test func lastUseFollowsAChangedClock() async throws {
        let disk = try disk()
        let store = TieredStore(memory: MemoryStore(), disk: disk)
        try await store.put(Make.entry("a"))
        for seconds in [5_000.0, -5_000, 20, -20, 100_000, 0] {
            _ = store.quickTouch(try #require(try await store.first("a")), at: Make.start + seconds, interval: 600)
            #expect(try await store.first("a")?.lastUse == Make.start + seconds)
            #expect(try await disk.first("a")?.lastUse == Make.start + seconds)
        }
    }

    @Test func newEntryDropsEarlierUses() async throws {
        let store = try disk()
        try await store.put(Make.entry("a"))
        _ = store.quickTouch(try #require(try await store.first("a")), at: Make.start + 700, interval: 600)
        try await store.put(Make.entry("a", at: Make.start + 50))
        #expect(try await store.first("a")?.lastUse == Make.start + 50)
    }

    @Test func touchIntervalIsATenthOfSlidingTime() {
        #expect(TimeToLiveRule.touchInterval(.sliding(.seconds(60))) == 6)
        #expect(TimeToLiveRule.touchInterval(.sliding(.seconds(86_400))) == 600)
        #expect(TimeToLiveRule.touchInterval(.fixed(.seconds(60))) == 600)
        #expect(TimeToLiveRule.touchInterval(nil) == 600)
    }
}
