import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// Faults of a cache's Redis cause no error, no wrong answer, and no wait beyond the budget.
@Suite(.needsRedis, .timeLimit(.minutes(3)))
struct CacheFaultTests {
    private func entryKey(_ process: CacheProcess, _ origin: Origin) throws -> String {
        try process.fleet.cacheTier(FleetCacheOptions()).coding.entryKey(origin.key("/a"))
    }

    /// Stores `/a`, does something to Redis, and checks what the next process gets.
    private func expectMiss(
        _ what: String, body: Data? = nil, sourceLocation: SourceLocation = #_sourceLocation,
        _ harm: @Sendable (RedisServer, _ key: String) async throws -> Void
    ) async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        origin.body.change { $0 = body }
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            let key = try entryKey(processes[0], origin)
            #expect(try server.cli("EXISTS", key) == "1", sourceLocation: sourceLocation)
            try await harm(server, key)
            #expect(
                try await processes[1].get(origin.url("/a")).source == .network, "\(what)",
                sourceLocation: sourceLocation)
            try await processes[1].settle()
            // The next answer repairs it.
            let tier = try processes[0].fleet.cacheTier(FleetCacheOptions())
            let found = try await tier.entries(for: origin.key("/a"))
            #expect(found.count == 1, "\(what) is not repaired", sourceLocation: sourceLocation)
        }
    }

    @Test func flushIsAMiss() async throws {
        try await expectMiss("FLUSHALL") { server, _ in try server.cli("FLUSHALL") }
    }

    @Test func keyOfAnotherTypeIsAMiss() async throws {
        try await expectMiss("a list") { server, key in
            try server.cli("DEL", key)
            try server.cli("RPUSH", key, "garbage")
        }
    }

    @Test func garbageInFieldsIsAMiss() async throws {
        for value in ["", "garbage", "1 2 3", "1 x x x x x x x x x x", "1 1 1 1 1 9e99 id 0 5 0 0"] {
            try await expectMiss("the head \"\(value)\"") { server, key in try server.cli("HSET", key, "h", value) }
        }
        try await expectMiss("a garbled record") { server, key in try server.cli("HSET", key, "m", "garbage") }
        try await expectMiss("a garbled body") { server, key in try server.cli("HSET", key, "b", "garbage") }
        try await expectMiss("no body") { server, key in try server.cli("HDEL", key, "b") }
    }

    @Test func entryOfAFutureVersionIsAMiss() async throws {
        try await expectMiss("a head of format 2") { server, key in
            let head = try server.cli("HGET", key, "h")
            try server.cli("HSET", key, "h", "2" + head.dropFirst())
        }
    }

    @Test func missingOrChangedChunkIsAMiss() async throws {
        let body = Data(repeating: 1, count: 700_000)
        try await expectMiss("a missing chunk", body: body) { server, key in
            try server.cli("DEL", server.cli("--scan", "--pattern", "\(key):*:1"))
        }
        try await expectMiss("chunks in another order", body: body) { server, key in
            let name = try server.cli("--scan", "--pattern", "\(key):*:0")
            try server.cli("COPY", name, name.dropLast() + "1", "REPLACE")
        }
    }

    @Test func evictedGenerationIsAMiss() async throws {
        // The entry is a miss only after the next removal of anything. Before that, nothing can have been removed.
        try await expectMiss("a tag's generation") { server, _ in
            for key in try server.cli("--scan", "--pattern", "*:g:*").split(separator: "\n") {
                try server.cli("DEL", String(key))
            }
            try await withFleet(server.patient()) { fleet in
                _ = try await fleet.cacheTier(FleetCacheOptions()).remove(.tag("other"))
            }
        }
        try await expectMiss("the generation of everything") { server, _ in
            try server.cli("DEL", server.cli("--scan", "--pattern", "*:r"))
        }
    }

    @Test func restartedServerCountsAsEmpty() async throws {
        let server = try await RedisServer(.socket, ["--appendonly", "yes", "--appendfsync", "always"])
        let origin = try Origin()
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            let key = try entryKey(processes[0], origin)
            server.kill()
            try await server.startAgain()
            #expect(try server.cli("EXISTS", key) == "1")
            try await eventually("a new connection") {
                let status = processes[1].fleet.status
                return status.state == .ready && status.connectionCount > 1
            }
            #expect(try await processes[1].get(origin.url("/a")).text == "/a 2")
            try await processes[1].settle()
            #expect(try await processes[1].get(origin.url("/a")).text == "/a 2")
            #expect(processes[1].count("writes") == 1)
        }
    }

    @Test func fullServerKeepsAnswersLocal() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(2, server) { processes in
            try server.cli("CONFIG", "SET", "maxmemory", "1")
            for process in processes {
                #expect(try await process.get(origin.url("/a")).source == .network)
                try await process.settle()
                #expect(try await process.get(origin.url("/a")).source == .memoryCache)
            }
            #expect(processes[0].count("writes.skipped") == 1)
            try server.cli("CONFIG", "SET", "maxmemory", "0")
            _ = try await processes[0].get(origin.url("/b"))
            try await processes[0].settle()
            #expect(try await processes[1].get(origin.url("/b")).source == .remoteCache)
        }
    }

    @Test func readOnlyServerCostsNoRequest() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(1, server) { processes in
            try server.cli("REPLICAOF", "127.0.0.1", "1")
            for name in ["/a", "/b"] {
                _ = try await processes[0].get(origin.url(name))
                try await processes[0].settle()
                #expect(try await processes[0].get(origin.url(name)).source == .memoryCache)
            }
        }
    }

    @Test func memoryIsUsedWithoutRedis() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            server.kill()
            try await eventually("the loss") { processes[0].fleet.status.state != .ready }
            #expect(try await processes[0].get(origin.url("/a")).source == .memoryCache)
            #expect(try await processes[0].get(origin.url("/b")).source == .network)
            try await processes[0].settle()
            #expect(try await processes[0].get(origin.url("/b")).source == .memoryCache)
            try await server.startAgain()
            try await eventually("a write") {
                _ = try await processes[0].get(origin.url("/\(UInt64.random(in: 0 ... .max))"))
                try await processes[0].settle()
                return processes[0].count("writes") >= 2
            }
        }
    }

    /// With a stopped server, a request waits for one budget at most, and not at all once the breaker is open.
    @Test func stoppedServerCostsBudgetUntilBreakerOpens() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        let process = try CacheProcess(
            server.configuration {
                $0.breakerPause = .seconds(60)
                $0.lookUpBudget = .milliseconds(200)
                $0.connectTimeout = .seconds(60)
                $0.heartbeat = .seconds(60)
            })
        try await process.fleet.connect(within: .seconds(20))
        _ = try await process.get(origin.url("/warm"))
        try await process.settle()
        // Writes are not waited for, so this test has none.
        origin.headers.change { $0 = [("Cache-Control", "no-store")] }
        server.pause()
        let start = ContinuousClock.now
        var count = 0
        while process.fleet.status.breaker == .closed, ContinuousClock.now - start < .seconds(30) {
            count += 1
            #expect(try await process.get(origin.url("/\(count)")).source == .network)
        }
        #expect(process.fleet.status.breaker == .open)
        // The breaker opens after five failures, each of which was the wait of one request.
        #expect(process.fleet.status.counters["redis.timeouts"] ?? 0 <= 8)
        try await process.settle()
        let timeouts = process.fleet.status.counters["redis.timeouts"]
        for number in 0..<50 { _ = try await process.get(origin.url("/open\(number)")) }
        #expect(process.fleet.status.counters["redis.timeouts"] == timeouts)
        server.resume()
        await process.end()
    }

    @Test func failedRemovalIsRepeated() async throws {
        let server = try await RedisServer()
        let origin = try Origin()
        try await withProcesses(2, server) { processes in
            _ = try await processes[0].get(origin.url("/a"))
            try await processes[0].settle()
            // Refuses all writes, and still answers look-ups.
            try server.cli("CONFIG", "SET", "min-replicas-to-write", "1")
            _ = try await processes[0].manager.startRequest("POST", origin.url("/a"))
            #expect(try await processes[0].get(origin.url("/a")).text == "/a 3")
            try server.cli("CONFIG", "SET", "min-replicas-to-write", "0")
            try await eventually("the removal") { try await processes[1].get(origin.url("/a")).text != "/a 1" }
        }
    }

    /// Removing by tag or prefix is the same few commands for two entries and for thousands, among a million other keys.
    @Test(arguments: [CacheSelection.tag("t"), .urlPrefix("http://h/"), .all])
    func removalTakesConstantTime(_ selection: CacheSelection) async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            func fill(_ range: Range<Int>) async throws {
                for number in range {
                    var entry = CacheEntry(
                        key: CacheKey(primary: "k\(number)"), method: "GET", url: "http://h/\(number)", status: 200,
                        headers: [:], requestTime: Date(), responseTime: Date())
                    entry.tags = ["t"]
                    _ = try await tier.writer(for: entry).commit()
                }
            }
            func commands() throws -> Int {
                // Commands in scripts count too. Those of redis-cli are the same number each time.
                let lines = try server.cli("INFO", "commandstats").split(separator: "\n")
                return lines.reduce(0) { sum, line in
                    guard !line.contains("cmdstat_ping") else { return sum }
                    return sum
                        + (line.firstRange(of: "calls=").flatMap { Int(line[$0.upperBound...].prefix { $0.isNumber }) }
                            ?? 0)
                }
            }
            try server.cli("DEBUG", "POPULATE", "1000000")
            var costs: [Int] = []
            for range in [0..<2, 2..<2_000] {
                try await fill(range)
                let before = try commands()
                _ = try await tier.remove(selection)
                costs.append(try commands() - before)
                #expect(try await tier.entries(for: "k\(range.lowerBound)").isEmpty)
            }
            // The number of commands does not grow with the number of entries.
            #expect(costs[1] <= costs[0] && costs[0] < 16, "\(costs)")
        }
    }

    @Test func tooManyPrefixRemovalsRemoveEverything() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            let entry = CacheEntry(
                key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200, headers: [:],
                requestTime: Date(), responseTime: Date())
            _ = try await tier.writer(for: entry).commit()
            for number in 0..<256 { _ = try await tier.remove(.urlPrefix("http://other/\(number)")) }
            #expect(try await tier.entries(for: "k").count == 1)
            _ = try await tier.remove(.urlPrefix("http://other/more"))
            #expect(try await tier.entries(for: "k").isEmpty)
        }
    }
}
