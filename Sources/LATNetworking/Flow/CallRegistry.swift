import HTTPCore
import Synchronization

/// The calls of a manager that are under way.
///
/// Every call passes here twice, so a place is an index into an array that keeps its size, and nothing is hashed.
final class CallRegistry: Sendable {
    /// Stands for a call until it leaves.
    struct Place: Sendable {
        fileprivate let index: Int
    }

    private struct Entry {
        let identity: CallIdentity
        let cancel: Cancel
    }

    /// How a call is ended: by the handle of its transfer, or with all that belongs to it.
    enum Cancel: Sendable {
        case control(TransferControl)
        case call(@Sendable () -> Void)

        func callAsFunction() {
            switch self {
            case .control(let control): control.cancel()
            case .call(let cancel): cancel()
            }
        }
    }

    private struct State {
        var entries: [Entry?] = []
        var holes: [Int] = []
    }

    private let state = Mutex(State())

    /// Takes a call in.
    func enter(_ identity: CallIdentity, _ cancel: Cancel) -> Place {
        state.withLock { state in
            let entry = Entry(identity: identity, cancel: cancel)
            if let index = state.holes.popLast() {
                state.entries[index] = entry
                return Place(index: index)
            }
            state.entries.append(entry)
            return Place(index: state.entries.count - 1)
        }
    }

    /// A call is over.
    func leave(_ place: Place) {
        // What the entry holds is let go of outside the lock: it may be the last of much.
        let entry = state.withLock { state in
            let entry = state.entries[place.index]
            state.entries[place.index] = nil
            state.holes.append(place.index)
            return entry
        }
        _ = entry
    }

    /// How many calls are meant by a selection.
    func count(_ kind: RequestSelection.Kind) -> Int { matches(kind).count }

    /// Cancels the calls that are under way now and meant by a selection. Returns how many.
    func cancel(_ kind: RequestSelection.Kind) -> Int {
        let matches = matches(kind)
        for entry in matches { entry.cancel() }
        return matches.count
    }

    /// Copied under the lock, asked outside it: an address may have to be looked up.
    private func matches(_ kind: RequestSelection.Kind) -> [Entry] {
        state.withLock { $0.entries }.compactMap { $0 }.filter { $0.identity.matches(kind) }
    }
}
