import FoundationEssentials
import Glibc
import Platform
import SQLite
import Synchronization

/// Tells what somebody else changed on the disk: another process, or another store on the same folder.
///
/// SQLite keeps the header of its log in shared memory, which every commit writes anew with a checksum of it. To look whether
/// there was a commit is to read that number: no system call, no lock, a few nanoseconds. Only when it is another one
/// the log of changes is read. Where there is no shared memory (a file system that takes no writes), that is done every
/// 100 ms at most. As often it is looked whether the file still stands in its place.
final class ChangeWatch: Sendable {
    private struct State {
        /// Behind the lock that holds this state.
        var index: Confined<CacheIndex>?
        var file: FileIdentity?
        /// The last change that was told of.
        var last: Int64 = 0
        /// Indexes that were replaced. Somebody may still read their shared memory, so they are closed with the watch.
        var retired: [Confined<CacheIndex>] = []
    }

    private static let interval: UInt64 = 100

    /// Who is told.
    let feeds = CacheInvalidations.Group()

    private let layout: DiskLayout
    private let sealer: EntrySealer
    private let writer: Int64
    private let state = Mutex(State())
    private let isOpen = Atomic(false)
    /// Whether something was read that no watch has been kept over.
    private let hasUnwatchedReader = Atomic(false)
    /// Where the shared memory is; 0 when there is none.
    private let header = Atomic<UInt>(0)
    /// The checksum of the header when the changes were read.
    private let seen = Atomic<UInt64>(0)
    /// When the file was looked at, in milliseconds.
    private let lookedAt = Atomic<UInt64>(0)

    init(_ layout: DiskLayout, _ sealer: EntrySealer, writer: Int64) {
        self.layout = layout
        self.sealer = sealer
        self.writer = writer
    }

    /// Opens the index for it, if that is to be done, before something is read or written. Not for the threads of tasks.
    func prepare() {
        if isOpen.load(ordering: .acquiring) { return }
        state.withLock { state in
            guard state.index == nil else { return }
            let handle = IndexHandle(layout, sealer, .reading, busyTimeout: .milliseconds(20))
            guard let index = try? handle.index(), let last = try? index.lastChange() else {
                return hasUnwatchedReader.store(true, ordering: .relaxed)
            }
            state.index = Confined(index)
            state.file = handle.file
            state.last = last
            header.store(UInt(bitPattern: index.connection.sharedHeader), ordering: .relaxed)
            // None that a header has: the first look reads.
            seen.store(0, ordering: .relaxed)
            isOpen.store(true, ordering: .releasing)
        }
        if isOpen.load(ordering: .relaxed), hasUnwatchedReader.exchange(false, ordering: .relaxed) { feeds.send(.all) }
    }

    /// Looks whether others changed something, and tells.
    ///
    /// - Returns: `false` when that cannot be known before the index was read again.
    func look() -> Bool {
        guard isOpen.load(ordering: .acquiring) else { return false }
        let now = Self.milliseconds
        if now &- lookedAt.load(ordering: .relaxed) < Self.interval {
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
                    throw SystemError("looking at the index", code: ENOENT)
                }
                // Before the changes are: what comes in between is seen the next time.
                let address = header.load(ordering: .relaxed)
                let current = address == 0 ? 0 : checksum(address)
                if address == 0 || current != seen.load(ordering: .relaxed) {
                    let changes = try index.changes(since: state.last, exceptBy: writer)
                    state.last = changes.last
                    for selection in changes.selections { feeds.send(selection) }
                }
                seen.store(current, ordering: .relaxed)
                lookedAt.store(now, ordering: .relaxed)
                return true
            } catch {
                // Another file stands there, or none, or it cannot be read: nothing is known.
                state.retired.append(Confined(index))
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

    /// Read without a system call.
    private static var milliseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000
    }
}
