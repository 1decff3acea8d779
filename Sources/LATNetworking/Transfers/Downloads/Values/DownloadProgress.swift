import Platform

/// The progress of a download.
///
/// ```swift
/// for await progress in download.progress {
///     print(progress.completed, progress.total ?? -1, progress.bytesPerSecond ?? 0)
/// }
/// ```
public struct DownloadProgress: Hashable, Sendable {
    /// The number of bytes in the file, including those of earlier runs. While a download that started over catches up,
    /// the number stays the same.
    public internal(set) var completed: Int64 = 0
    /// The total number of bytes; `nil` while unknown.
    public internal(set) var total: Int64?
    /// The bytes received per second, smoothed over about three seconds; `nil` at the beginning, while the download is
    /// paused, and after its end.
    public internal(set) var bytesPerSecond: Double?
    /// The estimated time to the end at that rate; `nil` when the rate or the total is unknown.
    public internal(set) var estimatedTimeRemaining: Duration?

    /// The completed share, from 0 to 1; `nil` while the total is unknown.
    public var fraction: Double? {
        guard let total else { return nil }
        return total == 0 ? 1 : min(1, Double(completed) / Double(total))
    }
}

/// The progress of a download from now on: the current value, then changes, at most ten a second, and at last the final
/// value. The sequence ends with the download.
///
/// Any number of tasks may iterate it. A slow one misses intermediate values, but never the last.
public struct DownloadProgressUpdates: AsyncSequence, Sendable {
    /// The progress of the download.
    public typealias Element = DownloadProgress
    /// The sequence never throws: ``Download/value`` does if the download fails.
    public typealias Failure = Never

    let source: LatestValue<DownloadProgress>

    /// Creates an iterator that begins with the current value.
    public func makeAsyncIterator() -> Iterator { Iterator(base: source.values().makeAsyncIterator()) }

    /// Returns one value after the other.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var base: AsyncStream<DownloadProgress>.Iterator

        /// The next value; `nil` after the last one, and if the current task is cancelled.
        public mutating func next() async -> DownloadProgress? { await base.next() }

        /// The next value; `nil` after the last one, and if the current task is cancelled.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> DownloadProgress? {
            await base.next(isolation: actor)
        }
    }
}

/// Computes the progress, at most ten values a second. A value without I/O and clock.
struct DownloadMeter: Sendable {
    private(set) var progress = DownloadProgress()
    private var rate = RateMeter()
    private var lastTold: Duration?

    private static let interval = Duration.milliseconds(100)

    /// Records the number of bytes in the file, and how many of them have just been received.
    ///
    /// - Returns: The progress to report; `nil` if it is too early for another report.
    mutating func note(
        completed: Int64, total: Int64?, received: Int64, at time: Duration
    ) -> DownloadProgress? {
        rate.note(received, at: time)
        set(completed, total)
        guard lastTold.map({ time - $0 >= Self.interval }) ?? true else { return nil }
        lastTold = time
        return progress
    }

    /// Records a pause.
    mutating func pause() -> DownloadProgress {
        rate.stop()
        set(progress.completed, progress.total)
        return progress
    }

    /// Records the end of the download.
    mutating func finish(completed: Int64, total: Int64?) -> DownloadProgress {
        rate.stop()
        set(completed, total)
        return progress
    }

    private mutating func set(_ completed: Int64, _ total: Int64?) {
        progress.completed = max(progress.completed, completed)
        if let total {
            progress.total = total
            // A new version may be smaller than the bytes received of the old one.
            progress.completed = min(progress.completed, total)
        }
        progress.bytesPerSecond = rate.bytesPerSecond
        progress.estimatedTimeRemaining = progress.total.flatMap { rate.time(for: max(0, $0 - progress.completed)) }
    }
}
