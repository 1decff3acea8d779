import FoundationEssentials
import TestSupport
import Testing

@testable import LATFleet

/// Commands, pipelines and scripts against a real Redis.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct RedisCommandTests {
    @Test func valuesOfAllSizesRoundTrip() async throws {
        let server = try await RedisServer()
        // No part of more than 2 KiB repeats within the pattern, so that a larger piece at a wrong place is seen.
        let pattern = Data((0..<1_000_003).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8 ^ $0 >> 16) })
        try await withFleet(server.configuration()) { fleet in
            for size in [0, 1, 16_383, 65_536, 1_000_003, 64 << 20] {
                var data = Data(capacity: size)
                while data.count < size { data += pattern.prefix(size - data.count) }
                _ = try await fleet.redis.call(RedisCommand("SET", ["k", .data(data)]), .time(.seconds(30)))
                let back = try await fleet.redis.call(RedisCommand("GET", ["k"]), .time(.seconds(30)))
                #expect(back.data == data)
            }
            #expect(try await fleet.redis.get("missing").isNone)
        }
    }

    @Test func pipelineKeepsOrderAndFailures() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            var commands = (0..<10_000).map { RedisCommand("SET", [.text("k\($0)"), .integer(Int64($0))]) }
            commands.insert(RedisCommand("LPUSH", ["k0", "x"]), at: 1)
            let replies = try await fleet.redis.pipeline(commands, .time(.seconds(30)))
            #expect(replies.count == 10_001 && replies[0] == .status("OK") && replies[10_000] == .status("OK"))
            guard case .failure("WRONGTYPE", _) = replies[1] else { throw Overdue(description: "\(replies[1])") }
            let keys = (0..<10_000).map { RedisArgument.text("k\($0)") }
            let values = try await fleet.redis.call(RedisCommand("MGET", keys), .time(.seconds(30)))
            #expect(values.array?.map(\.integer) == (0..<10_000).map { Int64($0) })
            #expect(try await fleet.redis.pipeline([], .lookUp).isEmpty)
        }
    }

    @Test func manyTasksShareOneConnection() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<500 {
                    group.addTask {
                        try await fleet.redis.set("t\(number)", "\(number)")
                        let value = try await fleet.redis.get("t\(number)")
                        #expect(value.text == "\(number)")
                    }
                }
                try await group.waitForAll()
            }
            #expect(fleet.status.connectionCount == 1 && fleet.status.latency != nil)
            #expect(
                try server.cli("CLIENT", "LIST").split(separator: "\n").count { $0.contains("name=lat-fleet") } == 1)
        }
    }

    /// A large command is sent in pieces: the first from its caller's thread, the rest from the engine's.
    @Test(arguments: [RedisServer.Place.socket, .port])
    func largeCommandsAndSmallOnesStayInOrder(_ place: RedisServer.Place) async throws {
        let server = try await RedisServer(place)
        try await withFleet(server.configuration()) { fleet in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<8 {
                    group.addTask {
                        for turn in 0..<20 {
                            let size = task < 2 ? 3_000_000 : task + turn
                            let value = Data(repeating: UInt8(task * 20 + turn), count: size)
                            let key = RedisArgument.text("t\(task)")
                            _ = try await fleet.redis.call(
                                RedisCommand("SET", [key, .data(value)]), .time(.seconds(60)))
                            let back = try await fleet.redis.call(RedisCommand("GET", [key]), .time(.seconds(60)))
                            #expect(back.data == value)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(fleet.status.connectionCount == 1)
        }
    }

    @Test func scriptRunsByDigestAndWholeWhenUnknown() async throws {
        let server = try await RedisServer()
        let script = RedisScript("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
        try await withFleet(server.configuration()) { fleet in
            let run = { try await fleet.redis.run(script, keys: ["n"], [.integer(2)], .time(.seconds(10))) }
            #expect(try await run() == .integer(2))
            #expect(try await run() == .integer(4))
            try server.cli("SCRIPT", "FLUSH")
            #expect(try await run() == .integer(6))
            let calls = try server.cli("INFO", "commandstats")
            #expect(calls.contains("cmdstat_eval:calls=2,") && calls.contains("cmdstat_evalsha:calls=3,"))
        }
    }

    @Test func failureOfACommandIsThrown() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await fleet.redis.set("text", "x")
            let error = try await fleetError {
                try await fleet.redis.call(RedisCommand("INCR", ["text"]), .time(.seconds(10)))
            }
            #expect(error.kind == .refused(code: "ERR") && error.message.contains("INCR"))
            #expect(fleet.status.breaker == .closed && fleet.status.lastError == nil)
        }
    }

    @Test func databaseAndPrefixSeparateFleets() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration { $0.database = 3 }) { fleet in
            try await fleet.redis.set(fleet.key("cache", "a"), "three")
            #expect(try server.cli("-n", "3", "GET", "lat:cache:a") == "three")
            #expect(fleet.channel("cache") == "lat@3:cache")
        }
        let error = try await fleetError { try await connectError(server.configuration { $0.database = 99 }) }
        #expect(error.kind == .configuration && error.message.contains("no database 99"), "\(error)")
    }

    private func connectError(_ configuration: FleetConfiguration) async throws {
        let fleet = try Fleet(configuration)
        try await fleet.connect()
    }
}
