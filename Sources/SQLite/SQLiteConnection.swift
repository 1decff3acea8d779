import CSQLite
import Glibc

/// A connection to a database file, with its prepared statements.
///
/// Not safe to share: whoever owns it uses it from one queue, or behind one lock, at a time.
package final class SQLiteConnection {
    package enum Mode: Sendable {
        /// Reads and writes, and makes the file, which is its owner's alone then.
        case creating
        /// Reads only; the files beside it that WAL needs may be made.
        case reading
        /// Reads only, from a file system that takes no writes.
        case readOnly
        /// Reads only, and trusts that nobody writes.
        case immutable
    }

    /// The file; `:memory:` for none.
    package let path: String
    /// `nil` once it is closed.
    package private(set) var handle: OpaquePointer?
    private let busyTimeout: Duration
    private var statements: [String: SQLiteStatement] = [:]
    private var uses = 0

    /// Statements that are kept. Where more are used, the one that was not for the longest time goes.
    private static let statementLimit = 64

    /// Opens a file.
    ///
    /// - Parameter busyTimeout: how long another process is waited for.
    package init(path: String, mode: Mode, busyTimeout: Duration) throws(SQLiteError) {
        self.path = path
        self.busyTimeout = busyTimeout
        // A path is a path, whatever it begins with.
        let file = path == ":memory:" || path.hasPrefix("/") ? path : "./" + path
        let (name, flags): (String, Int32) =
            switch mode {
            case .creating: (file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .reading: (file, SQLITE_OPEN_READWRITE)
            case .readOnly: (file, SQLITE_OPEN_READONLY)
            case .immutable: (Self.uri(path) + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
            }
        if mode == .creating, path != ":memory:", access(file, F_OK) != 0 {
            // SQLite gives the files that it puts beside this one the same rights. Only where there is no file: to
            // close it beside SQLite would take SQLite's locks away.
            let descriptor = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if descriptor >= 0 { Glibc.close(descriptor) }
        }
        // One user at a time is promised above, so SQLite need not lock.
        let code = sqlite3_open_v2(name, &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard code == SQLITE_OK else {
            let error = SQLiteError(code: code, message: message(code), attempt: "opening the file")
            close()
            throw error
        }
        sqlite3_busy_timeout(handle, Self.milliseconds(busyTimeout))
        // A name in double quotes that is none must not be taken for a text.
        for option in [SQLITE_DBCONFIG_DQS_DML, SQLITE_DBCONFIG_DQS_DDL, SQLITE_DBCONFIG_TRUSTED_SCHEMA] {
            _ = lat_sqlite3_db_config(handle, option, 0)
        }
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1)
    }

    deinit { close() }

    /// Closes the file. A statement that is in use is finalized after that, and only then the file is closed.
    package func close() {
        statements = [:]
        sqlite3_close_v2(handle)
        handle = nil
    }

    /// Leaves the files of WAL where they are when the last connection closes. SQLite would delete them by name: where
    /// the folder was removed and made again in between, those would be somebody else's.
    package func keepLogOnClose() { _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1) }

    /// Does something that waits for another process no longer than so.
    package func waiting<Result>(atMost limit: Duration, _ body: () throws -> Result) rethrows -> Result {
        sqlite3_busy_timeout(handle, Self.milliseconds(limit))
        defer { sqlite3_busy_timeout(handle, Self.milliseconds(busyTimeout)) }
        return try body()
    }

    // MARK: Statements

    /// Runs statements that give nothing.
    package func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, sql) }
    }

    /// A statement that is ready to be bound, prepared once for the connection. While its rows are being read, another
    /// one.
    package func statement(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        uses += 1
        if let kept = statements[sql] {
            if kept.isInUse {
                if kept.isBusy { return try prepare(sql) }
                kept.reset()
            }
            kept.isInUse = true
            kept.lastUse = uses
            return kept
        }
        let statement = try prepare(sql)
        if statements.count >= Self.statementLimit,
            let oldest = statements.min(by: { $0.value.lastUse < $1.value.lastUse })
        {
            statements[oldest.key] = nil
        }
        statement.lastUse = uses
        statements[sql] = statement
        return statement
    }

    private func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        var prepared: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard code == SQLITE_OK, let prepared else { throw error(code, sql) }
        return SQLiteStatement(prepared, self, sql)
    }

    /// The single number that a statement gives; `nil` when it gives none.
    package func number(_ sql: String) throws(SQLiteError) -> Int64? {
        let statement = try statement(sql)
        defer { statement.reset() }
        return try statement.step() ? statement.integer(0) : nil
    }

    /// The row that was inserted last.
    package var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// How many rows the last statement changed.
    package var changeCount: Int { Int(sqlite3_changes64(handle)) }

    /// Whether a transaction is open. SQLite ends one by itself after some faults, a full disk for one; closing does.
    package var isInTransaction: Bool { handle.map { sqlite3_get_autocommit($0) == 0 } ?? false }

    // MARK: The log

    /// Where the header of the log is mapped, once something was read; `nil` when it is in no shared memory.
    package var sharedHeader: UnsafeRawPointer? { lat_sqlite3_shared_header(handle) }

    /// The checksum in such a header: another one after each commit, by whomever.
    @inlinable package static func checksum(ofHeader header: UnsafeRawPointer?) -> UInt64 { lat_wal_checksum(header) }

    // MARK: Errors

    /// The error for a code that this connection has just reported.
    package func error(_ code: Int32, _ sql: String) -> SQLiteError {
        let words = sql.split(whereSeparator: \.isWhitespace).prefix(3).joined(separator: " ")
        return SQLiteError(code: code, message: message(code), attempt: "running \(words)")
    }

    private func message(_ code: Int32) -> String {
        String(cString: handle == nil ? sqlite3_errstr(code) : sqlite3_errmsg(handle))
    }

    private static func milliseconds(_ duration: Duration) -> Int32 {
        // SQLite counts to 24 days.
        Int32(max(.zero, min(duration, .seconds(2_000_000))) / .milliseconds(1))
    }

    /// A path as `file:` URI (https://www.sqlite.org/uri.html).
    private static func uri(_ path: String) -> String {
        let digits = Array("0123456789ABCDEF")
        return path.utf8.reduce(into: "file:") { uri, byte in
            let scalar = Unicode.Scalar(byte)
            let isPlain =
                scalar.isASCII && (scalar.properties.isAlphabetic || "0123456789/-._~".unicodeScalars.contains(scalar))
            if isPlain {
                uri.unicodeScalars.append(scalar)
            } else {
                uri += "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
            }
        }
    }
}
