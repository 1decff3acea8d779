import CSQLite
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

extension SQLiteError {
    /// Whether the file is not what was written into it. The statements are the same each time: when one of them finds
    /// no table, or breaks a constraint, the tables are not those that were made.
    var isDamage: Bool {
        [SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH].contains(primaryCode)
    }

    /// Whether the disk has no room left.
    var isFull: Bool { primaryCode == SQLITE_FULL || (primaryCode == SQLITE_IOERR && message.contains("full")) }

    /// Whether the file, or the folder it lies in, cannot be opened or written.
    var isRefusal: Bool {
        [SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH].contains(primaryCode)
    }

    /// Whether reading or writing the file failed below SQLite, as it does when the folder was removed.
    var isInputOutput: Bool { primaryCode == SQLITE_IOERR }
}

/// Makes of what went wrong below an error for those above: with the folder and the next step.
enum CacheFault {
    static func error(_ error: any Error, in directory: String) -> any Error {
        if error is NetworkError || error is CancellationError { return error }
        if let refusal = error as? CacheEntryTooLarge { return refusal.error }
        return NetworkError(
            .cache, message: "the cache in \(directory): \(error); \(nextStep(error))", underlying: error)
    }

    private static func nextStep(_ error: any Error) -> String {
        switch error {
        case let error as SQLiteError where error.isFull: full
        case let error as SystemError where error.isFull: full
        case let error as SQLiteError where error.isRefusal: refused
        case let error as SystemError where [EACCES, EPERM, EROFS, ENOTDIR, ENOENT].contains(error.code): refused
        case let error as SQLiteError where error.isBusy: busy
        case let error as SystemError where error.isBusy: busy
        case let error as SystemError where [EMFILE, ENFILE].contains(error.code):
            "raise the limit of open files (ulimit -n)"
        default: "requests go on without it; see whether the disk is in order, or name another folder"
        }
    }

    private static let busy =
        "another process holds its index for long; end it, or give this one a folder of its own"
    private static let full = "free room on that disk, or name a folder on another; what is stored can still be read"
    private static let refused = "make the folder writable for this user, or name another as cacheDirectory"
}
