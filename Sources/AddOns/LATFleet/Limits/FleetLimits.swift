internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Synchronization

/// The limits and circuits that one manager shares with other processes.
final class FleetLimits: SharedLimits {
    private struct State {
        var queues: [String: LimitQueue] = [:]
        /// How many queues were made.
        var queueCount = 0
        var places: FleetSubscription?
    }

    private let fleet: Fleet
    /// The name from `join`. Managers with the same name share their limits.
    private let name: String
    private let keepsLimits: Bool
    private let circuits: FleetCircuits?
    /// The name of this manager among those of all processes.
    private let identity: String
    private let state = Mutex(State())
    private let granted: FleetCounter
    private let alone: FleetCounter
    private let waited: FleetCounter

    init(_ fleet: Fleet, name: String, _ parts: FleetParts) {
        self.fleet = fleet
        self.name = name
        keepsLimits = parts.contains(.limits)
        identity = Hexadecimal.random(byteCount: 12)
        circuits = parts.contains(.circuits) ? FleetCircuits(fleet, name: name, identity: identity) : nil
        granted = fleet.counters.counter("limits.granted")
        alone = fleet.counters.counter("limits.alone")
        waited = fleet.counters.counter("limits.waited")
    }

    // MARK: Limits

    func enter(
        _ call: LimitedCall, _ limits: [SharedLimit], host: String
    ) async throws -> (@Sendable (_ isUnused: Bool) -> Void)? {
        guard keepsLimits else { return nil }
        let terms = LimitTerms(limits, host: host) { limit, part in fleet.key("limit", name, limit, part) }
        let queue = queue(terms)
        try await queue.enter(call, terms)
        return { isUnused in queue.leave(isUnused: isUnused) }
    }

    /// The queue for the calls with the same limits.
    private func queue(_ terms: LimitTerms) -> LimitQueue {
        let key = terms.keys.joined(separator: "\n")
        return state.withLock { state in
            if let queue = state.queues[key] { return queue }
            if state.queues.count >= 1_024 { state.queues = state.queues.filter { !$0.value.isIdle } }
            if state.places == nil, !terms.placeKeys.isEmpty {
                state.places = fleet.redis.subscribe(channel) { [weak self] message in
                    guard case .message(let key) = message, let key = key.text, let self else { return }
                    for queue in self.state.withLock({ Array($0.queues.values) }) { queue.wake(key) }
                }
            }
            state.queueCount += 1
            // A dropped queue may still report, so no later one gets its name.
            let queue = LimitQueue(terms, alone: alone, ask: ask(as: "\(identity) \(state.queueCount)"))
            state.queues[key] = queue
            return queue
        }
    }

    private var channel: String { fleet.channel("limit:\(name)") }

    /// Makes the closure with which a queue asks the Redis.
    private func ask(as queue: String)
        -> @Sendable (LimitQueueMachine.Demand, LimitTerms) async -> LimitQueueMachine.Answer?
    {
        { [fleet, channel, granted, waited] demand, terms in
            let arguments = LimitScript.arguments(demand, terms, queue: queue, channel: channel)
            let value = try? await fleet.redis.run(LimitScript.script, keys: terms.keys, arguments, .lookUp)
            guard let answer = value.flatMap({ LimitScript.answer($0, to: demand, terms) })?.answer else { return nil }
            granted.add(answer.delays.count)
            waited.add(answer.delays.count { $0 > .zero } + max(0, demand.want - answer.delays.count))
            return answer
        }
    }

    // MARK: Circuits

    func observeCircuits(_ receive: @escaping @Sendable (_ circuit: String, CircuitReport) -> Void) {
        circuits?.observe(receive)
    }

    func circuitOpened(_ circuit: String, for pause: Duration) { circuits?.opened(circuit, for: pause) }

    func pauseBeforeProbe(_ circuit: String) async -> Duration? { await circuits?.pauseBeforeProbe(circuit) }

    func probeEnded(_ circuit: String, isClosed: Bool) { circuits?.probeEnded(circuit, isClosed: isClosed) }
}
