internal import Platform

/// Redis' clock as far as it is known from its answers to `TIME`. A pure value.
///
/// Redis read its clock after this process had asked and before it received the answer, so each answer gives two bounds. Those
/// of earlier answers count too; they widen by a thousandth of the time that passes, because clocks are corrected.
struct RemoteClock {
    /// The bounds of Redis' time minus the monotonic time, in microseconds.
    private var offset: ClosedRange<Int64>?
    /// When an answer was last read.
    private var readAt = MonotonicTime(nanoseconds: 0)

    /// Takes an answer: Redis' time in microseconds.
    ///
    /// - Parameter now: When it was received. Default: now.
    mutating func read(_ time: Int64, since start: MonotonicTime, now: MonotonicTime = .now) {
        let seen = time - now.nanoseconds / 1_000...time - start.nanoseconds / 1_000
        let drift = (now.nanoseconds - readAt.nanoseconds) / 1_000_000
        // The rest of the division counts the next time.
        readAt = MonotonicTime(nanoseconds: readAt.nanoseconds + drift * 1_000_000)
        let known = offset.map { $0.lowerBound - drift...$0.upperBound + drift } ?? seen
        // Where they contradict each other, the clock was set, and the new answer counts.
        offset = known.overlaps(seen) ? known.clamped(to: seen) : seen
    }

    /// The bounds of Redis' present time, in microseconds; `nil` before the first answer.
    var now: ClosedRange<Int64>? { bounds(at: .now) }

    func bounds(at time: MonotonicTime) -> ClosedRange<Int64>? {
        let microseconds = time.nanoseconds / 1_000
        return offset.map { $0.lowerBound + microseconds...$0.upperBound + microseconds }
    }
}
