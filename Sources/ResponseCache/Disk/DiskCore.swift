import CLinux
import Cryptography
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
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

    /// The queue of look-ups.
    let lookups = StoreQueue("lookups")
    /// The queue of reports, which read many entries, so that look-ups need not wait for them.
    let scans = StoreQueue("scans")
    /// The queue that reads and writes bodies.
    let bodies = StoreQueue("bodies", concurrent: true)
    /// The only queue that changes the index.
    let writes = StoreQueue("writes")

    /// Used only on ``lookups``.
    let lookupIndex: Confined<IndexHandle>
    /// Used only on ``scans``.
    let scanIndex: Confined<IndexHandle>
    /// Used only on ``writes``.
    let writeIndex: Confined<IndexHandle>

    private struct Pending {
        var tasks: [WriteTask] = []
        /// Whether the queue has a block that will write the tasks.
        var isScheduled = false
        var isTouchScheduled = false
        /// The last uses, by primary key.
        var uses: [String: [CacheKey: Use]] = [:]
        var useCount = 0
        /// How many uses were added to the tasks, and how many of them are on disk.
        var ticket: UInt64 = 0
        var writtenTicket: UInt64 = 0

        mutating func forgetUse(of key: CacheKey) {
            guard useCount > 0, uses[key.primary]?.removeValue(forKey: key) != nil else { return }
            useCount -= 1
            if uses[key.primary]?.isEmpty == true { uses[key.primary] = nil }
        }

        /// Adds a use to the tasks.
        mutating func write(_ use: inout Use, of key: CacheKey) {
            ticket += 1
            use.ticket = ticket
            use.written = use.time
            if case .touch(let uses)? = tasks.last, uses.value.count < 1_000 {
                uses.value.add(key, use.time)
            } else {
                let uses = Uses()
                uses.add(key, use.time)
                tasks.append(.touch(Confined(uses)))
            }
        }
    }

    /// The last use of an entry, and the last one that was written or is being written.
    private struct Use {
        var time: Date
        var written: Date
        var ticket: UInt64
    }

    /// The maximum number of uses that are remembered. At the limit all are dropped, including those not yet on disk.
    private static let useLimit = 20_000

    private let pending = Mutex(Pending())

    init(directory: String, rule: PruneRule, key: Data?, busyTimeout: Duration) throws {
        layout = DiskLayout(directory)
        self.rule = rule
        leases = LeaseFile(layout.leases)
        sealer = try EntrySealer(key: key)
        writer = try randomBytes(8).reduce(0) { $0 << 8 | Int64($1) } & .max
        watch = ChangeWatch(layout, sealer, writer: writer)
        lookupIndex = Confined(IndexHandle(layout, sealer, .reading, busyTimeout: busyTimeout / 5))
        scanIndex = Confined(IndexHandle(layout, sealer, .reading, busyTimeout: busyTimeout))
        writeIndex = Confined(IndexHandle(layout, sealer, .writing, busyTimeout: busyTimeout))
    }

    // MARK: Reading

    /// Reads from the index. Returns `nil` when there is none, or when it was damaged and is now set aside.
    func read<Result: Sendable>(
        _ lane: StoreQueue, _ handle: Confined<IndexHandle>, _ body: @escaping @Sendable (CacheIndex) throws -> Result
    ) async throws -> Result? {
        try await lane.run { [self] in try readNow(handle, body) }
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
                try layout.setAside(handle.value.takeDamagedFile())
                return nil
            }
        } catch {
            throw CacheFault.error(error, in: layout.directory)
        }
    }

    // MARK: Writing

    /// Adds a task to the next batch.
    func write(_ task: WriteTask) {
        let isFirst = pending.withLock { pending in
            pending.tasks.append(task)
            // A stored or updated entry carries its last use.
            switch task {
            case .store(let prepared, _): pending.forgetUse(of: prepared.entry.key)
            case .update(let entry, _): pending.forgetUse(of: entry.key)
            case .remove, .drop, .touch, .prune, .removeEnded: break
            }
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        if isFirst { writes.queue.async { self.writeBatch() } }
    }

    /// Records a use. It is written with the next batch or after a second, unless the last written one is younger than
    /// `interval`.
    ///
    /// - Parameter known: The last use on disk.
    func touch(_ key: CacheKey, at time: Date, since known: Date = .distantPast, interval: TimeInterval = 0) {
        let isFirst = pending.withLock { pending in
            if pending.useCount >= Self.useLimit {
                pending.uses = [:]
                pending.useCount = 0
            }
            var use = pending.uses[key.primary]?[key] ?? Use(time: time, written: known, ticket: 0)
            if use.ticket == 0, pending.uses[key.primary]?[key] == nil { pending.useCount += 1 }
            use.time = time
            let isDue = abs(time.timeIntervalSince(use.written)) >= interval
            if isDue { pending.write(&use, of: key) }
            pending.uses[key.primary, default: [:]][key] = use
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

    /// Adds all unwritten uses to the next batch.
    private func collectUses() {
        pending.withLock { pending in
            for (primary, uses) in pending.uses {
                for (key, use) in uses where use.time != use.written {
                    var use = use
                    pending.write(&use, of: key)
                    pending.uses[primary]?[key] = use
                }
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
        do {
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
        } catch {
            throw CacheFault.error(error, in: layout.directory)
        }
    }

    /// The number of uses that are on disk. Read it before the disk is read.
    var writtenTicket: UInt64 { pending.withLock(\.writtenTicket) }

    /// An entry that was read from disk, updated with its last use, which may not be on disk yet.
    ///
    /// - Parameter ticket: ``writtenTicket`` before the entry was read.
    func withUse(_ entry: CacheEntry, since ticket: UInt64) -> CacheEntry {
        let use = pending.withLock { $0.useCount == 0 ? nil : $0.uses[entry.key.primary]?[entry.key] }
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
        WriteBatch(self, tasks).run()
        pending.withLock { $0.writtenTicket = ticket }
        // Looking here means that the next hit need not read the change log.
        _ = watch.check()
    }

    /// The maximum number of bytes of entries, given the current free space.
    func limit(_ totals: CacheUsage) -> Int64 {
        rule.limit(used: totals.byteCount, freeByteCount: layout.freeBytes)
    }
}

/// Uses to write together, the last one of each key.
///
/// Guarded by the lock of the waiting tasks, then used by one batch alone.
final class Uses {
    private var uses: [CacheKey: (time: Date, order: Int)] = [:]
    private var next = 0

    var count: Int { uses.count }

    /// The uses in the order in which they were added.
    var list: [(key: CacheKey, time: Date)] {
        uses.sorted { $0.value.order < $1.value.order }.map { ($0.key, $0.value.time) }
    }

    func add(_ key: CacheKey, _ time: Date) {
        uses[key] = (time, next)
        next += 1
    }
}
