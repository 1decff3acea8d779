package import FoundationEssentials
import HTTPCore
import Synchronization

/// Stores a stream while it is read, without delaying its reader. When too many chunks wait, or when the store has no room
/// for it, it is not stored, and the older entry under its key is removed unless it is pinned.
package final class StreamStoring: Sendable {
    private struct State {
        /// What waits to be written.
        var waiting = Data()
        /// How the stream ended; `nil` before its end and once the end is handled.
        var ending: Ending?
        /// Whether the stream will not be stored.
        var isLost = false
        /// Whether the stream was committed or discarded.
        var isOver = false
        var isRunning = false
        var byteCount = 0
    }

    private enum Ending {
        /// The stream is to be committed. Look-ups wait until the commit with this number has ended.
        case whole(UInt64)
        case incomplete
    }

    private enum Step {
        case write(Data)
        case commit(UInt64)
        case discard
    }

    private let entry: CacheEntry
    private let replacing: CacheReplacement
    private let behind: WriteBehind
    private let state = Mutex(State())
    /// Used only by ``run()``, which runs once at a time.
    private let writer = Mutex<(any CacheWriter)?>(nil)

    init(_ entry: CacheEntry, _ replacing: CacheReplacement, _ behind: WriteBehind) {
        self.entry = entry
        self.replacing = replacing
        self.behind = behind
    }

    /// Whether entries were removed since the request was sent, and this one would have been one of them. What an unsafe request
    /// invalidates is not its own response.
    private var isRemoved: Bool { HTTPMethod(entry.method).isSafe && behind.hasRemoved(entry) }

    package func append(_ chunk: Data) {
        guard state.withLock({ !$0.isLost && !$0.isOver && $0.ending == nil }) else { return }
        let isTaken = behind.reserve(chunk.count)
        if !isTaken { behind.refuse(entry) }
        run { state in
            state.byteCount += chunk.count
            if !isTaken {
                state.isLost = true
            } else if state.waiting.isEmpty {
                state.waiting = chunk
            } else {
                // One piece, because a server may send single bytes while the store is slow.
                state.waiting.append(chunk)
            }
        }
    }

    /// Ends the stream. A whole one is stored; `refusal` says why an incomplete one is not.
    package func end(isWhole: Bool, _ refusal: CacheRefusal = .notReadToEnd) {
        guard state.withLock({ !$0.isLost && !$0.isOver && $0.ending == nil }) else { return }
        if !isWhole { behind.ledger.refuse(entry.key.primary, refusal) }
        let ending = isWhole ? Ending.whole(behind.beginCommit(entry.key.primary)) : .incomplete
        run { $0.ending = ending }
    }

    private func run(_ change: (inout State) -> Void) {
        let begins = state.withLock { state in
            change(&state)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if begins { Task(priority: .utility) { await run() } }
    }

    private func run() async {
        while let step = next() {
            do {
                switch step {
                case .write(let chunk):
                    defer { behind.release(chunk.count) }
                    try await openWriter().append(chunk)
                case .commit where isRemoved:
                    behind.ledger.refuse(entry.key.primary, .invalidated)
                    await writer.withLock { $0 }?.discard()
                case .commit:
                    try await openWriter().commit()
                    behind.ledger.counters.countStored(state.withLock(\.byteCount))
                    // The removal may have been made before the commit.
                    if isRemoved { await behind.remove(.key(entry.key)) }
                case .discard:
                    await writer.withLock { $0 }?.discard()
                }
            } catch {
                await behind.refuse(entry, error)
                state.withLock { $0.isLost = true }
            }
            // The commit ends only here, so that look-ups waiting for it do not find the entry that it was to replace.
            if case .commit(let number) = step {
                behind.endCommit(number, entry.key.primary)
                entry.lease?.end()
            }
        }
    }

    private func openWriter() async throws -> any CacheWriter {
        if let writer = writer.withLock({ $0 }) { return writer }
        behind.prepareIfNeeded()
        let made = try await behind.store.writer(for: entry, replacing: replacing)
        writer.withLock { $0 = made }
        return made
    }

    private func next() -> Step? {
        let (step, dropped, number) = state.withLock { state -> (Step?, Int, UInt64?) in
            if state.isLost || state.isOver {
                let dropped = state.waiting.count
                state.waiting = Data()
                let number: UInt64? = if case .whole(let number)? = state.ending { number } else { nil }
                state.ending = nil
                state.isRunning = !state.isOver
                defer { state.isOver = true }
                return (state.isOver ? nil : .discard, dropped, number)
            }
            if !state.waiting.isEmpty {
                defer { state.waiting = Data() }
                return (.write(state.waiting), 0, nil)
            }
            guard let ending = state.ending else {
                state.isRunning = false
                return (nil, 0, nil)
            }
            state.ending = nil
            state.isOver = true
            if case .whole(let number) = ending { return (.commit(number), 0, nil) }
            return (.discard, 0, nil)
        }
        if dropped > 0 { behind.release(dropped) }
        if let number { behind.endCommit(number, entry.key.primary) }
        return step
    }
}
