package import FoundationEssentials
package import HTTPCore
import Synchronization

/// The counters of a manager's cache since the manager was made.
///
/// Every look-up counts as exactly one of ``memoryHits``, ``diskHits``, ``remoteHits``, ``stale``, ``revalidated`` and
/// ``misses``. A policy that does not look first (`.networkOnly`, `.writeOnly`, `.networkElseCache` unless the network
/// fails) counts none.
public struct CacheStatistics: Hashable, Sendable {
    /// Look-ups that memory answered.
    public var memoryHits: Int64 = 0
    /// Look-ups that the disk answered.
    public var diskHits: Int64 = 0
    /// Look-ups that a store shared with other machines answered.
    public var remoteHits: Int64 = 0
    /// Look-ups that a stale response answered, because it was allowed or replaced an error.
    public var stale: Int64 = 0
    /// Look-ups whose stored response the server confirmed (304).
    public var revalidated: Int64 = 0
    /// Look-ups that no stored response answered.
    public var misses: Int64 = 0
    /// Responses that were stored.
    public var stored: Int64 = 0
    /// The bytes of the stored bodies.
    public var storedBytes: Int64 = 0
    /// Responses that were not stored; `manager.cache.explain` says why.
    public var notStored: Int64 = 0
    /// Responses that were not stored because the write queue was full; ``notStored`` includes them.
    public var skippedWrites: Int64 = 0
    /// Look-ups and reads of bodies that took too long (`cacheLookUpTimeout`) and counted as misses.
    public var lateLookups: Int64 = 0
    /// Responses that were coded with a stored response as their dictionary (RFC 9842).
    public var dictionaryResponses: Int64 = 0
    /// How many bytes those responses had less on the wire than their content.
    public var dictionarySavedBytes: Int64 = 0
    /// Responses that could not serve as dictionaries, because what `Use-As-Dictionary` says is not understood.
    public var ignoredDictionaries: Int64 = 0
    /// What the store evicted to make room, for all users of the store object; 0 unless the store
    /// conforms to ``CacheEvictionCounting``.
    public var evicted = CacheUsage()

    /// Creates statistics with all counters at zero.
    public init() {}

    /// The number of all look-ups.
    public var lookups: Int64 { memoryHits + diskHits + remoteHits + stale + revalidated + misses }

    /// The share of look-ups that needed no body from the network, from 0 to 1; `nil` before the first look-up.
    public var hitRate: Double? { lookups == 0 ? nil : Double(lookups - misses) / Double(lookups) }
}

extension CacheStatistics: CustomStringConvertible {
    /// The counters in one line: `12 look-ups, 75% hits (memory 8, disk 1, stale 0, revalidated 0), 3 misses, …`.
    public var description: String {
        let share = hitRate.map { "\(Int(($0 * 100).rounded()))% hits" } ?? "no hits"
        let remote = remoteHits == 0 ? "" : "remote \(remoteHits), "
        return "\(lookups) look-ups, \(share) (memory \(memoryHits), disk \(diskHits), \(remote)stale \(stale), "
            + "revalidated \(revalidated)), \(misses) misses, \(lateLookups) too late; \(stored) stored "
            + "(\(storedBytes) bytes), \(notStored) not stored, \(skippedWrites) of them skipped; "
            + "\(evicted.entryCount) evicted (\(evicted.byteCount) bytes)"
            + (dictionaryResponses == 0
                ? "" : "; \(dictionaryResponses) with a dictionary (\(dictionarySavedBytes) bytes saved)")
    }
}

/// A store that counts its evictions.
public protocol CacheEvictionCounting: CacheStore {
    /// What was evicted to make room since the store was made. Removals on demand do not count.
    var evicted: CacheUsage { get }
}

/// The counters of a cache. Each event costs one relaxed atomic addition.
package final class CacheCounters: Sendable {
    /// The counters, named like the properties of ``CacheStatistics``.
    package enum Event: Int, CaseIterable, Sendable {
        case memoryHits, diskHits, remoteHits, stale, revalidated, misses
        case stored, storedBytes, notStored, skippedWrites, lateLookups
        case dictionaryResponses, dictionarySavedBytes, ignoredDictionaries
    }

    private final class Cell: Sendable {
        let value = Atomic<Int64>(0)
    }

    private let cells = Event.allCases.map { _ in Cell() }

    package init() {}

    package func add(_ event: Event, _ count: Int64 = 1) {
        cells[event.rawValue].value.wrappingAdd(count, ordering: .relaxed)
    }

    private subscript(event: Event) -> Int64 { cells[event.rawValue].value.load(ordering: .relaxed) }

    /// Counts a look-up by the source of its response.
    package func countLookup(_ source: HTTPResponse.Source) {
        switch source {
        case .memoryCache: add(.memoryHits)
        case .diskCache: add(.diskHits)
        case .remoteCache: add(.remoteHits)
        case .stale: add(.stale)
        case .revalidated: add(.revalidated)
        default: add(.misses)
        }
    }

    package func countStored(_ byteCount: Int) {
        add(.stored)
        add(.storedBytes, Int64(byteCount))
    }

    package func statistics(of store: (any CacheStore)?) -> CacheStatistics {
        var statistics = CacheStatistics()
        statistics.memoryHits = self[.memoryHits]
        statistics.diskHits = self[.diskHits]
        statistics.remoteHits = self[.remoteHits]
        statistics.stale = self[.stale]
        statistics.revalidated = self[.revalidated]
        statistics.misses = self[.misses]
        statistics.stored = self[.stored]
        statistics.storedBytes = self[.storedBytes]
        statistics.notStored = self[.notStored]
        statistics.skippedWrites = self[.skippedWrites]
        statistics.lateLookups = self[.lateLookups]
        statistics.dictionaryResponses = self[.dictionaryResponses]
        statistics.dictionarySavedBytes = self[.dictionarySavedBytes]
        statistics.ignoredDictionaries = self[.ignoredDictionaries]
        if let counting = store as? any CacheEvictionCounting { statistics.evicted = counting.evicted }
        return statistics
    }
}

final class EvictionCounter: Sendable {
    private let entries = Atomic<Int64>(0)
    private let bytes = Atomic<Int64>(0)

    var usage: CacheUsage {
        CacheUsage(
            entryCount: Int(entries.load(ordering: .relaxed)), byteCount: bytes.load(ordering: .relaxed))
    }

    func add(_ removed: CacheUsage) {
        guard removed.entryCount != 0 else { return }
        entries.wrappingAdd(Int64(removed.entryCount), ordering: .relaxed)
        bytes.wrappingAdd(removed.byteCount, ordering: .relaxed)
    }
}

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
