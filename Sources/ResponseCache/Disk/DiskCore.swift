import CSQLite
import Cryptography
import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore
import Synchronization

/// What ``DiskStore`` and its writers share: the folder, the queues and what waits to be written.
final class DiskCore: Sendable {
    let layout: DiskLayout
    let sealer: EntrySealer
    let rule: PruneRule
    let watch: ChangeWatch
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
        /// Uses that are not on disk yet, by primary key, and how often there was one.
        var touched: [String: [CacheKey: (time: Date, ticket: UInt64)]] = [:]
        var ticket: UInt64 = 0
    }

    private let pending = Mutex(Pending())

    init(directory: String, rule: PruneRule, key: Data?) throws {
        layout = DiskLayout(directory)
        self.rule = rule
        sealer = try EntrySealer(key: key)
        writer = try randomBytes(8).reduce(0) { $0 << 8 | Int64($1) } & .max
        watch = ChangeWatch(layout, sealer, writer: writer)
        lookupIndex = Confined(IndexHandle(layout, sealer, .reading, busyTimeout: .seconds(5)))
        scanIndex = Confined(IndexHandle(layout, sealer, .reading, busyTimeout: .seconds(5)))
        writeIndex = Confined(IndexHandle(layout, sealer, .writing, busyTimeout: .seconds(20)))
    }

    // MARK: Reading

    /// Reads from the index. Where there is none, or it is damaged and was set aside, the answer is `nil`.
    func read<Result: Sendable>(
        _ lane: Lane, _ handle: Confined<IndexHandle>, _ body: @escaping @Sendable (CacheIndex) throws -> Result
    ) async throws -> Result? {
        do {
            return try await lane.run { [self] in
                // Who only reads wants to see the changes of others too.
                watch.prepare()
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
            defer { pending.isScheduled = true }
            return !pending.isScheduled
        }
        if isFirst { writes.queue.async { self.writeBatch() } }
    }

    /// Notes a use. It is written with the next batch, or after a second.
    func touch(_ key: CacheKey, at time: Date) {
        let isFirst = pending.withLock { pending in
            pending.ticket += 1
            pending.touched[key.primary, default: [:]][key] = (time, pending.ticket)
            if case .touch(let uses)? = pending.tasks.last, uses.value.count < 1_000 {
                uses.value.add(key, time)
            } else {
                let uses = Uses()
                uses.add(key, time)
                pending.tasks.append(.touch(Confined(uses)))
            }
            defer { pending.isTouchScheduled = true }
            return !pending.isTouchScheduled
        }
        guard isFirst else { return }
        writes.queue.asyncAfter(deadline: .now() + 1) { [weak self] in
            self?.pending.withLock { $0.isTouchScheduled = false }
            self?.writeBatch()
        }
    }

    /// Writes what waits, at the latest when nobody uses the store any more.
    func flush() { writes.queue.async { self.writeBatch() } }

    /// Writes what waits, and returns when the disk has it: the log, the index and the bodies.
    func synchronize() async throws {
        do {
            try await writes.run { [self] in
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

    /// The last uses under a primary key that are not on disk yet.
    func recentUses(of primaryKey: String) -> [CacheKey: (time: Date, ticket: UInt64)] {
        pending.withLock { $0.touched.isEmpty ? [:] : $0.touched[primaryKey] ?? [:] }
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
        pending.withLock { pending in
            guard !pending.touched.isEmpty else { return }
            pending.touched = pending.touched.compactMapValues { uses in
                let rest = uses.filter { $0.value.ticket > ticket }
                return rest.isEmpty ? nil : rest
            }
        }
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
