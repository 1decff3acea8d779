package import Glibc

/// The files in which the kernel and the distribution tell of themselves, below a root.
package struct SystemFiles: Sendable {
    package let root: String
    /// Whether the kernel that runs may be asked, too.
    package let isLive: Bool

    /// What these files hold is short; a file that is not is none of them.
    private static let limit = 16 << 20

    package init(root: String) {
        var root = root
        while root.hasSuffix("/") { root.removeLast() }
        self.root = root
        isLive = root.isEmpty
    }

    package func path(_ path: String) -> String { root + (path.hasPrefix("/") ? path : "/" + path) }

    /// The content of a file; `nil` when there is none, or it cannot be read.
    package func text(_ path: String) -> String? {
        // Their size in `stat` is 0, or a page: they are read to the end.
        let descriptor = open(self.path(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < Self.limit {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            // Some attributes of interfaces cannot be read while these are down (EINVAL).
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes.append(contentsOf: buffer[..<count])
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A file of one line, without what surrounds it; `nil` when it is empty.
    package func line(_ path: String) -> String? {
        guard let text = text(path) else { return nil }
        let line = text.prefix { !$0.isNewline && $0 != "\0" }
        let words = line.drop { $0 == " " || $0 == "\t" }
        var end = words[...]
        while let last = end.last, last == " " || last == "\t" { end.removeLast() }
        return end.isEmpty ? nil : String(end)
    }

    package func number(_ path: String) -> Int64? { line(path).flatMap { Int64($0) } }

    /// The names in a folder, sorted.
    package func names(in path: String) -> [String] {
        guard let folder = opendir(self.path(path)) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    package func exists(_ path: String) -> Bool { access(self.path(path), F_OK) == 0 }

    /// A field of `uname(2)`; `nil` below another root.
    package func uname<Field>(_ field: (utsname) -> Field) -> String? {
        var names = utsname()
        guard isLive, Glibc.uname(&names) == 0 else { return nil }
        return withUnsafeBytes(of: field(names)) { bytes in
            let text = String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            return text.isEmpty ? nil : text
        }
    }

    /// The name of this program's file.
    package var executableName: String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path("proc/self/exe"), &buffer, buffer.count)
        guard count > 0 else { return nil }
        let path = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return path.split(separator: "/").last.map(String.init)
    }

    /// The limits of a control group file on the way from this process's group to the top: `cpu.max`, `memory.max`.
    /// Inside a container the top is the container's group.
    package func limits(_ name: String, legacy: (controller: String, name: String)) -> [String] {
        var groups = [""]
        var legacyGroups = [""]
        for line in (text("proc/self/cgroup") ?? "").split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            if parts[1].isEmpty { groups += Self.ancestors(parts[2]) }
            if parts[1].split(separator: ",").contains(Substring(legacy.controller)) {
                legacyGroups += Self.ancestors(parts[2])
            }
        }
        return groups.compactMap { line("sys/fs/cgroup\($0)/\(name)") }
            + legacyGroups.compactMap { line("sys/fs/cgroup/\(legacy.controller)\($0)/\(legacy.name)") }
    }

    /// `/a/b` → `/a/b`, `/a`. Ways that lead out of the folder are none.
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
