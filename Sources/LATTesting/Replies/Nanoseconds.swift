import Platform

/// A time on the monotonic clock, or a duration.
typealias Nanoseconds = Int64

extension Nanoseconds {
    /// The present time.
    static func monotonicNow() -> Nanoseconds { MonotonicTime.now.nanoseconds }

    /// This time plus a duration; `.max` for 31 years or more.
    func adding(_ duration: Duration) -> Nanoseconds {
        let (seconds, attoseconds) = duration.components
        guard seconds < 1_000_000_000 else { return .max }
        guard seconds >= 0 else { return self }
        return self + seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
