import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

/// A task that changes the index, with the continuation that waits for it.
enum WriteTask: Sendable {
    case store(PreparedEntry, CheckedContinuation<CacheCommit, any Error>)
    case update(CacheEntry, CheckedContinuation<Bool, any Error>)
    /// Removes a portion of the selected entries.
    case remove(CacheSelection, CheckedContinuation<CacheUsage, any Error>)
    /// Removes rows that are damaged or have lost their body.
    case drop([Int64])
    case touch([CacheKey: EntryUse])
    /// Evicts down to the limits, and at least this many bytes.
    case prune(Int64, CheckedContinuation<CacheUsage, any Error>)
    /// Removes a portion of the entries whose `retainUntil` has passed.
    case removeEnded(CheckedContinuation<CacheUsage, any Error>)

    /// Resumes the waiting caller with an error; without one, with the result for when there is no entry to change.
    func end(_ error: (any Error)? = nil) {
        switch self {
        case .store(_, let waiting): if let error { waiting.resume(throwing: error) }
        case .update(_, let waiting): waiting.resume(with: error.map { .failure($0) } ?? .success(false))
        case .remove(_, let waiting), .prune(_, let waiting), .removeEnded(let waiting):
            waiting.resume(with: error.map { .failure($0) } ?? .success(CacheUsage()))
        case .drop, .touch: break
        }
    }
}

/// Tasks that share one transaction, and so one wait for the disk. Used only on the queue of writes.
///
/// Body files are renamed before the transaction, so that no row names a missing body. If the process ends in between, a
/// body without a row is left, which garbage collection removes.
struct WriteBatch {
    let core: DiskCore
    let tasks: [WriteTask]

    func run() {
        let isStoring = tasks.contains { if case .store = $0 { true } else { false } }
        // Without an index there is nothing to remove, so none is created.
        if !isStoring, FileIdentity(core.layout.index) == nil { return tasks.forEach { $0.end() } }
        do {
            try attempt(tasks)
        } catch let error where (error as? SQLiteError)?.isBusy ?? (error as? SystemError)?.isBusy ?? false {
            // A retry of each task would wait for the same lock again.
            for task in tasks { task.end(CacheFault.error(error, in: core.layout.directory)) }
        } catch {
            repair(error)
            // Each task is retried alone, so that one that is faulty or too large does not fail the others.
            for task in tasks {
                do {
                    try attempt([task])
                } catch {
                    if case .remove(let selection, let waiting) = task, let removed = replaceIndex(selection, error) {
                        waiting.resume(returning: removed)
                    } else {
                        task.end(CacheFault.error(error, in: core.layout.directory))
                    }
                }
            }
        }
    }

    /// Removes everything on a disk that has no room for the log of a removal: a new index takes the place of the old one.
    ///
    /// - Returns: What was removed; `nil` if the selection leaves entries, or the disk is not full.
    private func replaceIndex(_ selection: CacheSelection, _ error: any Error) -> CacheUsage? {
        let handle = core.writeIndex.value
        guard (error as? SQLiteError)?.isFull == true,
            let usage = try? handle.index().flatMap({ try $0.isEverything(selection) ? $0.totals().usage : nil }),
            (try? core.layout.setAside(handle.takeFile())) != nil
        else { return nil }
        // Those who still have it open would keep its room.
        truncate(core.layout.damagedIndex, 0)
        unlink(core.layout.damagedIndex)
        if let index = try? handle.index() { _ = try? core.layout.removeOrphans(index.isKnown(file:)) }
        return usage
    }

    /// Repairs what it can before the second attempt.
    private func repair(_ error: any Error) {
        let handle = core.writeIndex.value
        switch error {
        case let error as SQLiteError where error.isDamage:
            try? core.layout.setAside(handle.takeFile())
        case let error as SQLiteError where error.isFull:
            makeRoomOnDisk()
        case let error as SystemError where error.isFull:
            makeRoomOnDisk()
        case is SQLiteError, is SystemError:
            // The folder may have been removed while the index was open.
            handle.close()
        default:
            break
        }
    }

    /// Makes room on a full disk. Since removing rows needs room too, this empties the log first and removes body files before
    /// their rows. A row that stays without its body is a miss.
    private func makeRoomOnDisk() {
        guard let index = try? core.writeIndex.value.index() else { return }
        index.emptyLog()
        guard let used = try? index.totals().usage.byteCount else { return }
        // Rows and log take room too.
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

    private func attempt(_ tasks: [WriteTask]) throws {
        guard let index = try core.writeIndex.value.index() else { return }
        core.watch.prepare()
        let files = tasks.compactMap { if case .store(let prepared, _) = $0 { prepared.file } else { nil } }
        for file in files { try file.publish() }
        // Pruning for a number of bytes must free them on disk, not only in the index.
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

    /// Runs a transaction, then removes the unused body files.
    private func transaction<Result>(
        _ index: CacheIndex, _ body: (inout CacheIndex.Effects) throws -> Result
    ) throws -> Result {
        var effects = CacheIndex.Effects()
        let result = try index.connection.transaction {
            let result = try body(&effects)
            try index.finish(effects, writer: core.writer)
            return result
        }
        for name in effects.unusedFiles { unlink(core.layout.path(ofBody: name)) }
        return result
    }

    /// Performs a task within the transaction, and returns a closure that resumes the waiting caller after the commit.
    private func apply(
        _ task: WriteTask, _ index: CacheIndex, _ effects: inout CacheIndex.Effects
    ) throws -> () -> Void {
        switch task {
        case .store(let prepared, let waiting):
            let totals = try index.totals()
            // The free space already excludes a body in a file, so that body counts as used.
            var used = totals.usage
            if prepared.file != nil { used.byteCount += prepared.storedByteCount }
            var limit = core.limit(used) - totals.pinnedByteCount
            let size = prepared.entry.byteCount
            // A damaged index may hold any number.
            if size > limit { limit &+= try index.pinnedByteCount(of: prepared.entry.key) }
            guard size <= limit else {
                // With more free space there would be room.
                if size <= core.rule.byteLimit - totals.pinnedByteCount {
                    let error = SystemError(
                        "storing a response, which must leave minimumFreeBytes free", code: ENOSPC)
                    return { waiting.resume(throwing: CacheFault.error(error, in: core.layout.directory)) }
                }
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
            try index.touch(uses, &effects)
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
