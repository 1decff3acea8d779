public import FoundationEssentials
public import HTTPCore
import Synchronization

/// A store in the memory of the process, which evicts the least recently used entries.
///
/// ```swift
/// let store = MemoryStore(byteLimit: 32 << 20, entryLimit: 5_000)
/// let writer = try await store.writer(for: entry)
/// try await writer.append(data)
/// try await writer.commit()
/// ```
///
/// Both limits hold after every insert, unless pinned entries alone exceed them. An entry that is larger than the limit, or
/// than the room that other pinned entries leave, is refused and evicts nothing. Entries are in shards, each with its own
/// lock that a look-up holds for a microsecond or less; the order of use is common to all shards. No method suspends, and
/// only writers throw.
public final class MemoryStore: CacheStore, CacheInspecting, CacheEvictionCounting {
    /// The maximum number of bytes of bodies and headers.
    public let byteLimit: Int64
    /// The maximum number of entries.
    public let entryLimit: Int

    private final class Shard: Sendable {
        let state = Mutex(MemoryShard())
        /// The properties of the shard with these names, to be read without its lock.
        let oldestUse = Atomic<UInt64>(.max)
        let firstEnd = Atomic<Int64>(.max)
        /// Keeps the locks of two shards out of one cache line.
        private let padding: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0, 0, 0)
    }

    private let shards: [Shard]
    private let count = Atomic<Int>(0)
    private let cost = Atomic<Int64>(0)
    private let pinnedCost = Atomic<Int64>(0)
    private let clock = Atomic<UInt64>(1)
    private let evictions = EvictionCounter()
    /// Distinguishes the versions of this store from those of others.
    private let identity = UInt64.random(in: 1 ... .max)

    /// Creates an empty store.
    ///
    /// - Parameters:
    ///   - byteLimit: The maximum number of bytes of bodies and headers. Default: 64 MiB.
    ///   - entryLimit: The maximum number of entries. Default: 10,000.
    public init(byteLimit: Int64 = 64 << 20, entryLimit: Int = 10_000) {
        self.byteLimit = max(0, byteLimit)
        self.entryLimit = max(0, entryLimit)
        shards = (0..<16).map { _ in Shard() }
    }

    // MARK: CacheStore

    /// The entries under a primary key with their bodies, one for each variant, newest first: the 64 newest, and the pinned
    /// ones. A look-up counts as a use in the order of eviction.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] { lookUp(primaryKey) }

    func lookUp(_ primaryKey: String) -> [CacheEntry] {
        change(primaryKey) { shard, moment in
            let indexes = shard.indexes(of: primaryKey)
            // The uses follow the order of storing, so that the newest entry is evicted last.
            for index in indexes { shard.use(index, at: moment) }
            return indexes.reversed().compactMap { shard.entry($0) }
        }
    }

    /// The body of an entry; `nil` when the entry was removed or replaced.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        let found = lookUp(entry.key.primary).first { $0.key == entry.key }
        guard let found, entry.version == nil || entry.version == found.version else { return nil }
        return found.attachedBody.map { ResponseBody($0) }
    }

    /// A writer that stores an entry; see ``CacheStore/writer(for:replacing:)``.
    public func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        MemoryWriter(entry, replacing, self)
    }

    /// Replaces everything in an entry except its body; see ``CacheStore/update(_:)``.
    @discardableResult
    public func update(_ entry: CacheEntry) async throws -> Bool {
        let isThere = change(entry.key.primary) { shard, moment in
            guard let index = shard.index(of: entry.key), let before = shard.entry(index),
                entry.version == nil || entry.version == before.version
            else { return false }
            var updated = entry.bare
            updated.bodyByteCount = before.bodyByteCount
            updated.tier = .memory
            updated.version = before.version
            shard.replace(index, with: updated, cost: updated.byteCount, at: moment)
            return true
        }
        makeRoom()
        return isThere
    }

    /// Records the use of an entry.
    public func touch(_ key: CacheKey, at time: Date) async throws { note(use: key, at: time) }

    func note(use key: CacheKey, at time: Date) {
        change(key.primary) { shard, moment in
            if let index = shard.index(of: key) { shard.use(index, at: moment, time: time) }
        }
    }

    /// Removes the selected entries, pinned ones too, and returns how much was removed.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        let affected = selection.primaryKey.map { [shard(of: $0)] } ?? shards
        return affected.reduce(into: CacheUsage()) { removed, shard in
            removed +=
                change(shard) { state, _ in
                    for index in state.indexes(of: selection) { state.remove(index) }
                }.change.removed
        }
    }

    /// The selected entries, in any order and without bodies.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        shards.flatMap { shard in
            shard.state.withLock { state in
                state.indexes(of: selection).compactMap { index in
                    var entry = state.entry(index)
                    entry?.attachedBody = nil
                    return entry
                }
            }
        }
    }

    /// How much is stored.
    public func usage() async throws -> CacheUsage {
        CacheUsage(entryCount: count.load(ordering: .relaxed), byteCount: cost.load(ordering: .relaxed))
    }

    /// Removes the entries whose ``CacheEntry/retainUntil`` has passed, then evicts down to the limits. Returns how much was
    /// removed.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage {
        var removed = removeEnded()
        removed += makeRoom()
        return removed
    }

    /// What was evicted to make room since the store was made.
    public var evicted: CacheUsage { evictions.usage }

    func discard(_ key: CacheKey) {
        change(key.primary) { shard, _ in
            if let index = shard.index(of: key) { shard.remove(index) }
        }
    }

    @discardableResult
    func insert(
        _ entry: CacheEntry, _ body: Data, _ replacing: CacheReplacement
    ) throws(CacheEntryTooLarge) -> CacheCommit {
        var entry = entry
        entry.bodyByteCount = Int64(body.count)
        entry.tier = .memory
        entry.lease = nil
        let size = entry.byteCount
        var limit = entryLimit == 0 ? 0 : byteLimit - pinnedCost.load(ordering: .relaxed)
        if size > limit, entryLimit > 0 { limit += pinnedByteCount(of: entry.key) }
        guard size <= limit else { throw CacheEntryTooLarge(byteCount: size, limit: max(0, limit)) }
        let commit = change(entry.key.primary) { shard, moment -> CacheCommit in
            let before = shard.index(of: entry.key).flatMap { shard.entry($0)?.version }
            guard replacing.allows(before) else { return .superseded }
            entry.version = StoredVersion(moment, identity)
            entry.attachedBody = body
            shard.insert(entry, cost: size, at: moment)
            entry.attachedBody = nil
            entry.isPinned = shard.index(of: entry.key).flatMap { shard.entry($0)?.isPinned } ?? false
            return .stored(entry, variantCount: shard.indexes(of: entry.key.primary).count)
        }
        makeRoom()
        return commit
    }

    /// The bytes that a pinned entry under the key leaves to the one that replaces it.
    private func pinnedByteCount(of key: CacheKey) -> Int64 {
        shard(of: key.primary).state.withLock { state in
            guard let entry = state.index(of: key).flatMap({ state.entry($0) }), entry.isPinned else { return 0 }
            return entry.byteCount
        }
    }

    // MARK: Shards

    private func shard(of primaryKey: String) -> Shard { shards[primaryKey.index(among: shards.count)] }

    private func change<Result: Sendable>(
        _ primaryKey: String, _ body: (inout MemoryShard, _ moment: UInt64) -> Result
    ) -> Result {
        change(shard(of: primaryKey), body).result
    }

    /// Changes a shard and updates the store's totals.
    private func change<Result: Sendable>(
        _ shard: Shard, _ body: (inout MemoryShard, _ moment: UInt64) -> Result
    ) -> (result: Result, change: MemoryShard.Change) {
        let moment = clock.wrappingAdd(1, ordering: .relaxed).newValue
        let done = shard.state.withLock { state in
            let before = state.total
            let result = body(&state, moment)
            shard.oldestUse.store(state.oldestUse, ordering: .relaxed)
            shard.firstEnd.store(state.firstEnd, ordering: .relaxed)
            return (result: result, change: state.total - before)
        }
        if done.change != MemoryShard.Change() {
            count.wrappingAdd(done.change.count, ordering: .relaxed)
            cost.wrappingAdd(done.change.cost, ordering: .relaxed)
            pinnedCost.wrappingAdd(done.change.pinnedCost, ordering: .relaxed)
        }
        return done
    }

    /// Removes the unpinned entries whose `retainUntil` has passed.
    private func removeEnded() -> CacheUsage {
        guard let minute = MemoryShard.minute(of: Date()) else { return CacheUsage() }
        return shards.reduce(into: CacheUsage()) { removed, shard in
            guard shard.firstEnd.load(ordering: .relaxed) < minute else { return }
            removed += change(shard) { state, _ in state.removeEnded(before: minute) }.change.removed
        }
    }

    private var isFull: Bool {
        count.load(ordering: .relaxed) > entryLimit || cost.load(ordering: .relaxed) > byteLimit
    }

    /// Removes the entries whose `retainUntil` has passed, then the least recently used ones, until the limits hold.
    @discardableResult
    private func makeRoom() -> CacheUsage {
        guard isFull else { return CacheUsage() }
        var removed = removeEnded()
        while isFull {
            var oldest: (use: UInt64, shard: Shard)?
            for shard in shards {
                let use = shard.oldestUse.load(ordering: .relaxed)
                if use != .max, use < oldest?.use ?? .max { oldest = (use, shard) }
            }
            // Only pinned entries are left, or other threads are evicting.
            guard let shard = oldest?.shard else { break }
            removed += change(shard) { state, _ in state.removeOldest() }.change.removed
        }
        evictions.add(removed)
        return removed
    }
}

/// The writer of ``MemoryStore``, which collects the body.
private final class MemoryWriter: CacheWriter {
    private let entry: CacheEntry
    private let replacing: CacheReplacement
    private let store: MemoryStore
    private let body = Mutex(Data?.some(Data()))

    init(_ entry: CacheEntry, _ replacing: CacheReplacement, _ store: MemoryStore) {
        self.entry = entry.bare
        self.replacing = replacing
        self.store = store
    }

    func append(_ data: Data) async throws {
        let count = body.withLock { body in
            body?.append(data)
            return body?.count ?? 0
        }
        let size = entry.headByteCount + Int64(count)
        guard size <= store.byteLimit else {
            await discard()
            throw CacheEntryTooLarge(byteCount: size, limit: store.byteLimit).error
        }
    }

    func commit() async throws -> CacheCommit {
        let body = body.withLock { body in
            defer { body = nil }
            return body
        }
        guard let body else {
            throw NetworkError(
                .cache, message: "the writer was already committed or discarded; make another one")
        }
        do { return try store.insert(entry, body, replacing) } catch { throw error.error }
    }

    func discard() async { body.withLock { $0 = nil } }
}
