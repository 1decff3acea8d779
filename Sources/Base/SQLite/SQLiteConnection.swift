import CSQLite
import Glibc

/// A connection to a database file, with its prepared statements. Its owner uses it from one queue or behind one lock.
package final class SQLiteConnection {
    package enum Mode: Sendable {
        /// Reads and writes. A missing file is created, readable and writable by its owner only.
        case creating
        /// Reads only, but may create the files of the write-ahead log.
        case reading
        /// Reads only, from a read-only file system.
        case readOnly
        /// Reads only, and assumes that no process writes.
        case immutable
    }

    /// The path of the file; `:memory:` for a database in memory.
    package let path: String
    /// The handle; `nil` after ``close()``.
    package private(set) var handle: OpaquePointer?
    private let busyTimeout: Duration
    private var statements: [String: SQLiteStatement] = [:]
    private var uses = 0

    /// The maximum number of cached statements. Beyond it the least recently used one is dropped.
    private static let statementLimit = 64

    /// Opens a file. `busyTimeout` is the longest wait for another process.
    package init(path: String, mode: Mode, busyTimeout: Duration) throws(SQLiteError) {
        self.path = path
        self.busyTimeout = busyTimeout
        // The prefix keeps SQLite from giving a special meaning to relative paths that begin with `file:` or `:`.
        let file = path == ":memory:" || path.hasPrefix("/") ? path : "./" + path
        let (name, flags): (String, Int32) =
            switch mode {
            case .creating: (file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .reading: (file, SQLITE_OPEN_READWRITE)
            case .readOnly: (file, SQLITE_OPEN_READONLY)
            case .immutable: (Self.uri(path) + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
            }
        if mode == .creating, path != ":memory:", access(file, F_OK) != 0 {
            // SQLite gives its other files the permissions of this one. An existing file is left alone, because closing
            // it here would release the POSIX locks that SQLite holds on it.
            let descriptor = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if descriptor >= 0 { Glibc.close(descriptor) }
        }
        // The connection has one user at a time, so SQLite needs no mutex.
        let code = sqlite3_open_v2(name, &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard code == SQLITE_OK else {
            let error = SQLiteError(
                code: code, message: message(code), attempt: "opening the file", systemCode: systemCode(code))
            close()
            throw error
        }
        sqlite3_busy_timeout(handle, Self.milliseconds(busyTimeout))
        // SQLite must not read an unknown name in double quotes as a string, nor trust functions that the schema calls.
        for option in [SQLITE_DBCONFIG_DQS_DML, SQLITE_DBCONFIG_DQS_DDL, SQLITE_DBCONFIG_TRUSTED_SCHEMA] {
            _ = lat_sqlite3_db_config(handle, option, 0)
        }
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1)
    }

    deinit { close() }

    /// Closes the connection. SQLite closes the file after the last statement in use is finalized.
    package func close() {
        statements = [:]
        sqlite3_close_v2(handle)
        handle = nil
    }

    /// Keeps the files of the write-ahead log when the last connection closes. SQLite deletes them by name, so if the
    /// folder was removed and made again in between, it would delete those of another database.
    package func keepLogOnClose() {
        // SQLite does not look whether there is a handle.
        if handle != nil { _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1) }
    }

    /// The bytes that are free on the disk of a database, and those of its log. Where 1 GiB is free the log is not looked at and
    /// counts as empty: that makes each commit which is synchronized a third slower (Linux 6.18, ext4). Without an answer of the
    /// system there is room.
    package static func room(beside path: String) -> (free: Int, log: Int) {
        var (disk, log) = (statvfs(), stat())
        guard statvfs(path, &disk) == 0 else { return (.max, 0) }
        let free = Int(min(Double(disk.f_bavail) * Double(disk.f_frsize), 0x1p60))
        guard free < 1 << 30, stat(path + "-wal", &log) == 0 else { return (free, 0) }
        return (free, Int(log.st_size))
    }

    /// Moves what is in the log into the file, and gives the log's room back, as far as the disk, readers and other processes
    /// allow. The file may have to grow, for which a full disk has no room.
    ///
    /// - Returns: `false` after an error, as on a full disk.
    @discardableResult
    package func emptyLog() -> Bool { (try? execute("PRAGMA wal_checkpoint(TRUNCATE)")) != nil }

    /// Reads a file also when it is shorter than it says, up to the pages that are missing. Only for a file that is given up.
    package func readsShortFile() {
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 0)
        try? execute("PRAGMA writable_schema = ON")
    }

    /// Runs a closure with another busy timeout.
    package func waiting<Result>(atMost limit: Duration, _ body: () throws -> Result) rethrows -> Result {
        sqlite3_busy_timeout(handle, Self.milliseconds(limit))
        defer { sqlite3_busy_timeout(handle, Self.milliseconds(busyTimeout)) }
        return try body()
    }

    // MARK: Statements

    /// Runs statements that return no rows.
    package func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, sql) }
    }

    /// Runs a closure in a transaction for writing, which is rolled back when the closure throws.
    package func transaction<Result>(_ body: () throws -> Result) throws -> Result {
        try run("BEGIN IMMEDIATE") { _ in }
        do {
            let result = try body()
            try run("COMMIT") { _ in }
            return result
        } catch {
            if isInTransaction { try? execute("ROLLBACK") }
            throw error
        }
    }

    /// Lends a statement to a closure. A statement is prepared once for each connection and then cached.
    ///
    /// However the closure ends, the statement is reset and its parameters are cleared, so no value of a use that failed
    /// reaches the next one. A use inside a use of the same text gets a statement of its own.
    package func use<Result>(_ sql: String, _ body: (SQLiteStatement) throws -> Result) throws -> Result {
        let statement = try borrow(sql)
        defer { giveBack(statement) }
        return try body(statement)
    }

    /// Binds the parameters of a statement and runs it to its end. Its rows are ignored.
    package func run(_ sql: String, bind: (SQLiteStatement) throws -> Void) throws {
        try use(sql) { statement in
            try bind(statement)
            while try statement.step() {}
        }
    }

    private func borrow(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        uses += 1
        if let kept = statements[sql] {
            if kept.isInUse { return try prepare(sql) }
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

    private func giveBack(_ statement: SQLiteStatement) {
        statement.reset()
        statement.isInUse = false
    }

    private func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        var prepared: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard code == SQLITE_OK, let prepared else { throw error(code, sql) }
        return SQLiteStatement(prepared, self, sql)
    }

    /// Runs a statement and returns the number in the first column of its first row; `nil` when it returns no row.
    package func number(
        _ sql: String, bind: (SQLiteStatement) -> Void = { _ in }
    ) throws(SQLiteError) -> Int64? {
        let statement = try borrow(sql)
        defer { giveBack(statement) }
        bind(statement)
        return try statement.step() ? statement.integer(0) : nil
    }

    package var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// The number of rows that the last statement changed.
    package var changeCount: Int { Int(sqlite3_changes64(handle)) }

    /// Whether a transaction is open. Closing ends it, and so do some errors, such as a full disk.
    package var isInTransaction: Bool { handle.map { sqlite3_get_autocommit($0) == 0 } ?? false }

    // MARK: The write-ahead log

    /// The mapped header of the write-ahead log, available after the first read; `nil` when it is not in shared memory.
    package var sharedHeader: UnsafeRawPointer? { lat_sqlite3_shared_header(handle) }

    /// The checksum in the header that ``sharedHeader`` returns. It changes with each commit of any process.
    @inlinable package static func checksum(ofHeader header: UnsafeRawPointer?) -> UInt64 { lat_wal_checksum(header) }

    // MARK: Errors

    /// The error for a code that this connection has just reported.
    package func error(_ code: Int32, _ sql: String) -> SQLiteError {
        let words = sql.split(whereSeparator: \.isWhitespace).prefix(3).joined(separator: " ")
        return SQLiteError(
            code: code, message: message(code), attempt: "running \(words)", systemCode: systemCode(code))
    }

    private func systemCode(_ code: Int32) -> Int32 {
        [SQLITE_CANTOPEN, SQLITE_IOERR].contains(code & 0xFF) ? sqlite3_system_errno(handle) : 0
    }

    private func message(_ code: Int32) -> String {
        String(cString: handle == nil ? sqlite3_errstr(code) : sqlite3_errmsg(handle))
    }

    private static func milliseconds(_ duration: Duration) -> Int32 {
        // SQLite's limit is 24 days.
        Int32(max(.zero, min(duration, .seconds(2_000_000))) / .milliseconds(1))
    }

    /// The path as a `file:` URI (https://www.sqlite.org/uri.html).
    private static func uri(_ path: String) -> String {
        let digits = Array("0123456789ABCDEF")
        // Without an empty authority, a path that begins with two slashes would name a host.
        return path.utf8.reduce(into: path.hasPrefix("/") ? "file://" : "file:") { uri, byte in
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
