package import Glibc

/// Files that are there whole or not at all.
package enum AtomicFile {
    /// Writes a file beside (`.new` behind its name), synchronises it and gives it its name. Where the path is a link, what it
    /// names is replaced.
    ///
    /// - Parameters:
    ///   - mode: who may read and write it, whatever the process's mask says. Default: its owner alone.
    ///   - isShared: whether several may write it at a time, so that each needs a name of its own beside. Default `false`.
    ///   - replaces: whether a file that is there is replaced; else writing throws `EEXIST`. Default `true`.
    /// - Throws: ``SystemError``; the file is then as before, and nothing is beside it.
    package static func write(
        _ bytes: some Collection<UInt8>, to path: String, mode: mode_t = 0o600, isShared: Bool = false,
        replaces: Bool = true
    ) throws(SystemError) {
        let target = realpath(path, nil).map { name in
            defer { free(name) }
            return String(cString: name)
        }
        let path = target ?? path
        let temporary = path + (isShared ? ".\(getpid())-\(UInt64.random(in: 0 ... .max)).new" : ".new")
        // What a process left there that was killed holds nothing that counts.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw SystemError() }
        let code =
            bytes.withContiguousStorageIfAvailable { fill(descriptor, UnsafeRawBufferPointer($0), mode) }
            ?? Array(bytes).withUnsafeBytes { fill(descriptor, $0, mode) }
        close(descriptor)
        guard code == 0, give(temporary, path, replaces: replaces) else {
            let failure = SystemError(code: code == 0 ? errno : code)
            unlink(temporary)
            throw failure
        }
    }

    /// Gives a file its name.
    private static func give(_ temporary: String, _ path: String, replaces: Bool) -> Bool {
        guard !replaces else { return rename(temporary, path) == 0 }
        if link(temporary, path) == 0 {
            unlink(temporary)
            return true
        }
        // A file system without links: the last one wins.
        return errno != EEXIST && access(path, F_OK) != 0 && rename(temporary, path) == 0
    }

    private static func fill(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, _ mode: mode_t) -> Int32 {
        var written = 0
        while written < bytes.count, let base = bytes.baseAddress {
            let count = Glibc.write(descriptor, base + written, bytes.count - written)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return errno }
            written += count
        }
        guard fchmod(descriptor, mode) == 0 else { return errno }
        // EINVAL: what cannot be synchronised.
        return fdatasync(descriptor) == 0 || errno == EINVAL ? 0 : errno
    }

    /// Removes a file and what a write may have left half done.
    package static func remove(_ path: String) {
        unlink(path)
        unlink(path + ".new")
    }

    /// Returns when the names in a folder would survive a power cut.
    package static func synchronizeFolder(_ path: String) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}

/// A path in its two parts.
package struct PathParts {
    /// The folder; `.` for a name alone.
    package let folder: String
    /// What is behind the last slash.
    package let name: String

    /// Takes a path apart.
    package init(_ path: String) {
        guard let slash = path.lastIndex(of: "/") else {
            (folder, name) = (".", path)
            return
        }
        folder = slash == path.startIndex ? "/" : String(path[..<slash])
        name = String(path[path.index(after: slash)...])
    }
}
