internal import Glibc

/// Tells when files in a folder change, whoever changes them: `inotify(7)` on a thread of its own, which sleeps until
/// something happens.
package final class FolderWatch: Sendable {
    /// What to do about changes. Called on the watch's thread.
    ///
    /// - Returns: after how many milliseconds to be called again though nothing more has happened; `nil` for not at
    /// all.
    package typealias Handler = @Sendable (_ names: Set<String>) -> Int32?

    /// Signalled when the thread is to end.
    private let over: WakeUp

    private static let events =
        UInt32(IN_CREATE) | UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) | UInt32(IN_MOVED_TO) | UInt32(IN_MODIFY)
        | UInt32(IN_CLOSE_WRITE)

    /// `nil` when the system cannot watch the folder, or has no descriptors left.
    package init?(folder: String, names: Set<String>, handler: @escaping Handler) {
        guard let inotify = Inotify(), inotify.add(folder, Self.events) != nil, let over = WakeUp(),
            BackgroundThread.start("lat-watch", { Self.run(inotify, over, names, handler) })
        else { return nil }
        self.over = over
    }

    deinit { end() }

    /// Calls no more; a call that is under way is let finish.
    package func end() { over.signal() }

    private static func run(_ inotify: Inotify, _ over: WakeUp, _ names: Set<String>, _ handler: Handler) {
        var milliseconds: Int32 = -1
        while inotify.wait(until: over, milliseconds: milliseconds) {
            let changed = take(inotify, names)
            // Called for what has changed, and when it wanted to be.
            if !changed.isEmpty || milliseconds >= 0 { milliseconds = handler(changed) ?? -1 }
        }
    }

    /// The names among those that matter to which something has happened.
    private static func take(_ inotify: Inotify, _ names: Set<String>) -> Set<String> {
        var changed: Set<String> = []
        inotify.forEachEvent { event in
            if names.contains(event.name) { changed.insert(event.name) }
            if event.isOverflow { changed.formUnion(names) }
        }
        return changed
    }
}
