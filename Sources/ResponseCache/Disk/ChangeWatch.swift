import FoundationEssentials
import Glibc
import Synchronization

/// Tells whether somebody else changed the disk: another process, or another store on the same folder.
///
/// It asks SQLite for `PRAGMA data_version`, which costs a few microseconds and reads shared memory only, so it is asked
/// where the answer is needed. Each time that number changes, the index says whether the change was our own.
final class ChangeWatch: Sendable {
    private struct State {
        /// Behind the lock that holds this state.
        var handle: Confined<IndexHandle>
        var isOpen = false
        var file: FileIdentity?
        var version: Int64 = 0
        var lastChange: Int64 = 0
        var epoch: Int64 = 0
    }

    private let layout: DiskLayout
    private let sealer: EntrySealer
    private let writer: Int64
    private let state: Mutex<State>

    init(_ layout: DiskLayout, _ sealer: EntrySealer, writer: Int64) {
        self.layout = layout
        self.sealer = sealer
        self.writer = writer
        let handle = IndexHandle(layout, sealer, .reading, busyTimeout: .milliseconds(20))
        state = Mutex(State(handle: Confined(handle)))
    }

    /// Opens the index for it, if that is to be done. Not for the threads of tasks, and without the lock that they take:
    /// to open may mean to wait for another process.
    func prepare() {
        guard state.withLock({ !$0.isOpen }) else { return }
        let handle = IndexHandle(layout, sealer, .reading, busyTimeout: .milliseconds(20))
        guard let index = try? handle.index() else { return }
        let version = (try? index.connection.number("PRAGMA data_version")) ?? 0
        let lastChange = (try? index.lastChange(exceptBy: writer)) ?? 0
        let opened = Confined(handle)
        state.withLock { state in
            guard !state.isOpen else { return }
            state.handle = opened
            state.isOpen = true
            state.file = opened.value.file
            state.version = version
            state.lastChange = lastChange
            state.epoch += 1
        }
    }

    /// A number that grows whenever somebody else may have changed the disk.
    func epoch() -> Int64 {
        state.withLock { state in
            guard state.isOpen else { return state.epoch }
            do {
                guard let file = state.file, FileIdentity(layout.index) == file,
                    let index = try state.handle.value.index(),
                    let version = try index.connection.number("PRAGMA data_version")
                else { throw SystemError("looking at the index", code: ENOENT) }
                guard version != state.version else { return state.epoch }
                let lastChange = try index.lastChange(exceptBy: writer)
                state.version = version
                if lastChange != state.lastChange {
                    state.lastChange = lastChange
                    state.epoch += 1
                }
            } catch {
                // Another file stands there, or none, or it cannot be read: nothing is known.
                state.handle.value.close()
                state.isOpen = false
                state.epoch += 1
            }
            return state.epoch
        }
    }
}
