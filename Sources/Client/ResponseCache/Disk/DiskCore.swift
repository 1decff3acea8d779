import CLinux
import Cryptography
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite
import Synchronization

/// The state that ``DiskStore`` shares with its writers: the folder, the queues and the waiting writes.
final class DiskCore: Sendable {
    let layout: DiskLayout
    let sealer: EntrySealer
    let rule: PruneRule
    let watch: ChangeWatch
    let evictions = EvictionCounter()
    let leases: LeaseFile
    /// Identifies the changes of this store in the change log.
    let writer: Int64

    let lookups = StoreQueue("lookups")
    /// The queue of reports, which read many entries, so that look-ups need not wait for them.
    let scans = StoreQueue("scans")
    /// The queue that reads and writes bodies.
    let bodies = StoreQueue("bodies", concurrent: true)
    /// The only queue that changes the index.
    let writes = StoreQueue("writes")

    // Each index is used only on the queue with its name.
    let lookupIndex: Confined<IndexHandle>
    let scanIndex: Confined<IndexHandle>
    let writeIndex: Confined<IndexHandle>

    private struct Pending {
        var tasks: [WriteTask] = []
        /// Whether the queue has a block that will write the tasks.
        var isScheduled = false
        var isTouchScheduled = false
        var uses: [CacheKey: EntryUse] = [:]
        /// How many uses were added to the tasks, and how many of them are on disk.
        var ticket: UInt64 = 0
        var writtenTicket: UInt64 = 0

        mutating func write(_ use: inout EntryUse, of key: CacheKey) {
            ticket += 1
            use.ticket = ticket
            use.written = use.time
            var batch: [CacheKey: EntryUse] = [:]
            if case .touch(let last)? = tasks.last, last.count < 1_000 {
                // The batch is taken out of the tasks, so that adding to it copies nothing.
                batch = last
                tasks.removeLast()
            }
            batch[key] = use
            tasks.append(.touch(batch))
        }
    }

    /// The maximum number of uses that are remembered. At the limit all are dropped, including those not yet on disk.
    private static let useLimit = 20_000

    private let pending = Mutex(Pending())
    private let hasRemovedCutBodies = Atomic(false)

    init(directory: String, rule: PruneRule, key: Data?, busyTimeout: Duration) throws {
        layout = DiskLayout(directory)
        self.rule = rule
        leases = LeaseFile(layout.leases)
        sealer = try EntrySealer(key: key)
        writer = try randomBytes(8).reduce(0) { $0 << 8 | Int64($1) } & .max
        watch = ChangeWatch(layout, sealer, writer: writer)
        lookupIndex = Confined(IndexHandle(layout, sealer, busyTimeout: busyTimeout / 5))
        scanIndex = Confined(IndexHandle(layout, sealer, busyTimeout: busyTimeout))
        writeIndex = Confined(IndexHandle(layout, sealer, creates: true, busyTimeout: busyTimeout))
    }

    // MARK: Reading

    /// Reads from the index. Returns `nil` when there is none, or when it was damaged and is now set aside.
    func read<Result: Sendable>(
        _ queue: StoreQueue, _ handle: Confined<IndexHandle>, _ body: @escaping @Sendable (CacheIndex) throws -> Result
    ) async throws -> Result? {
        try await queue.run { [self] in try readNow(handle, body) }
    }

    /// Reads like ``read(_:_:_:)``. Call it on the queue of the handle.
    func readNow<Result>(_ handle: Confined<IndexHandle>, _ body: (CacheIndex) throws -> Result) throws -> Result? {
        // A store that only reads must also see the changes of others.
        watch.prepare()
        do {
            do {
                return try handle.value.index().map(body)
            } catch let error as SQLiteError where error.isInputOutput {
                // The file was removed while open, for example with its folder.
                handle.value.close()
                return try handle.value.index().map(body)
            } catch let error as SQLiteError where error.isDamage {
                try layout.setAside(handle.value.takeFile())
                return nil
            }
        } catch {
            throw CacheFault.error(error, in: layout.directory)
        }
    }

    // MARK: Writing

    func write(_ task: WriteTask) {
        let isFirst = pending.withLock { pending in
            pending.tasks.append(task)
            // A stored or updated entry carries its last use.
            switch task {
            case .store(let prepared, _): pending.uses[prepared.entry.key] = nil
            case .update(let entry, _): pending.uses[entry.key] = nil
            case .remove, .drop, .touch, .prune, .removeEnded: break
            }
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        if isFirst { writes.queue.async { self.writeBatch() } }
    }

    /// Records a use. It is written with the next batch or after a second, unless the last written one is younger than
    /// `interval`. `known` is the last use on disk.
    func touch(_ key: CacheKey, at time: Date, since known: Date = .distantPast, interval: TimeInterval = 0) {
        let isFirst = pending.withLock { pending in
            if pending.uses.count >= Self.useLimit { pending.uses = [:] }
            var use = pending.uses[key] ?? EntryUse(time: time, written: known)
            use.time = time
            let isDue = abs(time.timeIntervalSince(use.written)) >= interval
            if isDue { pending.write(&use, of: key) }
            pending.uses[key] = use
            guard isDue else { return false }
            defer { pending.isTouchScheduled = true }
            return !pending.isTouchScheduled
        }
        guard isFirst else { return }
        writes.queue.asyncAfter(deadline: .now() + 1) { [weak self] in
            self?.pending.withLock { $0.isTouchScheduled = false }
            self?.writeBatch()
        }
    }

    private func collectUses() {
        pending.withLock { pending in
            for (key, use) in pending.uses where use.time != use.written {
                var use = use
                pending.write(&use, of: key)
                pending.uses[key] = use
            }
        }
    }

    /// Writes all waiting tasks, without waiting for the end. Called at the latest when the store is released.
    func flush() {
        writes.queue.async {
            self.collectUses()
            self.writeBatch()
        }
    }

    /// Writes all waiting tasks, and returns when the log, the index and the bodies are on the physical disk.
    func synchronize() async throws {
        try await writes.run { [self] in
            collectUses()
            writeBatch()
            guard FileIdentity(layout.index) != nil, let index = try writeIndex.value.index() else { return }
            let descriptor = open(layout.bodies, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            if descriptor >= 0 {
                // One call for the file system instead of one for each body.
                _ = lat_syncfs(descriptor)
                close(descriptor)
            }
            _ = try index.connection.number("PRAGMA wal_checkpoint(FULL)")
        }
    }

    /// The number of uses that are on disk. Read it before the disk is read.
    var writtenTicket: UInt64 { pending.withLock(\.writtenTicket) }

    /// The entry with its last use, which may not be on disk yet. `ticket` is ``writtenTicket`` before the entry was read.
    func withUse(_ entry: CacheEntry, since ticket: UInt64) -> CacheEntry {
        let use = pending.withLock { $0.uses.isEmpty ? nil : $0.uses[entry.key] }
        // A later use by another process takes precedence.
        guard let use, use.ticket > ticket || use.time >= entry.lastUse || use.written == entry.lastUse else {
            return entry
        }
        var entry = entry
        entry.lastUse = use.time
        return entry
    }

    /// Call only on ``writes``.
    private func writeBatch() {
        let (tasks, ticket) = pending.withLock { pending in
            defer {
                pending.tasks = []
                pending.isScheduled = false
            }
            return (pending.tasks, pending.ticket)
        }
        guard !tasks.isEmpty else { return }
        WriteBatch(core: self, tasks: tasks).run()
        pending.withLock { $0.writtenTicket = ticket }
        // After this check, the next hit need not read the change log.
        _ = watch.check()
    }

    // MARK: Collecting garbage

    /// Collects garbage repeatedly while the store exists.
    func scheduleCollection(after delay: Duration, then interval: Duration) {
        bodies.queue.asyncAfter(deadline: .now() + .milliseconds(Int(delay.roundedUpMilliseconds(atMost: 1 << 40)))) {
            [weak self] in
            guard let self else { return }
            Task {
                // The error is ignored. If its cause persists, later calls of the store report it.
                _ = try? await self.collectGarbage()
                self.scheduleCollection(after: interval, then: interval)
            }
        }
    }

    /// Removes entries whose `retainUntil` has passed, evicts down to the limits, removes bodies without rows and rows without
    /// bodies, and returns free pages to the disk.
    func collectGarbage() async throws -> CacheUsage {
        guard access(layout.directory, F_OK) == 0 else { return CacheUsage() }
        var removed = CacheUsage()
        var ended: CacheUsage
        repeat {
            // The entries are removed in portions, so that other writes can run in between.
            ended = try await withCheckedThrowingContinuation { write(.removeEnded($0)) }
            removed += ended
        } while ended.entryCount == CacheIndex.portion
        removed += try await withCheckedThrowingContinuation { write(.prune(0, $0)) }
        removed.byteCount += try await removeOrphans()
        try await scans.run { [self] in
            let files = try scanIndex.value.index()?.files() ?? []
            let incomplete = files.filter { access(layout.path(ofBody: $0.name), F_OK) != 0 && errno == ENOENT }
            if !incomplete.isEmpty { write(.drop(incomplete.map { $0.row })) }
            layout.removeOldVersions()
        }
        _ = try await returnPages()
        return removed
    }

    /// Removes bodies without rows, and returns their number of bytes.
    func removeOrphans() async throws -> Int64 {
        try await scans.run { [self] in
            try layout.removeOrphans { try scanIndex.value.index()?.isKnown(file: $0) ?? false }
        }
    }

    /// Removes, once and in the background, bodies that killed processes were writing. Processes that live shorter than a minute
    /// never collect garbage.
    func removeCutBodies() {
        guard !hasRemovedCutBodies.exchange(true, ordering: .relaxed) else { return }
        scans.queue.async { [layout] in _ = try? layout.removeOrphans { _ in true } }
    }

    /// Returns a portion of the free pages to the disk, empties the log, and returns the number of pages that are still free.
    func returnPages() async throws -> Int64 {
        try await writes.run { [self] in
            guard FileIdentity(layout.index) != nil, let index = try writeIndex.value.index() else { return 0 }
            try index.connection.execute("PRAGMA incremental_vacuum(4096)")
            index.emptyLog()
            return try index.connection.number("PRAGMA freelist_count") ?? 0
        }
    }

    /// The maximum number of bytes of entries, given the current free space.
    func limit(_ totals: CacheUsage) -> Int64 {
        rule.limit(used: totals.byteCount, freeByteCount: layout.freeBytes)
    }
}

/// The last use of an entry, and the last one that was written or is being written.
struct EntryUse: Sendable {
    var time: Date
    var written: Date
    /// The number of the written use, in the order of the tasks; 0 for none.
    var ticket: UInt64 = 0
}
