import FoundationEssentials
import HTTPCore
import Platform
import TestSupport
import Testing

@testable import LATClient

/// Delay and share of hedged requests as values, and many calls in virtual time.
@Suite struct HedgeRuleTests {
    private typealias Hedge = RequestOptions.Hedge

    @Test func percentileIsAtMostAnEighthTooHigh() {
        var histogram = LatencyHistogram()
        var random = SeededGenerator(seed: 1)
        let latencies = (0..<5_000).map { _ in Double.random(in: 0.0001...2, using: &random) }
        for latency in latencies { histogram.note(.seconds(latency), at: .seconds(1)) }
        let sorted = latencies.sorted()
        for percentile in [50.0, 90, 95, 99, 99.9] {
            let exact = sorted[min(4_999, Int(50 * percentile))]
            let found = histogram.percentile(percentile, at: .seconds(1))?.inSeconds ?? 0
            #expect(found >= exact * 0.999 && found <= exact * 1.13, "p\(percentile): \(found) for \(exact)")
        }
    }

    @Test(arguments: [Duration.zero, .nanoseconds(1), .microseconds(65), .seconds(2_000), .seconds(100_000)])
    func everyLatencyHasABucket(_ latency: Duration) {
        var histogram = LatencyHistogram()
        for _ in 0..<100 { histogram.note(latency, at: .zero) }
        let found = histogram.percentile(95, at: .zero) ?? .zero
        #expect(found >= min(latency, .seconds(2_199)) && found <= max(latency * 1.125, .microseconds(74)))
    }

    @Test func delayIsTheGivenOneUntilItIsLearned() {
        var row = HedgeRow()
        for _ in 0..<99 { row.end(after: .milliseconds(10), at: .zero) }
        let policies = [Hedge(), Hedge(initially: .seconds(1)), Hedge(after: .time(.milliseconds(3)))]
        let delays = policies.map { row.begin($0, at: .zero) }
        #expect(delays == [nil, .seconds(1), .milliseconds(3)])
        row.end(after: .milliseconds(10), at: .zero)
        let learned = row.begin(Hedge(initially: .seconds(1)), at: .zero)
        #expect(learned.map { $0 >= .milliseconds(10) && $0 <= .milliseconds(12) } == true)
    }

    @Test func oldLatenciesAreForgotten() {
        var histogram = LatencyHistogram()
        for (second, latency) in [(0, 100), (31, 10), (62, 10)] {
            for _ in 0..<100 { histogram.note(.milliseconds(latency), at: .seconds(second)) }
        }
        let found = histogram.percentile(99, at: .seconds(62)) ?? .zero
        #expect(found > .zero && found < .milliseconds(12))
    }

    @Test func latenciesOfLastNightAreForgotten() {
        var histogram = LatencyHistogram()
        for second in 0..<200 { histogram.note(.milliseconds(10), at: .seconds(second)) }
        let (soon, late) = (
            histogram.percentile(95, at: .seconds(900)), histogram.percentile(95, at: .seconds(30_000))
        )
        #expect(soon != nil && late == nil)
        // A row with few calls never has enough of them.
        for minute in 1...500 { histogram.note(.milliseconds(10), at: .seconds(30_000 + 60 * minute)) }
        #expect(histogram.percentile(95, at: .seconds(60_000)) == nil)
    }

    @Test(arguments: [(200, true), (304, true), (404, false), (429, false), (503, false)])
    func onlyUsualResponsesAreSamples(_ status: Int, _ isSample: Bool) {
        #expect(Hedge.isSample(HTTPResponse(status: status, url: "http://h/")) == isSample)
    }

    @Test func partThatNobodyAskedForEndsNoWait() {
        var response = HTTPResponse(status: 206, url: "http://h/")
        #expect(Hedge.isGood(.success(response), to: HTTPRequest("GET", "http://h/")))
        response.partFault = "a part"
        #expect(!Hedge.isGood(.success(response), to: HTTPRequest("GET", "http://h/")))
    }

    @Test func shareHoldsOverTenSeconds() {
        var share = HedgeShare()
        var hedges = 0
        for second in 0..<60 {
            for _ in 0..<20 { share.noteCall(at: .seconds(second)) }
            // The minute allows 58 or more, the ten seconds 10, two of them 8.
            guard second >= 56 else { continue }
            for _ in 0..<100 where share.take(0.05, at: .seconds(second), pays: { true }) { hedges += 1 }
        }
        #expect(hedges == 10)
    }

    @Test func hedgeThatWasNotSentIsGivenBack() {
        var share = HedgeShare()
        for _ in 0..<20 { share.noteCall(at: .zero) }
        let first = share.take(0.05, at: .zero, pays: { true })
        share.giveBack(.zero, at: .seconds(1))
        let again = share.take(0.05, at: .seconds(1), pays: { true })
        #expect(first && again && share.hedgesInWindow == 1)
        // Long after its minute, there is nothing to give back.
        share.giveBack(.seconds(1), at: .seconds(200))
        #expect(share.hedgesInWindow == 0)
    }

    @Test func repetitionsAreNotCountedAsCalls() {
        var row = HedgeRow()
        for number in 0..<40 { _ = row.begin(Hedge(), isFirst: number % 4 == 0, at: .zero) }
        #expect(row.share.callsInWindow == 10)
    }

    @Test func shareHoldsOverAMinuteAndASecond() {
        var share = HedgeShare()
        func hedges(_ second: Int) -> Int {
            (0..<100).count { _ in share.take(0.05, at: .seconds(second), pays: { true }) }
        }
        // One of twenty calls, none of nineteen.
        for _ in 0..<19 { share.noteCall(at: .zero) }
        let ofNineteen = hedges(0)
        share.noteCall(at: .zero)
        let ofTwenty = hedges(0)
        #expect(ofNineteen == 0 && ofTwenty == 1)
        // A minute of calls without a hedge does not pay for hedging all calls of the next second.
        for second in 1..<60 { for _ in 0..<20 { share.noteCall(at: .seconds(second)) } }
        let ofASecond = hedges(59)
        #expect(ofASecond == 8)
        // After a minute of silence, nothing is left.
        let afterSilence = hedges(120)
        #expect(afterSilence == 0 && share.callsInWindow == 0 && share.hedgesInWindow == 0)
    }

    @Test func hedgeThatIsNotPaidIsNotCounted() {
        var share = HedgeShare()
        for _ in 0..<20 { share.noteCall(at: .zero) }
        let isPaid = [false, true].map { isPaid in share.take(0.05, at: .zero, pays: { isPaid }) }
        #expect(isPaid == [false, true])
        // The budget is not asked when the share is used up.
        var wasAsked = false
        let isTaken = share.take(0.05, at: .zero) {
            wasAsked = true
            return true
        }
        #expect(!isTaken && !wasAsked)
    }

    @Test(arguments: [
        (Hedge(after: .percentile(49)), "percentile"), (Hedge(after: .percentile(100)), "percentile"),
        (Hedge(after: .percentile(.nan)), "percentile"), (Hedge(after: .time(.zero)), "delay"),
        (Hedge(initially: .zero), "first delay"), (Hedge(share: 0), "share"), (Hedge(share: 1.1), "share"),
        (Hedge(share: .nan), "share"), (Hedge(attempts: 0), "times"), (Hedge(attempts: 6), "times"),
    ])
    private func policyOutOfRangeIsRefused(_ policy: Hedge, _ word: String) {
        let error = #expect(throws: NetworkError.self) { try policy.check("here") }
        #expect(error?.kind == .invalidRequest && error?.message.contains(word) == true)
    }

    @Test(
        arguments: [
            ("GET", nil, true), ("HEAD", nil, true), ("QUERY", nil, true), ("POST", nil, false), ("PUT", nil, false),
            ("POST", "k", true), ("PATCH", "k", true),
        ] as [(String, String?, Bool)])
    func onlySafeAndKeyedRequestsAreHedged(_ method: String, _ key: String?, _ isPossible: Bool) {
        var request = HTTPRequest(method, "http://h/")
        request.idempotencyKey = key
        #expect(Hedge.isPossible(request) == isPossible)
        request.streamsBody = true
        #expect(!Hedge.isPossible(request))
    }

    @Test(arguments: [
        (200, true, true), (304, true, true), (307, true, true), (404, true, false), (401, true, false),
        (409, true, false), (421, false, false), (425, false, false), (503, false, false),
    ])
    func onlySuccessOfAnotherAddressIsGood(_ status: Int, _ isGood: Bool, _ isGoodElsewhere: Bool) {
        let (request, answer) = (HTTPRequest("GET", "http://h/"), HTTPResponse(status: status, url: "http://h/"))
        #expect(Hedge.isGood(.success(answer), to: request) == isGood)
        #expect(Hedge.isGood(.success(answer), to: request, isRepetition: true) == isGoodElsewhere)
    }

    @Test func eachAddressHasAVersion() {
        let row = HedgeStage.Row()
        row.note(.http1_1, of: 1)
        row.note(.http2, of: 0)
        #expect(row.usesHTTP1(1) && !row.usesHTTP1(0) && !row.usesHTTP1(2))
        row.note(.http2, of: 1)
        #expect(!row.usesHTTP1(1))
    }

    @Test func sharedCallOfARepetitionIsNoCall() {
        var (outer, shared, other) = (SentRequests(), SentRequests(), SentRequests())
        shared.continues(outer)
        #expect(outer.isFirst && shared.isFirst)
        outer.begins(HTTPRequest("GET", "http://h/"), hop: 0)
        shared.continues(outer)
        other.continues(shared)
        #expect(!outer.isFirst && !shared.isFirst && !other.isFirst && shared.attempts == 0)
    }

    @Test func bodyThatIsReadOnceIsNotHedged() {
        var request = HTTPRequest("POST", "http://h/", body: .text("a"))
        request.idempotencyKey = "k"
        #expect(Hedge.isPossible(request))
        request.trailers = HTTPRequest.Trailers(["X-Sum"]) { ["X-Sum": "1"] }
        #expect(!Hedge.isPossible(request))
        request.trailers = nil
        request.body = .stream(AsyncStream<Data> { $0.finish() })
        #expect(!Hedge.isPossible(request))
    }

    @Test func onlyRowsWithoutCallsAreIdle() {
        var row = HedgeRow()
        let isNewIdle = row.isIdle(at: .zero)
        _ = row.begin(Hedge(), at: .zero)
        row.end(after: .milliseconds(1), at: .seconds(1))
        let areIdle = [2, 61, 700, 1_300].map { row.isIdle(at: .seconds($0)) }
        #expect(isNewIdle && areIdle == [false, false, false, true])
    }

    // MARK: Simulation

    /// Ten servers, of which one after the other is slow for three of ten seconds; calls that come by chance.
    private struct Plant {
        enum Step {
            case answer(sent: Double)
            /// The delay is over; the answer would come at `end` from a server.
            case delay(sent: Double, end: Double, server: Int)
        }

        static let policy = Hedge()
        var random = SeededGenerator(seed: 7)
        var row = HedgeRow()
        var steps = TimerHeap<Double, Step>()
        var latencies: [Double] = []
        var hedges = 0
        /// When calls began and were hedged, counted apart from what is tested.
        private var (begun, hedgedAt): ([Double], [Double]) = ([], [])
        /// Whether all servers are slow in each second minute.
        var hasSlowMinutes = false

        /// The largest share of calls that were hedged in some seconds: whole ones, as those of the rule, and the present one.
        func largestShare(of seconds: Double) -> Double {
            var (call, end, hedge, largest) = (0, 0, 0, 0.0)
            for (index, now) in hedgedAt.enumerated() where now > seconds {
                let first = now.rounded(.down) - seconds + 1
                while hedgedAt[hedge] < first { hedge += 1 }
                while begun[call] < first { call += 1 }
                while end < begun.count, begun[end] <= now { end += 1 }
                largest = max(largest, Double(index + 1 - hedge) / Double(max(1, end - call)))
            }
            return largest
        }

        mutating func run(_ calls: Int, perSecond: Double, isHedged: Bool) {
            var now = 0.0
            for _ in 0..<calls {
                now += wait(1 / perSecond)
                advance(to: now)
                begun.append(now)
                let learned = row.begin(Self.policy, at: .seconds(now))
                let server = Int.random(in: 0..<10, using: &random)
                let end = now + service(of: server, at: now)
                let delay = isHedged ? learned?.inSeconds ?? .infinity : .infinity
                if now + delay < end {
                    steps.insert(.delay(sent: now, end: end, server: server), at: now + delay)
                } else {
                    steps.insert(.answer(sent: now), at: end)
                }
            }
            advance(to: .infinity)
        }

        private mutating func advance(to end: Double) {
            while let (now, step) = steps.popDue(at: end) {
                switch step {
                case .answer(let sent):
                    row.end(after: .seconds(now - sent), at: .seconds(now))
                    latencies.append(now - sent)
                case .delay(let sent, var end, let server):
                    if row.hedges(Self.policy, at: .seconds(now), pays: { true }) {
                        hedges += 1
                        let other = (server + Int.random(in: 1..<10, using: &random)) % 10
                        end = min(end, now + service(of: other, at: now))
                        hedgedAt.append(now)
                    }
                    steps.insert(.answer(sent: sent), at: end)
                }
            }
        }

        private mutating func wait(_ mean: Double) -> Double { -mean * random.logarithm() }

        private mutating func service(of server: Int, at now: Double) -> Double {
            let usual = 0.005 + wait(0.005)
            let isSlow = Int(now / 10) % 10 == server && now.truncatingRemainder(dividingBy: 10) < 3
            let isSlowForAll = hasSlowMinutes && Int(now / 60) % 2 == 1
            return isSlow || isSlowForAll ? 0.2 + 20 * usual : usual
        }

        var p99: Double { latencies.sorted()[latencies.count * 99 / 100] }
    }

    /// `LAT_SIMULATED_CALLS=1000000 scripts/test HedgeRuleTests` is the long form.
    static let calls = ProcessInfo.processInfo.environment["LAT_SIMULATED_CALLS"].flatMap { Int($0) } ?? 40_000

    @Test(arguments: [300.0, 1_000])
    func slowServerHardlyShowsWithHedges(_ perSecond: Double) {
        var (plain, hedged) = (Plant(), Plant())
        plain.run(Self.calls, perSecond: perSecond, isHedged: false)
        hedged.run(Self.calls, perSecond: perSecond, isHedged: true)
        #expect(hedged.p99 <= 0.4 * plain.p99, "\(hedged.p99) of \(plain.p99)")
        #expect(Double(hedged.hedges) <= 0.05 * Double(Self.calls) && hedged.hedges > Self.calls / 100)
        #expect(hedged.largestShare(of: 60) <= 0.05 && hedged.largestShare(of: 10) <= 0.05)
    }

    @Test func shareHoldsInASlowMinuteForAll() {
        var plant = Plant()
        plant.hasSlowMinutes = true
        plant.run(40_000, perSecond: 200, isHedged: true)
        #expect(plant.largestShare(of: 60) <= 0.05 && plant.largestShare(of: 10) <= 0.05 && plant.hedges > 400)
    }
}

extension SeededGenerator {
    /// The logarithm of a number that is uniform in 0 to 1: its halvings, and the rest by a series.
    mutating func logarithm() -> Double {
        var result = 0.0
        var rest = Double.random(in: 0x1p-53..<1, using: &self)
        while rest < 0.5 {
            rest *= 2
            result -= 0.693_147_180_559_945_3
        }
        let x = (1 - rest) / (1 + rest)
        var (term, power) = (0.0, x)
        for odd in stride(from: 1.0, to: 30, by: 2) {
            term += power / odd
            power *= x * x
        }
        return result - 2 * term
    }
}
