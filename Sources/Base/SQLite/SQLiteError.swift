import CSQLite

/// The failure of a call to SQLite (https://www.sqlite.org/rescode.html).
package struct SQLiteError: Error, CustomStringConvertible {
    /// The extended result code.
    package let code: Int32
    /// SQLite's description of the code.
    package let message: String
    package let attempt: String
    /// The error number of the system call that failed, for a file that cannot be opened, read or written; else 0.
    package let systemCode: Int32

    package init(code: Int32, message: String, attempt: String, systemCode: Int32 = 0) {
        self.code = code
        self.message = message
        self.attempt = attempt
        self.systemCode = systemCode
    }

    /// The primary result code, which is the lower byte of the extended one.
    package var primaryCode: Int32 { code & 0xFF }

    /// Whether another connection held a lock for too long.
    package var isBusy: Bool { [SQLITE_BUSY, SQLITE_LOCKED].contains(primaryCode) }

    package var description: String { "\(message) (SQLite \(code)) while \(attempt)" }
}
