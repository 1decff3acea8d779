import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// Retries a request as its policy says (``RetryState``), as long as the manager's budget lasts.
final class RetryStage: Stage {
    let policy: RetryPolicy
    /// What retries are paid from.
    let budget: RetryBudget
    private let clock: CallClock

    init(policy: RetryPolicy, budget: RetryPolicy.Budget? = nil, clock: CallClock = .continuous) {
        self.policy = policy
        self.budget = RetryBudget(budget, clock)
        self.clock = clock
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let policy = request.retryPolicy ?? policy
        var state = RetryState(
            policy: policy, retries: request.retries ?? policy.retries, deadline: call.deadline)
        budget.deposit()
        var earlier: Result<HTTPResponse, NetworkError>?
        while true {
            let answer: Result<HTTPResponse, NetworkError>
            do {
                answer = .success(try await chain.proceed(request))
            } catch let error as NetworkError {
                answer = .failure(error)
            }
            // A stale response may stand in for a failure. The failure decides whether to retry; if not, the response is
            // delivered.
            var outcome = answer
            if case .success(let response) = answer, let failure = response.standsInFor {
                outcome =
                    failure.kind == .httpStatus ? failure.response.map { .success($0) } ?? answer : .failure(failure)
            }
            // The app's judge is asked once about each answer.
            let verdict = state.mayRepeat ? policy.judge?(request, outcome) : nil
            let ignoresIdempotence = !policy.repeatsOnlyIdempotent || verdict == true
            let action = state.next(
                after: outcome, to: request, verdict: .some(verdict),
                isReplayable: call.isReplayable && !call.isCancelled
                    && call.sent.allows(.retry(onlyIdempotent: !ignoresIdempotence), after: outcome),
                at: clock.now(), date: Int64(Date.now.timeIntervalSince1970),
                random: { Int64.random(in: 0...max(0, $0)) }, mayRetry: budget.take)
            guard case .retry(let wait) = action else {
                // A call that was cancelled in the meantime ends as cancelled, not with this response.
                if call.isCancelled { throw call.cancellation }
                let attempts = call.attempts
                switch final(answer, after: earlier, call) {
                case .success(var response):
                    response.attempts = max(1, attempts)
                    return response
                case .failure(let error): throw error.counting(attempts: max(attempts, error.attempts))
                }
            }
            earlier = outcome
            if case .success(let response) = answer { await call.reportBody(ofRepeated: response) }
            call.watch?.record(.retrying(after: wait))
            try await clock.wait(wait, for: call)
        }
    }

    /// The answer that is delivered. A repetition may get 412 for what the first request has done itself. That tells nothing,
    /// so the answer to the first one counts.
    private func final(
        _ answer: Result<HTTPResponse, NetworkError>, after earlier: Result<HTTPResponse, NetworkError>?, _ call: Call
    ) -> Result<HTTPResponse, NetworkError> {
        guard let earlier, case .success(let response) = answer, response.status == 412, call.sent.hasArrivedBefore,
            call.sent.last?.mayFailAfterItself == true
        else { return answer }
        if case .success(let former) = earlier, former.body.isStream { return answer }
        response.body.abandon()
        return earlier.mapError {
            $0.adding(
                "the repetition got 412 (Precondition Failed), as it does when the first request has been processed: read "
                    + "what is there before you decide")
        }
    }
}

/// The tokens of a manager's ``RetryPolicy/Budget``.
package final class RetryBudget: Sendable {
    private let policy: RetryPolicy.Budget?
    private let clock: CallClock
    private let bucket: Mutex<TokenBucket?>

    package init(_ policy: RetryPolicy.Budget?, _ clock: CallClock) {
        self.policy = policy
        self.clock = clock
        bucket = Mutex(policy?.bucket(at: clock.now()))
    }

    /// Adds the share of a request.
    package func deposit() {
        if let policy { bucket.withLock { $0?.deposit(policy.share, at: clock.now()) } }
    }

    /// Gives back what was paid for a repetition that was not sent.
    func refund() { bucket.withLock { $0?.deposit(1, at: clock.now()) } }

    /// Pays for a repetition. Returns whether there was a token.
    package func take() -> Bool { bucket.withLock { $0?.take(at: clock.now()) ?? true } }
}

extension RetryPolicy {
    /// The limit of all retries of a manager: a share of its requests, so that clients do not flood a failing server.
    ///
    /// Every request adds ``share`` to the budget, every second adds ``reserve``, and each retry costs 1. The reserve lets
    /// a manager with few requests retry too.
    public struct Budget: Hashable, Sendable {
        /// The retries per request. Default 0.2.
        public var share: Double
        /// The retries that are always available, per second. Default 10.
        public var reserve: Double

        /// Creates a budget.
        public init(share: Double = 0.2, reserve: Double = 10) {
            self.share = share
            self.reserve = reserve
        }

        func bucket(at now: Duration) -> TokenBucket {
            // Saves up the shares of at most 100 requests on top of the reserve.
            TokenBucket(perSecond: reserve, capacity: max(1, reserve) + 100 * share, at: now)
        }
    }
}

/// Decides, attempt by attempt, whether a request is retried. A pure value.
struct RetryState: Sendable {
    enum Action: Hashable {
        case deliver
        case retry(after: Duration)
    }

    let policy: RetryPolicy
    let retries: Int
    /// When the call must have ended, on the caller's clock; `nil` for no deadline.
    var deadline: Duration?
    private(set) var attempts = 1

    /// Whether another attempt is left.
    var mayRepeat: Bool { attempts <= retries }

    /// Decides what to do after a response or a failure.
    ///
    /// - Parameters:
    ///   - verdict: the answer of the policy's judge; `nil` to ask it.
    ///   - isReplayable: whether everything that is sent can be sent again.
    ///   - now: the time on the clock of the deadline.
    ///   - date: the seconds since 1970, for a `Retry-After` that is a date.
    ///   - random: returns a number from 0 to its argument.
    ///   - mayRetry: whether the budget allows a retry; called last, because it spends from the budget.
    mutating func next(
        after answer: Result<HTTPResponse, NetworkError>, to request: HTTPRequest, verdict: Bool?? = nil,
        isReplayable: Bool,
        at now: Duration, date: Int64, random: (Int64) -> Int64, mayRetry: () -> Bool
    ) -> Action {
        guard mayRepeat, isReplayable, isWorthRepeating(answer, request, verdict) else { return .deliver }
        let first = min(policy.firstWait, CallClock.longestSleep)
        let bound = Backoff(first: first, longest: policy.longestWait).pause(afterFailures: attempts)
        var wait = Duration.milliseconds(random(bound.roundedUpMilliseconds))
        if policy.longestRetryAfter > .zero, case .success(let response) = answer,
            let asked = response.retryAfter(at: date)
        {
            guard asked <= policy.longestRetryAfter else { return .deliver }
            // Spreads out clients that were given the same time, over at most `firstWait`.
            wait = asked + .milliseconds(random(policy.firstWait.roundedUpMilliseconds))
        }
        if let deadline, now + wait >= deadline { return .deliver }
        guard mayRetry() else { return .deliver }
        attempts += 1
        return .retry(after: wait)
    }

    func isWorthRepeating(
        _ answer: Result<HTTPResponse, NetworkError>, _ request: HTTPRequest, _ verdict: Bool?? = nil
    ) -> Bool {
        if let verdict = verdict ?? policy.judge?(request, answer) { return verdict }
        guard !policy.repeatsOnlyIdempotent || request.method.isIdempotent || request.idempotencyKey != nil else {
            return false
        }
        switch answer {
        case .failure(let error):
            return switch error.kind {
            case .dns, .connect, .connectionLost, .timeout(.connect): true
            default: false
            }
        case .success(let response):
            if policy.statuses.contains(response.status) { return true }
            if !policy.problems.isEmpty, let problem = response.problem, policy.problems.contains(problem.type) {
                return true
            }
            return (response.status == 429 || response.status == 503) && policy.longestRetryAfter > .zero
                && response.retryAfter(at: 0) != nil
        }
    }
}

/// The field `Retry-After` (RFC 9110 §10.2.3): seconds, or a date.
package enum RetryAfter {
    /// How long to wait; zero for a time that has passed, and `nil` for text that is neither. More than 2^31 seconds count as that
    /// many, as RFC 9111 §1.2.2 has it.
    ///
    /// - Parameter now: the seconds since 1970.
    package static func wait(_ text: String, now: Int64) -> Duration? {
        let text = text.trimmingFieldWhitespace
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return .seconds(min(Int64(text) ?? .max, 1 << 31))
        }
        return HTTPDate.parse(text).map { .seconds(max(0, Int64($0.timeIntervalSince1970) - now)) }
    }
}

extension HTTPResponse {
    /// How long the server asks to wait; `nil` without a `Retry-After`, and with one that cannot be used.
    ///
    /// - Parameter date: the seconds since 1970.
    package func retryAfter(at date: Int64) -> Duration? {
        headers["Retry-After"].flatMap {
            RetryAfter.wait($0, now: headers.date.map { Int64($0.timeIntervalSince1970) } ?? date)
        }
    }
}
