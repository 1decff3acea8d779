import CLinux
import Cryptography
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import SQLite
import Synchronization

/// What ``DiskStore`` and its writers share: the folder, the queues and what waits to be written.
final class DiskCore: Sendable {
    let layout: DiskLayout
    let sealer: EntrySealer
    let rule: PruneRule
    let watch: ChangeWatch
    let evictions = EvictionCounter()
    let leases: LeaseFile
    /// Tells our changes of the index from others'.
    let writer: Int64

    /// Looks entries up.
    let lookups = Lane("lookups")
    /// Reads many entries, for reports, so that look-ups need not wait.
    let scans = Lane("scans")
    /// Reads and writes bodies.
    let bodies = Lane("bodies", concurrent: true)
    /// Changes the index: the only queue that does.
    let writes = Lane("writes")

    /// Only on ``lookups``.
    let lookupIndex: Confined<IndexHandle>
    /// Only on ``scans``.
    let scanIndex: Confined<IndexHandle>
    /// Only on ``writes``.
    let writeIndex: Confined<IndexHandle>

    private struct Pending {
        var tasks: [WriteTask] = []
        /// Whether a batch is on its way to the queue.
        var isScheduled = false
        var isTouchScheduled = false
        /// The last uses, by primary key.
        var uses: [String: [CacheKey: Use]] = [:]
        var useCount = 0
        /// How many uses were given out to be written, and how many of them are.
        var ticket: UInt64 = 0
        var writtenTicket: UInt64 = 0

        mutating func forgetUse(of key: CacheKey) {
            guard useCount > 0, uses[key.primary]?.removeValue(forKey: key) != nil else { return }
            useCount -= 1
            if uses[key.primary]?.isEmpty == true { uses[key.primary] = nil }
        }

        /// Has a use written.
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

    /// The last use of an entry, and the last one that was written, or is on its way.
    private struct Use {
        var time: Date
        var written: Date
        var ticket: UInt64
    }

    /// So many uses are remembered. Beyond, those that are not on disk are forgotten.
    private static let useLimit = 20_000

    private let pending = Mutex(Pending())

    init(directory: String, rule: PruneRule, key: Data?) throws {
        layout = DiskLayout(directory)
        self.rule = rule
        leases = LeaseFile(layout.leases)
        sealer = try EntrySealer(key: key)
        writer = try randomBytes(8).reduce(0) { $0 << 8 | Int64($1) } & .max
        watch = ChangeWatch(layout, sealer, writer: writer)
        lookupIndex = Confined(IndexHandle(layout, sealer, .reading, busyTimeout: .seconds(1)))
        scanIndex = Confined(IndexHandle(layout, sealer, .reading, busyTimeout: .seconds(5)))
        writeIndex = Confined(IndexHandle(layout, sealer, .writing, busyTimeout: .seconds(5)))
    }

    // MARK: Reading

    /// Reads from the index. Where there is none, or it is damaged and was set aside, the answer is `nil`.
    func read<Result: Sendable>(
        _ lane: Lane, _ handle: Confined<IndexHandle>, _ body: @escaping @Sendable (CacheIndex) throws -> Result
    ) async throws -> Result? {
        try await lane.run { [self] in try readNow(handle, body) }
    }

    /// ``read(_:_:_:)``, on the queue of the handle.
    func readNow<Result>(_ handle: Confined<IndexHandle>, _ body: (CacheIndex) throws -> Result) throws -> Result? {
        // Who only reads wants to see the changes of others too.
        watch.prepare()
        do {
            do {
                return try handle.value.index().map(body)
            } catch let error as SQLiteError where error.isInputOutput {
                // The file went away under it, as when the folder was removed.
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

    /// Has something written with the next batch.
    func write(_ task: WriteTask) {
        let isFirst = pending.withLock { pending in
            pending.tasks.append(task)
            // It brings the last use along.
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

    /// Notes a use. It is written with the next batch, or after a second, unless the one that was written last is younger
    /// than an interval.
    ///
    /// - Parameter known: the last use as the disk has it.
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

    /// Has all uses written with the next batch.
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

    /// Writes what waits, at the latest when nobody uses the store any more.
    func flush() {
        writes.queue.async {
            self.collectUses()
            self.writeBatch()
        }
    }

    /// Writes what waits, and returns when the disk has it: the log, the index and the bodies.
    func synchronize() async throws {
        do {
            try await writes.run { [self] in
                collectUses()
                writeBatch()
                guard FileIdentity(layout.index) != nil, let index = try writeIndex.value.index() else { return }
                let descriptor = open(layout.bodies, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                if descriptor >= 0 {
                    // Bodies are not synchronised one by one.
                    _ = lat_syncfs(descriptor)
                    close(descriptor)
                }
                _ = try index.connection.number("PRAGMA wal_checkpoint(FULL)")
            }
        } catch {
            throw CacheFault.error(error, in: layout.directory)
        }
    }

    /// How many uses are on disk. Asked for before the disk is read.
    var writtenTicket: UInt64 { pending.withLock(\.writtenTicket) }

    /// An entry as the disk had it after a ticket, with its last use.
    func withUse(_ entry: CacheEntry, since ticket: UInt64) -> CacheEntry {
        let use = pending.withLock { $0.useCount == 0 ? nil : $0.uses[entry.key.primary]?[entry.key] }
        // Where another process has used it since, that counts.
        guard let use, use.ticket > ticket || use.time >= entry.lastUse || use.written == entry.lastUse else {
            return entry
        }
        var entry = entry
        entry.lastUse = use.time
        return entry
    }

    /// Only on ``writes``.
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
        // Here rather than on the way of the next hit.
        _ = watch.look()
    }

    /// The most bytes of entries as things are.
    func limit(_ totals: CacheUsage) -> Int64 {
        rule.limit(used: totals.byteCount, freeByteCount: layout.freeBytes)
    }
}

/// Uses that are written together: of each key the last.
///
/// Used behind the lock of what waits, then by the batch alone.
final class Uses {
    private var uses: [CacheKey: (time: Date, order: Int)] = [:]
    private var next = 0

    var count: Int { uses.count }

    /// In the order in which they came.
    var list: [(key: CacheKey, time: Date)] {
        uses.sorted { $0.value.order < $1.value.order }.map { ($0.key, $0.value.time) }
    }

    func add(_ key: CacheKey, _ time: Date) {
        uses[key] = (time, next)
        next += 1
    }
}
