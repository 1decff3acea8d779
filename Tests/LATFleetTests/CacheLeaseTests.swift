import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// Leases: one process fetches for its fleet.
@Suite(.needsRedis, .timeLimit(.minutes(4)))
struct CacheLeaseTests {
    /// How many hot keys there are. scripts/chaos-fleet has more.
    private static let keyCount = ProcessInfo.processInfo.environment["LAT_FLEET_KEYS"].flatMap { Int($0) } ?? 100

    /// 8 processes, many hot keys, two rounds of expiry: each key is fetched once in each.
    @Test func everyKeyIsFetchedOnce() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.delay.change { $0 = .milliseconds(20) }
        var options = FleetCacheOptions()
        options.leaseWait = .seconds(60)
        options.maxLease = .seconds(60)
        options.earlyRefresh = 0
        let (processCount, keyCount) = (8, Self.keyCount)
        try await withProcesses(processCount, server, options) { processes in
            for round in 1...2 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for process in processes {
                        for key in 0..<keyCount {
                            group.addTask {
                                let answer = try await process.get(origin.url("/\(key)"))
                                #expect(answer.text == "/\(key) \(round)")
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                #expect(origin.all.count == keyCount && origin.all.values.allSatisfy { $0 == round })
                for process in processes { try await process.settle() }
                _ = try await processes[0].store.remove(.all)
                try await eventually("empty memories") {
                    for process in processes.dropFirst() {
                        guard let tiers = process.store as? TieredStore,
                            try await tiers.upper.inspecting?.usage().entryCount == 0
                        else { return false }
                    }
                    return true
                }
            }
            let waits = processes.reduce(0) { $0 + $1.count("leases.waited") }
            #expect(waits > 0)
            let rate = Double(origin.all.values.reduce(0, +)) / Double(2 * keyCount)
            print(
                "leases: \(processCount) processes, \(keyCount) hot keys: \(rate) fetches for each key and expiry, \(waits) waits"
            )
        }
    }

    @Test func waitersOfACrashedHolderGoOn() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        var options = FleetCacheOptions()
        // Long enough that the waiter finds the lease on a busy machine.
        options.maxLease = .seconds(4)
        // Longer than the time limit of the suite.
        options.leaseWait = .seconds(3_600)
        try await withProcesses(2, server, options) { [options] processes in
            // A holder that never ends its lease: what is left of a process after kill -9.
            let tier = try processes[0].fleet.cacheTier(options)
            let lease = try #require(try await tier.lease(try origin.key("/a"), for: .seconds(60)))
            #expect(try await processes[1].get(origin.url("/a")).text == "/a 1")
            #expect(processes[1].count("leases.waited") >= 1)
            lease.end()
        }
    }

    @Test func waiterFetchesItselfWhenItsTimeIsOver() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        var options = FleetCacheOptions()
        options.leaseWait = .milliseconds(50)
        options.maxLease = .seconds(600)
        try await withProcesses(1, server, options) { [options] processes in
            let tier = try processes[0].fleet.cacheTier(options)
            let lease = try #require(try await tier.lease(try origin.key("/a"), for: .seconds(600)))
            #expect(try await processes[0].get(origin.url("/a")).text == "/a 1")
            #expect(processes[0].count("leases.lost") == 1)
            lease.end()
        }
    }

    @Test func endOfALeaseWakesItsWaiters() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { first in
            try await withFleet(server.patient()) { second in
                let (holder, waiter) = (
                    try first.cacheTier(FleetCacheOptions()), try second.cacheTier(FleetCacheOptions())
                )
                try await eventually("that they hear each other") {
                    try server.cli("PUBSUB", "NUMSUB", holder.coding.channel).hasSuffix("2")
                }
                let lease = try #require(try await holder.lease("k", for: .seconds(600)))
                let outcome = Task { try await waiter.lease("k", for: .seconds(600), within: .seconds(600)) }
                try await eventually("a waiter") { second.status.counters["cache.leases.waited"] == 1 }
                lease.end()
                guard case .ended = try await outcome.value else {
                    Issue.record("the waiter did not hear of the end")
                    return
                }
            }
        }
    }

    @Test func answersThatCannotBeStoredMakeNobodyWait() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 = [("Cache-Control", "no-store")] }
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            let key = try origin.key("/a")
            let tier = try processes[1].fleet.cacheTier(FleetCacheOptions())
            try await eventually("the mark") { try server.cli("GET", tier.coding.leaseKey(key)) == "pass" }
            for process in processes { _ = try await process.get(origin.url("/a")) }
            #expect(processes[1].count("leases.waited") == 0 && processes[1].count("leases.won") == 0)
            // Once an answer can be stored, the mark is gone.
            origin.headers.change { $0 = [("Cache-Control", "max-age=600")] }
            _ = try await processes[1].get(origin.url("/a"))
            try await processes[1].settle()
            try await eventually("no mark") { try server.cli("EXISTS", tier.coding.leaseKey(key)) == "0" }
        }
    }

    @Test func staleAnswerIsReturnedDuringARefresh() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.headers.change { $0 = [("Cache-Control", "max-age=0, stale-while-revalidate=600")] }
        var options = FleetCacheOptions()
        options.maxLease = .seconds(60)
        try await withProcesses(2, server, options) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            // The lease of the first fetch ends a moment later. Until then, nobody refreshes.
            let lease = try processes[0].fleet.cacheTier(FleetCacheOptions()).coding.leaseKey(origin.key("/a"))
            try await eventually("the end of the lease") { try server.cli("EXISTS", lease) == "0" }
            // The refresh ends after the test, so that both ask while it lasts.
            origin.delay.change { $0 = .seconds(60) }
            let answers = try await withThrowingTaskGroup(of: HTTPResponse.Source.self) { group in
                for process in processes { group.addTask { try await process.get(origin.url("/a")).source } }
                return try await group.reduce(into: [HTTPResponse.Source]()) { $0.append($1) }
            }
            #expect(answers == [.stale, .stale])
            try await eventually("one refresh") { origin.count("/a") == 2 }
        }
    }

    @Test func laterFetchIsNotReplacedByAnEarlierOne() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let (old, new) = (try fleet.cacheTier(FleetCacheOptions()), try fleet.cacheTier(FleetCacheOptions()))
            @Sendable func entry(_ lease: CacheLease?, clock: Double, date: String? = nil) -> CacheEntry {
                let time = Date(timeIntervalSinceReferenceDate: clock)
                var headers: HTTPHeaders = ["Cache-Control": "max-age=60"]
                headers["Date"] = date
                var entry = CacheEntry(
                    key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200, headers: headers,
                    requestTime: time, responseTime: time)
                entry.lease = lease
                return entry
            }
            @Sendable func store(_ tier: FleetStore, _ entry: CacheEntry) async throws -> Bool {
                let writer = try await tier.writer(for: entry)
                if case .stored(let stored, _) = try await writer.commit() { return stored.version != nil }
                return false
            }
            // The lease of the older fetch has expired, and the newer one is over. The clocks of their
            // processes are a year apart.
            let first = try #require(try await old.lease("k", for: .milliseconds(1)))
            try await eventually("the next lease") { [box = Box<CacheLease?>(nil)] in
                let lease = try await new.lease("k", for: .seconds(60))
                box.change { $0 = lease }
                guard let lease else { return false }
                #expect(try await store(new, entry(lease, clock: 0)))
                lease.end()
                return true
            }
            #expect(try await !store(old, entry(first, clock: 3e7)))
            // Without leases the origin's clock decides.
            _ = try await new.remove(.primaryKey("k"))
            #expect(try await store(new, entry(nil, clock: 0, date: "Sun, 06 Nov 1994 08:49:37 GMT")))
            #expect(try await !store(old, entry(nil, clock: 3e7, date: "Sun, 06 Nov 1994 08:49:36 GMT")))
            #expect(try await store(old, entry(nil, clock: -3e7, date: "Sun, 06 Nov 1994 08:49:38 GMT")))
        }
    }
}
