import FoundationEssentials
import HTTPCore
import Synchronization

/// Writes to disk and keeps a copy for memory, as long as it is small.
final class TieredWriter: CacheWriter {
    private struct State {
        /// `nil` once it is too large for memory.
        var copy: Data? = Data()
        /// What the disk threw. From then on only memory takes bytes.
        var fault: (any Error)?
    }

    private let entry: CacheEntry
    private let disk: DiskWriter
    private let store: TieredStore
    private let state = Mutex(State())

    init(_ entry: CacheEntry, _ disk: DiskWriter, _ store: TieredStore) {
        var entry = entry
        entry.mark = StorageMark()
        self.entry = entry
        self.disk = disk
        self.store = store
    }

    func append(_ data: Data) async throws {
        let fault = state.withLock { state in
            state.copy?.append(data)
            if let copy = state.copy, Int64(copy.count) > store.memoryEntryLimit { state.copy = nil }
            return state.copy == nil ? state.fault : nil
        }
        if let fault { throw fault }
        if state.withLock({ $0.fault != nil }) { return }
        do {
            try await disk.append(data)
        } catch {
            try keep(error)
        }
    }

    /// Notes what the disk threw, when memory can go on without it.
    private func keep(_ error: any Error) throws {
        guard !(error is CancellationError), !((error as? NetworkError)?.underlying is CacheEntryTooLarge) else {
            throw error
        }
        let isKept = state.withLock { state in
            state.fault = error
            return state.copy != nil
        }
        if !isKept { throw error }
    }

    func commit() async throws {
        let epoch = store.disk.core.watch.epoch()
        var entry = entry
        do {
            if let fault = state.withLock(\.fault) { throw fault }
            entry.mark = try await disk.commitForMark()
        } catch {
            // Neither of the two shows what was stored under the key before: the one as it has the new answer, the
            // other as memory is asked first.
            try keep(error)
            insert(entry, epoch)
            throw error
        }
        insert(entry, epoch)
    }

    private func insert(_ entry: CacheEntry, _ epoch: Int64) {
        let copy = state.withLock { state in
            defer { state.copy = nil }
            return state.copy
        }
        let isCopied = copy.flatMap { try? store.memory.insert(entry, $0, epoch: epoch) } != nil
        // What memory holds of before must go.
        if !isCopied { store.memory.removeAll(.key(entry.key)) }
    }

    func discard() async {
        state.withLock { $0.copy = nil }
        await disk.discard()
    }
}
