import CSQLite
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import SQLite

extension SQLiteError {
    /// Whether the file is damaged. The statements never change, so a missing table or a violated constraint means that the
    /// tables are not the ones that were created.
    var isDamage: Bool {
        [SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH].contains(primaryCode)
    }

    var isFull: Bool { primaryCode == SQLITE_FULL || (primaryCode == SQLITE_IOERR && message.contains("full")) }

    /// Whether the file or its folder cannot be opened or written.
    var isInaccessible: Bool {
        [SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH].contains(primaryCode)
    }

    /// Whether reading or writing the file failed, as happens after its folder was removed.
    var isInputOutput: Bool { primaryCode == SQLITE_IOERR }
}

/// Turns errors of SQLite and the system into a `NetworkError` with the folder and the next step.
enum CacheFault {
    static func error(_ error: any Error, in directory: String) -> any Error {
        if error is NetworkError || error is CancellationError { return error }
        if let refusal = error as? CacheEntryTooLarge { return refusal.error }
        return NetworkError(
            .cache, message: "the cache in \(directory): \(error); \(nextStep(error))", underlying: error)
    }

    private static func nextStep(_ error: any Error) -> String {
        switch error {
        case let error as SQLiteError where SystemError(code: error.systemCode).isFileLimit:
            SystemError(code: error.systemCode).text
        case let error as SQLiteError where error.isFull: full
        case let error as SystemError where error.isFull: full
        case let error as SQLiteError where error.isInaccessible: refused
        case let error as SystemError where [EACCES, EPERM, EROFS, ENOTDIR, ENOENT].contains(error.code): refused
        case let error as SQLiteError where error.isBusy: busy
        case let error as SystemError where error.isBusy: busy
        case let error as SystemError where error.isFileLimit: "requests continue without it"
        default: "requests continue without it; check the disk, or use another folder"
        }
    }

    private static let busy =
        "another process holds the lock of its index; end that process, or use another folder"
    private static let full = "free space on that disk, or use a folder on another; stored entries can still be read"
    private static let refused = "make the folder writable for this user, or set another as cacheDirectory"
}
