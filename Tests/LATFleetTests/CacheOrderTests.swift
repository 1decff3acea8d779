import FoundationEssentials
import HTTPCore
import Platform
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// Answers that some process has seen and Redis has not, or no longer: none that is older follows them.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct CacheOrderTests {
    /// - Parameter age: How long ago it was fetched, in seconds.
    private static func fetched(_ age: Double = 0) -> CacheEntry {
        let now = Date(timeIntervalSinceNow: -age)
        return CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200,
            headers: ["Cache-Control": "max-age=600"], requestTime: now, responseTime: now)
    }

    private static func isStored(_ entry: CacheEntry, by tier: FleetStore) async throws -> Bool {
        if case .stored(let stored, _) = try await tier.writer(for: entry).commit() { return stored.version != nil }
        return false
    }

    @Test func olderAnswerDoesNotFollowOneThatCouldNotBeStored() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { first in
            try await withFleet(server.patient()) { second in
                let (mine, others) = (
                    try first.cacheTier(FleetCacheOptions()), try second.cacheTier(FleetCacheOptions())
                )
                // Both learn Redis' clock.
                for tier in [mine, others] { #expect(try await tier.entries(for: "k").isEmpty) }
                let old = Self.fetched()
                // When its fetch began is not known, so that the time of the drop counts.
                await mine.drop(Self.fetched(-60), isLost: true)
                #expect(try await !Self.isStored(old, by: others))
                for tier in [mine, others] { #expect(try await tier.entries(for: "k").isEmpty) }
                #expect(try await Self.isStored(Self.fetched(), by: others))
                #expect(try await mine.entries(for: "k").count == 1)
            }
        }
    }

    @Test func answersForOneProcessRefuseNoOthers() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            #expect(try await tier.entries(for: "k").isEmpty)
            let old = Self.fetched()
            var personal = Self.fetched()
            personal.headers["Cache-Control"] = "private, max-age=600"
            #expect(try await !Self.isStored(personal, by: tier))
            #expect(try server.cli("EXISTS", tier.coding.entryKey("k")) == "0")
            #expect(try await Self.isStored(old, by: tier))
        }
    }

    @Test func answerFetchedBeforeARestartIsNotStoredAfterIt() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            #expect(try await tier.entries(for: "k").isEmpty)
            #expect(try await Self.isStored(Self.fetched(), by: tier))
            server.kill()
            try await server.startAgain()
            try await eventually("a connection to the new server") { (try? await fleet.redis.get("other")) != nil }
            // The first look-up finds out that the server was restarted.
            #expect(try await tier.entries(for: "k").isEmpty)
            #expect(try await !Self.isStored(Self.fetched(50), by: tier))
            #expect(try await Self.isStored(Self.fetched(), by: tier))
            // A process whose first question was not answered does not know Redis' clock yet.
            try await withFleet(server.patient()) { late in
                let other = try late.cacheTier(FleetCacheOptions())
                #expect(try await !Self.isStored(Self.fetched(50), by: other))
                #expect(try await other.entries(for: "k").count == 1)
                #expect(try await Self.isStored(Self.fetched(), by: other))
            }
        }
    }

    /// A process that knows Redis' clock only to 400 ms: which of two fetches began later, it cannot say.
    @Test(arguments: [true, false])
    func redisKeepsNeitherOfTwoAnswersWhoseOrderIsUnknown(isUncertainFirst: Bool) async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { first in
            try await withFleet(server.patient()) { second in
                let (certain, uncertain) = (
                    try first.cacheTier(FleetCacheOptions()), try second.cacheTier(FleetCacheOptions())
                )
                for tier in [certain, uncertain] { #expect(try await tier.entries(for: "k").isEmpty) }
                // Nothing that may have been fetched before the first look-up is stored, as if the server had been restarted.
                let start = MonotonicTime.now
                try await eventually("300 ms") { start + 300 < .now }
                let bounds = certain.clock.withLock(\.now)
                let (time, now) = (try #require(bounds), MonotonicTime.now)
                uncertain.clock.withLock { clock in
                    clock = RemoteClock()
                    clock.read(time.lowerBound - 200_000, since: now + -400, now: now)
                }
                let (earlier, later) = isUncertainFirst ? (uncertain, certain) : (certain, uncertain)
                let second = Self.fetched(0.1)
                #expect(try await Self.isStored(Self.fetched(), by: earlier))
                guard case .stored(let kept, _) = try await later.writer(for: second).commit() else {
                    Issue.record("it counts as older")
                    return
                }
                #expect(kept.version == nil)
                for tier in [certain, uncertain] { #expect(try await tier.entries(for: "k").isEmpty) }
                guard case .superseded = try await later.writer(for: Self.fetched(5)).commit() else {
                    Issue.record("it is five seconds older")
                    return
                }
            }
        }
    }

    @Test func boundsOfTheClockNarrowAndWiden() {
        func at(_ milliseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }
        var clock = RemoteClock()
        #expect(clock.bounds(at: at(0)) == nil)
        clock.read(7_000_000, since: at(1_000), now: at(1_400))
        #expect(clock.bounds(at: at(1_400)) == 7_000_000...7_400_000)
        // The second answer is early where the first was late.
        clock.read(8_300_000, since: at(2_400), now: at(2_450))
        #expect(clock.bounds(at: at(2_450)) == 8_300_000...8_350_000)
        // A late one adds nothing; a second has passed.
        clock.read(9_300_000, since: at(3_350), now: at(3_450))
        #expect(clock.bounds(at: at(3_450)) == 9_300_000...9_351_000)
        // The clock was set back.
        clock.read(1_000_000, since: at(4_440), now: at(4_450))
        #expect(clock.bounds(at: at(4_450)) == 1_000_000...1_010_000)
    }

    /// What this process is storing may reach Redis after its next question, which then finds the one before.
    @Test func nothingIsFoundWhileAnAnswerIsStored() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            #expect(try await Self.isStored(Self.fetched(), by: tier))
            #expect(try await tier.entries(for: "k").count == 1)
            try await tier.storing("k") { () async throws in
                #expect(try await tier.entries(for: "k").isEmpty)
                #expect(try await tier.entries(for: "other").isEmpty)
            }
            #expect(try await tier.entries(for: "k").count == 1)
        }
    }
}
