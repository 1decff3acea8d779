import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATFleet

/// Values in Redis that no process of the fleet writes: a clock that was set back, or a stranger.
struct FleetBoundsTests {
    private static let terms = LimitTerms(
        [
            SharedLimit(
                name: "m",
                limits: {
                    var limits = RequestLimits()
                    limits.rate = .init(perSecond: 2, burst: 1)
                    limits.maxConcurrentRequests = 3
                    return limits
                }())
        ], host: ""
    ) { "\($0):\($1)" }

    private func answer(_ numbers: [Int64], want: Int) -> LimitQueueMachine.Answer? {
        let demand = LimitQueueMachine.Demand(want: want, used: 0, returned: 0)
        return LimitScript.answer(.array(numbers.map { .integer($0) }), to: demand, Self.terms)?.answer
    }

    // MARK: Replies of the limits

    @Test func timesOfAReplyAreHeldWithinTheLimits() {
        let late = answer([1, .max, 0, .max, -5], want: 3)
        #expect(late?.delays == [LimitScript.horizon, .zero])
        #expect(late?.next == .milliseconds(500), "one token of the rate")
        #expect(answer([1, .min, 0], want: 1)?.next == LimitScript.shortestPause, "no queue asks without a pause")
        #expect(answer([1, 0, 0, 7], want: 1) == .init(delays: [.microseconds(7)], next: .zero, isFull: false))
    }

    @Test func replyThatGrantsMoreThanWasAskedIsNone() {
        #expect(answer([1, 0, 0, 0, 0], want: 1) == nil)
        #expect(answer([1, 0], want: 1) == nil)
        let demand = LimitQueueMachine.Demand(want: 1, used: 0, returned: 0)
        let unreadable = RedisValue.array([.integer(1), .integer(0), .integer(0), .none])
        #expect(LimitScript.answer(unreadable, to: demand, Self.terms) == nil)
    }

    @Test func pausesOfCircuitsAreBounded() {
        #expect(FleetCircuits.believed(.max) == FleetCircuits.longestPause)
        #expect(FleetCircuits.believed(1_000) == .milliseconds(1))
        for none: Int64? in [nil, 0, -1, .min] { #expect(FleetCircuits.believed(none) == nil) }
    }

    @Test func timesOfFollowersDoNotOverflow() {
        let fields: [RedisValue] = [.data(Data("host".utf8)), .data(Data("1|5|\(Int64(1) << 40)|".utf8))]
        for time: Int64 in [.min, .max, 0] { _ = FleetTable.following(fields, at: time) }
        #expect(FleetTable.following(fields, at: 10).count == 1)
    }

    @Test(arguments: [
        "1 99999999999999999999 2 0-0 0 9 id 1 10 e 0 m", "1 18446744073709551615 2 0-0 0 9 id 1 10 e 0 m",
        "1 5 2 0-0 0 9 id 1 99999999 e 0 m", "1 5 2 0-0 0 9 id 0 99999999 e 0 m",
    ])
    func headBeyondTheBoundsIsNone(_ head: String) {
        #expect(FleetEntryHead(Data(head.utf8)) == nil)
        #expect(FleetEntryHead(Data("1 5 2 0-0 0 9 id 1 10 e 0 m".utf8)) != nil)
    }

    // MARK: A real server

    /// A crashed process' place whose lease ends an hour from now, as after the clock was set back.
    @Test(.needsRedis, .timeLimit(.minutes(1)))
    func placeFromTheFutureStopsNoCall() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let key = "lat:limit:default:manager:places"
        try redis.cli("HSET", key, "dead 1", "1 99999999999999999 0", "dead 2", "1 99999999999999999 99999999999999999")
        try await withManagers(1, redis) { configuration, _ in
            configuration.limits.maxConcurrentRequests = 1
        } _: { fleet in
            #expect(try await fleet[0].send(HTTPRequest("GET", server.url("/"))).status == 200)
            #expect(fleet.counter("limits.alone") == 0)
            try await eventually("no place in use") { try redis.cli("EXISTS", key) == "0" }
        }
    }

    @Test(.needsRedis, .timeLimit(.minutes(1)), arguments: ["places", "rate"])
    func limitKeyOfAnotherTypeStopsNoCall(_ part: String) async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        try redis.cli("RPUSH", "lat:limit:default:manager:\(part)", "x")
        try await withManagers(1, redis) { configuration, _ in
            configuration.limits.maxConcurrentRequests = 1
            configuration.limits.rate = .init(perSecond: 1_000, burst: 10)
        } _: { fleet in
            let status = try await fleet[0].send(HTTPRequest("GET", server.url("/"))).status
            #expect(status == 200)
            #expect(fleet.counter("limits.granted") == 1 && fleet.counter("limits.alone") == 0)
        }
    }

    /// One message, or an entry from the future, opens a circuit for no longer than the pause of the process.
    @Test(.needsRedis, .timeLimit(.minutes(1)))
    func circuitOfAStrangerIsOpenForTheOwnPause() async throws {
        let redis = try await RedisServer()
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        try await withManagers(1, redis) { configuration, _ in
            configuration.circuitBreaker = .init(failures: 2, pause: .milliseconds(50))
        } _: { fleet in
            let channel = fleet.fleets[0].channel("circuit:default")
            try await eventually("a subscription") { try redis.cli("PUBSUB", "NUMSUB", channel).hasSuffix("1") }
            let circuit = server.url("/").dropFirst(7).prefix { $0 != "/" }
            for host in [String(circuit), "127.0.0.1"] {
                try redis.cli("HSET", "lat:circuit:default", host, "99999999999999999 50000 stranger")
                try redis.cli("PUBLISH", channel, "stranger opened 9223372036854775807 \(host)")
            }
            try await eventually("the news") { fleet[0].fleet?.circuitsHeard ?? 0 >= 2 }
            try await eventually("a response") {
                (try? await fleet[0].send(HTTPRequest("GET", server.url("/"))).status) == 200
            }
        }
    }

    @Test(.needsRedis, .timeLimit(.minutes(1)))
    func leaseFromTheFutureCountsAsEnded() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.configuration { $0.lookUpBudget = .seconds(20) }) { fleet in
            func lease(_ value: String, _ life: String) async throws -> Int64? {
                try redis.cli("SET", "lease", value, "PX", life)
                return try await fleet.redis.run(
                    FleetCacheScripts.lease, keys: ["lease"], ["token", .integer(1_000)], .lookUp
                ).array?.first?.integer
            }
            let kinds = [
                try await lease("99999999999999999 dead", "3600000"), try await lease("5 holder", "3000"),
                try await lease("pass", "3600000"), try await lease("pass", "3000"),
            ]
            // Granted; held by a present holder; granted; passed on.
            #expect(kinds == [1, 0, 1, 2])
        }
    }
}

@Suite(.enabled(if: RedisReader.isAvailable, "needs --traits Fleet"))
struct RedisReplySizeTests {
    private func error(_ pieces: [String]) throws -> String? {
        let reader = try #require(RedisReader(sizeLimit: 128 << 20))
        let error = #expect(throws: FleetError.self) {
            for piece in pieces {
                var piece = piece
                _ = try piece.withUTF8 { try reader.read(UnsafeRawBufferPointer($0)) }
            }
        }
        return error.map { "\($0)" }
    }

    @Test func elementsOfInnerArraysCount() throws {
        let inner = "*600000\r\n" + String(repeating: ":1\r\n", count: 600_000)
        #expect(try error(["*2\r\n", inner, inner])?.contains("more than 1048576 elements") == true)
    }

    @Test func depthOfArraysIsBounded() throws {
        #expect(try error([String(repeating: "*1\r\n", count: 100_000)]) != nil)
    }

    @Test func lineWithoutEndIsRefused() throws {
        let piece = String(repeating: "x", count: 40_000)
        #expect(try error(["+" + piece, piece])?.contains("a line of more than 65536 bytes") == true)
    }

    /// What an element costs beyond its own bytes.
    @Test func elementsTakeLittleMemory() throws {
        #expect(MemoryLayout<RedisValue>.stride <= 24)
        let count = RedisReader.elementLimit
        let reader = try #require(RedisReader(sizeLimit: 128 << 20))
        var reply = "*\(count)\r\n" + String(repeating: ":1\r\n", count: count)
        let values = try reply.withUTF8 { try reader.read(UnsafeRawBufferPointer($0)) }
        #expect(values.count == 1 && values[0].array?.count == count)
        #expect(values[0].array?.capacity ?? .max <= 2 * count)
    }
}
