import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform

/// Reads and writes the small files beside a download, and makes the errors for all its files, each with the next step.
enum DownloadFiles {
    /// The error for a failed file operation, from `errno` by default.
    static func system(_ action: String, _ path: String, _ code: Int32 = errno) -> NetworkError {
        storage("\(URLText.visible(path)) cannot be \(action): \(SystemError(code: code).text); \(advice(code))")
    }

    /// Writes a file that only its owner can read, because it may hold an address with a secret.
    static func write(
        _ data: Data, to path: String, replaces: Bool = true, synchronizes: Bool = true
    ) throws(NetworkError) {
        do throws(SystemError) {
            try AtomicFile.write(
                data, to: path, isShared: false, replaces: replaces, followsLinks: false, synchronizes: synchronizes,
                // An older journal is right, too, and they are written often.
                synchronizesName: false)
        } catch {
            throw system("written", path, error.code)
        }
    }

    /// The content of a file; `nil` if it is missing, another user's, writable by others, or larger than 16 MiB, which no
    /// file written here is.
    static func read(_ path: String) -> Data? {
        (try? OwnFile.bytes(of: path, limit: 16 << 20)).flatMap { $0 }.map { Data($0) }
    }

    static func ofAnother(_ path: String) -> NetworkError {
        storage(
            "\(URLText.visible(path)) belongs to another user, who could change what is downloaded; remove it, or name "
                + "another folder")
    }

    static func missingFolder(_ path: String, isFolder: Bool) -> NetworkError {
        let what = isFolder ? "is not a folder" : "does not exist"
        return storage("\(URLText.visible(path)), the folder of the download, \(what); create it, or name another")
    }

    static func notWritable(_ path: String) -> NetworkError {
        storage("the folder \(URLText.visible(path)) is not writable; name a folder you may write to")
    }

    static func ofNoDownload(_ path: String) -> NetworkError {
        storage(
            "\(URLText.visible(path)) exists and is not what a download left there; move or remove it, or name another target"
        )
    }

    static func notRegular(_ path: String) -> NetworkError {
        storage("\(URLText.visible(path)) exists and is not a regular file; name another target")
    }

    static func exists(_ path: String) -> NetworkError {
        storage(
            "\(URLText.visible(path)) exists already; remove it, name another target, or set existingFile to "
                + ".overwrite or .skip")
    }

    static func inUse(_ path: String) -> NetworkError {
        storage("another download is writing \(URLText.visible(path)); wait for it, or name another target")
    }

    static func tooLittleSpace(_ folder: String, needed: Int64, free: Int64) -> NetworkError {
        storage(
            "\(needed) bytes are missing and \(URLText.visible(folder)) has only \(free) free; make room, or "
                + "name a target elsewhere")
    }

    private static func storage(_ message: String) -> NetworkError { NetworkError(.storage, message: message) }

    private static func advice(_ code: Int32) -> String {
        switch code {
        case ENOSPC, EDQUOT: "make room"
        case EACCES, EPERM, EROFS: "name a folder you may write to"
        case ENAMETOOLONG: "give a shorter name"
        case EMFILE, ENFILE: "then start the download again"
        default: "check the file system"
        }
    }
}
