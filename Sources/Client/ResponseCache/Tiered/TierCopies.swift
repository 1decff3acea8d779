import FoundationEssentials
import HTTPCore
import Synchronization

/// The copies that a ``TieredStore`` keeps in its upper store, and whether they can be relied on.
final class TierCopies: Sendable {
    let guards = CopyGuard()
    /// Distinguishes the copies of this object from those of an earlier process in the same store, which may be outdated.
    let epoch = UInt64.random(in: 1 ... .max)

    /// The largest body that is copied, in bytes.
    let limit: Int64
    private let store: any CacheStore
    private let feed: CacheInvalidations?
    private let isMemory: Bool
    /// Whether the removal of a copy failed, so that no copy can be relied on.
    private let isBroken = Atomic(false)

    init(_ store: any CacheStore, _ feed: CacheInvalidations?, limit: Int64) {
        self.store = store
        self.limit = limit
        self.feed = feed
        isMemory = store is MemoryStore
    }

    /// Whether all known changes by others are handled. It must be read before the copies are looked up.
    var areCurrent: Bool { (feed?.isQuiet ?? true) && !isBroken.load(ordering: .relaxed) }

    /// The copies with their versions in the lower store; `nil` unless they are all the entries under their primary key.
    func complete(_ kept: consuming [CacheEntry]) -> [CacheEntry]? {
        guard isComplete(kept) else { return nil }
        var given = kept
        for index in given.indices { given[index].version = given[index].origin?.version }
        return given
    }

    /// Whether an entry exists only in the upper store, because the lower one did not take it.
    static func isOwn(_ entry: CacheEntry) -> Bool { entry.origin?.version == nil }

    /// Whether these copies are all the entries under their primary key.
    private func isComplete(_ entries: [CacheEntry]) -> Bool {
        !entries.isEmpty
            && entries.indices.allSatisfy { index in
                guard let origin = entries[index].origin, origin.version != nil else { return false }
                return origin.epoch == epoch && origin.variantCount == entries.count
            }
    }

    /// The entry of the upper store for an entry that the tiered store returned.
    func copy(of entry: CacheEntry) async -> CacheEntry? {
        (try? await store.entries(for: entry.key.primary))?.first { copy in
            copy.key == entry.key
                && (entry.version == nil || entry.version == copy.origin?.version ?? copy.version)
        }
    }

    /// Runs work at once if the upper store is in memory, else in a task that no request waits for.
    func runWithoutDelay(_ work: @escaping @Sendable () async -> Void) async {
        if isMemory { await work() } else { Task(operation: work) }
    }

    /// Copies a found entry to the upper store, unless its key has changed since the look-up.
    func copy(_ entry: CacheEntry, _ body: Data?) async {
        guard let body, let stamp = entry.origin?.stamp, guards.stamp(of: entry.key.primary) == stamp else { return }
        await insert(entry, body)
        if guards.stamp(of: entry.key.primary) != stamp { await forget(.key(entry.key)) }
    }

    /// Copies an entry like ``copy(_:_:)``, but synchronously into memory.
    func copy(_ entry: CacheEntry, to memory: MemoryStore) {
        guard let body = entry.attachedBody, let stamp = entry.origin?.stamp,
            guards.stamp(of: entry.key.primary) == stamp
        else { return }
        let isTaken = (try? memory.insert(entry.bare, body, .anything)) != nil
        if !isTaken || guards.stamp(of: entry.key.primary) != stamp { memory.discard(entry.key) }
    }

    /// Replaces the entry with the same key in the upper store; without a body or on failure, only removes the old one.
    func insert(_ entry: CacheEntry, _ body: Data?) async {
        guard let body else { return await forget(.key(entry.key)) }
        do {
            try await store.put(entry.bare, body, replacing: .anything)
        } catch {
            await forget(.key(entry.key))
        }
    }

    /// Copies a newly stored entry to the upper store.
    func insert(_ stored: CacheEntry, _ body: Data?, variantCount: Int?) async {
        var entry = stored
        entry.origin = CacheOrigin(version: stored.version, variantCount: variantCount ?? 0, epoch: epoch)
        // The copies of other variants stay only if they were complete and still are. The count alone is not enough, since
        // the lower store may have evicted some.
        let kept = (try? await store.entries(for: entry.key.primary)) ?? []
        let isSame = isComplete(kept) && kept.count == variantCount && kept.contains { $0.key == entry.key }
        if !isSame, kept.contains(where: { $0.key != entry.key }) { await forget(.primaryKey(entry.key.primary)) }
        await insert(entry, body)
    }

    func forget(_ selection: CacheSelection) async {
        do {
            try await store.remove(selection)
            if selection == .all { isBroken.store(false, ordering: .relaxed) }
        } catch {
            isBroken.store(true, ordering: .relaxed)
        }
    }

    /// Removes the copies of entries that others have changed in the lower store.
    func change(_ selection: CacheSelection) async {
        let begun = guards.begin(selection)
        await forget(selection)
        _ = guards.end(selection, begun)
    }
}

/// Detects, without a lock, copies that were made while their key changed, so that they can be removed.
///
/// Each group of keys has one number: the count of running changes in its lower bits, the count of begun and ended ones
/// above. A look-up reads the number before it queries the lower store, and its copy stays only if the number is the
/// same afterwards. A change adds to the number when it begins and when it ends, and its copy stays only if no other change
/// overlapped.
final class CopyGuard: Sendable {
    private final class Group: Sendable {
        let number = Atomic<UInt64>(0)
    }

    /// One begun or ended change; the bits below count the running ones.
    private static let generation: UInt64 = 1 << 16

    private let groups = (0..<1_024).map { _ in Group() }

    private func groups(of selection: CacheSelection) -> ArraySlice<Group> {
        guard let index = selection.primaryKey?.index(among: groups.count) else { return groups[...] }
        return groups[index...index]
    }

    // MARK: Look-ups

    /// The number to read before the lower store is queried; `nil` during a change, when nothing may be copied.
    func stamp(of primaryKey: String) -> UInt64? {
        let number = groups(of: .primaryKey(primaryKey)).first?.number.load(ordering: .sequentiallyConsistent) ?? 0
        return number % Self.generation == 0 ? number : nil
    }

    // MARK: Changes

    func begin(_ selection: CacheSelection) -> [UInt64] {
        groups(of: selection).map {
            $0.number.wrappingAdd(Self.generation + 1, ordering: .sequentiallyConsistent).newValue
        }
    }

    /// Ends a change with the result of ``begin(_:)``, and returns whether no other change overlapped with it.
    func end(_ selection: CacheSelection, _ begun: [UInt64]) -> Bool {
        var isAlone = true
        for (group, number) in zip(groups(of: selection), begun) {
            let before = group.number.wrappingAdd(Self.generation - 1, ordering: .sequentiallyConsistent).oldValue
            if before != number || number % Self.generation != 1 { isAlone = false }
        }
        return isAlone
    }
}
