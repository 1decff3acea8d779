package import FoundationEssentials
import Synchronization

/// The counters of a cache, and the last reasons why it did not store responses.
package struct CacheRecorder: Sendable {
    package let counters = CacheCounters()
    package let refusals = RefusalLog()
    private let now: @Sendable () -> Date

    /// - Parameter now: The clock of the cache.
    package init(now: @escaping @Sendable () -> Date) { self.now = now }

    package func refuse(_ primaryKey: String, _ refusal: CacheRefusal) {
        counters.add(.notStored)
        if refusal == .queueFull { counters.add(.skippedWrites) }
        refusals.note(refusal, of: primaryKey, at: now())
    }
}

/// The last reason why a response was not stored, for each of a limited number of keys.
package final class RefusalLog: Sendable {
    private struct State {
        var notes: [String: CacheExplanation.Refusal] = [:]
        /// A ring of the keys of `notes`. Once it is full, `next` is the index of the key to replace.
        var keys: [String] = []
        var next = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: The maximum number of keys. At the limit, a new key replaces the oldest one. Default: 256.
    package init(limit: Int = 256) { self.limit = max(1, limit) }

    package func note(_ refusal: CacheRefusal, of primaryKey: String, at time: Date) {
        state.withLock { state in
            let note = CacheExplanation.Refusal(reason: refusal, time: time)
            if state.notes.updateValue(note, forKey: primaryKey) != nil { return }
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
    package func last(of primaryKey: String) -> CacheExplanation.Refusal? {
        state.withLock { $0.notes[primaryKey] }
    }
}
