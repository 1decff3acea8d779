import Dispatch
import FoundationEssentials
import Glibc
import HTTPCore

extension DiskCore {
    /// Collects garbage repeatedly while the store exists.
    func scheduleCollection(after delay: Duration, then interval: Duration) {
        bodies.queue.asyncAfter(deadline: .now() + .milliseconds(Int(delay / .milliseconds(1)))) { [weak self] in
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
        } while ended.entryCount == CacheIndex.victimLimit
        removed += try await withCheckedThrowingContinuation { write(.prune(0, $0)) }
        do {
            removed.byteCount += try await scans.run { [self] in
                let orphans = try layout.removeOrphans { name in
                    try scanIndex.value.index()?.isKnown(file: name) ?? false
                }
                let files = try scanIndex.value.index()?.files() ?? []
                let incomplete = files.filter { access(layout.path(ofBody: $0.name), F_OK) != 0 && errno == ENOENT }
                if !incomplete.isEmpty { write(.drop(incomplete.map { $0.row })) }
                layout.removeOldVersions()
                return orphans
            }
            try await writes.run { [self] in
                guard FileIdentity(layout.index) != nil, let index = try writeIndex.value.index() else { return }
                try index.connection.execute("PRAGMA incremental_vacuum(4096)")
                index.emptyLog()
            }
        } catch {
            throw CacheFault.error(error, in: layout.directory)
        }
        return removed
    }
}
