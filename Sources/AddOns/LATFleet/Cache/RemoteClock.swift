internal import Platform

/// Redis' clock as far as it is known from its replies to `TIME`. A pure value.
///
/// Redis reads its clock after this process has asked and before it receives the reply, so each reply gives two bounds. Earlier
/// bounds are kept, widened by a thousandth of the time since, because clocks are adjusted.
struct RemoteClock {
    /// The bounds of Redis' time minus the monotonic time, in microseconds.
    private var offset: ClosedRange<Int64>?
    /// When a reply was last read.
    private var readAt = MonotonicTime(nanoseconds: 0)

    /// Takes a reply: Redis' time in microseconds.
    ///
    /// - Parameter now: When it was received. Default: now.
    mutating func read(_ time: Int64, since start: MonotonicTime, now: MonotonicTime = .now) {
        let seen = time - now.nanoseconds / 1_000...time - start.nanoseconds / 1_000
        let drift = (now.nanoseconds - readAt.nanoseconds) / 1_000_000
        // The remainder of the division is left for the next call.
        readAt = MonotonicTime(nanoseconds: readAt.nanoseconds + drift * 1_000_000)
        let known = offset.map { $0.lowerBound - drift...$0.upperBound + drift } ?? seen
        // If they do not overlap, the clock was set, and only the new reply counts.
        offset = known.overlaps(seen) ? known.clamped(to: seen) : seen
    }

    /// The bounds of Redis' present time, in microseconds; `nil` before the first reply.
    var now: ClosedRange<Int64>? { bounds(at: .now) }

    func bounds(at time: MonotonicTime) -> ClosedRange<Int64>? {
        let microseconds = time.nanoseconds / 1_000
        return offset.map { $0.lowerBound + microseconds...$0.upperBound + microseconds }
    }
}
