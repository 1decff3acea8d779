internal import Platform

/// A circuit breaker: decides whether commands are sent to a server that fails. A pure state machine.
///
/// Requests never probe the server. While the breaker is open nothing is sent; after its pause, one `PING` of the client
/// decides.
struct Breaker {
    enum State: Equatable {
        /// Commands are sent; `failures` of them have failed in a row.
        case closed(failures: Int)
        /// Nothing is sent until this time.
        case open(until: MonotonicTime)
        /// One probe was sent.
        case halfOpen
    }

    private(set) var state = State.closed(failures: 0)
    private let threshold: Int
    private let firstPause: Int64
    private var pause: Int64

    /// The longest pause in milliseconds.
    static let longestPause: Int64 = 30_000

    init(threshold: Int, pause: Duration) {
        self.threshold = threshold
        firstPause = pause.roundedUpMilliseconds
        self.pause = firstPause
    }

    var isClosed: Bool { if case .closed = state { true } else { false } }

    /// When ``probes(_:)`` is to be called next.
    var due: MonotonicTime { if case .open(let until) = state { until } else { .distantFuture } }

    /// A command was answered, or the probe.
    mutating func succeeded() {
        state = .closed(failures: 0)
        pause = firstPause
    }

    /// A command failed in a way that concerns the server, or the probe did.
    mutating func failed(_ now: MonotonicTime) {
        switch state {
        case .closed(let failures) where failures + 1 < threshold: state = .closed(failures: failures + 1)
        case .closed: state = .open(until: now + pause)
        case .open: break
        case .halfOpen:
            pause = min(pause * 2, max(firstPause, Self.longestPause))
            state = .open(until: now + pause)
        }
    }

    /// Whether a probe must be sent now; the breaker is then half-open.
    mutating func probes(_ now: MonotonicTime) -> Bool {
        guard case .open(let until) = state, until <= now else { return false }
        state = .halfOpen
        return true
    }

    /// A new connection answers, so the next ``probes(_:)`` need not wait for the pause.
    mutating func reconnected(_ now: MonotonicTime) {
        if case .open = state { state = .open(until: now) }
    }
}

/// Detects a server that is silent but has not closed the connection. A pure state machine.
struct Heartbeat {
    enum Step: Equatable {
        case nothing
        /// Send a `PING`.
        case ask
        /// The `PING` was not answered.
        case isDead
    }

    private let interval: Int64
    private var lastHeard: MonotonicTime
    private var isAsked = false

    init(_ interval: Duration, _ now: MonotonicTime) {
        self.interval = interval.roundedUpMilliseconds
        lastHeard = now
    }

    var due: MonotonicTime { lastHeard + (isAsked ? 2 * interval : interval) }

    mutating func received(_ now: MonotonicTime) {
        lastHeard = now
        isAsked = false
    }

    mutating func step(_ now: MonotonicTime) -> Step {
        guard due <= now else { return .nothing }
        guard !isAsked else { return .isDead }
        isAsked = true
        return .ask
    }
}
