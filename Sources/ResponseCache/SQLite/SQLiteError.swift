import CSQLite
import FoundationEssentials

/// What SQLite answered instead of doing what it was asked (https://www.sqlite.org/rescode.html).
struct SQLiteError: Error, CustomStringConvertible {
    /// The extended result code.
    let code: Int32
    /// SQLite's words for it.
    let message: String
    /// What was attempted.
    let attempt: String

    /// The code without what is in its upper bits.
    var primaryCode: Int32 { code & 0xFF }

    /// Whether the file is not what was written into it. The statements are the same each time: when one of them finds
    /// no table, or breaks a constraint, the tables are not those that were made.
    var isDamage: Bool {
        [SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH].contains(primaryCode)
    }

    /// Whether another process was waited for in vain.
    var isBusy: Bool { [SQLITE_BUSY, SQLITE_LOCKED].contains(primaryCode) }

    /// Whether the disk has no room left.
    var isFull: Bool { primaryCode == SQLITE_FULL || (primaryCode == SQLITE_IOERR && message.contains("full")) }

    /// Whether the file, or the folder it lies in, cannot be opened or written.
    var isRefusal: Bool {
        [SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PERM, SQLITE_AUTH].contains(primaryCode)
    }

    /// Whether reading or writing the file failed below SQLite, as it does when the folder was removed.
    var isInputOutput: Bool { primaryCode == SQLITE_IOERR }

    var description: String { "\(message) (SQLite \(code)) while \(attempt)" }
}
