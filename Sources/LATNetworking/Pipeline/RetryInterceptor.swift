import FoundationEssentials
import HTTPCore
import Synchronization

/// Repeats a request as its policy says (``RetryState``), and as long as the manager's budget lasts.
final class RetryInterceptor: Interceptor {
    let policy: RetryPolicy
    private let budget: RetryBudget?
    private let clock: FlowClock
    private let bucket: Mutex<TokenBucket?>

    init(policy: RetryPolicy, budget: RetryBudget? = nil, clock: FlowClock = .continuous) {
        self.policy = policy
        self.budget = budget
        self.clock = clock
        bucket = Mutex(budget?.bucket(at: clock.now()))
    }

    func isIdle(for request: HTTPRequest) -> Bool { retries(of: request) <= 0 }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let flow = request.flow
        let isReplayable = request.isReplayable
        var state = RetryState(
            policy: flow.retryPolicy ?? policy, retries: retries(of: request), deadline: flow.deadlineAt)
        payIn()
        while true {
            let answer = try await answer(to: request, next)
            let action = state.next(
                after: answer, to: request, isReplayable: isReplayable, at: clock.now(),
                date: Int64(Date.now.timeIntervalSince1970), random: { Int64.random(in: 0...max(0, $0)) },
                mayRetry: payOut)
            guard case .retry(let wait) = action else {
                switch answer {
                case .success(let response): return response
                case .failure(let error): throw error.counting(attempts: max(state.attempts, error.attempts))
                }
            }
            flow.timeline?.record(.retrying(after: wait))
            try await clock.wait(wait, for: request)
        }
    }

    private func answer(
        to request: HTTPRequest, _ next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> Result<HTTPResponse, NetworkError> {
        do {
            return .success(try await next(request))
        } catch let error as NetworkError {
            return .failure(error)
        }
    }

    private func retries(of request: HTTPRequest) -> Int {
        request.retries ?? (request.flowOptions as? FlowOptions)?.retryPolicy?.retries ?? policy.retries
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
