import HTTPCore
import Platform
import TestSupport
import Testing

@testable import LATClient

/// The decisions as pure values, without sockets or waiting.
@Suite struct FlowStateTests {
    // MARK: Token bucket

    @Test(arguments: 0..<25)
    func bucketStaysWithinRateAndBurst(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let rate = Double.random(in: 0.5...50, using: &generator)
        let burst = Double(Int.random(in: 1...10, using: &generator))
        var now = Duration.zero
        var bucket = TokenBucket(perSecond: rate, capacity: burst, at: now)
        var taken: [Duration] = []
        for _ in 0..<400 {
            now += .milliseconds(Int64.random(in: -20...200, using: &generator))
            now = max(.zero, now)
            if bucket.take(at: now) { taken.append(now) }
        }
        let passed = Double(taken.count)
        let longest = taken.max() ?? .zero
        #expect(passed <= burst + longest.inSeconds * rate + 1e-6)
        #expect(passed >= 1)
    }

    @Test func tokenIsAvailableAfterTheGivenWait() {
        var bucket = TokenBucket(perSecond: 3, capacity: 1, at: .zero)
        #expect(bucket.take(at: .zero) == true)
        var now = Duration.zero
        for _ in 0..<100 {
            let wait = bucket.wait(at: now)
            #expect(wait != nil && wait != .zero)
            now += wait ?? .zero
            #expect(bucket.take(at: now) == true)
        }
        #expect(abs(now.inSeconds - 100 / 3) < 0.001)
    }

    @Test func bucketWithoutARateNeverFills() {
        var bucket = TokenBucket(perSecond: 0, capacity: 1, at: .zero)
        #expect(bucket.take(at: .zero) == true)
        #expect(bucket.wait(at: .seconds(1_000_000)) == nil)
    }

    @Test(arguments: [1e-11, 1e-300, .leastNonzeroMagnitude]) func lowestRateWaitsForADayAtATime(_ rate: Double) {
        var bucket = TokenBucket(perSecond: rate, capacity: 1, at: .zero)
        #expect(bucket.take(at: .zero) == true)
        #expect(bucket.wait(at: .zero) == .seconds(86_400) + .nanoseconds(1))
        #expect(bucket.take(at: .seconds(86_401)) == false)
    }

    // MARK: Retry

    private func response(_ status: Int, _ headers: HTTPHeaders = [:]) -> Result<HTTPResponse, NetworkError> {
        .success(HTTPResponse(status: status, headers: headers, url: "http://h/"))
    }

    private func next(
        _ state: inout RetryState, after answer: Result<HTTPResponse, NetworkError>, method: String = "GET",
        at now: Duration = .zero, date: Int64 = 0, random: (Int64) -> Int64 = { $0 }, budget: Bool = true
    ) -> RetryState.Action {
        state.next(
            after: answer, to: HTTPRequest(method, "http://h/"), isReplayable: true, at: now, date: date,
            random: random, mayRetry: { budget })
    }

    @Test func waitDoublesUpToTheLongest() {
        var state = RetryState(
            policy: RetryPolicy(firstWait: .milliseconds(100), longestWait: .seconds(1)), retries: 6)
        let failure = Result<HTTPResponse, NetworkError>.failure(NetworkError(.connect, message: ""))
        let waits = (0..<6).map { _ in next(&state, after: failure) }
        #expect(waits == [100, 200, 400, 800, 1_000, 1_000].map { .retry(after: .milliseconds($0)) })
        #expect(next(&state, after: failure) == .deliver)
        #expect(state.attempts == 7)
    }

    @Test(arguments: [0, 1, 50, 99, 100])
    func jitterCoversTheWholeRange(_ random: Int64) {
        var state = RetryState(policy: RetryPolicy(firstWait: .milliseconds(100)), retries: 1)
        var asked: Int64?
        let action = next(&state, after: .failure(NetworkError(.dns, message: ""))) { range in
            asked = range
            return random
        }
        #expect(asked == 100)
        #expect(action == .retry(after: .milliseconds(random)))
    }

    @Test func retryAfterInSecondsIsObeyed() {
        for status in [429, 503] {
            var state = RetryState(policy: RetryPolicy(firstWait: .milliseconds(10)), retries: 1)
            let action = next(&state, after: response(status, ["Retry-After": "7"]), random: { _ in 0 })
            #expect(action == .retry(after: .seconds(7)))
        }
        var state = RetryState(policy: RetryPolicy(statuses: []), retries: 1)
        #expect(next(&state, after: response(404, ["Retry-After": "7"])) == .deliver)
        #expect(next(&state, after: response(503)) == .deliver)
        #expect(next(&state, after: response(503, ["Retry-After": "61"])) == .deliver)
        #expect(next(&state, after: response(503, ["Retry-After": "99999999999999999999"])) == .deliver)
        #expect(state.attempts == 1)
    }

    @Test func retryAfterAsADateIsObeyed() {
        var state = RetryState(policy: RetryPolicy(), retries: 2)
        let answer = response(503, ["Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"])
        #expect(next(&state, after: answer, date: 784_111_777 - 5, random: { _ in 0 }) == .retry(after: .seconds(5)))
        #expect(next(&state, after: answer, date: 784_111_777 + 5, random: { _ in 0 }) == .retry(after: .zero))
    }

    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    ])
    func retryAfterReadsAnyDate(_ text: String) { #expect(RetryAfter.wait(text, now: 784_111_700) == .seconds(77)) }

    /// Texts that are neither a number of seconds nor a date.
    static let unusable = [
        "", "soon", "-5", "1.5", "1e3", "+5", "7 s",
        "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
    ]

    @Test(arguments: unusable)
    func unusableRetryAfterCountsAsAbsent(_ text: String) {
        #expect(RetryAfter.wait(text, now: 0) == nil)
        for status in [429, 503] {
            for policy in [RetryPolicy(), RetryPolicy(statuses: [])] {
                var (absent, unusable) = (
                    RetryState(policy: policy, retries: 1), RetryState(policy: policy, retries: 1)
                )
                let expected = next(&absent, after: response(status))
                #expect(next(&unusable, after: response(status, ["Retry-After": text])) == expected)
            }
        }
    }

    @Test func longestUsableRetryAfterIsTooLong() {
        for text in ["2147483647", "2147483648", "2147483649", "99999999999999999999"] {
            let seconds = min(Int64(text) ?? .max, 2_147_483_648)
            #expect(RetryAfter.wait(text, now: 0) == .seconds(seconds))
            var state = RetryState(policy: RetryPolicy(), retries: 1)
            #expect(next(&state, after: response(503, ["Retry-After": text])) == .deliver)
        }
    }

    @Test func retryBeyondTheDeadlineIsNotBegun() {
        var state = RetryState(policy: RetryPolicy(firstWait: .seconds(5)), retries: 9, deadline: .seconds(10))
        let failure = Result<HTTPResponse, NetworkError>.failure(NetworkError(.connect, message: ""))
        #expect(next(&state, after: failure, at: .seconds(1)) == .retry(after: .seconds(5)))
        #expect(next(&state, after: failure, at: .seconds(6)) == .deliver)
    }

    @Test func exhaustedBudgetDeliversTheFailure() {
        var state = RetryState(policy: RetryPolicy(), retries: 9)
        let failure = Result<HTTPResponse, NetworkError>.failure(NetworkError(.connect, message: ""))
        #expect(next(&state, after: failure, budget: false) == .deliver)
        #expect(state.attempts == 1)
    }

    @Test func retryJudgeWinsOverTheRules() {
        var policy = RetryPolicy(statuses: [502])
        policy.judge = { _, answer in
            guard case .success(let response) = answer else { return nil }
            return response.status == 418 ? true : response.status == 502 ? false : nil
        }
        let state = RetryState(policy: policy, retries: 1)
        let get = HTTPRequest("GET", "http://h/")
        #expect(state.isWorthRepeating(response(418), HTTPRequest("POST", "http://h/")))
        #expect(!state.isWorthRepeating(response(502), get))
        #expect(state.isWorthRepeating(.failure(NetworkError(.connect, message: "")), get))
    }

    @Test func idempotencyKeyMakesAPostRepeatable() {
        let state = RetryState(policy: RetryPolicy(), retries: 1)
        let failure = Result<HTTPResponse, NetworkError>.failure(NetworkError(.connectionLost, message: ""))
        var post = HTTPRequest("POST", "http://h/")
        #expect(!state.isWorthRepeating(failure, post))
        post.idempotencyKey = HTTPRequest.randomIdempotencyKey()
        #expect(state.isWorthRepeating(failure, post))
        #expect(post.headers["Idempotency-Key"]?.count == 32)
    }

    @Test func budgetAllowsItsShareAndReserve() {
        let budget = RetryPolicy.Budget(share: 0.2, reserve: 10)
        var bucket = budget.bucket(at: .zero)
        while bucket.take(at: .zero) {}
        var retries = 0
        for _ in 0..<1_000 {
            bucket.deposit(budget.share, at: .zero)
            while bucket.take(at: .zero) { retries += 1 }
        }
        #expect((199...201).contains(retries))
        #expect(bucket.take(at: .milliseconds(150)) == true)
    }

    // MARK: Circuit breaker

    @Test func circuitOpensProbesAndCloses() {
        var breaker = CircuitBreaker(RequestLimits.CircuitBreakerPolicy(failures: 2, pause: .seconds(10)))
        func ticket(_ now: Duration) -> UInt64? {
            if case .pass(let ticket) = breaker.admit(at: now) { ticket } else { nil }
        }
        for _ in 0..<2 {
            guard let ticket = ticket(.zero) else { return }
            breaker.finish(ticket, isSuccess: false, at: .zero)
        }
        #expect(breaker.admit(at: .seconds(3)) == .refuse(pause: .seconds(7)))
        guard let probe = ticket(.seconds(10)) else {
            Issue.record("no probe was admitted after the pause")
            return
        }
        #expect(breaker.admit(at: .seconds(10)) == .refuse(pause: nil))
        breaker.finish(probe, isSuccess: false, at: .seconds(11))
        #expect(breaker.admit(at: .seconds(20)) == .refuse(pause: .seconds(1)))
        guard let second = ticket(.seconds(21)) else { return }
        breaker.finish(second, isSuccess: nil, at: .seconds(22))
        guard let third = ticket(.seconds(22)) else {
            Issue.record("no probe was admitted after the cancelled one")
            return
        }
        breaker.finish(third, isSuccess: true, at: .seconds(22))
        #expect(breaker.isIdle)
    }

    /// While a circuit asks whether it may probe, the results of other processes still apply.
    @Test func circuitThatAnotherProcessClosedIsNotProbed() throws {
        var breaker = CircuitBreaker(RequestLimits.CircuitBreakerPolicy(failures: 1, pause: .seconds(10)))
        func ticket(_ now: Duration) throws -> UInt64 {
            guard case .pass(let ticket) = breaker.admit(at: now) else { throw CancellationError() }
            return ticket
        }
        breaker.adopt(.opened(.seconds(1)), at: .zero)
        let asking = try ticket(.seconds(1))
        #expect(breaker.ask(asking) == true)
        #expect(breaker.admit(at: .seconds(1)) == .refuse(pause: nil))
        breaker.adopt(.closed, at: .seconds(1))
        #expect(breaker.answer(asking, pause: .seconds(1), at: .seconds(2)) == false)
        #expect(breaker.isIdle)
        let ordinary = try ticket(.seconds(2))
        #expect(breaker.ask(ordinary) == false, "a request through a closed circuit is no probe")

        breaker.adopt(.opened(.seconds(1)), at: .seconds(2))
        let probe = try ticket(.seconds(3))
        #expect(breaker.ask(probe) == true)
        breaker.adopt(.opened(.seconds(60)), at: .seconds(3))
        #expect(breaker.answer(probe, pause: nil, at: .seconds(3)) == true)
        breaker.adopt(.closed, at: .seconds(3))
        let change = breaker.finish(probe, isSuccess: false, at: .seconds(4))
        #expect(change == .opened(pause: .seconds(10)), "its own result counts")
        #expect(breaker.admit(at: .seconds(5)) == .refuse(pause: .seconds(9)))
    }

    /// Whatever another process says, a circuit asks again after its own pause.
    @Test func pauseOfAnotherProcessIsHeldWithinThePolicy() {
        var breaker = CircuitBreaker(RequestLimits.CircuitBreakerPolicy(failures: 1, pause: .seconds(10)))
        breaker.adopt(.opened(.seconds(1_000_000_000)), at: .zero)
        #expect(breaker.admit(at: .seconds(1)) == .refuse(pause: .seconds(10)))
        #expect(breaker.admit(at: .seconds(6)) == .refuse(pause: .seconds(5)), "bounded once")
        guard case .pass(let ticket) = breaker.admit(at: .seconds(11)) else { return #expect(Bool(false)) }
        #expect(breaker.ask(ticket) == true)
        #expect(breaker.answer(ticket, pause: .seconds(3_600), at: .seconds(12)) == true)
        #expect(breaker.admit(at: .seconds(13)) == .refuse(pause: .seconds(9)))
        breaker.adopt(.opened(.seconds(2)), at: .seconds(13))
        #expect(breaker.admit(at: .seconds(14)) == .refuse(pause: .seconds(1)), "a shorter one counts")
    }

    @Test func circuitIsForgottenLongAfterItsFailures() {
        let policy = RequestLimits.CircuitBreakerPolicy(failures: 2, pause: .seconds(10))
        var breaker = CircuitBreaker(policy)
        #expect(breaker.isForgettable(at: .zero))
        for second in [1, 2] {
            guard case .pass(let ticket) = breaker.admit(at: .seconds(second)) else { return }
            breaker.finish(ticket, isSuccess: false, at: .seconds(second))
            #expect(!breaker.isForgettable(at: .seconds(second + 10)))
        }
        // Open until second 12.
        #expect(!breaker.isForgettable(at: .seconds(22)) && breaker.isForgettable(at: .seconds(23)))
        var once = CircuitBreaker(policy)
        guard case .pass(let ticket) = once.admit(at: .seconds(5)) else { return }
        once.finish(ticket, isSuccess: false, at: .seconds(5))
        #expect(!once.isIdle && !once.isForgettable(at: .seconds(15)) && once.isForgettable(at: .seconds(16)))
    }

    /// An open circuit admits exactly one request after its pause, whatever late results of earlier ones say.
    @Test(arguments: 0..<25)
    func openCircuitAdmitsOneProbe(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let policy = RequestLimits.CircuitBreakerPolicy(failures: 3, pause: .seconds(5))
        var breaker = CircuitBreaker(policy)
        var running: [UInt64] = []
        var now = Duration.zero
        var failuresInARow = 0
        var isOpen = false
        for _ in 0..<500 {
            now += .milliseconds(Int64.random(in: 0...1_500, using: &generator))
            if Bool.random(using: &generator) || running.isEmpty {
                if case .pass(let ticket) = breaker.admit(at: now) {
                    if isOpen { running = [] }  // earlier requests no longer count
                    running.append(ticket)
                    #expect(!isOpen || running.count == 1)
                } else {
                    #expect(isOpen)
                }
            } else {
                let ticket = running.remove(at: Int.random(in: running.indices, using: &generator))
                let isSuccess: Bool? = [true, false, false, nil].randomElement(using: &generator) ?? nil
                breaker.finish(ticket, isSuccess: isSuccess, at: now)
                guard let isSuccess else { continue }
                if isSuccess {
                    failuresInARow = 0
                    isOpen = false
                } else {
                    failuresInARow += 1
                    if isOpen || failuresInARow >= 3 {
                        isOpen = true
                        failuresInARow = 0
                        running = []
                    }
                }
            }
        }
    }

    // MARK: Barrier

    @Test(arguments: 0..<25)
    func closedBarrierAdmitsNoCall(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var gate = BarrierState<Int>()
        var active: Int?
        var waiting: [Int] = []
        var barriers: Set<Int> = []
        for id in 0..<300 {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0, 1:
                let isBarrier = Int.random(in: 0..<3, using: &generator) == 0
                if isBarrier { barriers.insert(id) }
                let mayGo = gate.enter(id, isBarrier: isBarrier)
                #expect(mayGo == (active == nil))
                if !mayGo { waiting.append(id) } else if isBarrier { active = id }
            case 2:
                guard let barrier = active else { continue }
                let started = gate.leave(barrier)
                #expect(started == Array(waiting.prefix(started.count)))
                waiting.removeFirst(started.count)
                active = started.last.flatMap { barriers.contains($0) ? $0 : nil }
                #expect(started.dropLast().allSatisfy { !barriers.contains($0) })
                #expect(active != nil || waiting.isEmpty)
            default:
                guard let leaving = waiting.randomElement(using: &generator) else { continue }
                waiting.removeAll { $0 == leaving }
                #expect(gate.leave(leaving) == [])
            }
            #expect(gate.isClosed == (active != nil))
        }
    }
}
