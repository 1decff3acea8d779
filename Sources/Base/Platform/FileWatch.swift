internal import Glibc

/// Watches a path with `inotify(7)`: the folder of the file, and every folder with a symbolic link on the way to it. It
/// notices writes, a rename over the file, a changed link, and a file system that was mounted over one of the folders or the
/// file, or unmounted. One thread at a time may use it.
package struct FileWatch {
    /// The changes since the last check.
    package struct Changes: OptionSet, Sendable {
        package let rawValue: Int

        package init(rawValue: Int) { self.rawValue = rawValue }

        /// The path may lead to another file, or a writer has closed the file.
        package static let changed = Changes(rawValue: 1)
        /// The file was written.
        package static let written = Changes(rawValue: 2)
        /// The file was written and its writer has not closed it.
        package static let unfinished = Changes(rawValue: 4)

        mutating func add(_ mask: UInt32, isNewFile: Bool) {
            if mask & UInt32(IN_MODIFY) != 0 || isNewFile {
                // A new file is about to be written.
                formUnion([.written, .unfinished])
            } else {
                insert(.changed)
                if mask & UInt32(IN_ATTRIB) == 0 { remove(.unfinished) }
            }
        }
    }

    /// The absolute path, which stays the same when the process changes its current directory.
    package let path: String

    private let inotify: Inotify
    /// The names to watch in each watched folder, by the number of its watch.
    private var names: [Int32: Set<String>] = [:]
    /// The file to which the path leads.
    private var file: FileNumber?

    private static let linkLimit = 40
    private static let events = Inotify.changes | UInt32(IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

    /// - Throws: the error of `inotify_init1`, or of `inotify_add_watch` for a folder that is there.
    package init(path: String) throws(SystemError) {
        guard let inotify = Inotify() else { throw SystemError("inotify_init1") }
        self.inotify = inotify
        self.path = PathParts.absolute(path)
        if let error = arm() { throw error }
    }

    /// Waits for events; see ``Inotify/wait(until:milliseconds:)``.
    package func wait(until end: WakeUp, milliseconds: Int32) -> Bool {
        inotify.wait(until: end, milliseconds: milliseconds)
    }

    /// Watches the folders that currently determine where the path leads, and no others.
    ///
    /// - Returns: the error for a folder that is there and cannot be watched.
    @discardableResult
    package mutating func arm() -> SystemError? {
        var failure: SystemError?
        file = FileNumber(path)
        // A link may change before its folder is watched, so this repeats until the folders stay the same.
        for _ in 0..<8 {
            var watched: [Int32: Set<String>] = [:]
            failure = nil
            for (folder, name) in watchedNames() {
                if let watch = inotify.add(folder, Self.events) {
                    watched[watch, default: []].insert(name)
                } else if errno != ENOENT, errno != ENOTDIR {
                    failure = SystemError("inotify_add_watch")
                }
            }
            for watch in names.keys where watched[watch] == nil { inotify.remove(watch) }
            let isSettled = watched == names
            names = watched
            if isSettled { break }
        }
        return failure
    }

    /// Returns and clears the changes.
    package mutating func takeChanges() -> Changes {
        var changes: Changes = []
        inotify.forEachEvent { event in
            guard concernsPath(event) else { return }
            let isNew = event.mask & UInt32(IN_CREATE) != 0 && isRegularFile(event.name)
            changes.add(event.mask, isNewFile: isNew)
        }
        if inotify.takeMountChange() {
            let before = (names, file)
            arm()
            if before != (names, file) { changes.insert(.changed) }
        }
        return changes
    }

    private func concernsPath(_ event: Inotify.Event) -> Bool {
        if event.isOverflow { return true }
        guard let watched = names[event.watch] else { return false }
        return watched.contains(event.name)
            || event.mask & UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT) != 0
    }

    /// Whether a name in the path is a regular file. A link or a folder is complete once it exists, a file is not.
    private func isRegularFile(_ name: String) -> Bool {
        watchedNames().contains { folder, other in
            var status = stat()
            return other == name && lstat(folder + "/" + name, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        }
    }

    /// The folders and names that determine where the path leads: those of links, of the file, and of the first missing
    /// component.
    private func watchedNames() -> [(folder: String, name: String)] {
        var result: [(String, String)] = []
        var folder = ""
        var rest = path.split(separator: "/").map(String.init)[...]
        var links = 0
        while let name = rest.popFirst() {
            if name == "." { continue }
            if name == ".." {
                folder = folder.lastIndex(of: "/").map { String(folder[..<$0]) } ?? ""
                continue
            }
            let full = folder + "/" + name
            var status = stat()
            let isThere = lstat(full, &status) == 0
            let isLink = isThere && status.st_mode & S_IFMT == S_IFLNK
            if !isThere || isLink || rest.isEmpty { result.append((folder.isEmpty ? "/" : folder, name)) }
            guard isThere else { return result }
            guard isLink else {
                folder = full
                continue
            }
            links += 1
            guard links <= Self.linkLimit, let target = PathParts.target(ofLink: full) else { return result }
            if target.hasPrefix("/") { folder = "" }
            rest = (target.split(separator: "/").map(String.init) + rest)[...]
        }
        return result
    }
}

/// What identifies a file while it exists: its file system and its number there.
package struct FileNumber: Equatable, Sendable {
    private let device: UInt64
    private let number: UInt64

    /// `nil` when the path leads to nothing.
    package init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        (device, number) = (UInt64(status.st_dev), UInt64(status.st_ino))
    }
}

/// Watches files in a folder with `inotify(7)`, on its own thread. When a file system is mounted over the folder or unmounted,
/// or the folder is removed or renamed, it watches the folder that is then at the path, as soon as there is one.
package final class FolderWatch: Sendable {
    /// Handles changes, on the thread of the watch.
    ///
    /// - Returns: the milliseconds after which to call it again at the latest, even without changes; `nil` for never.
    package typealias Handler = @Sendable (_ names: Set<String>) -> Int32?

    /// Signalled to end the thread.
    private let stop: WakeUp

    private static let events = Inotify.changes | UInt32(IN_MOVE_SELF)
    /// How often, in milliseconds, a folder that is missing is looked for.
    private static let lookInterval: Int64 = 1_000

    /// Returns `nil` when the folder cannot be watched or the process has no descriptor left.
    package init?(folder: String, names: Set<String>, handler: @escaping Handler) {
        guard let inotify = Inotify(), let watch = inotify.add(folder, Self.events), let stop = WakeUp(),
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
        while true {
            let pauses = [due.map { MonotonicTime.now.milliseconds(until: $0) }, watch == nil ? lookInterval : nil]
            let pause = pauses.compactMap(\.self).min().map { Int32($0) } ?? -1
            guard inotify.wait(until: stop, milliseconds: pause) else { return }
            var changed: Set<String> = []
            var isElsewhere = watch == nil
            inotify.forEachEvent { event in
                // The folder was removed or renamed.
                if event.mask & UInt32(IN_IGNORED | IN_MOVE_SELF) != 0, event.watch == watch { isElsewhere = true }
                if names.contains(event.name) { changed.insert(event.name) }
                if event.isOverflow { changed = names }
            }
            if inotify.takeMountChange() || isElsewhere {
                // The number stays the same for the same folder.
                let current = inotify.add(folder, Self.events)
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
