import FoundationEssentials
import HTTPCore
import LATClient
import Platform
import Synchronization

/// Writes the journal from time to time during a transfer, each time after synchronising the file.
///
/// A journal is written when ``interval(total:)`` bytes are not in the last one, or after five seconds. The transfer waits
/// for a slow disk, so that at most about two intervals are missing from the journal. After a kill, only those bytes, and
/// the ones in flight, are received again.
final class Checkpoints: Sendable {
    private struct State {
        var unlisted: Int64 = 0
        var last = ContinuousClock.now
        var work: Task<Void, Never>?
        var failure: NetworkError?
    }

    private let state = Mutex(State())
    private let file: PartFile
    private let path: String
    private let journal: @Sendable () -> DownloadJournal?

    /// - Parameter journal: Makes the journal to write now; `nil` for none.
    init(file: PartFile, path: String, journal: @escaping @Sendable () -> DownloadJournal?) {
        self.file = file
        self.path = path
        self.journal = journal
    }

    /// The number of bytes between two journals: a hundredth of the content, but 256 KiB to 32 MiB; 4 MiB while its size is
    /// unknown.
    static func interval(total: Int64?) -> Int64 {
        guard let total else { return 4 << 20 }
        return min(32 << 20, max(256 << 10, total / 100))
    }

    /// Records written bytes. Waits if the disk is behind.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` if a journal could not be written.
    func note(_ count: Int64, total: Int64?) async throws {
        let interval = Self.interval(total: total)
        let (failure, work) = state.withLock { state -> (NetworkError?, Task<Void, Never>?) in
            state.unlisted += count
            if let failure = state.failure { return (failure, nil) }
            if state.work == nil, state.unlisted >= interval || ContinuousClock.now - state.last >= .seconds(5) {
                begin(&state)
            }
            return (nil, state.unlisted >= interval ? state.work : nil)
        }
        if let failure { throw failure }
        await work?.value
    }

    /// Writes a journal of everything written so far.
    func flush() async throws(NetworkError) {
        await state.withLock(\.work)?.value
        try write()
    }

    /// Returns when no journal is being written.
    func settle() async { await state.withLock(\.work)?.value }

    private func begin(_ state: inout State) {
        state.unlisted = 0
        state.last = .now
        state.work = Task.detached(executorPreference: TransferExecutor.shared) { [self] in
            var failure: NetworkError?
            do throws(NetworkError) { try write() } catch { failure = error }
            self.state.withLock { state in
                state.failure = state.failure ?? failure
                state.work = nil
            }
        }
    }

    private func write() throws(NetworkError) {
        // The journal is made before the file is synchronised, so that every byte it lists is on the disk.
        guard let journal = journal() else { return }
        try file.synchronize()
        let data: Data
        do {
            data = try journal.encoded()
        } catch {
            throw NetworkError(.storage, message: "the journal cannot be encoded: \(error)", underlying: error)
        }
        try DownloadFiles.write(data, to: path)
    }
}

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
