import HTTPCore
import Platform
import Synchronization

/// A ``LimitQueue`` that calls wait at: the limits of a manager, or those of a domain.
final class LimitGate: Sendable {
    private struct State {
        var queue: LimitQueue<UInt64>
        var waiters: [UInt64: Waiter<Void>] = [:]
        var ids: UInt64 = 0
        /// When the task that sleeps until the next token wakes; `nil` without such a task.
        var wakeUp: Duration?
    }

    private let clock: CallClock
    private let state: Mutex<State>

    init(_ limits: RequestLimits, clock: CallClock) {
        self.clock = clock
        state = Mutex(State(queue: LimitQueue(limits, at: clock.now())))
    }

    /// Changes the limits. Requests that wait may start at once.
    func adopt(_ limits: RequestLimits) {
        let turn = state.withLock { state -> LimitQueue<UInt64>.Turn? in
            guard state.queue.limits != limits else { return nil }
            return state.queue.adopt(limits, at: clock.now())
        }
        if let turn { perform(turn) }
    }

    /// Sends a request as soon as the limits allow it.
    func pass(
        _ call: Call, _ host: String, _ send: () async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        try await enter(call, host)
        do {
            let response = try await send()
            leave(host, isUnused: false)
            return response
        } catch {
            leave(host, isUnused: (error as? NetworkError)?.kind == .circuitOpen)
            throw error
        }
    }

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
}
