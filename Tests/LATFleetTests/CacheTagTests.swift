import FoundationEssentials
import HTTPCore
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// A removal by tag costs the same however many entries have the tag. scripts/chaos-fleet has a million of them.
@Suite(.needsRedis, .timeLimit(.minutes(20)))
struct CacheTagTests {
    private static let most = ProcessInfo.processInfo.environment["LAT_FLEET_TAGGED"].flatMap { Int($0) } ?? 600

    @Test func removalByTagIsTheSameForMany() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            // Loads the script, so that its loading is not counted.
            _ = try await tier.remove(.tag("news"))
            var costs: [[String: Int]] = []
            for count in [min(1_000, Self.most / 3), Self.most] {
                try await fill(tier, count)
                #expect(try await tier.entries(for: "\(count - 1)").count == 1)
                try server.cli("CONFIG", "RESETSTAT")
                let start = ContinuousClock.now
                _ = try await tier.remove(.tag("news"))
                let time = ContinuousClock.now - start
                let commands = try commands(server)
                costs.append(commands)
                print(
                    "tag: \(count) entries, removed in \(time), \(commands.values.reduce(0, +)) commands, keys \(try server.cli("DBSIZE"))"
                )
                for number in stride(from: 0, to: count, by: max(1, count / 50)) {
                    #expect(try await tier.entries(for: "\(number)").isEmpty)
                }
            }
            #expect(costs[0] == costs[1] && costs[0]["unlink"] == 1)
        }
    }

    @Test func hitNeedsAScriptOnlyAfterARemoval() async throws {
        let server = try await RedisServer()
        try await withFleet(server.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            /// The number of scripts that looking up this many entries runs. Each entry must be found.
            @Sendable func scripts(_ count: Int) async throws -> Int {
                try server.cli("CONFIG", "RESETSTAT")
                for number in 0..<count { #expect(try await tier.entries(for: "\(number)").count == 1) }
                return try commands(server)["evalsha"] ?? 0
            }
            try await fill(tier, 2)
            // The first look-up of a connection asks whether the server was restarted.
            _ = try await tier.entries(for: "0")
            var counts = [try await scripts(2)]
            _ = try await tier.remove(.tag("other"))
            counts.append(try await scripts(2))
            // An entry that is stored after the removal needs no script.
            try await fill(tier, 1)
            counts.append(try await scripts(2))
            #expect(counts == [0, 2, 1])
            _ = try await tier.remove(.tag("news"))
            #expect(try await tier.entries(for: "0").isEmpty)
            try await fill(tier, 1)
            #expect(try await tier.entries(for: "1").isEmpty)
        }
    }

    /// Stores entries with a tag, over those that are there.
    private func fill(_ tier: FleetStore, _ count: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<64 {
                group.addTask {
                    for number in stride(from: worker, to: count, by: 64) {
                        let now = Date()
                        var entry = CacheEntry(
                            key: CacheKey(primary: "\(number)"), method: "GET", url: "http://h/\(number)", status: 200,
                            headers: ["Cache-Control": "max-age=86400"], requestTime: now, responseTime: now)
                        entry.tags = ["news"]
                        let writer = try await tier.writer(for: entry)
                        try await writer.append(Data(repeating: 7, count: 100))
                        guard case .stored(let stored, _) = try await writer.commit(), stored.version != nil else {
                            throw Overdue(description: "entry \(number) was not stored")
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// How often each command ran since the statistics were reset, without those of `redis-cli` and heartbeats.
    private func commands(_ server: RedisServer) throws -> [String: Int] {
        var counts: [String: Int] = [:]
        for line in try server.cli("INFO", "commandstats").split(whereSeparator: \.isNewline) {
            let words = line.split(whereSeparator: { ":=,".contains($0) })
            guard words.count > 2, words[0].hasPrefix("cmdstat_"), let count = Int(words[2]) else { continue }
            counts[String(words[0].dropFirst("cmdstat_".count))] = count
        }
        for name in ["auth", "config|resetstat", "info", "ping"] { counts[name] = nil }
        return counts
    }
}
