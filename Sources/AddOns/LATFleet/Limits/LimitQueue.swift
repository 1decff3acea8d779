internal import HTTPCore
internal import LATNetworking
internal import Platform
internal import Synchronization

/// Lets calls wait in a ``LimitQueueMachine``. One query at a time asks for all waiting calls.
final class LimitQueue: Sendable {
    private struct State {
        var queue: LimitQueueMachine
        var terms: LimitTerms
        var waiters: [UInt64: Waiter<Void>] = [:]
        var ids: UInt64 = 0
        /// Whether a task does the queue's steps.
        var isDriven = false
        /// Ends the pause of that task.
        var alarm: Waiter<Void>?
    }

    private let ask: @Sendable (LimitQueueMachine.Demand, LimitTerms) async -> LimitQueueMachine.Answer?
    /// Counts the calls that started without a reply of the Redis.
    private let alone: FleetCounter
    private let limits = TimeLimits()
    private let state: Mutex<State>

    /// - Parameter ask: Asks the Redis; returns `nil` when it does not reply.
    init(
        _ terms: LimitTerms, alone: FleetCounter,
        ask: @escaping @Sendable (LimitQueueMachine.Demand, LimitTerms) async -> LimitQueueMachine.Answer?
    ) {
        self.alone = alone
        self.ask = ask
        let queue = LimitQueueMachine(keepsPlaces: !terms.placeKeys.isEmpty, renewal: LimitScript.lease / 3)
        state = Mutex(State(queue: queue, terms: terms))
    }

    var isIdle: Bool { state.withLock { $0.queue.isIdle } }

    /// Waits until a call may start.
    func enter(_ call: LimitedCall, _ terms: LimitTerms) async throws {
        let waiter = Waiter<Void>()
        let priority = call.priority
        let id = state.withLock { state in
            if state.terms != terms {
                state.terms = terms
                state.queue.keepsPlaces = !terms.placeKeys.isEmpty
            }
            state.ids += 1
            state.waiters[state.ids] = waiter
            state.queue.enter(state.ids, priority: priority)
            return state.ids
        }
        proceed()
        do {
            try await call.wait(waiter) { [self] priority in state.withLock { $0.queue.raise(id, to: priority) } }
        } catch {
            let wasWaiting = state.withLock { state in
                state.waiters[id] = nil
                return state.queue.cancel(id)
            }
            // A call that no longer waited was allowed to start just before it ended, so its place is given back.
            if wasWaiting { proceed() } else { leave(isUnused: true) }
            throw error
        }
    }

    func leave(isUnused: Bool) {
        state.withLock { $0.queue.leave(isUnused: isUnused) }
        proceed()
    }

    /// Called when a place under this key may be free.
    func wake(_ key: String) {
        let isConcerned = state.withLock { state in
            guard state.terms.placeKeys.contains(key) else { return false }
            state.queue.wake()
            return true
        }
        if isConcerned { proceed() }
    }

    // MARK: The task

    /// Starts the task that does the queue's steps, or ends its pause.
    private func proceed() {
        let (alarm, starts) = state.withLock { state -> (Waiter<Void>?, Bool) in
            defer { state.alarm = nil }
            guard !state.isDriven else { return (state.alarm, false) }
            state.isDriven = true
            return (nil, true)
        }
        alarm?.end(.success(()))
        if starts { Task { await drive() } }
    }

    private func drive() async {
        while true {
            let alarm = Waiter<Void>()
            let (step, terms, started) = state.withLock { state in
                let step = state.queue.step(at: limits.clock.now())
                var started: [Waiter<Void>] = []
                switch step {
                case .start(let ids): started = ids.compactMap { state.waiters.removeValue(forKey: $0) }
                case .sleep: state.alarm = alarm
                case .rest: state.isDriven = false
                case .ask: break
                }
                return (step, state.terms, started)
            }
            switch step {
            case .start: for waiter in started { waiter.end(.success(())) }
            case .ask(let demand): take(await ask(demand, terms))
            case .sleep(let until):
                try? await limits.value(of: alarm, within: until - limits.clock.now(), late: .success(()))
            case .rest: return
            }
        }
    }

    private func take(_ answer: LimitQueueMachine.Answer?) {
        let started = state.withLock { state -> [Waiter<Void>] in
            guard let answer else {
                let (started, count) = state.queue.failed(at: limits.clock.now())
                alone.add(count)
                return started.compactMap { state.waiters.removeValue(forKey: $0) }
            }
            state.queue.answered(answer, at: limits.clock.now())
            return []
        }
        for waiter in started { waiter.end(.success(())) }
    }
}
