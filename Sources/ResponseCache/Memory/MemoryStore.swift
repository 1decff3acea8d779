public import FoundationEssentials
public import HTTPCore
import Synchronization

/// Responses in the memory of the process: what was not used for the longest time goes first.
///
/// ```swift
/// let store = MemoryStore(byteLimit: 32 << 20, entryLimit: 5_000)
/// let writer = try await store.writer(for: entry)
/// try await writer.append(body)
/// try await writer.commit()
/// ```
///
/// Both limits hold after every insert. An entry that is larger than the limit, or than what pinned entries leave of
/// it, is refused and nothing else goes for it. Entries lie in shards, each behind a lock of its own that is held for
/// a microsecond or less; the order of use is one over all of them. Nothing here waits: no method suspends.
public final class MemoryStore: CacheStore {
    /// The most bytes of bodies and headers.
    public let byteLimit: Int64
    /// The most entries.
    public let entryLimit: Int

    private final class Shard: Sendable {
        let state = Mutex(MemoryShard())
        /// When its entry was used that is the next to go; `max` when there is none.
        let oldestUse = Atomic<UInt64>(.max)
        /// Keeps the locks of neighbours out of one cache line.
        private let padding: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0, 0, 0)
    }

    private let shards: [Shard]
    private let count = Atomic<Int>(0)
    private let cost = Atomic<Int64>(0)
    private let pinnedCost = Atomic<Int64>(0)
    private let clock = Atomic<UInt64>(1)

    /// Memory with limits.
    ///
    /// - Parameters:
    ///   - byteLimit: the most bytes of bodies and headers. Default: 64 MiB.
    ///   - entryLimit: the most entries. Default: 10,000.
    public init(byteLimit: Int64 = 64 << 20, entryLimit: Int = 10_000) {
        self.byteLimit = max(0, byteLimit)
        self.entryLimit = max(0, entryLimit)
        shards = (0..<16).map { _ in Shard() }
    }

    // MARK: CacheStore

    /// The entries under a primary key, one for each variant, the one stored last first.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] { lookUp(primaryKey).entries }

    /// The body of an entry, checked; `nil` when it is gone, damaged, or was stored anew since.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? { data(of: entry).map { ResponseBody($0) } }

    /// Begins to store a response; see ``CacheStore/writer(for:)``.
    public func writer(for entry: CacheEntry) async throws -> any CacheWriter { MemoryWriter(entry, self) }

    /// Replaces what is kept of an entry besides its body, unless it was stored anew since.
    public func update(_ entry: CacheEntry) async throws {
        update(entry, mark: nil)
    }

    /// Notes that an entry was used.
    public func touch(_ key: CacheKey, at time: Date) async throws { note(use: key, at: time) }

    func note(use key: CacheKey, at time: Date) {
        change(key.primary) { shard, moment in
            if let index = shard.index(of: key) { shard.use(index, at: moment, time: time) }
        }
    }

    /// Removes what is selected, pinned entries too, and says how much that was.
    @discardableResult
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage { removeAll(selection) }

    /// The entries that are selected, without an order.
    public func entries(_ selection: CacheSelection) async throws -> [CacheEntry] {
        shards.flatMap { shard in
            shard.state.withLock { state in
                state.indexes(of: selection).compactMap { state.node($0)?.entry }
            }
        }
    }

    /// How much is stored.
    public func usage() async throws -> CacheUsage {
        CacheUsage(entryCount: count.load(ordering: .relaxed), byteCount: cost.load(ordering: .relaxed))
    }

    /// Makes room down to the limits and clears away what nobody refers to; says how much went.
    @discardableResult
    public func collectGarbage() async throws -> CacheUsage { makeRoom() }

    // MARK: What the stores of this module ask

    struct Found {
        var entries: [CacheEntry] = []
        /// The changes of others on disk that all of them are known to be newer than.
        var epoch: Int64 = .max
        /// Whether no other variant is known on disk.
        var isComplete = false
    }

    /// The variants that are here, the one stored last first.
    func lookUp(_ primaryKey: String) -> Found {
        shard(of: primaryKey).state.withLock { state in
            var found = Found()
            guard let bucket = state.bucket(of: primaryKey) else { return found }
            for index in bucket.nodes {
                guard let node = state.node(index) else { continue }
                found.entries.append(node.entry)
                found.epoch = min(found.epoch, node.epoch)
            }
            found.isComplete = bucket.variantCount == bucket.nodes.count
            if found.entries.count > 1 {
                found.entries.sort { ($0.mark.row, $0.mark.memoryRevision) > ($1.mark.row, $1.mark.memoryRevision) }
            }
            return found
        }
    }

    /// The body of an entry, unless it was stored anew since.
    func data(of entry: CacheEntry) -> Data? {
        change(entry.key.primary) { shard, moment -> Data? in
            guard let index = shard.index(of: entry.key), let node = shard.node(index) else { return nil }
            let revision = entry.mark.memoryRevision
            guard revision == 0 || revision == node.entry.mark.memoryRevision else { return nil }
            shard.use(index, at: moment)
            return node.body
        }
    }

    /// Stores an entry with its body.
    ///
    /// - Parameter lookup: for a copy from disk. Nothing happens if something changed since.
    func insert(
        _ entry: CacheEntry, _ body: Data, epoch: Int64 = 0, copiedBy lookup: StorageMark.Lookup? = nil
    ) throws(CacheEntryTooLarge) {
        var entry = entry
        entry.bodyByteCount = Int64(body.count)
        entry.tier = .memory
        entry.mark.body = nil
        entry.mark.lookup = nil
        let size = entry.byteCount
        let limit = entryLimit == 0 ? 0 : byteLimit - pinnedCost.load(ordering: .relaxed)
        guard size <= limit else { throw CacheEntryTooLarge(byteCount: size, limit: max(0, limit)) }
        change(entry.key.primary) { shard, moment in
            if let lookup, lookup.ticket != shard.changeCount { return }
            entry.mark.memoryRevision = moment
            let node = MemoryShard.Node(
                entry: entry, body: body, cost: size, use: moment, epoch: lookup?.epoch ?? epoch)
            shard.insert(node, isCopy: lookup != nil)
            if let lookup { shard.note(variantCount: lookup.variantCount, of: entry.key.primary) }
        }
        makeRoom()
    }

    /// Replaces what is kept of an entry besides its body, unless it was stored anew since.
    ///
    /// - Parameter mark: where it is on disk now, when that changed.
    func update(_ entry: CacheEntry, mark: StorageMark?) {
        change(entry.key.primary) { shard, moment in
            guard let index = shard.index(of: entry.key), let node = shard.node(index) else { return }
            let (given, kept) = (entry.mark, node.entry.mark)
            guard given.memoryRevision == 0 || given.memoryRevision == kept.memoryRevision else { return }
            guard given.row == 0 || given.row == kept.row else { return }
            var entry = entry
            entry.bodyByteCount = node.entry.bodyByteCount
            entry.tier = .memory
            entry.mark = mark ?? kept
            entry.mark.memoryRevision = kept.memoryRevision
            entry.mark.body = nil
            shard.replace(index, with: entry, cost: entry.byteCount, at: moment)
        }
        makeRoom()
    }

    @discardableResult
    func removeAll(_ selection: CacheSelection) -> CacheUsage {
        let meant: [Shard] =
            switch selection {
            case .key(let key): [shard(of: key.primary)]
            case .primaryKey(let key): [shard(of: key)]
            default: shards
            }
        return meant.reduce(into: CacheUsage()) { removed, shard in
            let change = change(shard) { state, _ in
                state.noteChange()
                for index in state.indexes(of: selection) { state.remove(index) }
            }.change
            removed.entryCount -= change.count
            removed.byteCount -= change.cost
        }
    }

    /// What ``insert(_:_:epoch:copiedBy:)`` takes to see whether something came in between.
    func ticket(for primaryKey: String) -> UInt64 { shard(of: primaryKey).state.withLock(\.changeCount) }

    func note(epoch: Int64, of key: CacheKey) {
        shard(of: key.primary).state.withLock { state in
            if let index = state.index(of: key) { state.note(epoch: epoch, of: index) }
        }
    }

    func note(variantCount: Int?, of primaryKey: String) {
        shard(of: primaryKey).state.withLock { $0.note(variantCount: variantCount, of: primaryKey) }
    }

    // MARK: Shards

    private func shard(of primaryKey: String) -> Shard {
        var hasher = Hasher()
        primaryKey.hashBytes(into: &hasher)
        return shards[Int(truncatingIfNeeded: UInt(bitPattern: hasher.finalize())) & (shards.count - 1)]
    }

    private func change<Result: Sendable>(
        _ primaryKey: String, _ body: (inout MemoryShard, _ moment: UInt64) -> Result
    ) -> Result {
        change(shard(of: primaryKey), body).result
    }

    /// Changes a shard and counts what that made of the whole.
    private func change<Result: Sendable>(
        _ shard: Shard, _ body: (inout MemoryShard, _ moment: UInt64) -> Result
    ) -> (result: Result, change: MemoryShard.Change) {
        let moment = clock.wrappingAdd(1, ordering: .relaxed).newValue
        let done = shard.state.withLock { state in
            let before = state.total
            let result = body(&state, moment)
            shard.oldestUse.store(state.oldestUse, ordering: .relaxed)
            return (result: result, change: state.total - before)
        }
        if done.change != MemoryShard.Change() {
            count.wrappingAdd(done.change.count, ordering: .relaxed)
            cost.wrappingAdd(done.change.cost, ordering: .relaxed)
            pinnedCost.wrappingAdd(done.change.pinnedCost, ordering: .relaxed)
        }
        return done
    }

    /// Removes what was not used for the longest time until the limits hold.
    @discardableResult
    private func makeRoom() -> CacheUsage {
        var removed = CacheUsage()
        while count.load(ordering: .relaxed) > entryLimit || cost.load(ordering: .relaxed) > byteLimit {
            var oldest: (use: UInt64, shard: Shard)?
            for shard in shards {
                let use = shard.oldestUse.load(ordering: .relaxed)
                if use != .max, use < oldest?.use ?? .max { oldest = (use, shard) }
            }
            // Nothing but pinned entries are left, or others are at it.
            guard let shard = oldest?.shard else { break }
            let change = change(shard) { state, _ in state.removeOldest() }.change
            removed.entryCount -= change.count
            removed.byteCount -= change.cost
        }
        return removed
    }
}

/// Collects a body for ``MemoryStore``.
private final class MemoryWriter: CacheWriter {
    private let entry: CacheEntry
    private let store: MemoryStore
    private let body = Mutex(Data?.some(Data()))

    init(_ entry: CacheEntry, _ store: MemoryStore) {
        self.entry = entry
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

    func commit() async throws {
        let body = body.withLock { body in
            defer { body = nil }
            return body
        }
        guard let body else {
            throw NetworkError(
                .cache, message: "a writer that was discarded or committed takes no commit; make another")
        }
        var entry = entry
        entry.mark = StorageMark()
        do { try store.insert(entry, body) } catch { throw error.error }
    }

    func discard() async { body.withLock { $0 = nil } }
}
