import HTTPCore

/// When a host that fails again and again is left alone for a while.
///
/// ```swift
/// configuration.circuitBreaker = CircuitBreakerPolicy(failures: 5, pause: .seconds(30))
/// ```
///
/// After so many failures in a row, requests to the host fail at once with ``NetworkError/Kind/circuitOpen``, and
/// nothing is sent. When the pause is over one request tries it: success lets all through again, failure begins a new
/// pause.
public struct CircuitBreakerPolicy: Hashable, Sendable {
    /// How many failures in a row open the circuit. Default 5.
    public var failures: Int
    /// How long it stays open. Default 30 s.
    public var pause: Duration
    /// The statuses that count as a failure, beside failures of the network. Default 500, 502, 503, 504.
    public var statuses: Set<Int>

    /// Makes a policy.
    public init(failures: Int = 5, pause: Duration = .seconds(30), statuses: Set<Int> = [500, 502, 503, 504]) {
        self.failures = failures
        self.pause = pause
        self.statuses = statuses
    }

    /// What an answer says of its host; `nil` when it says nothing: cancelled, refused before it was sent.
    func judge(_ answer: Result<HTTPResponse, any Error>) -> Bool? {
        switch answer {
        case .success(let response): return !statuses.contains(response.status)
        case .failure(let error):
            guard let error = error as? NetworkError else { return nil }
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
        /// One request tries the host; the others fail at once.
        case probing(UInt64)
    }

    enum Admission: Hashable {
        /// Go on, and tell how it ended with this ticket.
        case pass(ticket: UInt64)
        /// Fail at once; the host is tried again after this time, `nil` while it is being tried.
        case refuse(pause: Duration?)
    }

    let policy: CircuitBreakerPolicy
    private var state = State.closed(failures: 0)
    private var tickets: UInt64 = 0
    /// The first ticket of the present state; what older ones tell is of the past.
    private var firstTicket: UInt64 = 1

    init(_ policy: CircuitBreakerPolicy) { self.policy = policy }

    /// Whether nothing is remembered.
    var isIdle: Bool { state == .closed(failures: 0) }

    /// What ``admit(at:)`` would say; changes nothing.
    func preview(at now: Duration) -> Admission {
        var copy = self
        return copy.admit(at: now)
    }

    /// A request wants to be sent.
    mutating func admit(at now: Duration) -> Admission {
        switch state {
        case .closed:
            tickets += 1
            return .pass(ticket: tickets)
        case .open(let end):
            guard now >= end else { return .refuse(pause: end - now) }
            tickets += 1
            firstTicket = tickets
            state = .probing(tickets)
            return .pass(ticket: tickets)
        case .probing:
            return .refuse(pause: nil)
        }
    }

    /// A request is over; `nil` says nothing of the host.
    mutating func finish(_ ticket: UInt64, isWell: Bool?, at now: Duration) {
        guard ticket >= firstTicket else { return }
        switch state {
        case .closed(let failures):
            guard let isWell else { return }
            if isWell {
                state = .closed(failures: 0)
            } else if failures + 1 >= max(1, policy.failures) {
                open(at: now)
            } else {
                state = .closed(failures: failures + 1)
            }
        case .probing(ticket):
            switch isWell {
            case true?: state = .closed(failures: 0)
            case false?: open(at: now)
            // The next request may try at once: this one has not found out.
            case nil: state = .open(until: now)
            }
        case .probing, .open:
            break
        }
    }

    private mutating func open(at now: Duration) {
        firstTicket = tickets + 1
        state = .open(until: now + policy.pause)
    }
}
