internal import Platform

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
