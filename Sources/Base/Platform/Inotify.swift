internal import Glibc
import Synchronization

/// An `inotify(7)` descriptor, and one that reports changes of the mounts, closed when the object is released.
///
/// A mount over a watched folder is no event of that folder, and its watch sees nothing from then on. The kernel reports
/// that a file system was mounted or unmounted to whoever polls its `mountinfo` (proc(5)).
package final class Inotify: Sendable {
    /// An event in a watched folder.
    package struct Event {
        /// The number of the folder's watch.
        package let watch: Int32
        /// The kind of the event: bits of `IN_…`.
        package let mask: UInt32
        /// The name in the folder; empty for the folder itself.
        package let name: String

        /// Whether events were lost, so that anything may have changed.
        package var isOverflow: Bool { mask & UInt32(IN_Q_OVERFLOW) != 0 }
    }

    /// The events of a folder after which a name in it may stand for another file or another content.
    static let changes = UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_CLOSE_WRITE)

    private let descriptor: Int32
    /// -1 without `/proc`; poll(2) ignores it then.
    private let mounts: Int32
    /// Whether the mounts have changed. A poll reports each change once.
    private let haveMountsChanged = Atomic(false)

    /// Returns `nil` and sets `errno` when the process has no descriptor left.
    package init?() {
        descriptor = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        mounts = descriptor < 0 ? -1 : open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
    }

    deinit {
        close(descriptor)
        if mounts >= 0 { close(mounts) }
    }

    /// Watches a folder and returns the number of the watch; `nil` when the folder cannot be watched, with the reason in
    /// `errno`.
    package func add(_ folder: String, _ events: UInt32) -> Int32? {
        let watch = inotify_add_watch(descriptor, folder, events | UInt32(IN_ONLYDIR))
        return watch < 0 ? nil : watch
    }

    package func remove(_ watch: Int32) { inotify_rm_watch(descriptor, watch) }

    /// Waits for events or a change of the mounts, at most for this many milliseconds; -1 for no limit.
    ///
    /// - Parameter end: ends the wait when signalled.
    /// - Returns: `false` when `end` is signalled.
    package func wait(until end: WakeUp, milliseconds: Int32) -> Bool {
        var descriptors = [
            pollfd(fd: end.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: mounts, events: Int16(POLLPRI), revents: 0),
        ]
        if poll(&descriptors, 3, milliseconds) > 0, descriptors[2].revents != 0 {
            haveMountsChanged.store(true, ordering: .relaxed)
        }
        return descriptors[0].revents == 0
    }

    /// Returns and clears whether the mounts have changed.
    func takeMountChange() -> Bool { haveMountsChanged.exchange(false, ordering: .relaxed) }

    /// Reads all available events.
    package func forEachEvent(_ body: (Event) -> Void) {
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: MemoryLayout<inotify_event>.alignment) { buffer in
            while true {
                let count = read(descriptor, buffer.baseAddress, buffer.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return }
                var offset = 0
                while offset + MemoryLayout<inotify_event>.size <= count {
                    let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                    let start = offset + MemoryLayout<inotify_event>.size
                    offset = min(start + Int(event.len), count)
                    let name = String(decoding: buffer[start..<offset].prefix { $0 != 0 }, as: UTF8.self)
                    body(Event(watch: event.wd, mask: event.mask, name: name))
                }
            }
        }
    }
}
