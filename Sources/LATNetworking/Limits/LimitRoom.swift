import CurlTransport
import HTTPCore
import Platform
import Synchronization

/// Keeps requests within limits (``LimitQueue``) and away from hosts that fail (``CircuitBreaker``).
final class LimitRoom: Room {
    private struct State {
        var queue: LimitQueue<UInt64>
        var waiters: [UInt64: Waiter<Void>] = [:]
        var ids: UInt64 = 0
        /// When the task that sleeps until the next token wakes; `nil` without such a task.
        var wakeUp: Duration?
        var breakers: [String: CircuitBreaker] = [:]
    }

    private let policy: CircuitBreakerPolicy?
    private let isUnlimited: Bool
    private let clock: CallClock
    private let state: Mutex<State>

    /// `nil` if there is nothing to limit.
    init?(_ limits: RequestLimits, _ policy: CircuitBreakerPolicy?, clock: CallClock = .continuous) {
        guard !limits.isUnlimited || policy != nil else { return nil }
        self.policy = policy
        isUnlimited = limits.isUnlimited
        self.clock = clock
        state = Mutex(State(queue: LimitQueue(limits, at: clock.now())))
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        // The transport rejects what is not a URL.
        guard let host = URLReference.origin(of: request.url) else { return try await chain.proceed(request) }
        guard !isUnlimited else { return try await unlessOpen(host, request, chain) }
        if let policy, let breaker = state.withLock({ $0.breakers[host] }),
            case .refuse(let pause) = breaker.preview(
                at: clock.now())
        {
            throw Self.isOpen(host, pause, policy, request)
        }
        try await enter(chain.call, host)
        do {
            let response = try await unlessOpen(host, request, chain)
            leave(host, isUnused: false)
            return response
        } catch {
            leave(host, isUnused: (error as? NetworkError)?.kind == .circuitOpen)
            throw error
        }
    }

    // MARK: Limits

    private func enter(_ call: Call, _ host: String) async throws {
        let waiter = Waiter<Void>()
        let priority = call.priority
        let (id, isStarted, turn) = state.withLock { state in
            state.ids += 1
            let id = state.ids
            var turn = state.queue.enter(id, host: host, priority: priority, at: clock.now())
            let isStarted = turn.started.contains(id)
            turn.started.removeAll { $0 == id }
            if !isStarted { state.waiters[id] = waiter }
            return (id, isStarted, turn)
        }
        perform(turn)
        guard !isStarted else { return }
        call.watch?.record(.waiting(.limits))
        do {
            try await waiter.value(for: call) { [self] priority in
                state.withLock { $0.queue.raise(id, host: host, to: priority) }
            }
        } catch {
            let wasWaiting = state.withLock { state in
                state.waiters[id] = nil
                return state.queue.cancel(id, host: host)
            }
            // The request got its slot just before the cancellation, so it passes the slot on.
            if !wasWaiting { leave(host, isUnused: true) }
            throw error
        }
    }

    private func leave(_ host: String, isUnused: Bool) {
        perform(state.withLock { $0.queue.leave(host: host, isUnused: isUnused, at: clock.now()) })
    }

    private func perform(_ turn: LimitQueue<UInt64>.Turn) {
        if !turn.started.isEmpty {
            let waiters = state.withLock { state in turn.started.compactMap { state.waiters.removeValue(forKey: $0) } }
            for waiter in waiters { waiter.end(.success(())) }
        }
        guard let wait = turn.wakeAfter else { return }
        let end = clock.now() + wait
        let isFirst = state.withLock { state in
            if let wakeUp = state.wakeUp, wakeUp <= end { return false }
            state.wakeUp = end
            return true
        }
        guard isFirst else { return }
        Task { [weak self, clock] in
            try? await clock.sleep(wait)
            self?.wakeUp(of: end)
        }
    }

    /// Advances the queue, unless an earlier sleeper has replaced this one.
    private func wakeUp(of sleeper: Duration) {
        let turn = state.withLock { state -> LimitQueue<UInt64>.Turn? in
            guard state.wakeUp == sleeper else { return nil }
            state.wakeUp = nil
            return state.queue.advance(at: clock.now())
        }
        if let turn { perform(turn) }
    }

    // MARK: Circuit

    private func unlessOpen(
        _ host: String, _ request: HTTPRequest, _ chain: Chain
    ) async throws -> HTTPResponse {
        guard let policy else { return try await chain.proceed(request) }
        let admission = state.withLock { state in
            if state.breakers.count >= 1_024 { state.breakers = state.breakers.filter { !$0.value.isIdle } }
            return state.breakers[host, default: CircuitBreaker(policy)].admit(at: clock.now())
        }
        guard case .pass(let ticket) = admission else {
            guard case .refuse(let pause) = admission else { return try await chain.proceed(request) }
            throw Self.isOpen(host, pause, policy, request)
        }
        do {
            let response = try await chain.proceed(request)
            finish(host, ticket, policy.judge(.success(response)))
            return response
        } catch {
            finish(host, ticket, policy.judge(.failure(error)))
            throw error
        }
    }

    private func finish(_ host: String, _ ticket: UInt64, _ isSuccess: Bool?) {
        state.withLock { $0.breakers[host]?.finish(ticket, isSuccess: isSuccess, at: clock.now()) }
    }

    private static func isOpen(
        _ host: String, _ pause: Duration?, _ policy: CircuitBreakerPolicy, _ request: HTTPRequest
    ) -> NetworkError {
        let next = pause.map { "it is tried again in \($0)" } ?? "it is being tried again"
        return NetworkError(
            .circuitOpen,
            message: "\(host) failed \(policy.failures) times in a row, so nothing was sent; \(next)",
            request: request)
    }
}
