import LATNetworking
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATFleet

/// Rates that hold for all processes together.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct FleetRateTests {
    /// When the requests of a server arrived.
    private final class Arrivals: Sendable {
        private let times = Box<[MonotonicTime]>([])

        var all: [MonotonicTime] { times.value }

        func note() { times.change { $0.append(.now) } }
    }

    private static func server(_ arrivals: Arrivals) throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in
            arrivals.note()
            return .text("ok")
        }
        return server
    }

    @Test func rateHoldsOverAllManagers() async throws {
        let redis = try await RedisServer()
        let arrivals = Arrivals()
        let server = try Self.server(arrivals)
        try await withManagers(4, redis) { configuration, _ in
            configuration.limits.rate = .init(perSecond: 20, burst: 5)
        } _: { fleet in
            let start = MonotonicTime.now
            try await fleet.callAll(server.url("/"), times: 15)
            #expect(arrivals.all.count == 60)
            // 5 at once, then one each 50 ms: by the clock of Redis, which is that of this machine.
            let last = try #require(arrivals.all.max())
            #expect(last.nanoseconds - start.nanoseconds >= 55 * 50_000_000)
            #expect(fleet.counter("limits.granted") == 60)
            #expect(fleet.counter("limits.alone") == 0)
            #expect(fleet[0].fleet?.limitsGranted == 15)
        }
    }

    /// A real nginx that tells 20 requests per second, and lets in bursts of 40.
    @Test(.needs("nginx")) func fourProcessesKeepOneToldQuota() async throws {
        let redis = try await RedisServer()
        let server = try Nginx(
            location: """
                limit_req zone=all burst=40 nodelay; limit_req_status 429;
                add_header RateLimit-Policy '"all";q=20;w=1' always; add_header RateLimit '"all";r=20;t=1' always;
                """, http: "limit_req_zone $server_port zone=all:1m rate=20r/s;")
        try await server.waitUntilReady()
        let arguments = [
            BuiltProgram.path("FleetProcess"), redis.socketPath, RedisServer.password, server.url + "small", "24",
            "told",
        ]
        let processes = try (0..<4).map { _ in try ChildProcess("env", arguments) }
        // 100 requests, of which each process alone would send 18 a second.
        try await eventually("the ends of all") { processes.allSatisfy(\.hasEnded) }
        #expect(processes.map(\.output) == Array(repeating: "refused 0, granted 24\n", count: 4))
    }

    @Test func eachHostHasItsRate() async throws {
        let redis = try await RedisServer()
        let (one, other) = (Arrivals(), Arrivals())
        let servers = [try Self.server(one), try Self.server(other)]
        try await withManagers(2, redis) { configuration, _ in
            configuration.limits.ratePerHost = .init(perSecond: 10, burst: 1)
        } _: { fleet in
            let start = MonotonicTime.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                for manager in fleet.managers {
                    for _ in 0..<6 {
                        for server in servers {
                            group.addTask { _ = try await manager.startRequest("GET", server.url("/")) }
                        }
                    }
                }
                try await group.waitForAll()
            }
            for arrivals in [one, other] {
                let last = try #require(arrivals.all.max())
                #expect(arrivals.all.count == 12 && last.nanoseconds - start.nanoseconds >= 11 * 100_000_000)
            }
            #expect(fleet.counter("limits.granted") == 24)
            // The rate of each host has a key, which expires when it is no longer needed.
            let keys = try redis.cli("KEYS", "lat:limit:*").split(separator: "\n")
            #expect(keys.count <= 2 && keys.allSatisfy { $0.contains("rate http") }, "\(keys)")
        }
    }

    /// The rule itself, exactly and on the clock of Redis: in no span of time are more starts granted than the rate and the
    /// burst allow.
    @Test(arguments: [1, 3, 10])
    func grantsKeepTheRule(burst: Int64) async throws {
        let redis = try await RedisServer()
        let terms = LimitTerms(
            [SharedLimit(name: "manager", limits: Self.limits(perSecond: 500, burst: Int(burst)))], host: "h"
        ) { "lat:\($0):\($1)" }
        #expect(terms.rules == [.rate(period: 2_000, burst: burst)])
        let starts = Box<[Int64]>([])
        try await withFleet(redis.configuration { $0.lookUpBudget = .seconds(20) }) { fleet in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for queue in 0..<4 {
                    group.addTask {
                        for number in 0..<40 {
                            let demand = LimitQueueMachine.Demand(want: 1 + (number + queue) % 7, used: 0, returned: 0)
                            let value = try await fleet.redis.run(
                                LimitScript.script, keys: terms.keys,
                                LimitScript.arguments(demand, terms, queue: "\(queue)", channel: "c"), .lookUp)
                            let (time, answer) = try #require(LimitScript.answer(value, to: demand, terms))
                            #expect(answer.delays.count <= demand.want && !answer.isFull)
                            #expect(answer.delays.count == demand.want || answer.next > .zero)
                            #expect(answer.delays.allSatisfy { $0 <= LimitScript.horizon })
                            starts.change { $0 += answer.delays.map { time + $0.microseconds } }
                            if number % 10 == 9 { try await Task.sleep(for: .milliseconds(queue * 10)) }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        let sorted = starts.value.sorted()
        #expect(sorted.count > 50)
        for first in sorted.indices {
            for last in first..<sorted.count {
                let count = Int64(last - first + 1)
                // Each start takes 2 ms of the rate, and its rounding is below 1 µs.
                guard count > burst + (sorted[last] - sorted[first] + count) / 2_000 + 1 else { continue }
                Issue.record("\(count) starts in \(sorted[last] - sorted[first]) µs")
                return
            }
        }
    }

    @Test func returnedTokensAreUsedAgain() async throws {
        let redis = try await RedisServer()
        let limits = Self.limits(perSecond: 0.001, burst: 3)
        let terms = LimitTerms([SharedLimit(name: "m", limits: limits)], host: "") { "lat:\($0):\($1)" }
        try await withFleet(redis.configuration { $0.lookUpBudget = .seconds(20) }) { fleet in
            @Sendable func ask(_ want: Int, _ returned: Int) async throws -> Int {
                let demand = LimitQueueMachine.Demand(want: want, used: 0, returned: returned)
                let arguments = LimitScript.arguments(demand, terms, queue: "l", channel: "c")
                let value = try await fleet.redis.run(LimitScript.script, keys: terms.keys, arguments, .lookUp)
                return try #require(LimitScript.answer(value, to: demand, terms)).answer.delays.count
            }
            #expect(try await ask(5, 0) == 3)
            #expect(try await ask(1, 0) == 0)
            #expect(try await ask(5, 2) == 2)
            #expect(try await ask(5, 0) == 0)
            #expect(try await ask(0, 100) == 0)
            #expect(try await ask(9, 0) == 3, "never more than the burst")
            // A key that somebody has spoiled, or a clock that was set back, does not stop the requests.
            try redis.cli("SET", terms.keys[0], "99999999999999999")
            #expect(try await ask(1, 3) == 1)
            try redis.cli("SET", terms.keys[0], "garbage")
            #expect(try await ask(1, 0) == 1)
        }
    }

    @Test func waitingCallEndsWithItsCancellationOrDeadline() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(Arrivals())
        try await withManagers(2, redis) { configuration, _ in
            configuration.limits.rate = .init(perSecond: 0.001)
        } _: { fleet in
            _ = try await fleet[0].startRequest("GET", server.url("/first"))
            let task = Task { try await fleet[1].startRequest("GET", server.url("/cancelled"), tag: "t") }
            try await eventually("a call that waits") { fleet.counter("limits.waited") > 0 }
            #expect(fleet[1].cancelRequests(.tag("t")) == 1)
            #expect(try await callError { try await task.value }.kind == .cancelled)
            var request = HTTPRequest("GET", server.url("/late"))
            request.deadline = .milliseconds(50)
            let late = try await callError { [request] in try await fleet[1].send(request) }
            #expect(late.kind == .timeout(.deadline), "\(late)")
            #expect(server.requests.map(\.path) == ["/first"])
        }
    }

    @Test func suspendedRedisCostsOnlyTheBudgets() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(Arrivals())
        try await withManagers(
            1, redis, patience: .milliseconds(50), settings: redis.configuration { $0.breakerPause = .seconds(60) }
        ) { configuration, _ in
            configuration.limits.rate = .init(perSecond: 1_000_000, burst: 1_000)
        } _: { fleet in
            redis.pause()
            for _ in 0..<30 { #expect(try await fleet[0].startRequest("GET", server.url("/")).status == 200) }
            let report = try #require(fleet[0].fleet)
            #expect(report.status.breaker == .open && report.limitsAlone == 30)
            #expect(report.status.counters["redis.timeouts"] ?? 0 <= 5, "then nothing is asked any more")
            redis.resume()
        }
    }

    @Test func localLimitHoldsWithoutARedis() async throws {
        let redis = try await RedisServer()
        let arrivals = Arrivals()
        let server = try Self.server(arrivals)
        try await withManagers(1, redis) { configuration, _ in
            configuration.limits.rate = .init(perSecond: 20, burst: 1)
        } _: { fleet in
            redis.kill()
            try await eventually("a noticed loss") { fleet[0].fleet?.status.state != .ready }
            let start = MonotonicTime.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<10 { group.addTask { _ = try await fleet[0].startRequest("GET", server.url("/")) } }
                try await group.waitForAll()
            }
            let last = try #require(arrivals.all.max())
            #expect(last.nanoseconds - start.nanoseconds >= 9 * 49_000_000)
        }
    }

    @Test func emptiedRedisFailsNothing() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(Arrivals())
        try await withManagers(2, redis) { configuration, _ in
            configuration.limits.rate = .init(perSecond: 100, burst: 2)
            configuration.limits.maxConcurrentRequests = 2
        } _: { fleet in
            try await fleet.callAll(server.url("/"), times: 40) {
                for _ in 0..<5 { try redis.cli("FLUSHALL") }
            }
            #expect(fleet.counter("limits.alone") == 0)
        }
    }

    @Test func nothingIsAskedWithoutLimits() async throws {
        let redis = try await RedisServer()
        let server = try Self.server(Arrivals())
        try await withManagers(1, redis) { configuration, fleet in
            configuration.join(fleet, sharing: .limits)
        } _: { fleet in
            let before = fleet.counter("redis.commands")
            for _ in 0..<20 { _ = try await fleet[0].startRequest("GET", server.url("/")) }
            #expect(fleet.counter("redis.commands") == before)
        }
        try await withManagers(1, redis) { configuration, fleet in
            configuration.limits.rate = .init(perSecond: 1_000_000, burst: 1_000)
            configuration.join(fleet, sharing: .circuits)
        } _: { fleet in
            for _ in 0..<20 { _ = try await fleet[0].startRequest("GET", server.url("/")) }
            #expect(fleet.counter("limits.granted") == 0)
        }
    }

    private static func limits(perSecond: Double, burst: Int) -> RequestLimits {
        var limits = RequestLimits()
        limits.rate = .init(perSecond: perSecond, burst: burst)
        return limits
    }

    /// When there are many queues, one without calls is dropped, and may still report afterwards.
    @Test func queuesOfOneManagerHaveDifferentNames() async throws {
        let names = Box<[String]>([])
        let redis = try FakeRedis { words, _ in
            guard words[0] == "EVALSHA", let keyCount = Int(words[2]) else { return FakeRedis.usual(words) }
            names.change { $0.append(words[3 + keyCount]) }
            return "*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n"
        }
        try await withFleet(redis.configuration) { fleet in
            var configuration = CentralRequestManager.Configuration()
            configuration.join(fleet, sharing: .limits)
            configuration.limits.ratePerHost = .init(perSecond: 1_000, burst: 1_000)
            configuration.networkInterceptors = [Answering()]
            let manager = try CentralRequestManager(configuration: configuration)
            // The last host's first queue is dropped with all others.
            for number in Array(0...1_024) + [1] { _ = try await manager.startRequest("GET", "http://h\(number)/") }
            await manager.shutdown()
        }
        #expect(names.value.count == 1_026 && Set(names.value).count == 1_026)
    }

    /// Responds without a network.
    private struct Answering: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            HTTPResponse(status: 200, url: request.url)
        }
    }
}
