internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Synchronization

/// The limits and circuits that one manager shares with other processes.
final class FleetLimits: SharedLimits {
    private struct State {
        var lanes: [String: LimitLane] = [:]
        /// How many lanes were made.
        var laneCount = 0
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
        let lane = lane(terms)
        try await lane.enter(call, terms)
        return { isUnused in lane.leave(isUnused: isUnused) }
    }

    /// The lane for the calls with the same limits.
    private func lane(_ terms: LimitTerms) -> LimitLane {
        let key = terms.keys.joined(separator: "\n")
        return state.withLock { state in
            if let lane = state.lanes[key] { return lane }
            if state.lanes.count >= 1_024 { state.lanes = state.lanes.filter { !$0.value.isIdle } }
            if state.places == nil, !terms.placeKeys.isEmpty {
                state.places = fleet.redis.subscribe(channel) { [weak self] message in
                    guard case .message(let key) = message, let key = key.text, let self else { return }
                    for lane in self.state.withLock({ Array($0.lanes.values) }) { lane.wake(key) }
                }
            }
            state.laneCount += 1
            // A dropped lane may still report, so no later one gets its name.
            let lane = LimitLane(terms, alone: alone, ask: ask(as: "\(identity) \(state.laneCount)"))
            state.lanes[key] = lane
            return lane
        }
    }

    private var channel: String { fleet.channel("limit:\(name)") }

    /// Makes the closure with which a lane asks the Redis.
    private func ask(as lane: String) -> @Sendable (LaneQueue.Demand, LimitTerms) async -> LaneQueue.Answer? {
        { [fleet, channel, granted, waited] demand, terms in
            let arguments = LimitScript.arguments(demand, terms, lane: lane, channel: channel)
            let value = try? await fleet.redis.run(LimitScript.script, keys: terms.keys, arguments, .lookUp)
            guard let answer = value.flatMap(LimitScript.answer)?.answer else { return nil }
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
