import HTTPCore

/// How many repetitions a manager spends on the whole: a share of its requests, so that a server in trouble is not
/// flooded by clients that try again.
///
/// Every request pays ``share`` of a repetition in; each repetition costs one. ``reserve`` may be spent by a manager
/// that has sent little, and comes back at that many per second.
public struct RetryBudget: Hashable, Sendable {
    /// The repetitions per request. Default 0.2.
    public var share: Double
    /// The repetitions that are always there, per second. Default 10.
    public var reserve: Double

    /// Makes a budget.
    public init(share: Double = 0.2, reserve: Double = 10) {
        self.share = share
        self.reserve = reserve
    }

    func bucket(at now: Duration) -> TokenBucket {
        // What was paid in within ten seconds of full load is kept at most.
        TokenBucket(perSecond: reserve, capacity: max(1, reserve) + 100 * share, at: now)
    }
}

/// Decides, attempt by attempt, whether a request is repeated. A pure value.
struct RetryState: Sendable {
    enum Action: Hashable {
        case deliver
        case retry(after: Duration)
    }

    let policy: RetryPolicy
    /// How often at most.
    let retries: Int
    /// When all has to be over, on the clock of the caller; `nil` for no such time.
    let deadline: Duration?
    private(set) var attempts = 1

    init(policy: RetryPolicy, retries: Int, deadline: Duration? = nil) {
        self.policy = policy
        self.retries = retries
        self.deadline = deadline
    }

    /// What to do after an answer, or none.
    ///
    /// - Parameters:
    ///   - isReplayable: whether all that is sent can be sent again.
    ///   - now: the time on the clock of the deadline.
    ///   - date: the seconds since 1970, for a `Retry-After` that is a date.
    ///   - random: a number from 0 to the one given.
    ///   - mayRetry: whether the budget allows it; asked last, because asking is paying.
    mutating func next(
        after answer: Result<HTTPResponse, NetworkError>, to request: HTTPRequest, isReplayable: Bool,
        at now: Duration, date: Int64, random: (Int64) -> Int64, mayRetry: () -> Bool
    ) -> Action {
        guard attempts <= retries, isReplayable, isWorthRepeating(answer, request) else { return .deliver }
        var wait = Duration.milliseconds(random(range(beforeRetry: attempts).roundedUpMilliseconds))
        if let asked = retryAfter(answer, date: date) {
            guard asked <= policy.longestRetryAfter else { return .deliver }
            // Those who were told the same moment come back spread over the first range.
            wait = asked + .milliseconds(random(policy.firstWait.roundedUpMilliseconds))
        }
        if let deadline, now + wait >= deadline { return .deliver }
        guard mayRetry() else { return .deliver }
        attempts += 1
        return .retry(after: wait)
    }

    func isWorthRepeating(_ answer: Result<HTTPResponse, NetworkError>, _ request: HTTPRequest) -> Bool {
        if let verdict = policy.judge?(request, answer) { return verdict }
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
            return (response.status == 429 || response.status == 503) && policy.longestRetryAfter > .zero
                && response.headers["Retry-After"] != nil
        }
    }

    private func range(beforeRetry retry: Int) -> Duration {
        min(policy.longestWait, policy.firstWait * (1 << min(retry - 1, 16)))
    }

    private func retryAfter(_ answer: Result<HTTPResponse, NetworkError>, date: Int64) -> Duration? {
        guard policy.longestRetryAfter > .zero, case .success(let response) = answer,
            let text = response.headers["Retry-After"]
        else { return nil }
        return RetryAfter.wait(text, now: date)
    }
}
