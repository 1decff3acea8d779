import Platform

/// How far a download is.
///
/// ```swift
/// for await progress in download.progress {
///     print(progress.completed, progress.total ?? -1, progress.bytesPerSecond ?? 0)
/// }
/// ```
public struct DownloadProgress: Hashable, Sendable {
    /// The bytes that are there, those of earlier runs among them. It never goes down: when a download has to start over,
    /// it stands still until the new bytes have caught up.
    public internal(set) var completed: Int64 = 0
    /// All bytes; `nil` while nobody knows.
    public internal(set) var total: Int64?
    /// The rate at which bytes come in, smoothed over about three seconds; `nil` before anything is known of it, while
    /// the download is paused and when it is over.
    public internal(set) var bytesPerSecond: Double?
    /// The time until the end, at that rate; `nil` when it or the total is unknown.
    public internal(set) var estimatedTimeRemaining: Duration?

    /// The share that is done, from 0 to 1; `nil` while the total is unknown.
    public var fraction: Double? {
        guard let total else { return nil }
        return total == 0 ? 1 : min(1, Double(completed) / Double(total))
    }
}

/// The progress of a download from now on: the current value first, then changes, at most ten a second, last
/// the final value. It ends with the download.
///
/// Any number of readers may each iterate it. A slow one misses values in between, never the last.
public struct DownloadProgressUpdates: AsyncSequence, Sendable {
    /// How far the download is.
    public typealias Element = DownloadProgress
    /// It never fails: how the download ends is told by ``Download/value``.
    public typealias Failure = Never

    let source: LatestValue<DownloadProgress>

    /// Begins with the current value.
    public func makeAsyncIterator() -> Iterator { Iterator(base: source.values().makeAsyncIterator()) }

    /// Gives one value after the other.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var base: AsyncStream<DownloadProgress>.Iterator

        /// The next value; `nil` after the last, and when the current task is cancelled.
        public mutating func next() async -> DownloadProgress? { await base.next() }

        /// The next value; `nil` after the last, and when the current task is cancelled.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> DownloadProgress? {
            await base.next(isolation: actor)
        }
    }
}

/// Makes progress of what happens: never downwards, at most ten values a second. A value without I/O and clock.
struct DownloadMeter: Sendable {
    private(set) var progress = DownloadProgress()
    private var rate = RateMeter()
    private var lastTold: Duration?

    private static let interval = Duration.milliseconds(100)

    /// Takes in what is there, and how much of it just came.
    ///
    /// - Returns: What to tell the readers; `nil` when it is too early.
    mutating func note(
        completed: Int64, total: Int64?, received: Int64, at time: Duration
    ) -> DownloadProgress? {
        rate.note(received, at: time)
        set(completed, total)
        guard lastTold.map({ time - $0 >= Self.interval }) ?? true else { return nil }
        lastTold = time
        return progress
    }

    /// The transfer stands still on purpose.
    mutating func pause() -> DownloadProgress {
        rate.stop()
        set(progress.completed, progress.total)
        return progress
    }

    /// The download is over.
    mutating func finish(completed: Int64, total: Int64?) -> DownloadProgress {
        rate.stop()
        set(completed, total)
        return progress
    }

    private mutating func set(_ completed: Int64, _ total: Int64?) {
        progress.completed = max(progress.completed, completed)
        if let total {
            progress.total = total
            // Another version may be smaller than what had come of the one before.
            progress.completed = min(progress.completed, total)
        }
        progress.bytesPerSecond = rate.bytesPerSecond
        progress.estimatedTimeRemaining = progress.total.flatMap { rate.time(for: max(0, $0 - progress.completed)) }
    }
}
