import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

/// Something to be written into the index, and who waits for it.
enum WriteTask: Sendable {
    case store(PreparedEntry, CheckedContinuation<CacheCommit, any Error>)
    case update(CacheEntry, CheckedContinuation<Bool, any Error>)
    case remove(CacheSelection, CheckedContinuation<CacheUsage, any Error>)
    /// Rows that were found damaged, or without their body.
    case drop([Int64])
    case touch(Confined<Uses>)
    /// Makes room beyond the limits: so many bytes.
    case prune(Int64, CheckedContinuation<CacheUsage, any Error>)
    /// Removes some of what nobody has a use for any more.
    case removeEnded(CheckedContinuation<CacheUsage, any Error>)

    func finishWithNothing() {
        switch self {
        case .update(_, let waiting): waiting.resume(returning: false)
        case .remove(_, let waiting), .prune(_, let waiting), .removeEnded(let waiting):
            waiting.resume(returning: CacheUsage())
        case .store, .drop, .touch: break
        }
    }

    func fail(_ error: any Error) {
        switch self {
        case .store(_, let waiting): waiting.resume(throwing: error)
        case .update(_, let waiting): waiting.resume(throwing: error)
        case .remove(_, let waiting), .prune(_, let waiting), .removeEnded(let waiting):
            waiting.resume(throwing: error)
        case .drop, .touch: break
        }
    }
}

/// Tasks that share one transaction, and with it one wait for the disk. Only on the queue of writes.
///
/// Bodies get their names first: a row never names a body that is not there. What is left over when the process ends in
/// between is a body without a row, which is cleared away.
struct WriteBatch {
    private let core: DiskCore
    private let tasks: [WriteTask]

    init(_ core: DiskCore, _ tasks: [WriteTask]) {
        self.core = core
        self.tasks = tasks
    }

    func run() {
        let isStoring = tasks.contains { if case .store = $0 { true } else { false } }
        // Nothing is made only to remove what is not there.
        if !isStoring, FileIdentity(core.layout.index) == nil { return tasks.forEach { $0.finishWithNothing() } }
        do {
            try attempt(tasks)
        } catch let error where Self.isBusy(error) {
            // Who holds the index will hold it for each of them: they wait once.
            for task in tasks { task.fail(CacheFault.error(error, in: core.layout.directory)) }
        } catch {
            mend(error)
            // Each for itself: what is wrong with one, or too much for the disk, is no reason for the others to fail.
            for task in tasks {
                do {
                    try attempt([task])
                } catch {
                    task.fail(CacheFault.error(error, in: core.layout.directory))
                }
            }
        }
    }

    private static func isBusy(_ error: any Error) -> Bool {
        (error as? SQLiteError)?.isBusy ?? (error as? SystemError)?.isBusy ?? false
    }

    /// Does what helps before the second attempt.
    private func mend(_ error: any Error) {
        let handle = core.writeIndex.value
        switch error {
        case let error as SQLiteError where error.isDamage:
            try? core.layout.setAside(handle.takeDamagedFile())
        case let error as SQLiteError where error.isFull:
            makeRoomOnDisk()
        case let error as SystemError where error.isFull:
            makeRoomOnDisk()
        case is SQLiteError, is SystemError:
            // The folder may have been removed under it.
            handle.close()
        default:
            break
        }
    }

    /// On a disk that is full, to remove rows takes room too: the log is emptied first, and the bodies of what is to go
    /// are removed before their rows. Should those stay, they are a miss.
    private func makeRoomOnDisk() {
        guard let index = try? core.writeIndex.value.index() else { return }
        index.emptyLog()
        guard let used = try? index.totals().usage.byteCount else { return }
        // Rows and log take room too until the log is emptied.
        let excess = max(used / 10, needed + (1 << 20))
        for name in (try? index.victims(excess).compactMap { $0.file }) ?? [] {
            unlink(core.layout.path(ofBody: name))
        }
        let removed = try? transaction(index) { effects in try index.prune(to: max(0, used - excess), &effects) }
        if let removed { core.evictions.add(removed) }
        index.emptyLog()
    }

    private var needed: Int64 {
        tasks.reduce(0) { sum, task in
            if case .store(let prepared, _) = task { sum + prepared.storedByteCount } else { sum }
        }
    }

    /// Does all of it, or nothing.
    private func attempt(_ tasks: [WriteTask]) throws {
        guard let index = try core.writeIndex.value.index() else { return }
        core.watch.prepare()
        let files = tasks.compactMap { if case .store(let prepared, _) = $0 { prepared.file } else { nil } }
        for file in files { try file.publish() }
        // Who makes room for more wants it on the disk.
        let isMakingRoom = tasks.contains { if case .prune(1..., _) = $0 { true } else { false } }
        if isMakingRoom { index.emptyLog() }
        var evicted = CacheUsage()
        let finishes = try transaction(index) { effects in
            var finishes: [() -> Void] = []
            for task in tasks { finishes.append(try apply(task, index, &effects)) }
            if effects.isGrown {
                evicted = try index.prune(to: core.limit(index.totals().usage), &effects)
            }
            return finishes
        }
        core.evictions.add(evicted)
        if isMakingRoom { index.emptyLog() }
        for finish in finishes { finish() }
    }

    /// A transaction, and what is to be done after it.
    private func transaction<Result>(
        _ index: CacheIndex, _ body: (inout CacheIndex.Effects) throws -> Result
    ) throws -> Result {
        let connection = index.connection
        try connection.execute("BEGIN IMMEDIATE")
        var effects = CacheIndex.Effects()
        let result: Result
        do {
            result = try body(&effects)
            try index.finish(effects, writer: core.writer)
            try connection.execute("COMMIT")
        } catch {
            if connection.isInTransaction { try? connection.execute("ROLLBACK") }
            throw error
        }
        for name in effects.unusedFiles { unlink(core.layout.path(ofBody: name)) }
        return result
    }

    /// - Returns: What tells those who wait, once it is on disk.
    private func apply(
        _ task: WriteTask, _ index: CacheIndex, _ effects: inout CacheIndex.Effects
    ) throws -> () -> Void {
        switch task {
        case .store(let prepared, let waiting):
            let totals = try index.totals()
            // A body in a file is on the disk already.
            var used = totals.usage
            if prepared.file != nil { used.byteCount += prepared.storedByteCount }
            let limit = core.limit(used) - totals.pinnedByteCount
            let size = prepared.entry.byteCount
            guard size <= limit else {
                let refusal = CacheEntryTooLarge(byteCount: size, limit: max(0, limit))
                return { waiting.resume(throwing: refusal.error) }
            }
            guard let stored = try index.insert(prepared, &effects) else {
                return { waiting.resume(returning: .superseded) }
            }
            let variantCount = try index.variantCount(of: stored.key.primary)
            return {
                prepared.file?.keep()
                waiting.resume(returning: .stored(stored, variantCount: variantCount))
            }
        case .update(let entry, let waiting):
            let isThere = try index.update(entry, &effects)
            return { waiting.resume(returning: isThere) }
        case .remove(let selection, let waiting):
            let usage = try index.remove(selection, &effects).usage
            if usage.entryCount > 0 { effects.changes.append(selection) }
            return { waiting.resume(returning: usage) }
        case .drop(let rows):
            try index.remove(rows: rows, &effects)
            return {}
        case .touch(let uses):
            try index.touch(uses.value.list, &effects)
            return {}
        case .removeEnded(let waiting):
            let removed = try index.removeEnded(&effects)
            return { waiting.resume(returning: removed) }
        case .prune(let byteCount, let waiting):
            let usage = try index.totals().usage
            let target = min(core.limit(usage), usage.byteCount - byteCount)
            let removed = try index.prune(to: max(0, target), &effects)
            return {
                core.evictions.add(removed)
                waiting.resume(returning: removed)
            }
        }
    }
}
