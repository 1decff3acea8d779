internal import Glibc

/// Watches files in a folder with `inotify(7)`, on its own thread. When a file system is mounted over the folder or unmounted,
/// it watches the folder that is then at the path.
package final class FolderWatch: Sendable {
    /// Handles changes, on the thread of the watch.
    ///
    /// - Returns: the milliseconds after which to call it again at the latest, even without changes; `nil` for never.
    package typealias Handler = @Sendable (_ names: Set<String>) -> Int32?

    /// Signalled to end the thread.
    private let stop: WakeUp

    /// Returns `nil` when the folder cannot be watched or the process has no descriptor left.
    package init?(folder: String, names: Set<String>, handler: @escaping Handler) {
        guard let inotify = Inotify(), let watch = inotify.add(folder, Inotify.changes), let stop = WakeUp(),
            BackgroundThread.start("lat-watch", { Self.run(inotify, folder, watch, stop, names, handler) })
        else { return nil }
        self.stop = stop
    }

    deinit { end() }

    /// Stops calling the handler. A running call is not interrupted.
    package func end() { stop.signal() }

    private static func run(
        _ inotify: Inotify, _ folder: String, _ watch: Int32, _ stop: WakeUp, _ names: Set<String>,
        _ handler: Handler
    ) {
        var due = MonotonicTime?.none
        var watch: Int32? = watch
        while inotify.wait(
            until: stop, milliseconds: due.map { Int32(MonotonicTime.now.milliseconds(until: $0)) } ?? -1)
        {
            var changed: Set<String> = []
            inotify.forEachEvent { event in
                if names.contains(event.name) { changed.insert(event.name) }
                if event.isOverflow { changed = names }
            }
            if inotify.takeMountChange() {
                // The number stays the same for the same folder.
                let current = inotify.add(folder, Inotify.changes)
                if current != watch {
                    if let watch { inotify.remove(watch) }
                    watch = current
                    changed = names
                }
            }
            // Events of other files in the folder end the wait, too.
            guard !changed.isEmpty || due.map({ $0 <= .now }) ?? false else { continue }
            due = handler(changed).map { .now + Int64($0) }
        }
    }
}
