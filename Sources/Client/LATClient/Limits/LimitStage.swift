import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// Keeps requests within the limits of their rows and of the manager (``LimitGate``), and away from hosts that fail
/// (``CircuitBreaker``).
final class LimitStage: Stage {
    /// The name of a row of the table.
    private struct RowName: Hashable {
        let domain: String
        /// `nil` for the domain.
        var server: String?
    }

    /// A row's limits and circuit as they are now.
    private struct RowState {
        let gate: LimitGate
        var row: RowLimits.Row
        var revision: UInt64
    }

    /// The circuit of a request.
    private struct Circuit {
        let policy: RequestLimits.CircuitBreakerPolicy
        let host: String
        /// The host; with a row's policy, the row's name and the host.
        let key: String
    }

    private let policy: RequestLimits.CircuitBreakerPolicy?
    /// `nil` if the manager limits nothing.
    private let gate: LimitGate?
    private let limits: RequestLimits
    /// The limits of all processes; `nil` when this process is alone.
    private let shared: (any SharedLimits)?
    private let clock: CallClock
    private let breakers = Mutex<[String: CircuitBreaker]>([:])
    private let rows = Mutex<[RowName: RowState]>([:])
    private let knowsRows = Atomic(false)
    /// Old circuits are forgotten when there are at least this many circuits.
    private let roomFrom = Atomic(1_024)

    init(
        _ limits: RequestLimits = RequestLimits(), _ policy: RequestLimits.CircuitBreakerPolicy? = nil,
        shared: (any SharedLimits)? = nil, engine: CurlTransport? = nil, clock: CallClock = .continuous
    ) {
        self.policy = policy
        self.limits = limits
        self.shared = shared
        gate = limits.isUnlimited ? nil : LimitGate(limits, clock: clock)
        self.clock = clock
        shared?.observeCircuits { [weak self, weak engine] circuit, report in
            if AddressCircuits.isName(circuit) {
                engine?.adopt(report, of: circuit)
            } else {
                self?.adopt(report, circuit)
            }
        }
        guard let shared else { return }
        engine?.addressCircuits.observe { circuit, report in
            switch report {
            case .opened(let pause): shared.circuitOpened(circuit, for: pause)
            case .closed: shared.probeEnded(circuit, isClosed: true)
            }
        }
    }

    /// Whether a row's calls must pass this stage: the row has limits or a circuit, or a row had some that may still
    /// count.
    func concerns(_ row: CallRow) -> Bool { !row.limits.isEmpty || knowsRows.load(ordering: .relaxed) }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        // The transport rejects what is not a URL.
        guard let host = URLReference.origin(of: request.url) else { return try await chain.proceed(request) }
        let call = chain.call
        let row = call.details.row
        var (domain, server): (RowState?, RowState?)
        if let row, let name = row.domain {
            domain = state(of: RowName(domain: name), row.limits.domain, row.limits.revision)
            if row.server != nil {
                server = state(of: RowName(domain: name, server: row.server), row.limits.server, row.limits.revision)
            }
        }
        let circuit = circuit(of: row, server?.row.circuit, domain?.row.circuit, host)
        // A server row with `limits: null` is free of the domain's limits, but not of the domain's circuit.
        if server?.row.isFree == true { domain = nil }
        var gates: [LimitGate] = []
        /// Those of the gates that keep what the server tells.
        var followers: [LimitGate] = []
        func pass(_ gate: LimitGate, _ limits: RequestLimits?) {
            gates.append(gate)
            if limits?.followsServer == true { followers.append(gate) }
        }
        if let server { pass(server.gate, server.row.limits) }
        if let domain { pass(domain.gate, domain.row.limits) }
        if let gate { pass(gate, limits) }
        guard !gates.isEmpty else { return try await unlessOpen(circuit, request, chain) }
        // A request does not wait for its turn only to fail.
        if let circuit, let breaker = breakers.withLock({ $0[circuit.key] }),
            case .refuse(let pause) = breaker.preview(at: clock.now())
        {
            throw Self.isOpen(circuit, pause, request)
        }
        for gate in followers where gate.pause(of: host) > .zero { try await gate.waitForHost(call, host) }
        // The shared limits come first: when they become unavailable, the calls that wait there go on to the local ones.
        var leave: (@Sendable (_ isUnused: Bool) -> Void)?
        if let shared {
            var limits: [SharedLimit] = []
            func add(_ name: @autoclosure () -> String, _ given: RequestLimits?, _ gate: LimitGate?) {
                guard var given, !given.isUnlimited else { return }
                if given.followsServer, let told = gate?.toldRate(of: host) {
                    limits.append(SharedLimit(name: "told \(name())", limits: RequestLimits(ratePerHost: told)))
                }
                given.followsServer = false
                given.adaptive = nil
                if !given.isUnlimited { limits.append(SharedLimit(name: name(), limits: given)) }
            }
            add("row \(row?.domain ?? "") \(row?.server ?? "")", server?.row.limits, server?.gate)
            add("domain \(row?.domain ?? "")", domain?.row.limits, domain?.gate)
            add("manager", self.limits, gate)
            if !limits.isEmpty { leave = try await shared.enter(LimitedCall(call: call), limits, host: host) }
        }
        return try await LimitGate.pass(gates, call, host, leave) { [followers] in
            let response = try await unlessOpen(circuit, request, chain)
            for gate in followers { gate.learn(from: response, host, date: Int64(Date().timeIntervalSince1970)) }
            return response
        }
    }

    // MARK: Rows

    /// The state of a row; `nil` for one that never had limits or a circuit.
    private func state(of name: RowName, _ row: RowLimits.Row, _ revision: UInt64) -> RowState? {
        rows.withLock { rows in
            guard var state = rows[name] else {
                guard !row.isEmpty else { return nil }
                let new = RowState(
                    gate: LimitGate(row.limits ?? RequestLimits(), clock: clock), row: row, revision: revision)
                rows[name] = new
                knowsRows.store(true, ordering: .relaxed)
                return new
            }
            guard revision > state.revision else { return state }
            (state.row, state.revision) = (row, revision)
            rows[name] = state
            // Under the lock, so that an older row does not replace a newer one.
            state.gate.adopt(row.limits ?? RequestLimits())
            return state
        }
    }

    /// The numbers of requests that hosts take at once, by row and host. A changed table shows with the row's next call.
    var adaptiveLimits: [String: Int] {
        var all = gate?.adaptiveLimits ?? [:]
        for (name, state) in rows.withLock({ $0 }) {
            let row = [name.domain, name.server].compactMap(\.self).joined(separator: " ")
            for (host, limit) in state.gate.adaptiveLimits { all["\(row) \(host)"] = limit }
        }
        return all
    }

    // MARK: Circuit

    /// The circuits that have seen failures, by row and host, and whether each is open.
    var circuits: [String: Bool] {
        breakers.withLock { breakers in
            breakers.filter { !$0.value.isIdle }.mapValues { breaker in
                if case .refuse = breaker.preview(at: clock.now()) { true } else { false }
            }
        }
    }

    /// The circuit of the narrowest row that has a policy, else that of the manager.
    private func circuit(
        of row: CallRow?, _ server: RequestLimits.CircuitChoice?, _ domain: RequestLimits.CircuitChoice?, _ host: String
    ) -> Circuit? {
        switch server ?? domain {
        case .off: nil
        case .breaker(let policy):
            Circuit(
                policy: policy, host: host,
                key: server == nil
                    ? "\(row?.domain ?? "") \(host)" : "\(row?.domain ?? "") \(row?.server ?? "") \(host)")
        case nil: policy.map { Circuit(policy: $0, host: host, key: host) }
        }
    }

    /// Forgets old circuits when there are many, and again when their number has doubled, so that few requests do it.
    private func makeRoom(_ breakers: inout [String: CircuitBreaker]) {
        guard breakers.count >= roomFrom.load(ordering: .relaxed) else { return }
        let now = clock.now()
        breakers = breakers.filter { !$0.value.isForgettable(at: now) }
        roomFrom.store(max(1_024, 2 * breakers.count), ordering: .relaxed)
    }

    /// Sends a request, and records what it says about the host, unless the circuit is open.
    private func unlessOpen(
        _ circuit: Circuit?, _ request: HTTPRequest, _ chain: Chain
    ) async throws -> HTTPResponse {
        guard let circuit else { return try await chain.proceed(request) }
        let (policy, key) = (circuit.policy, circuit.key)
        let admission = breakers.withLock { breakers in
            makeRoom(&breakers)
            var breaker = breakers[key] ?? CircuitBreaker(policy)
            breaker.policy = policy
            let admission = breaker.admit(at: clock.now())
            breakers[key] = breaker
            return admission
        }
        let ticket: UInt64
        switch admission {
        case .pass(let admitted): ticket = admitted
        case .refuse(let pause): throw Self.isOpen(circuit, pause, request)
        }
        if let shared, breakers.withLock({ $0[key]?.ask(ticket) == true }) {
            let pause = await shared.pauseBeforeProbe(key)
            let isStillOpen = breakers.withLock { $0[key]?.answer(ticket, pause: pause, at: clock.now()) == true }
            guard isStillOpen else {
                if pause == nil { shared.probeEnded(key, isClosed: false) }
                return try await unlessOpen(circuit, request, chain)
            }
            if pause != nil { throw Self.isOpen(circuit, nil, request) }
        }
        do {
            let response = try await chain.proceed(request)
            finish(key, ticket, policy.judge(.success(response)))
            return response
        } catch {
            let isOnPurpose = (error as? NetworkError)?.underlying is RequestOptions.Chaos.Fault
            finish(key, ticket, policy.judge(.failure(error)), isOnPurpose: isOnPurpose)
            throw error
        }
    }

    private func finish(_ key: String, _ ticket: UInt64, _ isSuccess: Bool?, isOnPurpose: Bool = false) {
        let change = breakers.withLock {
            $0[key]?.finish(ticket, isSuccess: isSuccess, isOnPurpose: isOnPurpose, at: clock.now())
        }
        switch change {
        case .opened(let pause): shared?.circuitOpened(key, for: pause)
        case .closed: shared?.probeEnded(key, isClosed: true)
        case .undecided: shared?.probeEnded(key, isClosed: false)
        case nil: break
        }
    }

    /// Applies what another process found out about a host.
    private func adopt(_ report: CircuitReport, _ key: String) {
        breakers.withLock { breakers in
            // Circuits that no call of this process has used take no more than a bounded memory.
            guard breakers[key] != nil || report != .closed && breakers.count < 16_384 else { return }
            // The next request replaces the policy of a new circuit with its own.
            breakers[key, default: CircuitBreaker(RequestLimits.CircuitBreakerPolicy())].adopt(report, at: clock.now())
        }
    }

    private static func isOpen(_ circuit: Circuit, _ pause: Duration?, _ request: HTTPRequest) -> NetworkError {
        let next = pause.map { "it is tried again in \($0)" } ?? "it is being tried again"
        return NetworkError(
            .circuitOpen,
            message: "\(circuit.host) failed \(circuit.policy.failures) times in a row, so nothing was sent; \(next)",
            request: request)
    }
}
