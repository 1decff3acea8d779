package import Glibc

/// Reads files that the program keeps for itself at a path that it chose. What another user could have written is refused.
package enum OwnFile {
    /// Why a file is not used.
    package struct Refusal: Error, Hashable, Sendable {
        /// The rest of a sentence that begins with the path, with the next step.
        package let reason: String
    }

    /// Returns the content of a regular file of this user or root that nobody else may write; `nil` when there is none. A
    /// symbolic link is not followed.
    package static func bytes(of path: String, limit: Int) throws(Refusal) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw Refusal(
                reason: errno == ELOOP
                    ? "is a symbolic link; remove it" : "cannot be opened: \(SystemError().text); check its permissions"
            )
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Refusal(reason: "cannot be read: \(SystemError().text)") }
        if let refusal = refusal(status, limit) { throw refusal }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { buffer in
                read(descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Refusal(reason: "cannot be read: \(SystemError().text)") }
            if count == 0 { break }
            filled += count
        }
        return Array(bytes[..<filled])
    }

    /// Decides whether an opened file is used.
    package static func refusal(_ status: stat, _ limit: Int, user: uid_t = geteuid()) -> Refusal? {
        guard status.st_mode & S_IFMT == S_IFREG else { return Refusal(reason: "is not a regular file; remove it") }
        guard status.st_uid == user || status.st_uid == 0 else {
            return Refusal(reason: "belongs to another user (uid \(status.st_uid)); remove it")
        }
        guard status.st_mode & 0o022 == 0 else {
            let mode = String(status.st_mode & 0o777, radix: 8)
            return Refusal(
                reason: "may be written by others (mode \(mode)); remove it, or use chmod go-w if it is right")
        }
        guard status.st_size <= limit else { return Refusal(reason: "is larger than \(limit) bytes; remove it") }
        return nil
    }

    /// Whether a path is a symbolic link that another user than this one and root made.
    static func isLinkOfAnother(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK && status.st_uid != geteuid()
            && status.st_uid != 0
    }
}
