internal import Platform

/// The pauses between attempts to connect: each is random between zero and a bound that doubles (full jitter), so that the
/// processes of a fleet do not reconnect all at once.
struct Backoff {
    private let longest: Int64
    private var bound: Int64

    /// The bound of the first pause, in milliseconds.
    static let shortest: Int64 = 50

    init(longest: Duration) {
        self.longest = longest.roundedUpMilliseconds
        bound = min(Self.shortest, self.longest)
    }

    /// The next pause in milliseconds.
    ///
    /// - Parameters:
    ///   - random: From 0 to 1.
    ///   - isLasting: Whether another attempt can succeed only after a change of settings.
    mutating func next(random: Double, isLasting: Bool) -> Int64 {
        if isLasting { bound = longest }
        defer { bound = min(bound * 2, longest) }
        return Int64((Double(bound) * random).rounded(.up))
    }

    mutating func reset() { bound = min(Self.shortest, longest) }
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
