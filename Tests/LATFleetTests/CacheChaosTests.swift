import FoundationEssentials
import Glibc
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATFleet

/// Processes under load while Redis and processes are killed and stopped at random. scripts/chaos-fleet runs it for longer.
@Suite(.needsRedis, .timeLimit(.minutes(30)))
struct CacheChaosTests {
    private static let seconds = ProcessInfo.processInfo.environment["LAT_CHAOS_SECONDS"].flatMap { Int64($0) } ?? 6
    private static let keyCount = 20
    /// How long an answer may be used, and how long it is the newest, in milliseconds.
    private static let (life, interval): (Int64, Int64) = (1_000, 700)

    private static var now: Int64 { MonotonicTime.now.nanoseconds / 1_000_000 }

    private static func worker(_ server: RedisServer, _ origin: MockServer) throws -> ChildProcess {
        let program = BuiltProgram.path("FleetProcess")
        return try ChildProcess(
            "env", [program, server.socketPath, RedisServer.password, origin.baseURL, "\(keyCount)"])
    }

    /// What happened.
    private struct Tally {
        var reads = 0
        var failures: [String] = []
        var history: CacheHistory

        mutating func add(_ output: String, reader: Int) {
            for line in output.split(separator: "\n") {
                let words = line.split(separator: " ")
                guard words.first == "read", words.count == 6, let key = Int(words[1]), let version = Int(words[2]),
                    let start = Int64(words[3]), let end = Int64(words[4])
                else {
                    failures.append(String(line))
                    continue
                }
                reads += 1
                history.reads.append(
                    CacheHistory.Read(
                        reader: reader, key: key, version: version, start: start, end: end, source: String(words[5])))
            }
        }
    }

    @Test func killedServersAndProcessesHarmNoRequest() async throws {
        let server = try await RedisServer(.socket, ["--appendonly", "yes", "--appendfsync", "everysec"])
        let origin = try MockServer()
        origin.recordsRequests = false
        let first = Self.now
        origin.fallback { _ in
            .text("\((Self.now - first) / Self.interval + 1)").header("Cache-Control", "max-age=1")
                .header("Cache-Tag", "chaos")
        }
        var workers = try (0..<3).map { _ in try Self.worker(server, origin) }
        var ended: [ChildProcess] = []
        var (serverKills, serverStops, processKills) = (0, 0, 0)
        let end = first + Self.seconds * 1_000
        try await Task.sleep(for: .seconds(1))
        while Self.now < end {
            try await Task.sleep(for: .milliseconds(Int.random(in: 100...1_000)))
            switch (serverKills + serverStops + processKills) % 3 {
            case 0:
                serverKills += 1
                server.kill()
                try await Task.sleep(for: .milliseconds(Int.random(in: 0...300)))
                try await server.startAgain()
            case 1:
                processKills += 1
                let index = Int.random(in: 0..<workers.count)
                workers[index].killAndWait()
                ended.append(workers[index])
                workers[index] = try Self.worker(server, origin)
            default:
                serverStops += 1
                server.pause()
                try await Task.sleep(for: .milliseconds(Int.random(in: 50...1_000)))
                server.resume()
            }
        }
        try await eventually("enough reads") {
            (ended + workers).reduce(0) { $0 + $1.output.utf8.count { $0 == UInt8(ascii: "\n") } } > 100
        }
        for worker in workers { worker.killAndWait() }
        // Fresh for one second by `max-age`, and for a few milliseconds more because times are rounded.
        var tally = Tally(
            history: CacheHistory(firstChange: first, interval: Self.interval, life: Self.life + 20))
        for (reader, worker) in (ended + workers).enumerated() { tally.add(worker.output, reader: reader) }
        let faults = tally.history.faults
        print(
            "chaos: \(Self.seconds) s, \(serverKills) kills and \(serverStops) stops of Redis, \(processKills) kills of "
                + "processes; \(tally.reads) reads, \(origin.requestCount) fetches, \(tally.failures.count) failed, "
                + "\(faults.count) stale or older")
        #expect(tally.failures.isEmpty, "\(tally.failures.prefix(5))")
        for fault in faults.prefix(5) {
            print("\(fault)")
            for read in tally.history.reads(around: fault) { print("    \(read)") }
        }
        #expect(faults.isEmpty, "\(faults.prefix(5))")
        #expect(tally.reads > 100)
        // Without the cache, each read would be a fetch.
        #expect(origin.requestCount * 2 < tally.reads)
    }
}
