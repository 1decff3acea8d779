import FoundationEssentials
import HTTPCore
import Platform
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// After an answer that a process has seen, no process uses an older one, even if Redis never stored it or has lost it.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct CacheOrderTests {
    /// - Parameters:
    ///   - age: The seconds since the fetch began.
    ///   - end: The seconds since the fetch ended. Default: the same as `age`.
    ///   - now: The current time.
    private static func fetched(_ age: Double = 0, until end: Double? = nil, at now: Date = Date()) -> CacheEntry {
        CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200,
            headers: ["Cache-Control": "max-age=600"], requestTime: now - age, responseTime: now - (end ?? age))
    }

    private static func isStored(_ entry: CacheEntry, by tier: FleetStore) async throws -> Bool {
        if case .stored(let stored, _) = try await tier.writer(for: entry).commit() { return stored.version != nil }
        return false
    }

    @Test func olderAnswerDoesNotFollowAnUnstoredOne() async throws {
        try await Self.withTiers { _, mine, others async throws in
            let old = Self.fetched()
            await mine.drop(old.key, isLost: true)
            #expect(try await !Self.isStored(old, by: others))
            for tier in [mine, others] { #expect(try await tier.entries(for: "k").isEmpty) }
            #expect(try await Self.isStored(Self.fetched(), by: others))
            #expect(try await mine.entries(for: "k").count == 1)
        }
    }

    @Test func lostAnswerStaysNotedUntilItsRemoval() async throws {
        try await Self.withTiers { server, mine, _ async throws in
            let key = Self.fetched().key
            server.kill()
            await mine.drop(key, isLost: true)
            await mine.drop(key, isLost: false)
            #expect(mine.outdated.withLock { $0[key.primary]?[key.variant] } == true)
        }
    }

    @Test func impossibleTimeOfRedisIsIgnored() async throws {
        try await Self.withTiers { _, mine, _ async throws in
            for (seconds, rest) in [(Int64.max, 0), (-1, 0), (1, -1), (1, .max)] as [(Int64, Int64)] {
                #expect(mine.readClock(.array([.integer(seconds), .integer(rest)]), since: .now) == nil)
            }
        }
    }

    @Test func privateResponseBlocksNoSharedEntry() async throws {
        try await Self.withTiers { server, mine, others async throws in
            let old = Self.fetched()
            var personal = Self.fetched()
            personal.headers["Cache-Control"] = "private, max-age=600"
            #expect(try await !Self.isStored(personal, by: mine))
            #expect(try server.cli("EXISTS", mine.coding.entryKey("k")) == "0")
            #expect(try await Self.isStored(old, by: others))
            #expect(try await mine.entries(for: "k").isEmpty)
            #expect(try await others.entries(for: "k").count == 1)
        }
    }

    /// A 304 may say that the response, or a field of it, is for one user.
    @Test(arguments: ["private", "private=\"A\"", "Set-Cookie"])
    func personalUpdateIsNotShared(_ text: String) async throws {
        try await Self.withTiers { _, mine, others async throws in
            #expect(try await Self.isStored(Self.fetched(), by: mine))
            var entry = try #require(await mine.entries(for: "k").first)
            if text == "Set-Cookie" {
                entry.headers[text] = "session=1"
            } else {
                entry.headers["Cache-Control"] = "max-age=600, \(text)"
                entry.headers["A"] = "1"
            }
            let isShared = text.contains("A")
            #expect(try await mine.update(entry) == isShared)
            let found = try await others.entries(for: "k")
            #expect(found.count == (isShared ? 1 : 0) && found.first?.headers["A"] == nil)
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

    /// Runs `body` with the tiers of two processes that have learnt Redis' clock.
    private static func withTiers(
        _ body: @Sendable (RedisServer, FleetStore, FleetStore) async throws -> Void
    ) async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { first in
            try await withFleet(server.patient()) { second in
                let tiers = [try first.cacheTier(FleetCacheOptions()), try second.cacheTier(FleetCacheOptions())]
                for tier in tiers { #expect(try await tier.entries(for: "k").isEmpty) }
                try await body(server, tiers[0], tiers[1])
            }
        }
    }

    /// Like ``withTiers(_:)``, with tiers that know the clock exactly and store what was fetched in the last 300 ms.
    /// Their first look-up is longer ago. It counts as a restart of the server, and nothing that may have been fetched
    /// before a restart is stored.
    private static func withExactTiers(
        _ body: @Sendable (FleetStore, FleetStore) async throws -> Void
    ) async throws {
        try await withTiers { _, first, second in
            let start = MonotonicTime.now
            try await eventually("300 ms") { start + 300 < .now }
            // Redis has the clock of this machine. Its answers are slow while the machine is busy.
            for tier in [first, second] {
                try await eventually("the exact time") {
                    let begin = MonotonicTime.now
                    let time = Int64(Date().timeIntervalSince1970 * 1_000_000)
                    return tier.clock.withLock { clock in
                        clock = RemoteClock()
                        clock.read(time, since: begin)
                        return begin + 1 > .now
                    }
                }
            }
            try await body(first, second)
        }
    }

    @Test func olderAnswerDoesNotTakeThePlaceOfADroppedOne() async throws {
        try await Self.withExactTiers { mine, others in
            let now = Date()
            #expect(try await Self.isStored(Self.fetched(0.05, until: 0.04, at: now), by: others))
            var personal = Self.fetched(0.03, until: 0.02, at: now)
            personal.headers["Cache-Control"] = "private, max-age=600"
            #expect(try await !Self.isStored(personal, by: mine))
            _ = try await Self.isStored(Self.fetched(0.2, until: 0.1, at: now), by: mine)
            let isThere = try await mine.fleet.redis.call(
                RedisCommand("HEXISTS", [.text(mine.coding.entryKey("k")), "h"]), .write)
            #expect(isThere.integer == 0)
            #expect(try await Self.isStored(Self.fetched(), by: others))
        }
    }

    /// Of two fetches that overlapped, the one that began later may have the older answer, and so may the one that ended later.
    @Test(arguments: [0.05, 0.15], [true, false])
    func overlappingAnswerIsNotUsedAfterASeenOne(begin: Double, hasCandidate: Bool) async throws {
        try await Self.withExactTiers { mine, others in
            let now = Date()
            #expect(try await Self.isStored(Self.fetched(0.1, until: 0.04, at: now), by: others))
            let writer = try await mine.writer(
                for: Self.fetched(begin, until: 0.01, at: now),
                replacing: hasCandidate ? .version(StoredVersion(1, 1)) : .anything)
            guard case .stored(let kept, _) = try await writer.commit() else {
                Issue.record("it counts as older")
                return
            }
            #expect(kept.version == nil)
            #expect(try await mine.entries(for: "k").isEmpty)
            #expect(try await others.entries(for: "k").count == 1)
            // Both processes find an answer that was fetched after the two.
            #expect(try await Self.isStored(Self.fetched(), by: mine))
            for tier in [mine, others] { #expect(try await tier.entries(for: "k").count == 1) }
            guard case .superseded = try await others.writer(for: Self.fetched(0.05, at: now)).commit() else {
                Issue.record("it is older")
                return
            }
            #expect(try await others.entries(for: "k").count == 1)
        }
    }

    /// The answer may be older than one that the process has seen since.
    @Test func answerIsDroppedIfAnotherWasFoundMeanwhile() async throws {
        try await Self.withExactTiers { mine, others in
            let now = Date()
            #expect(try await Self.isStored(Self.fetched(0.1, until: 0.04, at: now), by: others))
            #expect(try await mine.entries(for: "k").count == 1)
            let answer = Self.fetched(0.09, until: 0, at: now)
            guard case .superseded = try await mine.writer(for: answer).commit() else {
                Issue.record("the process keeps it")
                return
            }
            #expect(try await mine.entries(for: "k").isEmpty)
            #expect(!mine.accepts(answer) && mine.accepts(Self.fetched()))
        }
    }

    /// A process that knows Redis' clock only to 400 ms cannot tell which of two fetches came first.
    @Test(arguments: [true, false])
    func answersOfUnknownOrderReplaceNoOther(isUncertainFirst: Bool) async throws {
        try await Self.withExactTiers { certain, uncertain in
            let bounds = certain.clock.withLock(\.now)
            let (time, start) = (try #require(bounds), MonotonicTime.now)
            uncertain.clock.withLock { clock in
                clock = RemoteClock()
                clock.read(time.lowerBound - 200_000, since: start + -400, now: start)
            }
            let (earlier, later) = isUncertainFirst ? (uncertain, certain) : (certain, uncertain)
            let now = Date()
            let second = Self.fetched(0.1, at: now)
            #expect(try await Self.isStored(Self.fetched(at: now), by: earlier))
            guard case .stored(let kept, _) = try await later.writer(for: second).commit() else {
                Issue.record("it counts as older")
                return
            }
            #expect(kept.version == nil)
            #expect(try await earlier.entries(for: "k").count == 1)
        }
    }

    @Test func tooManyFloorsBecomeOneForAllKeys() {
        func at(_ second: Int64) -> FleetFloors.Time {
            FleetFloors.Time(
                date: Date(timeIntervalSince1970: Double(second)),
                monotonic: MonotonicTime(nanoseconds: second * 1_000_000_000))
        }
        let (a, b, other) = (CacheKey(primary: "a"), CacheKey(primary: "b"), CacheKey(primary: "a", variant: "v"))
        var floors = FleetFloors()
        #expect(floors.floor(of: a) == nil)
        floors.raise(a, to: at(5))
        floors.raise(a, to: at(3))
        #expect(floors.floor(of: a) == at(5) && floors.floor(of: b) == nil && floors.floor(of: other) == nil)
        floors.lower(a)
        #expect(floors.floor(of: a) == nil)
        floors.raise(CacheKey(primary: "0"), to: at(7))
        for number in 1...10_000 { floors.raise(CacheKey(primary: "\(number)"), to: at(6)) }
        #expect(floors.floor(of: a) == at(7))
        floors.raise(a, to: at(9))
        #expect(floors.floor(of: a) == at(9) && floors.floor(of: other) == at(7) && floors.floor(of: b) == at(7))
    }

    @Test func overlappingResponseIsNotAdmitted() {
        let now = Date()
        func fetched(_ age: Double, until end: Double) -> CacheEntry { Self.fetched(age, until: end, at: now) }
        var floors = FleetFloors()
        let first = fetched(9, until: 7)
        #expect(floors.admits(first, 10))
        floors.took(first)
        // The answer itself, one that overlaps, and a later one.
        #expect(floors.admits(first, 10))
        #expect(!floors.admits(fetched(8, until: 6), 20) && floors.admits(fetched(6, until: 5), 20))
        floors.found(first.key, version: 30)
        floors.found(first.key, version: 25)
        #expect(!floors.admits(fetched(6, until: 5), 30) && floors.admits(fetched(6, until: 5), 31))
        #expect(floors.admits(fetched(6, until: 5), nil))
        floors.raise(first.key, to: FleetFloors.Time(date: now - 5, monotonic: .now))
        #expect(!floors.admits(fetched(6, until: 4), 40) && floors.admits(fetched(5, until: 4), 40))
        floors.lower(first.key)
        #expect(floors.admits(fetched(6, until: 4), 40))
    }

    @Test func boundsOfTheClockNarrowAndWiden() {
        func at(_ milliseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }
        var clock = RemoteClock()
        #expect(clock.bounds(at: at(0)) == nil)
        clock.read(7_000_000, since: at(1_000), now: at(1_400))
        #expect(clock.bounds(at: at(1_400)) == 7_000_000...7_400_000)
        // The second answer took less time, so it narrows the bounds.
        clock.read(8_300_000, since: at(2_400), now: at(2_450))
        #expect(clock.bounds(at: at(2_450)) == 8_300_000...8_350_000)
        // The third took longer, so the upper bound stays, but has widened by 1 ms in a second.
        clock.read(9_300_000, since: at(3_350), now: at(3_450))
        #expect(clock.bounds(at: at(3_450)) == 9_300_000...9_351_000)
        // Many answers in a short time widen the bounds as much as one answer after that time.
        for tenths: Int64 in 1...20 {
            let now = MonotonicTime(nanoseconds: 3_450_000_000 + tenths * 100_000)
            clock.read(9_300_000 + tenths * 100, since: at(3_350), now: now)
        }
        #expect(clock.bounds(at: at(3_452)) == 9_302_000...9_353_002)
        // The clock was set back.
        clock.read(1_000_000, since: at(4_440), now: at(4_450))
        #expect(clock.bounds(at: at(4_450)) == 1_000_000...1_010_000)
    }

    /// An answer that is being stored may reach Redis after the next look-up, which would then find the answer before it.
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
