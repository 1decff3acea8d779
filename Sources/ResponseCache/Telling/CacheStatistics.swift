package import HTTPCore
import Synchronization

/// What a manager's cache has done since the manager was made.
///
/// Every look-up for an answer counts as exactly one of ``memoryHits``, ``diskHits``, ``stale``, ``revalidated`` and
/// ``misses``. A policy that does not look first (`.networkOnly`, `.writeOnly`, `.networkElseCache` while the network
/// answers) counts none.
public struct CacheStatistics: Hashable, Sendable {
    /// Answers from memory.
    public var memoryHits: Int64 = 0
    /// Answers from disk.
    public var diskHits: Int64 = 0
    /// Stale answers that were allowed, or stood in for an error.
    public var stale: Int64 = 0
    /// Stored answers that the server has confirmed (304).
    public var revalidated: Int64 = 0
    /// Look-ups that the network answered, or nobody.
    public var misses: Int64 = 0
    /// Answers that were stored.
    public var stored: Int64 = 0
    /// The bytes of their bodies.
    public var storedBytes: Int64 = 0
    /// Answers that went by the cache and were not stored; `manager.cache.explain` tells why.
    public var notStored: Int64 = 0
    /// Those of them for which there was no place in the queue of writes.
    public var skippedWrites: Int64 = 0
    /// Look-ups that took longer than their budget, and went on as a miss.
    public var lateLookups: Int64 = 0
    /// What the store let go to make room, for all who use the same store object; 0 for one that is not an
    /// ``CacheEvictionCounting``.
    public var evicted = CacheUsage()

    /// Nothing happened yet.
    public init() {}

    /// All look-ups.
    public var lookups: Int64 { memoryHits + diskHits + stale + revalidated + misses }

    /// The share of look-ups that were answered without a body from the network, from 0 to 1; `nil` before the first.
    public var hitRate: Double? { lookups == 0 ? nil : Double(lookups - misses) / Double(lookups) }
}

extension CacheStatistics: CustomStringConvertible {
    /// One line: `12 look-ups, 75% hits (memory 8, disk 1, stale 0, revalidated 0), 3 misses, …`.
    public var description: String {
        let share = hitRate.map { "\(Int(($0 * 100).rounded()))% hits" } ?? "no hits"
        return "\(lookups) look-ups, \(share) (memory \(memoryHits), disk \(diskHits), stale \(stale), "
            + "revalidated \(revalidated)), \(misses) misses, \(lateLookups) too late; \(stored) stored "
            + "(\(storedBytes) bytes), \(notStored) not stored, \(skippedWrites) of them skipped; "
            + "\(evicted.entryCount) evicted (\(evicted.byteCount) bytes)"
    }
}

/// A store that counts what it lets go to make room.
public protocol CacheEvictionCounting: CacheStore {
    /// What went to make room since the store was made; not what was removed on demand.
    var evicted: CacheUsage { get }
}

/// Counts what a cache does: one relaxed addition for each event.
package final class CacheCounters: Sendable {
    /// What is counted; see the properties of the same names of ``CacheStatistics``.
    package enum Event: Int, CaseIterable, Sendable {
        case memoryHits, diskHits, stale, revalidated, misses
        case stored, storedBytes, notStored, skippedWrites, lateLookups
    }

    private final class Cell: Sendable {
        let value = Atomic<Int64>(0)
    }

    /// By the number of the event.
    private let cells = Event.allCases.map { _ in Cell() }

    /// All at zero.
    package init() {}

    /// Counts an event, or so many bytes.
    package func add(_ event: Event, _ count: Int64 = 1) {
        cells[event.rawValue].value.wrappingAdd(count, ordering: .relaxed)
    }

    private subscript(event: Event) -> Int64 { cells[event.rawValue].value.load(ordering: .relaxed) }

    /// Counts a look-up by where its answer came from.
    package func countLookup(_ source: HTTPResponse.Source) {
        switch source {
        case .memoryCache: add(.memoryHits)
        case .diskCache: add(.diskHits)
        case .stale: add(.stale)
        case .revalidated: add(.revalidated)
        default: add(.misses)
        }
    }

    /// Counts an answer that was stored.
    package func countStored(_ byteCount: Int) {
        add(.stored)
        add(.storedBytes, Int64(byteCount))
    }

    /// What was counted, and what the store says.
    package func statistics(of store: (any CacheStore)?) -> CacheStatistics {
        var statistics = CacheStatistics()
        statistics.memoryHits = self[.memoryHits]
        statistics.diskHits = self[.diskHits]
        statistics.stale = self[.stale]
        statistics.revalidated = self[.revalidated]
        statistics.misses = self[.misses]
        statistics.stored = self[.stored]
        statistics.storedBytes = self[.storedBytes]
        statistics.notStored = self[.notStored]
        statistics.skippedWrites = self[.skippedWrites]
        statistics.lateLookups = self[.lateLookups]
        if let counting = store as? any CacheEvictionCounting { statistics.evicted = counting.evicted }
        return statistics
    }
}

/// Counts what goes to make room.
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
