import CurlTransport
import HTTPCore
import Platform
import Synchronization

/// Keeps requests within the limits of the manager and of their domain (``LimitGate``), and away from hosts that fail
/// (``CircuitBreaker``).
final class LimitRoom: Room {
    private struct Domain {
        let gate: LimitGate
        var row: RowLimits
    }

    /// A circuit that a request is subject to.
    private struct Circuit {
        let policy: RequestLimits.CircuitBreakerPolicy
        /// The host, for a domain with a policy of its own after the domain's name.
        let key: String
    }

    private let policy: RequestLimits.CircuitBreakerPolicy?
    /// `nil` if the manager limits nothing.
    private let gate: LimitGate?
    private let clock: CallClock
    private let breakers = Mutex<[String: CircuitBreaker]>([:])
    private let domains = Mutex<[String: Domain]>([:])
    private let knowsDomains = Atomic(false)

    init(
        _ limits: RequestLimits = RequestLimits(), _ policy: RequestLimits.CircuitBreakerPolicy? = nil,
        clock: CallClock = .continuous
    ) {
        self.policy = policy
        gate = limits.isUnlimited ? nil : LimitGate(limits, clock: clock)
        self.clock = clock
    }

    /// Whether the calls of a row have to pass: it has limits, or a domain may have had some that are still counted.
    func concerns(_ row: CallRow) -> Bool { !row.limits.isEmpty || knowsDomains.load(ordering: .relaxed) }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        // The transport rejects what is not a URL.
        guard let host = URLReference.origin(of: request.url) else { return try await chain.proceed(request) }
        let call = chain.call
        let domain = call.details.row.flatMap { self.domain(of: $0) }
        let circuit = circuit(of: domain, call.details.row, host)
        // A request does not wait for its turn only to fail.
        if gate != nil || domain != nil, let circuit { try checkIsClosed(circuit, host, request) }
        return try await pass(domain?.gate, call, host) {
            try await pass(gate, call, host) { try await unlessOpen(circuit, host, request, chain) }
        }
    }

    private func pass(
        _ gate: LimitGate?, _ call: Call, _ host: String, _ send: () async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        guard let gate else { return try await send() }
        return try await gate.pass(call, host, send)
    }

    // MARK: Domains

    /// The limits of a row's domain as they are now; `nil` for a domain that never had any.
    private func domain(of row: CallRow) -> Domain? {
        guard let name = row.domain else { return nil }
        return domains.withLock { domains in
            guard var domain = domains[name] else {
                guard !row.limits.isEmpty else { return nil }
                let new = Domain(
                    gate: LimitGate(row.limits.limits ?? RequestLimits(), clock: clock), row: row.limits)
                domains[name] = new
                knowsDomains.store(true, ordering: .relaxed)
                return new
            }
            guard row.limits.revision > domain.row.revision else { return domain }
            domain.row = row.limits
            domains[name] = domain
            // Under the lock, so that an older row does not come after a newer one.
            domain.gate.adopt(row.limits.limits ?? RequestLimits())
            return domain
        }
    }

    // MARK: Circuit

    private func circuit(of domain: Domain?, _ row: CallRow?, _ host: String) -> Circuit? {
        switch domain?.row.circuit {
        case .off: nil
        case .breaker(let policy): Circuit(policy: policy, key: "\(row?.domain ?? "") \(host)")
        case nil: policy.map { Circuit(policy: $0, key: host) }
        }
    }

    private func checkIsClosed(_ circuit: Circuit, _ host: String, _ request: HTTPRequest) throws {
        guard let breaker = breakers.withLock({ $0[circuit.key] }),
            case .refuse(let pause) = breaker.preview(at: clock.now())
        else { return }
        throw Self.isOpen(host, pause, circuit.policy, request)
    }

    private func unlessOpen(
        _ circuit: Circuit?, _ host: String, _ request: HTTPRequest, _ chain: Chain
    ) async throws -> HTTPResponse {
        guard let circuit else { return try await chain.proceed(request) }
        let (policy, key) = (circuit.policy, circuit.key)
        let admission = breakers.withLock { breakers in
            if breakers.count >= 1_024 { breakers = breakers.filter { !$0.value.isIdle } }
            var breaker = breakers[key] ?? CircuitBreaker(policy)
            breaker.policy = policy
            let admission = breaker.admit(at: clock.now())
            breakers[key] = breaker
            return admission
        }
        guard case .pass(let ticket) = admission else {
            guard case .refuse(let pause) = admission else { return try await chain.proceed(request) }
            throw Self.isOpen(host, pause, policy, request)
        }
        do {
            let response = try await chain.proceed(request)
            finish(key, ticket, policy.judge(.success(response)))
            return response
        } catch {
            finish(key, ticket, policy.judge(.failure(error)))
            throw error
        }
    }

    private func finish(_ key: String, _ ticket: UInt64, _ isSuccess: Bool?) {
        breakers.withLock { $0[key]?.finish(ticket, isSuccess: isSuccess, at: clock.now()) }
    }

    private static func isOpen(
        _ host: String, _ pause: Duration?, _ policy: RequestLimits.CircuitBreakerPolicy, _ request: HTTPRequest
    ) -> NetworkError {
        let next = pause.map { "it is tried again in \($0)" } ?? "it is being tried again"
        return NetworkError(
            .circuitOpen,
            message: "\(host) failed \(policy.failures) times in a row, so nothing was sent; \(next)",
            request: request)
    }
}
