import HTTPCore
import Platform
import Synchronization

/// A ``LimitQueue`` in which calls wait: the limits of a manager, of a domain, or of a server row.
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
    /// Whether it needs to know how long requests take.
    private let isAdaptive: Atomic<Bool>

    init(_ limits: RequestLimits, clock: CallClock) {
        self.clock = clock
        state = Mutex(State(queue: LimitQueue(limits, at: clock.now())))
        isAdaptive = Atomic(limits.adaptive != nil)
    }

    /// Changes the limits. Requests that wait may start at once.
    func adopt(_ limits: RequestLimits) {
        isAdaptive.store(limits.adaptive != nil, ordering: .relaxed)
        let turn = state.withLock { state -> LimitQueue<UInt64>.Turn? in
            guard state.queue.limits != limits else { return nil }
            return state.queue.adopt(limits, at: clock.now())
        }
        if let turn { perform(turn) }
    }

    /// Records what the host of a response tells of its limits. Called before the response leaves.
    ///
    /// - Parameter date: the time in seconds since 1970.
    func learn(from response: HTTPResponse, _ host: String, date: @autoclosure () -> Int64) {
        let asksForPause =
            switch response.status {
            case 425, 429, 503: true
            default: false
            }
        let pause = asksForPause ? response.retryAfter(at: date()).map { min($0, .seconds(86_400)) } : nil
        let reports = QuotaFields.reports(response.headers, date: date())
        guard pause != nil || !reports.isEmpty else { return }
        perform(state.withLock { $0.queue.learn(reports, pause: pause, of: host, at: clock.now()) })
    }

    /// The numbers of requests that hosts take at once, by host.
    var adaptiveLimits: [String: Int] { state.withLock(\.queue.adaptiveLimits) }

    /// The time for which the host asked for no requests.
    func pause(of host: String) -> Duration { state.withLock { $0.queue.pause(of: host, at: clock.now()) } }

    /// Waits while the host asks for a pause, before the call holds any slot.
    func waitForHost(_ call: Call, _ host: String) async throws {
        while true {
            let pause = pause(of: host)
            guard pause > .zero else { return }
            call.noteLimit(isWaiting: true)
            try await clock.wait(pause, for: call)
            call.noteLimit(isWaiting: false)
        }
    }

    /// The rate that the host tells, for the limits of all processes.
    func toldRate(of host: String) -> RequestLimits.RateLimit? { state.withLock { $0.queue.toldRate(of: host) } }

    /// Sends a request as soon as all limits allow it. A request that ends while it waits at one gate returns the slots and
    /// tokens that it got at the gates before.
    ///
    /// - Parameter leave: Called at the end, with whether the request was never sent.
    static func pass(
        _ gates: [LimitGate], _ call: Call, _ host: String, _ leave: (@Sendable (_ isUnused: Bool) -> Void)?,
        _ send: () async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var passed = 0
        var isUnused = true
        var sample = AdaptiveLimit.Sample.nothing
        defer {
            for gate in gates[..<passed].reversed() { gate.leave(host, isUnused: isUnused, sample) }
            leave?(isUnused)
        }
        for gate in gates {
            try await gate.enter(call, host)
            passed += 1
        }
        isUnused = false
        let clock = gates.first { $0.isAdaptive.load(ordering: .relaxed) }?.clock
        let start = clock?.now()
        func measure(_ answer: Result<HTTPResponse, any Error>) {
            guard let clock, let start else { return }
            let isUntimed = call.wasSuspended || call.request.body?.isUpload ?? false
            sample = AdaptiveLimit.Sample(answer, after: clock.now() - start, isUntimed: isUntimed)
        }
        do {
            let response = try await send()
            measure(.success(response))
            return response
        } catch {
            isUnused = (error as? NetworkError)?.kind == .circuitOpen
            measure(.failure(error))
            throw error
        }
    }

    private func enter(_ call: Call, _ host: String) async throws {
        if state.withLock({ $0.queue.start(host: host, at: clock.now()) }) { return }
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
        do {
            try await LimitedCall(call: call).wait(waiter) { [self] priority in
                state.withLock { $0.queue.raise(id, host: host, to: priority) }
            }
        } catch {
            let wasWaiting = state.withLock { state in
                state.waiters[id] = nil
                return state.queue.cancel(id, host: host)
            }
            // The request may start, but its call has just ended: the next one gets its slot.
            if !wasWaiting { leave(host, isUnused: true) }
            throw error
        }
    }

    private func leave(_ host: String, isUnused: Bool, _ sample: AdaptiveLimit.Sample = .nothing) {
        perform(state.withLock { $0.queue.leave(host: host, isUnused: isUnused, sample, at: clock.now()) })
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
        // It must not keep the task-local values of the caller.
        Task.detached(priority: .userInitiated) { [weak self, clock] in
            try? await clock.sleep(wait)
            self?.wakeUp(at: end)
        }
    }

    /// Advances the queue, unless a task that wakes earlier has replaced this one.
    private func wakeUp(at time: Duration) {
        let turn = state.withLock { state -> LimitQueue<UInt64>.Turn? in
            guard state.wakeUp == time else { return nil }
            state.wakeUp = nil
            return state.queue.advance(at: clock.now())
        }
        if let turn { perform(turn) }
    }
}

/// Limits that apply to a call, with the name that all processes use for them.
package struct SharedLimit: Hashable, Sendable {
    package let name: String
    package let limits: RequestLimits

    package init(name: String, limits: RequestLimits) {
        self.name = name
        self.limits = limits
    }
}

/// A call that waits at limits: those of this process, or shared ones.
package struct LimitedCall: Sendable {
    let call: Call

    package var priority: RequestPriority { call.priority }

    /// Waits until there is a result or the call ends. Observers learn of the wait unless there is a result already.
    ///
    /// - Parameter raised: Called with the call's priority at the beginning of the wait, and after changes.
    /// - Throws: `CancellationError` when the task is cancelled, the call's error when the call is cancelled or late.
    package func wait(
        _ waiter: Waiter<Void>, raised: @escaping @Sendable (RequestPriority) -> Void
    ) async throws {
        if let result = waiter.result { return try result.get() }
        call.noteLimit(isWaiting: true)
        try await waiter.value(for: call) { raised($0.priority) }
        call.noteLimit(isWaiting: false)
    }
}

/// Limits and circuits that a manager shares with other processes. The limits within this process always apply, and
/// they are the only ones while the shared limits are unavailable.
package protocol SharedLimits: Sendable {
    /// Waits until all processes together are within the limits, or the shared limits are unavailable.
    ///
    /// - Returns: A closure to call at the end of the request, with whether it was never sent; `nil` for none.
    func enter(
        _ call: LimitedCall, _ limits: [SharedLimit], host: String
    ) async throws -> (@Sendable (_ isUnused: Bool) -> Void)?

    /// Receives what other processes find out about hosts, from now on.
    func observeCircuits(_ receive: @escaping @Sendable (_ circuit: String, CircuitReport) -> Void)

    /// Reports that this process found a failing host.
    func circuitOpened(_ circuit: String, for pause: Duration)

    /// How long this process must wait before it may probe a host. With `nil` it probes now, and reports the end.
    func pauseBeforeProbe(_ circuit: String) async -> Duration?

    /// Reports the end of this process' probe: the host works again, or (`false`) the result is unknown.
    func probeEnded(_ circuit: String, isClosed: Bool)
}
