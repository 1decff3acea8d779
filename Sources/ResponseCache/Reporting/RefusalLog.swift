package import FoundationEssentials
import Synchronization

/// The counters of a cache, and the last reasons why it did not store responses.
package struct CacheRecorder: Sendable {
    /// The counters.
    package let counters = CacheCounters()
    /// The last reasons why responses were not stored.
    package let refusals = RefusalLog()
    private let now: @Sendable () -> Date

    /// An empty recorder.
    ///
    /// - Parameter now: The clock of the cache.
    package init(now: @escaping @Sendable () -> Date) { self.now = now }

    /// Records that a response was not stored.
    package func refuse(_ primaryKey: String, _ refusal: CacheRefusal) {
        counters.add(.notStored)
        if refusal == .queueFull { counters.add(.skippedWrites) }
        refusals.note(refusal, of: primaryKey, at: now())
    }
}

/// The last reason why a response was not stored, for each of a limited number of keys.
package final class RefusalLog: Sendable {
    /// Why and when a response was not stored.
    package struct Note: Hashable, Sendable {
        package let refusal: CacheRefusal
        /// The time, by the clock of the cache.
        package let time: Date
    }

    private struct State {
        var notes: [String: Note] = [:]
        /// A ring of the keys of `notes`. Once it is full, `next` is the index of the key to replace.
        var keys: [String] = []
        var next = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: The maximum number of keys. At the limit, a new key replaces the oldest one. Default: 256.
    package init(limit: Int = 256) { self.limit = max(1, limit) }

    /// Records why the response for a primary key was not stored.
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

    /// The last note for a primary key; `nil` when there is none or it was replaced.
    package func last(of primaryKey: String) -> Note? { state.withLock { $0.notes[primaryKey] } }
}
