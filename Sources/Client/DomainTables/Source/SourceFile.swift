import Glibc
internal import Platform

/// Reads whole table files.
package enum SourceFile {
    /// The largest size of a file in bytes. No table is that large; the limit keeps a wrong path from filling memory.
    package static let limit = 8 << 20

    /// The reason why a file could not be read, worded as the end of a sentence that begins with its name.
    package struct Problem: Error {
        package var reason: String
        /// Whether there is no such file. This may be temporary while the file is replaced.
        package var isMissing: Bool
        /// Whether there are too many open files, whatever the path.
        package var lacksDescriptors = false
    }

    /// Reads a regular file.
    ///
    /// - Parameters:
    ///   - limit: the largest size in bytes.
    ///   - kind: what the file is, for the message about one that is too large.
    package static func bytes(
        of path: String, limit: Int = SourceFile.limit, kind: String = "a table"
    ) throws(Problem) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            let code = errno
            throw Problem(
                reason: code == ENOENT ? "is not there" : "cannot be opened: \(SystemError(code: code).text)",
                isMissing: code == ENOENT || code == ENOTDIR, lacksDescriptors: code == EMFILE || code == ENFILE)
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw problem("cannot be read") }
        guard status.st_mode & S_IFMT == S_IFREG else {
            let isFolder = status.st_mode & S_IFMT == S_IFDIR
            throw Problem(reason: isFolder ? "is a folder, not a file" : "is not a regular file", isMissing: false)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(min(Int(status.st_size) + 1, limit))
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw problem("cannot be read") }
            if count == 0 { return bytes }
            bytes.append(contentsOf: buffer[..<count])
            if bytes.count > limit {
                throw Problem(reason: "is larger than \(limit >> 20) MiB, too large for \(kind)", isMissing: false)
            }
        }
    }

    private static func problem(_ what: String) -> Problem {
        Problem(reason: "\(what): \(SystemError().text)", isMissing: false)
    }
}
