package import Glibc

/// The files of the kernel and the distribution, below a root folder.
package struct SystemFiles: Sendable {
    package let root: String
    /// Whether the root is that of the running system, so that system calls apply to it too.
    package let isLive: Bool

    /// The largest number of bytes to read. The files of the system are far shorter.
    private static let limit = 16 << 20

    package init(root: String) {
        var root = root
        while root.hasSuffix("/") { root.removeLast() }
        self.root = root
        isLive = root.isEmpty
    }

    package func path(_ path: String) -> String { root + (path.hasPrefix("/") ? path : "/" + path) }

    /// The content of a file; `nil` when it does not exist or cannot be read.
    package func text(_ path: String) -> String? {
        // `stat` reports a size of 0 or one page for these files, so they are read to the end.
        let descriptor = open(self.path(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < Self.limit {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            // Some attributes of an interface cannot be read while it is down (EINVAL).
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes.append(contentsOf: buffer[..<count])
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The first line of a file without surrounding white space; `nil` when it is empty.
    package func line(_ path: String) -> String? {
        guard let text = text(path) else { return nil }
        let line = text.prefix { !$0.isNewline && $0 != "\0" }.drop { $0 == " " || $0 == "\t" }
        return line.lastIndex { $0 != " " && $0 != "\t" }.map { String(line[...$0]) }
    }

    package func number(_ path: String) -> Int64? { line(path).flatMap { Int64($0) } }

    /// The names in a folder, sorted.
    package func names(in path: String) -> [String] { Self.names(inFolder: self.path(path)).sorted() }

    /// The names in a folder of any root, in no order.
    static func names(inFolder path: String) -> [String] {
        guard let folder = opendir(path) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        let offset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 0
        while let entry = readdir(folder) {
            // The name is read in place. An entry ends with its name, so a copy of the whole field could reach beyond
            // the buffer.
            let field = UnsafeRawPointer(entry).advanced(by: offset)
            let name = String(cString: field.assumingMemoryBound(to: CChar.self))
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    package func exists(_ path: String) -> Bool { access(self.path(path), F_OK) == 0 }

    /// A field of `uname(2)`; `nil` when ``isLive`` is `false`.
    package func uname<Field>(_ field: (utsname) -> Field) -> String? {
        var names = utsname()
        guard isLive, Glibc.uname(&names) == 0 else { return nil }
        return withUnsafeBytes(of: field(names)) { bytes in
            let text = String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            return text.isEmpty ? nil : text
        }
    }

    /// The file name of the running program.
    package var executableName: String? { PathParts.target(ofLink: path("proc/self/exe")).map { PathParts($0).name } }

    /// The folders of this process's control group and of all groups above it: those of version 2, then those of a
    /// controller of version 1, such as `cpu`. Inside a container the top group is that of the container.
    package func controlGroups(_ controller: String) -> [String] {
        var groups = [""]
        var legacyGroups = [""]
        for line in (text("proc/self/cgroup") ?? "").split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            if parts[1].isEmpty { groups += Self.ancestors(parts[2]) }
            if parts[1].split(separator: ",").contains(Substring(controller)) {
                legacyGroups += Self.ancestors(parts[2])
            }
        }
        return groups.map { "sys/fs/cgroup\($0)/" } + legacyGroups.map { "sys/fs/cgroup/\(controller)\($0)/" }
    }

    /// A path and its parents: `/a/b` → `/a/b`, `/a`. Empty for a path with `..`.
    private static func ancestors(_ path: Substring) -> [String] {
        var parts = path.split(separator: "/")
        if parts.contains("..") { return [] }
        var paths: [String] = []
        while !parts.isEmpty {
            paths.append("/" + parts.joined(separator: "/"))
            parts.removeLast()
        }
        return paths
    }
}
