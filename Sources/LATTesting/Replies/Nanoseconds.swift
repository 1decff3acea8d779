import Platform

/// A moment on the monotonic clock, or a span of it.
typealias Nanoseconds = Int64

extension Nanoseconds {
    /// The present moment.
    static func monotonicNow() -> Nanoseconds { MonotonicTime.now.nanoseconds }

    /// This moment and a duration; far in the future instead of an overflow.
    func adding(_ duration: Duration) -> Nanoseconds {
        let (seconds, attoseconds) = duration.components
        guard seconds < 1_000_000_000 else { return .max }
        guard seconds >= 0 else { return self }
        return self + seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
