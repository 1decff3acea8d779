import FoundationEssentials
import HTTPCore
import Synchronization

/// Repeats a request as its policy says (``RetryState``), and as long as the manager's budget lasts.
final class RetryRoom: Room {
    let policy: RetryPolicy
    private let budget: RetryBudget?
    private let clock: CallClock
    private let bucket: Mutex<TokenBucket?>

    init(policy: RetryPolicy, budget: RetryBudget? = nil, clock: CallClock = .continuous) {
        self.policy = policy
        self.budget = budget
        self.clock = clock
        bucket = Mutex(budget?.bucket(at: clock.now()))
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let policy = request.retryPolicy ?? policy
        var state = RetryState(
            policy: policy, retries: request.retries ?? policy.retries, deadline: call.deadline)
        payIn()
        while true {
            let answer = try await answer(to: request, chain)
            // A stale answer that stands in for a failure is delivered when the failure is not repeated.
            let outcome: Result<HTTPResponse, NetworkError> =
                if case .success(let response) = answer, let failure = response.standsInFor {
                    .failure(failure)
                } else {
                    answer
                }
            let action = state.next(
                after: outcome, to: request,
                isReplayable: call.isReplayable && !call.isCancelled && allows(policy, request, call.sent, outcome),
                at: clock.now(), date: Int64(Date.now.timeIntervalSince1970),
                random: { Int64.random(in: 0...max(0, $0)) }, mayRetry: payOut)
            guard case .retry(let wait) = action else {
                switch answer {
                case .success(let response): return response
                case .failure(let error): throw error.counting(attempts: max(state.attempts, error.attempts))
                }
            }
            call.watch?.record(.retrying(after: wait))
            try await clock.wait(wait, for: call)
        }
    }

    private func allows(
        _ policy: RetryPolicy, _ request: HTTPRequest, _ sent: SentRequests,
        _ answer: Result<HTTPResponse, NetworkError>
    ) -> Bool {
        let isOwnWish = !policy.repeatsOnlyIdempotent || policy.judge?(request, answer) == true
        return sent.allows(.retry(onlyIdempotent: !isOwnWish), after: answer)
    }

    private func answer(
        to request: HTTPRequest, _ chain: Chain
    ) async throws -> Result<HTTPResponse, NetworkError> {
        do {
            return .success(try await chain.proceed(request))
        } catch let error as NetworkError {
            return .failure(error)
        }
    }

    private func payIn() {
        guard let budget else { return }
        bucket.withLock { $0?.deposit(budget.share, at: clock.now()) }
    }

    private func payOut() -> Bool {
        bucket.withLock { bucket in
            guard bucket != nil else { return true }
            return bucket?.take(at: clock.now()) ?? true
        }
    }
}
