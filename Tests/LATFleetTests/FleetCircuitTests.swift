import Dispatch
import LATNetworking
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATFleet

/// Circuits that processes share.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct FleetCircuitTests {
    private static func fail(_ manager: CentralRequestManager, _ server: MockServer, times: Int = 2) async throws {
        for _ in 0..<times { #expect(try await manager.send(HTTPRequest("GET", server.url("/"))).status == 503) }
    }

    /// Waits until this many managers get the news of circuits.
    private static func awaitSubscriptions(_ count: Int, _ redis: RedisServer, _ fleet: FleetManagers) async throws {
        let channel = fleet.fleets[0].channel("circuit:default")
        try await eventually("subscriptions") { try redis.cli("PUBSUB", "NUMSUB", channel).hasSuffix("\(count)") }
    }

    private static func isOpen(_ manager: CentralRequestManager, _ server: MockServer) async -> Bool {
        do {
            _ = try await manager.send(HTTPRequest("GET", server.url("/look")))
            return false
        } catch {
            return (error as? NetworkError)?.kind == .circuitOpen
        }
    }

    @Test func openCircuitOpensTheOthers() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        let settings = { @Sendable (configuration: inout CentralRequestManager.Configuration, _: Fleet) in
            configuration.circuitBreaker = .init(failures: 2, pause: .seconds(600))
        }
        try await withManagers(3, redis, settings) { fleet in
            try await Self.fail(fleet[0], server)
            // A process that has just subscribed may hear it twice: from the message, and as it reads what is open.
            try await eventually("the news") {
                fleet.managers.dropFirst().allSatisfy { $0.fleet?.circuitsHeard ?? 0 >= 1 }
            }
            for manager in fleet.managers { #expect(await Self.isOpen(manager, server)) }
            #expect(server.requests.count == 2, "one process' failures are enough")
            #expect(fleet[0].fleet?.circuitsOpened == 1)
            // A process that comes later reads what is open.
            try await withManagers(1, redis, settings) { late in
                try await eventually("what is open") { late[0].fleet?.circuitsHeard ?? 0 >= 1 }
                #expect(await Self.isOpen(late[0], server))
            }
        }
    }

    @Test func circuitMayStayOpenForEver() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        try await withManagers(2, redis) { configuration, _ in
            configuration.circuitBreaker = .init(failures: 2, pause: .seconds(Int64.max))
        } _: { fleet in
            try await Self.fail(fleet[0], server)
            try await eventually("the news") { fleet[1].fleet?.circuitsHeard ?? 0 >= 1 }
            for manager in fleet.managers { #expect(await Self.isOpen(manager, server)) }
        }
    }

    @Test func oneProcessProbesAndItsSuccessClosesAll() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        let isBroken = Box(true)
        let arrivals = Box<[MonotonicTime]>([])
        server.fallback { _ in
            guard !isBroken.value else { return .status(503) }
            arrivals.change { $0.append(.now) }
            return .text("ok").delayed(by: .seconds(2))
        }
        try await withManagers(3, redis) { configuration, _ in
            configuration.circuitBreaker = .init(failures: 2, pause: .milliseconds(500))
        } _: { fleet in
            try await Self.awaitSubscriptions(3, redis, fleet)
            try await Self.fail(fleet[0], server)
            try await eventually("the news") {
                fleet.managers.dropFirst().allSatisfy { $0.fleet?.circuitsHeard ?? 0 >= 1 }
            }
            isBroken.change { $0 = false }
            // All of them try until the circuit lets them through.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for manager in fleet.managers {
                    group.addTask {
                        try await eventually("a closed circuit") {
                            do {
                                return try await manager.send(HTTPRequest("GET", server.url("/"))).status == 200
                            } catch let error as NetworkError where error.kind == .circuitOpen {
                                return false
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let times = arrivals.value.sorted()
            #expect(times.count == 3)
            // No other request was sent before the probe was answered.
            #expect(times[1].nanoseconds - times[0].nanoseconds >= 2_000_000_000)
            #expect(fleet.counter("circuits.probes") == 1)
            try await eventually("an empty Redis") { try redis.cli("KEYS", "lat:circuit:*").isEmpty }
        }
    }

    /// The others wait for the end of a probe for 30 s, so it must not be lost.
    @Test func endOfAProbeReachesARedisThatDidNotAnswer() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        let (isBroken, stopsRedis) = (Box(true), Box(true))
        server.fallback { _ in
            guard !isBroken.value else { return .status(503) }
            // Redis stops before the probe is answered.
            if stopsRedis.value { redis.pause() }
            stopsRedis.change { $0 = false }
            return .text("ok")
        }
        try await withManagers(2, redis, patience: .seconds(2)) { configuration, _ in
            configuration.circuitBreaker = .init(failures: 2, pause: .milliseconds(500))
        } _: { fleet in
            try await Self.awaitSubscriptions(2, redis, fleet)
            try await Self.fail(fleet[0], server)
            try await eventually("an open circuit in the other") { fleet[1].fleet?.circuitsHeard ?? 0 >= 1 }
            isBroken.change { $0 = false }
            try await eventually("an answered probe") { await !Self.isOpen(fleet[0], server) }
            try await eventually("an end that Redis did not take in time") { fleet.counter("redis.timeouts") > 0 }
            redis.resume()
            try await eventually("a closed circuit in the other") { await !Self.isOpen(fleet[1], server) }
            #expect(fleet.counter("circuits.probes") <= 1)
        }
    }

    @Test func withoutARedisEachProcessHasItsCircuit() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        let isBroken = Box(true)
        server.fallback { _ in isBroken.value ? .status(503) : .text("ok") }
        try await withManagers(2, redis) { configuration, _ in
            configuration.circuitBreaker = .init(failures: 2, pause: .milliseconds(200))
        } _: { fleet in
            redis.kill()
            try await eventually("a noticed loss") {
                fleet.managers.allSatisfy { $0.fleet?.status.state != .ready }
            }
            try await Self.fail(fleet[0], server)
            #expect(try await fleet[1].send(HTTPRequest("GET", server.url("/"))).status == 503)
            isBroken.change { $0 = false }
            try await eventually("a probe") { await !Self.isOpen(fleet[0], server) }
            #expect(fleet.counter("circuits.heard") == 0)
        }
    }

    @Test func managersOfOtherNamesShareNothing() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        let number = Box(0)
        try await withManagers(2, redis) { configuration, fleet in
            configuration.circuitBreaker = .init(failures: 2, pause: .seconds(600))
            configuration.join(fleet, as: "service \(number.value)")
            number.change { $0 += 1 }
        } _: { fleet in
            try await Self.fail(fleet[0], server)
            try await eventually("an open circuit in Redis") { try redis.cli("KEYS", "lat:circuit:*") != "" }
            #expect(try redis.cli("KEYS", "lat:circuit:*") == "lat:circuit:service 0")
            #expect(await !Self.isOpen(fleet[1], server))
        }
    }

    @Test func changesOfACircuitReachRedisInOrder() async throws {
        let changes = Box<[String]>([])
        let redis = try FakeRedis { words, _ in
            guard words[0] == "EVALSHA" else { return FakeRedis.usual(words) }
            changes.change { $0.append("\(words[5]) \(words[8])") }
            // The first one has to be repeated.
            return changes.value.count == 1 ? "-ERR not now\r\n" : ":1\r\n"
        }
        try await withFleet(redis.configuration) { fleet in
            let circuits = FleetCircuits(fleet, name: "default", identity: "me")
            circuits.probeEnded("host", isClosed: true)
            circuits.opened("host", for: .seconds(60))
            try await eventually("all changes") { changes.value.count >= 3 }
            #expect(changes.value == ["host closed", "host closed", "host 60000000"])
            // The next one is sent at once again.
            circuits.probeEnded("host", isClosed: false)
            try await eventually("the next change") { changes.value.last == "host undecided" }
        }
    }

    @Test func messageIsNewerThanWhatIsRead() async throws {
        let subscriber = Box<FakeRedis.Connection?>(nil)
        let isClosed = DispatchSemaphore(value: 0)
        let channel = "lat@0:circuit:default"
        let redis = try FakeRedis { words, connection in
            switch words[0] {
            case "SUBSCRIBE": subscriber.change { $0 = connection }
            case "EVALSHA":
                // The reply will say that two circuits are open. Before it arrives, a message closes one of them.
                subscriber.value?.write(FakeRedis.message(channel, "other closed 0 one"))
                _ = isClosed.wait(timeout: .now() + 30)
                return "*4\r\n$3\r\none\r\n:60000000\r\n$3\r\ntwo\r\n:60000000\r\n"
            default: break
            }
            return FakeRedis.usual(words)
        }
        try await withFleet(redis.configuration) { fleet in
            let reports = Box<[String: [CircuitReport]]>([:])
            let circuits = FleetCircuits(fleet, name: "default", identity: "me")
            circuits.observe { circuit, report in
                reports.change { $0[circuit, default: []].append(report) }
                if report == .closed { isClosed.signal() }
            }
            try await eventually("the other circuit") { reports.value["two"] != nil }
            #expect(reports.value == ["one": [.closed], "two": [.opened(.seconds(60))]])
            withExtendedLifetime(circuits) {}
        }
    }
}
