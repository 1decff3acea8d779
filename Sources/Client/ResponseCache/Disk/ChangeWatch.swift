import FoundationEssentials
import Glibc
import Platform
import SQLite
import Synchronization

/// Detects what others change on disk: another process, or another store on the same folder.
///
/// SQLite keeps the header of its log in shared memory, and every commit rewrites it with a checksum. Reading the checksum
/// shows whether there was a commit, in a few nanoseconds without a system call or a lock. Only after a commit is the change
/// log read. Without shared memory (on a read-only file system) the change log is read at most every 100 ms. At that
/// interval, the watch also checks that the index is still the same file.
final class ChangeWatch: Sendable {
    private struct State {
        /// Used only under the lock of this state.
        var index: Confined<CacheIndex>?
        var file: FileIdentity?
        /// The number of the last change that was sent to the feeds.
        var last: Int64 = 0
        /// The last two replaced indexes, kept open for a while since another thread may still read their shared memory.
        var retired: [Confined<CacheIndex>] = []
    }

    private static let interval: UInt64 = 100

    let feeds = CacheInvalidations.Group()

    private let layout: DiskLayout
    private let sealer: EntrySealer
    private let writer: Int64
    private let state = Mutex(State())
    private let isOpen = Atomic(false)
    /// Whether an index was read while it was not watched.
    private let hasUnwatchedReader = Atomic(false)
    /// The address of the shared memory; 0 when there is none.
    private let header = Atomic<UInt>(0)
    /// The header's checksum when the change log was last read.
    private let seen = Atomic<UInt64>(0)
    /// When the file was last checked, in milliseconds.
    private let checkedAt = Atomic<UInt64>(0)

    init(_ layout: DiskLayout, _ sealer: EntrySealer, writer: Int64) {
        self.layout = layout
        self.sealer = sealer
        self.writer = writer
    }

    /// Opens the watch's index if it is not open, before a read or write. It blocks, so do not call it on a task's thread.
    func prepare() {
        if isOpen.load(ordering: .acquiring) { return }
        state.withLock { state in
            guard state.index == nil else { return }
            let handle = IndexHandle(layout, sealer, busyTimeout: .milliseconds(20))
            guard let index = try? handle.index(), let last = try? index.lastChange() else {
                return hasUnwatchedReader.store(true, ordering: .relaxed)
            }
            state.index = Confined(index)
            state.file = handle.file
            state.last = last
            header.store(UInt(bitPattern: index.connection.sharedHeader), ordering: .relaxed)
            // No header has checksum 0, so the first check reads the change log.
            seen.store(0, ordering: .relaxed)
            isOpen.store(true, ordering: .releasing)
        }
        if isOpen.load(ordering: .relaxed), hasUnwatchedReader.exchange(false, ordering: .relaxed) { feeds.send(.all) }
    }

    /// Checks for changes by others and sends them to the feeds. Returns `false` when it cannot check: the index is not
    /// open, and changes go unnoticed until it is opened again; or another process held a lock for too long, and the
    /// next check reads the changes.
    func check() -> Bool {
        guard isOpen.load(ordering: .acquiring) else { return false }
        let now = Self.milliseconds
        if now &- checkedAt.load(ordering: .relaxed) < Self.interval {
            let address = header.load(ordering: .relaxed)
            if address == 0 || checksum(address) == seen.load(ordering: .relaxed) { return true }
        }
        return read(now)
    }

    private func read(_ now: UInt64) -> Bool {
        state.withLock { state in
            guard let index = state.index?.value else { return false }
            do {
                guard FileIdentity(layout.index) == state.file else {
                    throw SystemError("checking the index", code: ENOENT)
                }
                // The checksum is read before the change log, so that the next check sees a commit in between.
                let address = header.load(ordering: .relaxed)
                let current = address == 0 ? 0 : checksum(address)
                if address == 0 || current != seen.load(ordering: .relaxed) {
                    let changes = try index.changes(since: state.last, exceptBy: writer)
                    state.last = changes.last
                    for selection in changes.selections { feeds.send(selection) }
                }
                seen.store(current, ordering: .relaxed)
                checkedAt.store(now, ordering: .relaxed)
                return true
            } catch let error as SQLiteError where error.isBusy {
                return false
            } catch {
                // The file was replaced or removed, or cannot be read, so any entry may have changed.
                state.retired = state.retired.suffix(1) + [Confined(index)]
                state.index = nil
                isOpen.store(false, ordering: .relaxed)
                feeds.send(.all)
                return false
            }
        }
    }

    private func checksum(_ address: UInt) -> UInt64 {
        SQLiteConnection.checksum(ofHeader: UnsafeRawPointer(bitPattern: address))
    }

    /// The monotonic time, read without a system call.
    private static var milliseconds: UInt64 {
        UInt64(MonotonicTime.reading(CLOCK_MONOTONIC_COARSE).nanoseconds / 1_000_000)
    }
}
