internal import Glibc

/// A time of `CLOCK_MONOTONIC` in nanoseconds, the clock of sockets and timers. The clock stops while the machine sleeps.
package struct MonotonicTime: Comparable, Hashable, Sendable {
    package var nanoseconds: Int64

    @inlinable package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    @inlinable package static var now: MonotonicTime { reading(CLOCK_MONOTONIC) }

    /// The time of a clock that advances while the machine sleeps, too, as `ContinuousClock` does.
    @inlinable package static var withSleep: MonotonicTime { reading(CLOCK_BOOTTIME) }

    /// What a clock of the system shows, such as `CLOCK_THREAD_CPUTIME_ID`.
    @inlinable package static func reading(_ clock: Int32) -> MonotonicTime {
        var time = timespec()
        clock_gettime(clock, &time)
        return MonotonicTime(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    @inlinable package static var distantFuture: MonotonicTime { MonotonicTime(nanoseconds: .max) }

    @inlinable package static func < (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds < rhs.nanoseconds }

    @inlinable package static func + (time: Self, milliseconds: Int64) -> Self {
        let (added, isTooLong) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
        let (sum, isTooFar) = time.nanoseconds.addingReportingOverflow(added)
        return isTooLong || isTooFar ? .distantFuture : MonotonicTime(nanoseconds: sum)
    }

    /// A later time, rounded up to nanoseconds; at most the distant future.
    @inlinable package static func + (time: Self, duration: Duration) -> Self {
        let (seconds, attoseconds) = duration.components
        let (whole, isTooLong) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isTooFar) = time.nanoseconds.addingReportingOverflow(whole)
        let (end, isBeyond) = sum.addingReportingOverflow((attoseconds + 999_999_999) / 1_000_000_000)
        return isTooLong || isTooFar || isBeyond ? .distantFuture : MonotonicTime(nanoseconds: end)
    }

    @inlinable package func duration(to other: Self) -> Duration { .nanoseconds(other.nanoseconds - nanoseconds) }

    /// The whole milliseconds until another time, rounded up; 0 when it has passed.
    @inlinable package func milliseconds(until other: Self) -> Int64 {
        other <= self ? 0 : (other.nanoseconds - nanoseconds + 999_999) / 1_000_000
    }
}

extension Duration {
    /// The duration in seconds, with fraction.
    package var inSeconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }

    /// The duration in whole milliseconds, rounded up so that a fraction never becomes 0, and at most `Int32.max`.
    @inlinable package var roundedUpMilliseconds: Int64 { roundedUpMilliseconds(atMost: Int64(Int32.max)) }

    @inlinable package func roundedUpMilliseconds(atMost limit: Int64) -> Int64 {
        let (seconds, attoseconds) = components
        guard seconds < limit / 1000 else { return limit }
        let perMillisecond: Int64 = 1_000_000_000_000_000
        return seconds * 1000 + (attoseconds + perMillisecond - 1) / perMillisecond
    }
}
