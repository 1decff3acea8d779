import DomainTables
import FoundationEssentials
import HTTPCore
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATClient

/// ``AdaptiveLimit`` as a value, against plants in virtual time, and in whole calls.
@Suite(.timeLimit(.minutes(2))) struct AdaptiveLimitTests {
    private static func limit(_ floor: Int = 1, _ ceiling: Int = 200) -> AdaptiveLimit {
        AdaptiveLimit(RequestLimits.Adaptive(floor: floor, ceiling: ceiling), at: .zero)
    }

    /// Ends requests that ran beside as many as the limit allows.
    private static func end(_ count: Int, after latency: Duration, _ limit: inout AdaptiveLimit, at now: inout Duration)
    {
        for _ in 0..<count {
            now += latency
            limit.note(.answered(latency, after: latency), running: limit.limit, at: now)
        }
    }

    /// Ends requests of a server that needs a time for each beyond its workers, for a while.
    private static func queue(
        _ seconds: Int, _ workers: Int, _ service: Duration, _ limit: inout AdaptiveLimit, at now: inout Duration
    ) {
        let end = now + .seconds(seconds)
        while now < end {
            let latency = service * max(1, Double(limit.limit) / Double(workers))
            now += latency / Double(limit.limit)
            limit.note(.answered(latency, after: latency), running: limit.limit, at: now)
        }
    }

    @Test func limitRisesWhileTheLatencyStays() {
        var (limit, now) = (Self.limit(), Duration.zero)
        #expect(limit.limit == 10)
        Self.end(200, after: .milliseconds(10), &limit, at: &now)
        #expect(limit.limit > 15)
    }

    @Test func limitFallsWhenTheLatencyRises() {
        var (limit, now) = (Self.limit(), Duration.zero)
        Self.end(500, after: .milliseconds(10), &limit, at: &now)
        let before = limit.limit
        Self.end(500, after: .milliseconds(50), &limit, at: &now)
        #expect(limit.limit < before / 2)
    }

    @Test func limitStaysBetweenItsBounds() {
        var (limit, now) = (Self.limit(4, 12), Duration.zero)
        Self.end(2_000, after: .milliseconds(10), &limit, at: &now)
        #expect(limit.limit == 12)
        for _ in 0..<500 {
            now += .seconds(1)
            limit.note(.overloaded(after: .milliseconds(1)), running: 1, at: now)
        }
        #expect(limit.limit == 4)
        limit.bounds = RequestLimits.Adaptive(floor: 8, ceiling: 9)
        #expect(limit.limit == 8)
    }

    @Test func refusalsOfOneBurstCountOnce() {
        var limit = Self.limit()
        for _ in 0..<10 { limit.note(.overloaded(after: .seconds(1)), running: 10, at: .seconds(1)) }
        #expect(limit.limit == 7)
        // These were sent before the limit was lowered, however late they end.
        for second in 2...20 {
            limit.note(.overloaded(after: .seconds(second)), running: 10, at: .seconds(second))
        }
        #expect(limit.limit == 7)
        for _ in 0..<10 { limit.note(.overloaded(after: .seconds(1)), running: 7, at: .seconds(30)) }
        #expect(limit.limit == 5)
    }

    @Test func fewRefusalsLowerTheLimitByTheirShare() {
        var (limit, now) = (Self.limit(), Duration.zero)
        for number in 0..<20_000 {
            now += .milliseconds(1)
            // Every tenth request is refused at once, however many run.
            let sample: AdaptiveLimit.Sample =
                number % 10 == 9
                ? .overloaded(after: .milliseconds(1)) : .answered(.milliseconds(10), after: .milliseconds(10))
            limit.note(sample, running: limit.limit, at: now)
        }
        #expect((8...40).contains(limit.limit))
    }

    @Test func unusedLimitDoesNotRise() {
        var limit = Self.limit()
        for second in 1...500 {
            limit.note(.answered(.milliseconds(10), after: .milliseconds(10)), running: 2, at: .seconds(second))
        }
        #expect(limit.limit == 10)
    }

    @Test func limitRecoversFromASlowerServer() {
        var (limit, now) = (Self.limit(), Duration.zero)
        Self.queue(60, 20, .milliseconds(50), &limit, at: &now)
        #expect((16...32).contains(limit.limit))
        Self.queue(20, 20, .milliseconds(200), &limit, at: &now)
        let lowered = limit.limit
        Self.queue(400, 20, .milliseconds(200), &limit, at: &now)
        #expect(lowered < 10 && (16...32).contains(limit.limit), "\(lowered), \(limit.limit)")
    }

    @Test func ownQueueIsNeverTheBestLatency() {
        // The server was fast for a window, and has had one worker since. In an hour the limit stays small.
        for floor in [1, 8] {
            var (limit, now) = (Self.limit(floor), Duration.zero)
            Self.end(60, after: .milliseconds(50), &limit, at: &now)
            Self.queue(600, 1, .milliseconds(50), &limit, at: &now)
            let before = limit.limit
            Self.queue(3_600, 1, .milliseconds(50), &limit, at: &now)
            #expect(limit.limit <= max(floor, before) && limit.limit <= max(floor, 8), "\(before), \(limit.limit)")
        }
    }

    @Test func onlyOverloadAndLatencyAreSamples() {
        func sample(_ answer: Result<HTTPResponse, any Error>) -> AdaptiveLimit.Sample {
            AdaptiveLimit.Sample(answer, after: .seconds(1), isUntimed: false)
        }
        func failure(_ kind: NetworkError.Kind) -> Result<HTTPResponse, any Error> {
            .failure(NetworkError(kind, message: ""))
        }
        func status(_ status: Int) -> Result<HTTPResponse, any Error> {
            .success(HTTPResponse(status: status, url: "http://h/"))
        }
        let overloaded = AdaptiveLimit.Sample.overloaded(after: .seconds(1))
        #expect([429, 503].allSatisfy { sample(status($0)) == overloaded })
        #expect(sample(status(200)) == .answered(.seconds(1), after: .seconds(1)))
        #expect([302, 304, 404, 500].allSatisfy { sample(status($0)) == .nothing })
        let late = AdaptiveLimit.Sample.timedOut(after: .seconds(1))
        #expect(sample(failure(.timeout(.total))) == late && sample(failure(.timeout(.idle))) == late)
        for kind in [NetworkError.Kind.cancelled, .timeout(.deadline), .timeout(.connect), .connect, .circuitOpen] {
            #expect(sample(failure(kind)) == .nothing)
        }
    }

    @Test func tightTimeoutsLowerNothing() {
        for (timeout, isLowered) in [(15, false), (39, false), (41, true), (2_000, true)] {
            var (limit, now) = (Self.limit(), Duration.zero)
            Self.end(60, after: .milliseconds(10), &limit, at: &now)
            let before = limit.limit
            for _ in 0..<60 {
                now += .milliseconds(timeout)
                limit.note(.timedOut(after: .milliseconds(timeout)), running: limit.limit, at: now)
            }
            #expect((limit.limit < before) == isLowered, "\(timeout)")
        }
        // Of a server that nothing is known of, short ones say nothing either.
        for (timeout, isLowered) in [(999, false), (1_001, true)] {
            var limit = Self.limit()
            for second in 2..<60 {
                limit.note(.timedOut(after: .milliseconds(timeout)), running: 10, at: .seconds(second))
            }
            #expect((limit.limit < 10) == isLowered)
        }
    }

    @Test func largeBodiesAreUploads() {
        #expect(!HTTPBody.data(Data(count: 16_384)).isUpload && HTTPBody.data(Data(count: 16_385)).isUpload)
        #expect(HTTPBody.file("/dev/null").isUpload && !HTTPBody.text("a").isUpload)
    }

    @Test func waitsOfOurOwnAreNoLatency() {
        var response = HTTPResponse(status: 200, url: "http://h/")
        response.timings = Timings(connect: 20_000, tls: 60_000, firstByte: 100_000, total: 900_000, queue: 5_000_000)
        let sample = AdaptiveLimit.Sample(.success(response), after: .seconds(6), isUntimed: false)
        #expect(sample == .answered(.milliseconds(40), after: .seconds(6)))
        response.timings = Timings(connect: 1, firstByte: 30_000, connectionReused: true)
        let reused = AdaptiveLimit.Sample(.success(response), after: .seconds(6), isUntimed: false)
        #expect(reused == .answered(.milliseconds(30), after: .seconds(6)))
        let late = NetworkError(.timeout(.total), message: "")
        for answer in [.success(response), .failure(late)] as [Result<HTTPResponse, any Error>] {
            #expect(AdaptiveLimit.Sample(answer, after: .seconds(6), isUntimed: true) == .nothing)
        }
    }

    // MARK: Plants

    /// A server with some workers and a queue before them, and clients that send as many requests as their limit allows.
    private struct Plant {
        enum Kind: CaseIterable {
            case fixed, shrinking, bursty, slowStart, twoClients
            /// With few workers, with many, and one that refuses some requests at once, however many run.
            case few, many, refusing
            /// With more workers than it lets in at once, as nginx with `limit_conn`.
            case limited
            /// Whose responses take differently long without any queue, the last one with two kinds of requests by turns.
            case exponential, lognormalHalf, lognormal, bimodal, endpoints
        }

        enum Step {
            case arrival(Int)
            case answer(Int, sent: Double)
            case refusal(Int, sent: Double)
            case change
        }

        static let (longestQueue, longestBacklog) = (200, 50)
        let kind: Kind
        let seconds: Double
        /// How long an answer may take to be of use.
        private let inTime: Double
        let fixed: Int?
        var random = SeededGenerator(seed: 3)
        var limits: [AdaptiveLimit]
        var running: [Int]
        var backlog: [Int]
        var queue: [(client: Int, sent: Double)] = []
        var head = 0
        var busy = 0
        var steps = TimerHeap<Double, Step>()
        /// The answers that came in time.
        var good = 0
        private var served = 0

        /// - Parameter fixed: a limit that stays; `nil` for an adaptive one.
        init(_ kind: Kind, for seconds: Double, fixed: Int?) {
            (self.kind, self.seconds, self.fixed) = (kind, seconds, fixed)
            inTime = [.exponential, .lognormalHalf, .lognormal, .bimodal, .endpoints].contains(kind) ? 1 : 0.3
            let clients = kind == .twoClients ? 2 : 1
            limits = Array(repeating: AdaptiveLimitTests.limit(), count: clients)
            running = Array(repeating: 0, count: clients)
            backlog = running
        }

        func workers(at now: Double) -> Int {
            switch kind {
            case .few: return 3
            case .many: return 120
            case .shrinking: break
            default: return 20
            }
            return now < seconds / 3 ? 20 : now < 2 * seconds / 3 ? 10 : 5
        }

        func service(at now: Double) -> Double {
            kind == .slowStart ? 0.05 + 0.15 * max(0, 1 - 4 * now / seconds) : 0.05
        }

        /// How much longer than on average a request takes.
        private mutating func factor() -> Double {
            served += 1
            switch kind {
            case .exponential: return -random.logarithm()
            case .lognormalHalf: return Self.exponential(0.5 * normal() - 0.125)
            case .lognormal: return Self.exponential(normal() - 0.5)
            case .bimodal: return Int.random(in: 0..<10, using: &random) == 0 ? 8.2 : 0.2
            case .endpoints: return served / 30 % 2 == 0 ? 0.2 : 2
            default: return Double.random(in: 0.7...1.3, using: &random)
            }
        }

        private mutating func normal() -> Double {
            (0..<12).reduce(-6) { sum, _ in sum + Double.random(in: 0..<1, using: &random) }
        }

        private static func exponential(_ x: Double) -> Double {
            (0..<20).reduce(1 + x / 1_048_576) { power, _ in power * power }
        }

        func load(at now: Double) -> Double {
            switch kind {
            case .few: return 100
            case .many: return 3_600
            case .bursty: break
            default: return 600
            }
            return now.truncatingRemainder(dividingBy: 4) < 2 ? 800 : 80
        }

        func limit(of client: Int) -> Int { fixed.map { max(1, $0 / limits.count) } ?? limits[client].limit }

        mutating func run() {
            for client in limits.indices { steps.insert(.arrival(client), at: 0.001 * Double(client + 1)) }
            for tenth in 1..<Int(10 * seconds) { steps.insert(.change, at: Double(tenth) / 10) }
            while let (now, step) = steps.popDue(at: seconds) {
                switch step {
                case .change: for client in limits.indices { send(client, now) }
                case .arrival(let client):
                    backlog[client] = min(backlog[client] + 1, Self.longestBacklog)
                    let mean = Double(limits.count) / load(at: now)
                    steps.insert(.arrival(client), at: now + Double.random(in: 0...(2 * mean), using: &random))
                    send(client, now)
                case .answer(let client, let sent):
                    busy -= 1
                    if now - sent <= inTime { good += 1 }
                    end(client, .answered(.seconds(now - sent), after: .seconds(now - sent)), now)
                case .refusal(let client, let sent): end(client, .overloaded(after: .seconds(now - sent)), now)
                }
            }
        }

        private mutating func end(_ client: Int, _ sample: AdaptiveLimit.Sample, _ now: Double) {
            limits[client].note(sample, running: running[client], at: .seconds(now))
            running[client] -= 1
            send(client, now)
        }

        private mutating func send(_ client: Int, _ now: Double) {
            while backlog[client] > 0, running[client] < limit(of: client) {
                backlog[client] -= 1
                running[client] += 1
                let isRefused =
                    kind == .refusing
                    ? Int.random(in: 0..<100, using: &random) < 8 : kind == .limited && busy + queue.count - head >= 10
                if queue.count - head < Self.longestQueue, !isRefused {
                    queue.append((client, now))
                } else {
                    steps.insert(.refusal(client, sent: now), at: now + 0.002)
                }
            }
            while busy < workers(at: now), head < queue.count {
                let request = queue[head]
                head += 1
                busy += 1
                let time = service(at: now) * factor()
                steps.insert(.answer(request.client, sent: request.sent), at: now + time)
            }
        }
    }

    /// `LAT_SIMULATED_SECONDS=120 scripts/test AdaptiveLimitTests` is the long form, with more limits to compare with.
    private static let seconds = ProcessInfo.processInfo.environment["LAT_SIMULATED_SECONDS"].flatMap { Double($0) }

    @Test(arguments: Plant.Kind.allCases)
    private func adaptiveLimitIsNearTheBestFixedOne(_ kind: Plant.Kind) {
        let limits =
            Self.seconds == nil
            ? kind == .many ? [100, 130, 150] : [3, 5, 10, 20, 30]
            : [2, 3, 5, 8, 12, 16, 20, 24, 30, 40, 60, 80, 100, 130, 150, 200]
        func good(_ limit: Int?) -> Int {
            var plant = Plant(kind, for: Self.seconds ?? 24, fixed: limit)
            plant.run()
            return plant.good
        }
        let best = limits.map { good($0) }.max() ?? 0
        let adaptive = good(nil)
        #expect(Double(adaptive) >= 0.85 * Double(best) && best > 0, "\(adaptive) of \(best)")
    }

    // MARK: Calls

    @Test func refusalsLowerTheLimitOfTheirHost() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        let table = try DomainTable(json5: "{ domains: { a: { baseURL: \"\(server.url())\", limits: \"adaptive\" } } }")
        let manager = try CentralRequestManager.make { $0.domains = table }
        for _ in 0..<7 { _ = try? await manager.startRequest(Route("GET", domain: "a", path: "x")) }
        let limits = await manager.load.adaptiveLimits
        #expect(limits == ["a http://127.0.0.1:\(server.port)": 7])
        #expect(table.explain("a").contains("adaptive, 1 to 200 at once per host"))
    }

    @Test func explanationShowsWhatWasLearned() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        let table = try DomainTable(
            json5: """
                { domains: { a: { baseURL: "\(server.url())", limits: "adaptive" } },
                  servers: { "a.x": { domain: "a", path: "x", method: "GET", circuit: { failures: 1 } } } }
                """)
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.retries = 0
            $0.limits.adaptive = RequestLimits.Adaptive(floor: 3, ceiling: 5)
        }
        #expect(!manager.explain("a.x").contains(" now "))
        _ = try? await manager.startRequest(Route(server: "a.x"))
        _ = try? await manager.startRequest("GET", "http://127.0.0.1:1/")
        let host = "http://127.0.0.1:\(server.port)"
        func state(_ name: String) -> [[String]] {
            manager.explain(name).split(separator: "\n").filter { $0.contains(" now ") }
                .map { $0.split(separator: " ").map(String.init) }
        }
        let limits = ["10", "5"].map { ["limits", "now", $0, "at", "once", host] }
        #expect(state("a") == limits)
        #expect(state("a.x") == limits + [["circuit", "now", "open", host]])
        #expect(manager.explain("b") == table.explain("b"))
    }

    @Test func boundsOfNothingAreRefused() {
        for bounds in [RequestLimits.Adaptive(floor: 0), .init(floor: 5, ceiling: 4), .init(floor: -1, ceiling: -1)] {
            var limits = RequestLimits()
            limits.adaptive = bounds
            #expect(throws: NetworkError.self) { try limits.check(of: "here") }
        }
    }
}
