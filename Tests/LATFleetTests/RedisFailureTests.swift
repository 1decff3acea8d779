import Dispatch
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@testable import LATFleet

/// Faults of a Redis, and their effect on callers.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct RedisFailureTests {
    private func get(_ fleet: Fleet, _ budget: RedisBudget = .lookUp) async throws -> FleetError {
        try await fleetError { try await fleet.redis.call(RedisCommand("GET", ["k"]), budget) }
    }

    @Test func pausedServerCostsBudgetUntilBreakerOpens() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration { $0.breakerPause = .seconds(60) }) { fleet in
            server.pause()
            for _ in 0..<5 {
                let error = try await get(fleet)
                #expect(error.kind == .timeout)
            }
            #expect(fleet.status.breaker == .open)
            for _ in 0..<1000 {
                let error = try await get(fleet)
                #expect(error.kind == .unavailable)
            }
            let counters = fleet.status.counters
            #expect(counters["redis.timeouts"] == 5 && counters["redis.unavailable"] == 1000)
            server.resume()
        }
    }

    @Test func resumedServerIsUsedAgain() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration { $0.breakerPause = .milliseconds(50) }) { fleet in
            try await fleet.redis.set("k", "v")
            server.pause()
            while fleet.status.breaker == .closed { _ = try await get(fleet) }
            server.resume()
            try await eventually("a closed breaker") { fleet.status.breaker == .closed }
            #expect(try await fleet.redis.get("k").text == "v")
        }
    }

    @Test func pausedServerIsNoticedWithoutCommands() async throws {
        let server = try await RedisServer()
        let quick = server.configuration {
            $0.heartbeat = .milliseconds(50)
            $0.connectTimeout = .milliseconds(200)
        }
        try await withFleet(quick) { fleet in
            server.pause()
            try await eventually("a lost connection") { fleet.status.state != .ready }
            server.resume()
            try await eventually("a new connection") {
                fleet.status.state == .ready && fleet.status.connectionCount > 1
            }
        }
    }

    @Test func slowServerIsLeftAlone() async throws {
        // Each answer comes after its command has timed out.
        let isLate = DispatchSemaphore(value: 0)
        let fleetBox = Box<Fleet?>(nil)
        let server = try FakeRedis { words, _ in
            switch words[0] {
            case "GET":
                isLate.wait()
                return "$-1\r\n"
            case "PING":
                while fleetBox.value?.status.breaker == .halfOpen { usleep(1_000) }
                return "+PONG\r\n"
            default: return FakeRedis.usual(words)
            }
        }
        var configuration = server.configuration
        configuration.lookUpBudget = .milliseconds(10)
        configuration.breakerPause = .milliseconds(100)
        let fleet = try Fleet(configuration)
        fleetBox.change { $0 = fleet }
        defer { fleetBox.change { $0 = nil } }
        try await fleet.connect(within: .seconds(10))
        let start = ContinuousClock.now
        for _ in 0..<5 {
            let error = try await get(fleet)
            #expect(error.kind == .timeout)
            isLate.signal()
        }
        // Answers that come too late, even to probes, do not make commands available again.
        for _ in 0..<100 {
            let error = try await get(fleet)
            #expect(error.kind == .unavailable)
            try await Task.sleep(for: .milliseconds(5))
        }
        // Five commands, and the probes, whose pauses double.
        var probes = 0
        var end = start
        while end < .now {
            end += .milliseconds(min(100 << probes, 30_000))
            probes += 1
        }
        #expect(fleet.status.counters["redis.timeouts"] ?? 0 <= 5 + probes)
        await fleet.shutdown()
    }

    @Test func killedServerFailsNothingButLookUps() async throws {
        let server = try await RedisServer(.port)
        try await withFleet(server.configuration()) { fleet in
            try await fleet.redis.set("k", "v")
            server.kill()
            try await eventually("a noticed loss") { fleet.status.state != .ready }
            let error = try await get(fleet)
            #expect([.unavailable, .connectionLost, .timeout].contains(error.kind), "\(error)")
            try await server.startAgain()
            try await fleet.connect(within: .seconds(20))
            #expect(try await fleet.redis.get("k").isNone, "an empty Redis came back")
            #expect(fleet.status.lastError == nil)
        }
    }

    @Test func commandsInFlightEndWithTheConnection() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let waiting = Task {
                try await fleet.redis.call(RedisCommand("BLPOP", ["nothing", "0"]), .time(.seconds(60)))
            }
            try await eventually("a blocked client") { try server.cli("INFO", "clients").contains("blocked_clients:1") }
            server.kill()
            let error = try await fleetError { try await waiting.value }
            #expect(error.kind == .connectionLost, "\(error)")
        }
    }

    @Test func fullServerStillAnswersLookUps() async throws {
        let server = try await RedisServer(.socket, ["--maxmemory-policy", "noeviction"])
        let warnings = Box<[FleetError.Kind]>([])
        try await withFleet(
            server.configuration { $0.warningHandler = { error in warnings.change { $0.append(error.kind) } } }
        ) {
            fleet in
            try await fleet.redis.set("k", "v")
            try server.cli("CONFIG", "SET", "maxmemory", "1")
            for _ in 0..<20 {
                let error = try await fleetError { try await fleet.redis.set("other", "x") }
                #expect(error.kind == .full)
            }
            #expect(try await fleet.redis.get("k").text == "v")
            #expect(fleet.status.breaker == .closed)
            try await eventually("one warning") { warnings.value == [.full] }
        }
    }

    @Test func replicaIsReadAndReported() async throws {
        let primary = try await RedisServer(.port)
        let replica = try await RedisServer(
            .port, ["--replicaof", "127.0.0.1 \(primary.port)", "--masterauth", RedisServer.password])
        try primary.cli("SET", "k", "v")
        try await withFleet(replica.configuration()) { fleet in
            try await eventually("the replica's copy") { try await fleet.redis.get("k").text == "v" }
            #expect(fleet.status.isReplica)
            #expect(try await fleetError { try await fleet.redis.set("k", "w") }.kind == .readOnly)
            try await eventually("reading goes on") { (try? await fleet.redis.get("k").text) == "v" }
        }
    }

    @Test func demotedPrimaryIsLeftForTheNextOne() async throws {
        let first = try await RedisServer(.port)
        let second = try await RedisServer(.port)
        try await withFleet(first.configuration()) { fleet in
            try await fleet.redis.set("k", "v")
            try first.cli("CONFIG", "SET", "masterauth", RedisServer.password)
            try first.cli("REPLICAOF", "127.0.0.1", "\(second.port)")
            #expect(try await fleetError { try await fleet.redis.set("k", "w") }.kind == .readOnly)
            try await eventually("a new look at the role") {
                fleet.status.isReplica && fleet.status.connectionCount == 2
            }
        }
    }

    @Test func loadingServerIsWaitedFor() async throws {
        let server = try await RedisServer()
        try server.cli("DEBUG", "POPULATE", "400", "key", "10")
        try server.cli("SAVE")
        server.kill()
        try await server.startAgain(
            ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"], isAwaited: false)
        try await server.awaitLog("Loading RDB")
        let fleet = try Fleet(server.configuration { $0.breakerPause = .milliseconds(50) })
        let error = try await fleetError { () -> RedisValue in
            while true {
                do throws(FleetError) {
                    return try await fleet.redis.call(RedisCommand("GET", ["key:1"]), .time(.seconds(5)))
                } catch {
                    if ![.unavailable, .connectionLost].contains(error.kind) { throw error }
                }
            }
        }
        #expect(error.kind == .notReady, "\(error)")
        try server.cli("CONFIG", "SET", "key-load-delay", "0")
        try await eventually("the loaded data") { (try? await fleet.redis.get("key:1").isNone) == false }
        await fleet.shutdown()
    }

    @Test func emptiedServerOnlyMisses() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await fleet.redis.set("k", "v")
            try server.cli("FLUSHALL")
            #expect(try await fleet.redis.get("k").isNone)
            #expect(fleet.status.connectionCount == 1)
        }
    }

    @Test func cancelledTaskLeavesAtOnce() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let waiting = Task {
                try await fleet.redis.call(RedisCommand("BLPOP", ["list", "0"]), .time(.seconds(600)))
            }
            try await eventually("a blocked client") { try server.cli("INFO", "clients").contains("blocked_clients:1") }
            waiting.cancel()
            #expect(try await fleetError { try await waiting.value }.kind == .cancelled)
            // The next command does not get the answer that nobody waits for.
            let next = Task { try await fleet.redis.get("k") }
            try server.cli("SET", "k", "mine")
            try server.cli("LPUSH", "list", "stray")
            #expect(try await within { try await next.value }.text == "mine")
            let before = fleet.status.counters["redis.commands"]
            let unsent = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await fleet.redis.get("k")
            }
            #expect(try await fleetError { try await unsent.value }.kind == .cancelled)
            #expect(fleet.status.counters["redis.commands"] == before)
        }
    }

    @Test func lateAnswerGoesToNobody() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration { $0.breakerThreshold = 1000 }) { fleet in
            for number in 0..<200 { try await fleet.redis.set("k\(number)", "\(number)") }
            for number in 0..<200 {
                if number == 20 { server.pause() }
                if number == 40 { server.resume() }
                let value = try? await fleet.redis.call(
                    RedisCommand("GET", [.text("k\(number)")]), .time(.milliseconds(3)))
                if let value { #expect(value.text == "\(number)") }
            }
            #expect(try await fleet.redis.get("k7").text == "7")
            #expect(fleet.status.connectionCount == 1 && fleet.status.counters["redis.timeouts"] ?? 0 >= 20)
        }
    }

    @Test func replyCutInTheMiddleIsALostConnection() async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("*4\r\n$7\r\nversion\r\n$3\r\n7.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n".utf8))
            // On a busy machine the connection is asked for more than once whether it is alive.
            while case let command = connection.read(), !command.isEmpty {
                let isPing = String(decoding: command, as: UTF8.self).contains("PING")
                connection.write(Array((isPing ? "+PONG\r\n" : "$100\r\nhalf of it").utf8))
                if !isPing { break }
            }
        }
        let fleet = try Fleet(url: "redis://127.0.0.1:\(server.port)")
        try await fleet.connect(within: .seconds(10))
        #expect(try await get(fleet, .time(.seconds(10))).kind == .connectionLost)
        await fleet.shutdown()
    }

    @Test func replyNobodyAskedForEndsTheConnection() async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(
                Array("*4\r\n$7\r\nversion\r\n$3\r\n7.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n+stray\r\n".utf8))
            connection.drain()
        }
        var configuration = try FleetConfiguration(url: "redis://127.0.0.1:\(server.port)")
        configuration.warningHandler = { _ in }
        let fleet = try Fleet(configuration)
        try await eventually("the refusal") { fleet.status.lastError?.contains("sent an unexpected reply") == true }
        await fleet.shutdown()
    }

    @Test func timeoutWhileConnectingKeepsTheReason() async throws {
        let server = try FakeRedis { _, connection in
            connection.number == 1 ? "-LOADING Redis is loading the dataset in memory\r\n" : ""
        }
        try await withFleet(server.configuration, isConnected: false) { fleet in
            try await eventually("a second connection") { server.connectionCount == 2 }
            let error = try await fleetError { try await fleet.connect(within: .milliseconds(50)) }
            #expect(error.kind == .notReady, "\(error)")
            #expect(fleet.status.lastError?.contains("is loading") == true, "\(fleet.status.lastError ?? "none")")
        }
    }

    @Test func connectTriesAgainAfterALostConnection() async throws {
        let server = try FakeRedis { words, connection in
            words[0] == "PING" && connection.number == 1 ? nil : FakeRedis.usual(words)
        }
        try await withFleet(server.configuration, isConnected: false) { fleet in
            try await fleet.connect(within: .seconds(20))
            #expect(server.connectionCount == 2 && fleet.status.state == .ready)
        }
    }
}
