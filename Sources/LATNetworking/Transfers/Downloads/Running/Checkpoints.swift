import FoundationEssentials
import HTTPCore
import Synchronization

/// Writes the journal now and then, while the transfer goes on: first what is in the file is synchronised, then the
/// journal claims it.
///
/// A hundredth of the whole may be unclaimed before a journal is due, and no more than two hundredths ever are: the
/// transfer waits for a disk that is slower than that. So a process that is killed fetches at most that, and what was on
/// its way, a second time.
final class Checkpoints: Sendable {
    private struct State {
        var unclaimed: Int64 = 0
        var last = ContinuousClock.now
        var work: Task<Void, Never>?
        var failure: NetworkError?
    }

    private let state = Mutex(State())
    private let file: PartFile
    private let path: String
    private let journal: @Sendable () -> DownloadJournal?

    /// - Parameter journal: what may be claimed at the moment; `nil` for nothing.
    init(file: PartFile, path: String, journal: @escaping @Sendable () -> DownloadJournal?) {
        self.file = file
        self.path = path
        self.journal = journal
    }

    /// How many bytes are written from one journal to the next.
    static func interval(total: Int64?) -> Int64 {
        guard let total else { return 4 << 20 }
        return min(32 << 20, max(256 << 10, total / 100))
    }

    /// Bytes were written. Returns when the disk has kept up.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when a journal could not be written.
    func note(_ count: Int64, total: Int64?) async throws {
        let interval = Self.interval(total: total)
        let (failure, work) = state.withLock { state -> (NetworkError?, Task<Void, Never>?) in
            state.unclaimed += count
            if let failure = state.failure { return (failure, nil) }
            if state.work == nil, state.unclaimed >= interval || ContinuousClock.now - state.last >= .seconds(5) {
                begin(&state)
            }
            return (nil, state.unclaimed >= interval ? state.work : nil)
        }
        if let failure { throw failure }
        await work?.value
    }

    /// Claims all that is there.
    func flush() async throws(NetworkError) {
        await state.withLock(\.work)?.value
        try write()
    }

    /// Returns when no journal is being written any more.
    func settle() async { await state.withLock(\.work)?.value }

    private func begin(_ state: inout State) {
        state.unclaimed = 0
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
        // The journal is asked for first: what is written after that is not in it.
        guard let journal = journal() else { return }
        try file.synchronize()
        let data: Data
        do {
            data = try journal.encoded()
        } catch {
            throw NetworkError(.storage, message: "the journal cannot be put into words: \(error)", underlying: error)
        }
        try DownloadFiles.write(data, to: path)
    }
}
