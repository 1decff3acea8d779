import CSQLite

/// What SQLite answered instead of doing what it was asked (https://www.sqlite.org/rescode.html).
package struct SQLiteError: Error, CustomStringConvertible {
    /// The extended result code.
    package let code: Int32
    /// SQLite's words for it.
    package let message: String
    /// What was attempted.
    package let attempt: String

    package init(code: Int32, message: String, attempt: String) {
        self.code = code
        self.message = message
        self.attempt = attempt
    }

    /// The code without what is in its upper bits.
    package var primaryCode: Int32 { code & 0xFF }

    /// Whether another process was waited for in vain.
    package var isBusy: Bool { [SQLITE_BUSY, SQLITE_LOCKED].contains(primaryCode) }

    package var description: String { "\(message) (SQLite \(code)) while \(attempt)" }
}
