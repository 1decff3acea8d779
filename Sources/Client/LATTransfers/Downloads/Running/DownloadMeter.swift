import HTTPCore
import LATClient
import Platform

/// Computes the progress, at most ten values a second. A value without I/O and clock.
struct DownloadMeter: Sendable {
    private(set) var progress = TransferProgress(direction: .download)
    private var rate = RateMeter()
    private var lastReport: Duration?

    private static let interval = Duration.milliseconds(100)

    /// Records the number of bytes in the file, and how many of them have just been received.
    ///
    /// - Returns: The progress to report; `nil` if it is too early for another report.
    mutating func note(
        completed: Int64, total: Int64?, received: Int64, at time: Duration
    ) -> TransferProgress? {
        rate.note(received, at: time)
        set(completed, total)
        guard lastReport.map({ time - $0 >= Self.interval }) ?? true else { return nil }
        lastReport = time
        return progress
    }

    /// Records a pause, or the end of the download with its final numbers.
    mutating func stop(completed: Int64 = 0, total: Int64? = nil) -> TransferProgress {
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
        progress.set(rate)
    }
}
