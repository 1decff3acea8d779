package import FoundationEssentials
import Synchronization

/// What a cache did: how often, and why it did not store answers.
package struct CacheLedger: Sendable {
    /// How often.
    package let counters = CacheCounters()
    /// Why the last answers were not stored.
    package let refusals = RefusalLog()
    private let now: @Sendable () -> Date

    /// An empty one.
    ///
    /// - Parameter now: the clock of the cache.
    package init(now: @escaping @Sendable () -> Date) { self.now = now }

    /// Notes that an answer was not stored.
    package func refuse(_ primaryKey: String, _ refusal: CacheRefusal) {
        counters.add(.notStored)
        if refusal == .queueFull { counters.add(.skippedWrites) }
        refusals.note(refusal, of: primaryKey, at: now())
    }
}

/// Why the last answers were not stored: the last reason for each key, for so many keys.
package final class RefusalLog: Sendable {
    /// Why and when an answer was not stored.
    package struct Note: Hashable, Sendable {
        package let refusal: CacheRefusal
        /// By the clock of the cache.
        package let time: Date
    }

    private struct State {
        var notes: [String: Note] = [:]
        /// The keys of the notes, a ring; the next one to go stands at `next` once it is full.
        var keys: [String] = []
        var next = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: the most keys; the one that came first goes for another. Default: 256.
    package init(limit: Int = 256) { self.limit = max(1, limit) }

    /// Notes why the answer for a primary key was not stored.
    package func note(_ refusal: CacheRefusal, of primaryKey: String, at time: Date) {
        state.withLock { state in
            let isKnown = state.notes.updateValue(Note(refusal: refusal, time: time), forKey: primaryKey) != nil
            if isKnown { return }
            if state.keys.count < limit {
                state.keys.append(primaryKey)
            } else {
                state.notes[state.keys[state.next]] = nil
                state.keys[state.next] = primaryKey
                state.next = (state.next + 1) % limit
            }
        }
    }

    /// The last note of a primary key; `nil` when there was none, or it had to go.
    package func last(of primaryKey: String) -> Note? { state.withLock { $0.notes[primaryKey] } }
}
