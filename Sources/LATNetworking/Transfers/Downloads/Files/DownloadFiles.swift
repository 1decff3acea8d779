import FoundationEssentials
import Glibc
import HTTPCore
import Platform

/// The small files beside a download, and the errors of all its files, each with what to do next.
enum DownloadFiles {
    /// The system's last error, met while doing something with a file.
    static func system(_ action: String, _ path: String, _ code: Int32 = errno) -> NetworkError {
        NetworkError(
            .storage,
            message: "\(URLText.visible(path)) cannot be \(action): \(SystemError(code: code).text); \(advice(code))")
    }

    /// Writes a file of which only the owner may read: it may hold an address with a secret in it.
    static func write(_ data: Data, to path: String) throws(NetworkError) {
        do throws(SystemError) {
            try AtomicFile.write(data, to: path)
        } catch {
            throw system("written", path, error.code)
        }
    }

    /// The bytes of a file; `nil` when it is not there, or is larger than anything that is written here.
    static func read(_ path: String) -> Data? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size < 16 << 20 else {
            return nil
        }
        return FileManager.default.contents(atPath: path)
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
