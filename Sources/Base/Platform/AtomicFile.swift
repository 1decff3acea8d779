package import CLinux
internal import Glibc
import Synchronization

/// Writes files atomically: readers find the old content or the new one, never a part. A device or a pipe at a path that a user
/// chose is written to directly.
package enum AtomicFile {
    /// Writes a temporary file beside the path, synchronizes it and renames it to the path.
    ///
    /// - Parameters:
    ///   - mode: the permissions, whatever the process's umask. Default: the owner reads and writes.
    ///   - isShared: whether several processes may write the file at the same time; each then uses its own temporary
    ///     name, and a later write removes those that killed processes left. Default `true`; `false` for a file of a program's
    ///     own folder with one writer, where whatever has the name with the suffix `.new` may be removed.
    ///   - replaces: whether an existing file is replaced. If `false`, writing throws `EEXIST` when there is one. Default
    ///     `true`.
    ///   - followsLinks: whether a symbolic link at the path stays, and the existing file that it leads to is replaced, or
    ///     written to if it is no regular file. A link of another user than this one and root never stays. Default `true`;
    ///     `false` for a path that no user chose.
    ///   - synchronizes: whether the content is on the disk when this returns. If `false`, a loss of power may leave an empty
    ///     file; ``synchronizeFileSystem(of:)`` prevents that for many files at once. Default `true`.
    ///   - synchronizesName: whether the name is there, too. If `false`, a loss of power may bring the old file back. Default
    ///     `true`.
    /// - Throws: ``SystemError``. The file is unchanged then, and the temporary file is removed.
    package static func write(
        _ bytes: some Collection<UInt8>, to path: String, mode: mode_t = 0o600, isShared: Bool = true,
        replaces: Bool = true, followsLinks: Bool = true, synchronizes: Bool = true, synchronizesName: Bool = true
    ) throws(SystemError) {
        let (path, isReplaced) = place(path, followsLinks: followsLinks)
        if isShared, isReplaced { removeLeftovers(of: path) }
        let temporary = isShared ? ownName(path) : path + ".new"
        // A temporary file left by a killed process is incomplete.
        if isReplaced { unlink(temporary) }
        let code = replace(
            path, by: isReplaced || !replaces ? temporary : nil, mode, isLocked: isShared, replaces: replaces,
            synchronizes: synchronizes, synchronizesName: synchronizesName
        ) { descriptor in
            bytes.withContiguousStorageIfAvailable { writeAll(descriptor, UnsafeRawBufferPointer($0)) }
                ?? Array(bytes).withUnsafeBytes { writeAll(descriptor, $0) }
        }
        guard code == 0 else { throw SystemError(code: code) }
    }

    /// Writes a file that a user chose in pieces, so that it need not be in memory as a whole. Several processes may write it at
    /// the same time. A symbolic link at the path stays.
    ///
    /// - Parameter pieces: Calls its argument with each piece in order.
    /// - Throws: ``SystemError``, or what `pieces` throws. The file is unchanged then, and the temporary file is removed.
    package static func write(
        to path: String, mode: mode_t = 0o600, pieces: (_ write: (ArraySlice<UInt8>) throws -> Void) throws -> Void
    ) throws {
        let (path, isReplaced) = place(path, followsLinks: true)
        if isReplaced { removeLeftovers(of: path) }
        let code = try replace(
            path, by: isReplaced ? ownName(path) : nil, mode, isLocked: true, replaces: true
        ) { descriptor in
            try pieces { piece in
                let code = piece.withUnsafeBytes { writeAll(descriptor, $0) }
                guard code == 0 else { throw SystemError(code: code) }
            }
            return 0
        }
        guard code == 0 else { throw SystemError(code: code) }
    }

    /// Runs a body that reads a file and replaces it, while no other process or thread runs one for the same file. There is an
    /// empty file if there was none.
    ///
    /// It waits at most 5 s for others, since one that was stopped must not hold up the end of this process. Without a lock, as
    /// on file systems that have none and for what is no regular file, the body runs all the same.
    package static func exclusively<Result>(_ path: String, _ body: () -> Result) -> Result {
        let descriptor = locked(path)
        // Closing releases the lock.
        defer { if descriptor >= 0 { close(descriptor) } }
        return body()
    }

    /// Whether a file that may be read again is at a path, or none: neither a pipe nor a device.
    package static func isReplaceable(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG
    }

    /// Opens and locks the file that is at the path then; -1 if that is not possible.
    private static func locked(_ path: String) -> Int32 {
        let flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (OwnFile.isLinkOfAnother(path) ? 0 : O_CREAT)
        let end = MonotonicTime.now + 5_000
        repeat {
            let descriptor = open(path, flags, 0o600)
            guard descriptor >= 0 else { return -1 }
            var (opened, present) = (stat(), stat())
            let isRegular = fstat(descriptor, &opened) == 0 && opened.st_mode & S_IFMT == S_IFREG
            let code = !isRegular ? ENOTSUP : flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno
            // The one who had the lock may have replaced the file.
            if code == 0, stat(path, &present) == 0, present.st_ino == opened.st_ino, present.st_dev == opened.st_dev {
                return descriptor
            }
            close(descriptor)
            guard code == 0 || code == EWOULDBLOCK || code == EINTR else { return -1 }
            if code != 0 { usleep(10_000) }
        } while MonotonicTime.now < end
        return -1
    }

    /// The path without symbolic links if a user chose it, and whether the file is replaced: whether it is a regular file or does
    /// not exist.
    private static func place(_ path: String, followsLinks: Bool) -> (path: String, isReplaced: Bool) {
        guard followsLinks, !OwnFile.isLinkOfAnother(path) else { return (path, true) }
        let path = PathParts.resolved(path) ?? path
        var status = stat()
        return (path, stat(path, &status) != 0 || [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT))
    }

    /// Makes a temporary file, synchronizes what `write` writes into it, and renames it. On failure the file is removed.
    ///
    /// - Parameter temporary: `nil` to write to what is at the path.
    /// - Returns: the error number, which `write` returns too; 0 for none.
    private static func replace(
        _ path: String, by temporary: String?, _ mode: mode_t, isLocked: Bool, replaces: Bool,
        synchronizes: Bool = true, synchronizesName: Bool = true, _ write: (_ descriptor: Int32) throws -> Int32
    ) rethrows -> Int32 {
        guard let temporary else {
            // A pipe that nobody reads is an error, and not waited for.
            let descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            guard descriptor >= 0 else { return errno }
            defer { close(descriptor) }
            _ = fcntl(descriptor, F_SETFL, 0)
            return try write(descriptor)
        }
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        if isLocked { flock(descriptor, LOCK_EX | LOCK_NB) }
        // The code is not 0 while `write` may throw, so that the temporary file is then removed.
        var code = EIO
        defer { if code != 0 { unlink(temporary) } }
        code = try write(descriptor)
        if code == 0, fchmod(descriptor, mode) != 0 { code = errno }
        if code == 0, synchronizes { code = synchronize(descriptor) }
        if code == 0, !move(temporary, path, replaces: replaces) { code = errno }
        if code == 0, synchronizes, synchronizesName { synchronizeFolder(PathParts(path).folder) }
        return code
    }

    /// A temporary name that no other writer uses.
    private static func ownName(_ path: String) -> String {
        path + ".\(getpid())-\(UInt64.random(in: 0 ... .max)).new"
    }

    /// When the leftovers of each file were last removed.
    private static let cleanings = Mutex<[String: time_t]>([:])

    /// Removes the temporary files that killed processes left beside a shared file. A writer locks its own until it has
    /// renamed it. Process numbers do not identify writers, since containers that share a folder have the same ones.
    ///
    /// It runs at most once in ten minutes for each file, because it lists the folder, which may have very many files.
    private static func removeLeftovers(of path: String) {
        let now = time(nil)
        let isDue = cleanings.withLock { cleanings in
            if let last = cleanings[path], abs(now - last) < 600 { return false }
            if cleanings.count >= 1_000 { cleanings = [:] }
            cleanings[path] = now
            return true
        }
        guard isDue else { return }
        let parts = PathParts(path)
        for name in SystemFiles.names(inFolder: parts.folder) where isOwnName(name, of: parts.name) {
            removeIfLeft("\(parts.folder)/\(name)")
        }
    }

    /// Whether a name is one that ``ownName(_:)`` makes for a file.
    private static func isOwnName(_ name: String, of file: String) -> Bool {
        guard name.utf8.starts(with: file.utf8) else { return false }
        let rest = name.utf8.dropFirst(file.utf8.count)
        guard rest.first == UInt8(ascii: "."), rest.suffix(4).elementsEqual(".new".utf8) else { return false }
        let numbers = rest.dropFirst().dropLast(4).split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        return numbers.count == 2 && numbers.allSatisfy { !$0.isEmpty && $0.allSatisfy { (0x30...0x39).contains($0) } }
    }

    /// Removes a temporary file that is not locked. A file changed within the last minute stays: its writer may not have
    /// locked it yet.
    private static func removeIfLeft(_ path: String) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG, time(nil) - facts.st_mtim.tv_sec > 60,
            flock(descriptor, LOCK_EX | LOCK_NB) == 0
        else { return }
        unlink(path)
    }

    /// Renames the temporary file to the path. Returns `false` and sets `errno` on failure.
    private static func move(_ temporary: String, _ path: String, replaces: Bool) -> Bool {
        guard !replaces else { return rename(temporary, path) == 0 }
        if link(temporary, path) == 0 {
            unlink(temporary)
            return true
        }
        guard errno != EEXIST else { return false }
        guard access(path, F_OK) != 0 else {
            errno = EEXIST
            return false
        }
        // The file system has no hard links. Of several concurrent writers, the last one replaces the file.
        return rename(temporary, path) == 0
    }

    /// Writes all bytes to a file. Returns `errno`, or 0.
    package static func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int32 {
        var written = 0
        while written < bytes.count, let base = bytes.baseAddress {
            let count = Glibc.write(descriptor, base + written, bytes.count - written)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return errno }
            written += count
        }
        return 0
    }

    private static func synchronize(_ descriptor: Int32) -> Int32 {
        // EINVAL: this kind of file cannot be synchronized.
        fdatasync(descriptor) == 0 || errno == EINVAL ? 0 : errno
    }

    /// Removes a file and its temporary file.
    package static func remove(_ path: String) {
        unlink(path)
        unlink(path + ".new")
    }

    /// Synchronizes a folder, so that the names in it survive a power failure.
    package static func synchronizeFolder(_ path: String) { try? synchronizing(path) }

    /// The same, for those who have to know that it was done.
    package static func synchronizing(_ path: String) throws(SystemError) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemError() }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw SystemError() }
    }

    /// Synchronizes everything that was written to the file system of a folder (syncfs(2)).
    package static func synchronizeFileSystem(of folder: String) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = lat_syncfs(descriptor)
        close(descriptor)
    }
}

/// The folder and the name of a path.
package struct PathParts {
    /// The folder; `.` for a path without a slash.
    package let folder: String
    /// The part after the last slash.
    package let name: String

    package init(_ path: String) {
        guard let slash = path.lastIndex(of: "/") else {
            (folder, name) = (".", path)
            return
        }
        folder = slash == path.startIndex ? "/" : String(path[..<slash])
        name = String(path[path.index(after: slash)...])
    }

    /// Makes the folder, and those above it that do not exist.
    package func makeFolder(mode: mode_t) throws(SystemError) {
        var made = ""
        for part in folder.split(separator: "/", omittingEmptySubsequences: false) {
            made += made.isEmpty && part.isEmpty ? "/" : (made.isEmpty || made == "/" ? "" : "/") + part
            guard mkdir(made, mode) == 0 || errno == EEXIST || access(made, X_OK) == 0 else { throw SystemError() }
        }
    }

    /// The path from the root, which stays the same when the process changes its current directory.
    package static func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        return (getcwd(&buffer, buffer.count).map { String(cString: $0) } ?? "") + "/" + path
    }

    /// The path without symbolic links; `nil` if nothing exists there.
    package static func resolved(_ path: String) -> String? {
        guard let text = realpath(path, nil) else { return nil }
        defer { free(text) }
        return String(cString: text)
    }

    /// The path that a symbolic link refers to; `nil` when it cannot be read.
    static func target(ofLink path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
