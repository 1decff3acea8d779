import FoundationEssentials
import HTTPCore
import Synchronization

/// Writes to the lower store and collects a copy for the upper one while the body is small.
final class TieredWriter: CacheWriter {
    private struct State {
        /// The body so far; `nil` once it is too large for the upper store.
        var copy: Data? = Data()
        /// The error of the lower store. From then on only the copy receives bytes.
        var fault: (any Error)?
    }

    private let entry: CacheEntry
    private let writer: any CacheWriter
    private let copies: TierCopies
    private let state = Mutex(State())

    init(_ entry: CacheEntry, _ writer: any CacheWriter, _ copies: TierCopies) {
        self.entry = entry
        self.writer = writer
        self.copies = copies
    }

    func append(_ data: Data) async throws {
        let fault = state.withLock { state in
            state.copy?.append(data)
            if let copy = state.copy, Int64(copy.count) > copies.limit { state.copy = nil }
            return state.copy == nil ? state.fault : nil
        }
        if let fault { throw fault }
        if state.withLock({ $0.fault != nil }) { return }
        do {
            try await writer.append(data)
        } catch {
            try keep(error)
        }
    }

    /// Records an error of the lower store if the upper one can continue alone, else throws it.
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

    func commit() async throws -> CacheCommit {
        let selection = CacheSelection.key(entry.key)
        let begun = copies.guards.begin(selection)
        let result: Result<CacheCommit, any Error>
        do {
            if let fault = state.withLock(\.fault) { throw fault }
            let commit = try await writer.commit()
            switch commit {
            case .stored(let stored, let count): await copies.insert(stored, takeCopy(), variantCount: count)
            case .superseded: await copies.forget(.primaryKey(entry.key.primary))
            }
            result = .success(commit)
        } catch {
            result = .failure(error)
            // The entry in the upper store hides the previous one in the lower store.
            if (try? keep(error)) != nil {
                var own = entry
                own.origin = CacheOrigin(version: nil, variantCount: 0, epoch: copies.epoch)
                await copies.insert(own, takeCopy())
            }
        }
        if !copies.guards.end(selection, begun) { await copies.forget(selection) }
        return try result.get()
    }

    private func takeCopy() -> Data? {
        state.withLock { state in
            defer { state.copy = nil }
            return state.copy
        }
    }

    func discard() async {
        state.withLock { $0.copy = nil }
        await writer.discard()
    }
}
