import FoundationEssentials
import Glibc
import HTTPCore

/// Small files that are there whole or not at all.
enum AtomicFile {
    /// Writes a file beside, synchronises it and gives it its name. Only its owner may read it: it may hold an address
    /// with a secret in it.
    static func write(_ data: Data, to path: String) throws(NetworkError) {
        let temporary = path + ".new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw StorageFailure.system("written", temporary) }
        let code = data.withUnsafeBytes { bytes -> Int32 in
            var written = 0
            while written < bytes.count, let base = bytes.baseAddress {
                let count = Glibc.write(descriptor, base + written, bytes.count - written)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return errno }
                written += count
            }
            return fdatasync(descriptor) == 0 || errno == EINVAL ? 0 : errno
        }
        close(descriptor)
        guard code == 0, rename(temporary, path) == 0 else {
            let failure = StorageFailure.system("written", path, code == 0 ? errno : code)
            unlink(temporary)
            throw failure
        }
    }

    /// The bytes of a file; `nil` when it is not there, or is larger than anything this writes.
    static func read(_ path: String) -> Data? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size < 16 << 20 else {
            return nil
        }
        return FileManager.default.contents(atPath: path)
    }

    /// Removes a file and what a write may have left half done.
    static func remove(_ path: String) {
        unlink(path)
        unlink(path + ".new")
    }

    /// Returns when the names in a folder would survive a power cut.
    static func synchronizeFolder(_ path: String) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}

/// Errors of files, each with what to do next.
enum StorageFailure {
    /// The system's last error, met while doing something with a file.
    static func system(_ action: String, _ path: String, _ code: Int32 = errno) -> NetworkError {
        NetworkError(
            .storage, message: "\(URLText.visible(path)) cannot be \(action): \(text(code)); \(advice(code))")
    }

    static func missingFolder(_ path: String, isFolder: Bool) -> NetworkError {
        let what = isFolder ? "is no folder" : "does not exist"
        return NetworkError(
            .storage,
            message: "\(URLText.visible(path)), where the download goes, \(what); make it, or name another")
    }

    static func notWritable(_ path: String) -> NetworkError {
        NetworkError(
            .storage,
            message: "nothing can be written into \(URLText.visible(path)); name a folder you may write to")
    }

    static func notRegular(_ path: String) -> NetworkError {
        NetworkError(
            .storage,
            message: "\(URLText.visible(path)) is there and no regular file; name another target")
    }

    static func exists(_ path: String) -> NetworkError {
        NetworkError(
            .storage,
            message:
                "\(URLText.visible(path)) is there already; remove it, name another target, or let existingFile be "
                + ".overwrite or .skip")
    }

    static func inUse(_ path: String) -> NetworkError {
        NetworkError(
            .storage,
            message: "another download is writing \(URLText.visible(path)); wait for it, or name another target")
    }

    static func tooLittleSpace(_ folder: String, needed: Int64, free: Int64) -> NetworkError {
        NetworkError(
            .storage,
            message:
                "\(needed) bytes are still to come and \(URLText.visible(folder)) has only \(free) free; make room, or "
                + "name a target elsewhere")
    }

    private static func text(_ code: Int32) -> String { String(cString: strerror(code)) }

    private static func advice(_ code: Int32) -> String {
        switch code {
        case ENOSPC, EDQUOT: "make room; what is there is kept, and the same download goes on from it"
        case EACCES, EPERM, EROFS: "name a folder you may write to"
        case ENAMETOOLONG: "give a shorter name"
        case EMFILE, ENFILE: "too many files are open; look at ulimit -n"
        default: "look at the file system"
        }
    }
}
