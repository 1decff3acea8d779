import FoundationEssentials
import HTTPCore
import Synchronization

/// The copies that a tier holds in its upper store, and whether they are right.
final class Copies: Sendable {
    let guards = CopyGuard()
    /// Tells the copies of this tier from those that an earlier process has left in the same store: nobody has followed what
    /// changed in between.
    let epoch = UInt64.random(in: 1 ... .max)

    private let store: any CacheStore
    private let feed: CacheInvalidations?
    private let isMemory: Bool
    /// Whether a copy could not be removed, so that none can be relied on.
    private let isBroken = Atomic(false)

    init(_ store: any CacheStore, _ feed: CacheInvalidations?) {
        self.store = store
        self.feed = feed
        isMemory = store is MemoryStore
    }

    /// Whether nothing that others have changed is left to be dealt with. To be asked before the copies are looked up.
    var areRight: Bool { (feed?.isQuiet ?? true) && !isBroken.load(ordering: .relaxed) }

    /// The entries as they are given out, when they are all that there is under their primary key; else `nil`.
    func complete(_ kept: consuming [CacheEntry]) -> [CacheEntry]? {
        guard isComplete(kept) else { return nil }
        var given = kept
        for index in given.indices { given[index].version = given[index].origin?.version }
        return given
    }

    /// Whether an entry of the upper store is no copy: the store behind did not take it.
    static func isOwn(_ entry: CacheEntry) -> Bool { entry.origin?.version == nil }

    /// Whether copies are all that there is under their primary key.
    private func isComplete(_ entries: [CacheEntry]) -> Bool {
        !entries.isEmpty
            && entries.indices.allSatisfy { index in
                guard let origin = entries[index].origin, origin.version != nil else { return false }
                return origin.epoch == epoch && origin.variantCount == entries.count
            }
    }

    /// The entry of the upper store that a given one is, or is a copy of.
    func copy(of entry: CacheEntry) async -> CacheEntry? {
        (try? await store.entries(for: entry.key.primary))?.first { copy in
            copy.key == entry.key
                && (entry.version == nil || entry.version == copy.origin?.version ?? copy.version)
        }
    }

    /// Does something that no request waits for, unless it takes no time.
    func unlessSlow(_ work: @escaping @Sendable () async -> Void) async {
        if isMemory { await work() } else { Task(operation: work) }
    }

    /// Puts a copy there of what a look-up has found, unless something has changed since.
    func copy(_ entry: CacheEntry, _ body: Data?) async {
        guard let body, let stamp = entry.origin?.stamp, guards.stamp(of: entry.key.primary) == stamp else { return }
        await insert(entry, body)
        if guards.stamp(of: entry.key.primary) != stamp { await forget(.key(entry.key)) }
    }

    /// ``copy(_:_:)`` into the memory that this is, at once.
    func copy(_ entry: CacheEntry, to memory: MemoryStore) {
        guard let body = entry.attachedBody, let stamp = entry.origin?.stamp,
            guards.stamp(of: entry.key.primary) == stamp
        else { return }
        let isTaken = (try? memory.insert(entry.bare, body, .anything)) != nil
        if !isTaken || guards.stamp(of: entry.key.primary) != stamp { memory.discard(entry.key) }
    }

    /// Puts an entry there in place of any under its key; without a body, or when that is refused, none stays.
    func insert(_ entry: CacheEntry, _ body: Data?) async {
        guard let body else { return await forget(.key(entry.key)) }
        do {
            let writer = try await store.writer(for: entry.bare, replacing: .anything)
            if !body.isEmpty { try await writer.append(body) }
            try await writer.commit()
        } catch {
            await forget(.key(entry.key))
        }
    }

    /// Puts a copy there of what was stored now.
    func insert(_ stored: CacheEntry, _ body: Data?, variantCount: Int?) async {
        var entry = stored
        entry.origin = CacheOrigin(version: stored.version, variantCount: variantCount ?? 0, epoch: epoch)
        // The other variants stay where they are all there were and still are: the store behind may have made room since, so
        // that the count alone does not tell.
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

    /// Removes what somebody else has changed.
    func change(_ selection: CacheSelection) async {
        let begun = guards.begin(selection)
        await forget(selection)
        _ = guards.end(selection, begun)
    }
}
