internal import Glibc

/// Tells when what a path leads to may have changed: `inotify(7)` on the folder of the file, and on every folder in which
/// a symbolic link on the way lies. So a rename over the file and the switch of a link are seen as well as a write.
/// Belongs to one thread at a time.
package struct FileWatch {
    /// What has happened since the last look.
    package struct Changes: OptionSet, Sendable {
        package let rawValue: Int

        package init(rawValue: Int) { self.rawValue = rawValue }

        /// The path may lead to something else now, or a writer is done.
        package static let changed = Changes(rawValue: 1)
        /// Somebody has written.
        package static let written = Changes(rawValue: 2)
        /// Somebody has written and is not done yet.
        package static let unfinished = Changes(rawValue: 4)

        mutating func add(_ mask: UInt32, isNewFile: Bool) {
            if mask & UInt32(IN_MODIFY) != 0 || isNewFile {
                // A file that has just been made is about to be written.
                formUnion([.written, .unfinished])
            } else {
                insert(.changed)
                if mask & UInt32(IN_ATTRIB) == 0 { remove(.unfinished) }
            }
        }
    }

    private let inotify: Inotify
    private let path: String
    /// For each watched folder the names in it that are on the way.
    private var names: [Int32: Set<String>] = [:]

    private static let linkLimit = 40
    private static let events =
        UInt32(IN_CREATE) | UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) | UInt32(IN_MOVED_TO) | UInt32(IN_MODIFY)
        | UInt32(IN_CLOSE_WRITE) | UInt32(IN_ATTRIB) | UInt32(IN_DELETE_SELF) | UInt32(IN_MOVE_SELF)

    /// `nil`, with `errno`, when the system gives no descriptor.
    package init?(path: String) {
        guard let inotify = Inotify() else { return nil }
        self.inotify = inotify
        if path.hasPrefix("/") {
            self.path = path
        } else {
            var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
            let folder = getcwd(&buffer, buffer.count).map { String(cString: $0) } ?? "/"
            self.path = folder + "/" + path
        }
        arm()
    }

    /// Waits for something to happen, as ``Inotify/wait(until:milliseconds:)``.
    package func wait(until end: WakeUp, milliseconds: Int32) -> Bool {
        inotify.wait(until: end, milliseconds: milliseconds)
    }

    /// Watches what is on the way now, and no longer what is not.
    package mutating func arm() {
        // A link may be switched while its folder is not watched yet; then the way is another when all are.
        for _ in 0..<8 {
            let way = way()
            var watched: [Int32: Set<String>] = [:]
            for (folder, name) in way {
                if let watch = inotify.add(folder, Self.events) { watched[watch, default: []].insert(name) }
            }
            for watch in names.keys where watched[watch] == nil { inotify.remove(watch) }
            let isSettled = watched == names
            names = watched
            if isSettled { return }
        }
    }

    /// Takes all that has happened.
    package mutating func takeChanges() -> Changes {
        var changes: Changes = []
        inotify.forEachEvent { event in
            guard concernsPath(event) else { return }
            let isNew = event.mask & UInt32(IN_CREATE) != 0 && isRegularFile(event.name)
            changes.add(event.mask, isNewFile: isNew)
        }
        return changes
    }

    private func concernsPath(_ event: Inotify.Event) -> Bool {
        if event.isOverflow { return true }
        guard let watched = names[event.watch] else { return false }
        return watched.contains(event.name)
            || event.mask & UInt32(IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT) != 0
    }

    /// A link, or a folder on the way, is complete as soon as it is there.
    private func isRegularFile(_ name: String) -> Bool {
        way().contains { folder, other in
            var status = stat()
            return other == name && lstat(folder + "/" + name, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        }
    }

    /// Each folder that decides where the path leads, with the name in it that does: of links, of the file, and of the
    /// first thing that is missing.
    private func way() -> [(folder: String, name: String)] {
        var way: [(String, String)] = []
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
            if !isThere || isLink || rest.isEmpty { way.append((folder.isEmpty ? "/" : folder, name)) }
            guard isThere else { return way }
            guard isLink else {
                folder = full
                continue
            }
            links += 1
            guard links <= Self.linkLimit, let target = Self.target(of: full) else { return way }
            if target.hasPrefix("/") { folder = "" }
            rest = (target.split(separator: "/").map(String.init) + rest)[...]
        }
        return way
    }

    private static func target(of link: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(link, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
