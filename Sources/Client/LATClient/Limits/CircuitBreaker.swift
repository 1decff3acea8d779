import HTTPCore

extension RequestLimits.CircuitBreakerPolicy {
    /// Whether a response or error means that the host works; `nil` if it says nothing, like a cancellation.
    func judge(_ answer: Result<HTTPResponse, any Error>) -> Bool? {
        switch answer {
        case .success(let response): return !statuses.contains(response.status)
        case .failure(let error):
            guard let error = error as? NetworkError, !error.isEndOfCall else { return nil }
            return switch error.kind {
            case .dns, .connect, .tls, .timeout, .connectionLost, .protocolViolation: false
            case .redirect, .bodyTooLarge, .httpStatus: true
            default: nil
            }
        }
    }
}

/// The circuit of one host. A pure state machine.
struct CircuitBreaker: Sendable {
    private enum State: Hashable {
        case closed(failures: Int)
        case open(until: Duration)
        /// The request with this ticket asks the other processes whether it may probe the host; other requests fail at
        /// once.
        case asking(UInt64)
        /// The request with this ticket probes the host; other requests fail at once.
        case probing(UInt64)
    }

    enum Admission: Hashable {
        /// Proceed, and report the result with this ticket.
        case pass(ticket: UInt64)
        /// Fail at once. The host is probed after this time; `nil` while it is being probed.
        case refuse(pause: Duration?)
    }

    /// A change keeps the failures so far, and the time until which an open circuit stays open.
    var policy: RequestLimits.CircuitBreakerPolicy
    private var state = State.closed(failures: 0)
    private var tickets: UInt64 = 0
    private var lastFailure = Duration.zero
    /// Whether another process opened the circuit, for a time that ``policy`` has not bounded yet.
    private var isOpenedElsewhere = false
    /// Whether one of the failures was made on purpose. They count in this process alone, so that no other one hears of the
    /// circuit, or is asked about it.
    private var isPrivate = false
    /// The first ticket of the present state. Results of older tickets are ignored.
    private var firstTicket: UInt64 = 1

    init(_ policy: RequestLimits.CircuitBreakerPolicy) { self.policy = policy }

    /// Whether no failure is recorded.
    var isIdle: Bool { state == .closed(failures: 0) }

    /// Whether nothing is lost when the circuit is forgotten: its failures are long ago.
    func isForgettable(at now: Duration) -> Bool {
        switch state {
        case .closed(let failures): failures == 0 || now - lastFailure > policy.pause
        case .open(let end): now - end > policy.pause
        case .asking, .probing: false
        }
    }

    /// The result of ``admit(at:)``, without its effects.
    func preview(at now: Duration) -> Admission {
        var copy = self
        return copy.admit(at: now)
    }

    /// Decides whether a request may be sent.
    mutating func admit(at now: Duration) -> Admission {
        switch state {
        case .closed:
            tickets += 1
            return .pass(ticket: tickets)
        case .open(var end):
            if isOpenedElsewhere {
                // Whatever another process says, this one asks again after its own pause.
                end = min(end, now + policy.pause)
                state = .open(until: end)
                isOpenedElsewhere = false
            }
            guard now >= end else { return .refuse(pause: end - now) }
            tickets += 1
            firstTicket = tickets
            state = .probing(tickets)
            return .pass(ticket: tickets)
        case .asking, .probing:
            return .refuse(pause: nil)
        }
    }

    /// What the end of a request changed for other processes.
    enum Change: Hashable {
        case opened(pause: Duration)
        /// A probe succeeded.
        case closed
        /// A probe said nothing about the host: the next request may probe at once.
        case undecided
    }

    /// Records the end of a request.
    ///
    /// - Parameters:
    ///   - isSuccess: Whether the host works; `nil` if the end says nothing about it.
    ///   - isOnPurpose: Whether a failure was made on purpose.
    @discardableResult
    mutating func finish(_ ticket: UInt64, isSuccess: Bool?, isOnPurpose: Bool = false, at now: Duration) -> Change? {
        guard ticket >= firstTicket else { return nil }
        let wasPrivate = isPrivate
        switch (state, isSuccess) {
        case (.closed, true?): close()
        case (.closed(let failures), false?):
            isPrivate = isOnPurpose || wasPrivate
            guard failures + 1 < max(1, policy.failures) else {
                let change = open(for: policy.pause, at: now)
                return isPrivate ? nil : change
            }
            state = .closed(failures: failures + 1)
            lastFailure = now
        case (.probing(ticket), true?):
            close()
            return wasPrivate ? nil : .closed
        case (.probing(ticket), false?):
            isPrivate = isOnPurpose
            let change = open(for: policy.pause, at: now)
            guard isOnPurpose else { return change }
            return wasPrivate ? nil : .undecided
        case (.probing(ticket), nil):
            state = .open(until: now)
            return wasPrivate ? nil : .undecided
        case (.closed, nil), (.probing, _), (.asking, _), (.open, _): break
        }
        return nil
    }

    private mutating func close() {
        state = .closed(failures: 0)
        isPrivate = false
    }

    @discardableResult
    private mutating func open(for pause: Duration, at now: Duration) -> Change {
        firstTicket = tickets + 1
        state = .open(until: now + pause)
        isOpenedElsewhere = false
        return .opened(pause: pause)
    }

    // MARK: Other processes

    /// Whether the request with a ticket is a probe; it then asks the other processes before it is sent.
    mutating func ask(_ ticket: UInt64) -> Bool {
        guard state == .probing(ticket), !isPrivate else { return false }
        state = .asking(ticket)
        return true
    }

    /// Records the answer of the other processes: a pause opens the circuit for that time, at most for the policy's pause;
    /// without one, the request probes the host.
    ///
    /// - Returns: `false` if another process has closed the circuit in the meantime, so that there is nothing to probe.
    mutating func answer(_ ticket: UInt64, pause: Duration?, at now: Duration) -> Bool {
        guard state == .asking(ticket) else { return false }
        if let pause { open(for: min(pause, policy.pause), at: now) } else { state = .probing(ticket) }
        return true
    }

    /// Applies the result of another process. It is ignored while this process probes the host. The next request holds the
    /// time within the policy's pause, then asks again: the policy of a circuit is not known before its first request.
    mutating func adopt(_ report: CircuitReport, at now: Duration) {
        switch (report, state) {
        case (.opened(let pause), .closed), (.opened(let pause), .open):
            open(for: pause, at: now)
            isOpenedElsewhere = true
            isPrivate = false
        case (.closed, .open), (.closed, .asking):
            firstTicket = tickets + 1
            close()
        case (_, .probing), (.opened, .asking), (.closed, .closed): break
        }
    }
}
