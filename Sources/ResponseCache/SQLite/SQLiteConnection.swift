import CSQLite
import FoundationEssentials

/// A connection to a database file, with its prepared statements.
///
/// Not safe to share: whoever owns it uses it from one queue, or behind one lock, at a time.
final class SQLiteConnection {
    enum Mode: Sendable {
        /// Reads and writes, and makes the file.
        case creating
        /// Reads only; the files beside it that WAL needs may be made.
        case reading
        /// Reads only, from a file system that takes no writes.
        case readOnly
        /// Reads only, and trusts that nobody writes.
        case immutable
    }

    let path: String
    private let handle: OpaquePointer
    private let busyTimeout: Duration
    private var statements: [String: SQLiteStatement] = [:]

    /// Opens a file.
    ///
    /// - Parameter busyTimeout: how long another process is waited for.
    init(path: String, mode: Mode, busyTimeout: Duration) throws(SQLiteError) {
        self.path = path
        let (name, flags): (String, Int32) =
            switch mode {
            case .creating: (path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)
            case .reading: (path, SQLITE_OPEN_READWRITE)
            case .readOnly: (path, SQLITE_OPEN_READONLY)
            case .immutable: (Self.uri(path) + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI)
            }
        var opened: OpaquePointer?
        // One user at a time is promised above, so SQLite need not lock.
        let code = sqlite3_open_v2(name, &opened, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard code == SQLITE_OK, let opened else {
            let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(code))
            sqlite3_close_v2(opened)
            throw SQLiteError(code: code, message: message, attempt: "opening the file")
        }
        handle = opened
        self.busyTimeout = busyTimeout
        sqlite3_busy_timeout(handle, Int32(busyTimeout / .milliseconds(1)))
        // The last connection to close would delete the files of WAL by name. Where the folder was removed and made
        // again in between, those would be somebody else's.
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1)
    }

    deinit {
        for statement in statements.values { statement.finalize() }
        sqlite3_close_v2(handle)
    }

    /// Runs statements that give nothing.
    func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, sql) }
    }

    /// Does something that waits for another process no longer than so.
    func waiting<Result>(atMost limit: Duration, _ body: () throws -> Result) rethrows -> Result {
        sqlite3_busy_timeout(handle, Int32(limit / .milliseconds(1)))
        defer { sqlite3_busy_timeout(handle, Int32(busyTimeout / .milliseconds(1))) }
        return try body()
    }

    /// A statement, prepared once for the connection, and reset.
    func statement(_ sql: String) throws(SQLiteError) -> SQLiteStatement {
        if let statement = statements[sql] {
            statement.reset()
            return statement
        }
        var prepared: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard code == SQLITE_OK, let prepared else { throw error(code, sql) }
        let statement = SQLiteStatement(prepared, self, sql)
        statements[sql] = statement
        return statement
    }

    /// The single number that a statement gives; `nil` when it gives none.
    func number(_ sql: String) throws(SQLiteError) -> Int64? {
        let statement = try statement(sql)
        defer { statement.reset() }
        return try statement.step() ? statement.integer(0) : nil
    }

    /// The row that was inserted last.
    var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// Where the header of the log is mapped, once something was read; `nil` when it is in no shared memory.
    var sharedHeader: UnsafeRawPointer? { lat_sqlite3_shared_header(handle) }

    /// How many rows the last statement changed.
    var changeCount: Int { Int(sqlite3_changes(handle)) }

    /// Whether a transaction is open. SQLite ends one by itself after some faults.
    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    fileprivate func error(_ code: Int32, _ sql: String) -> SQLiteError {
        let words = sql.split(whereSeparator: \.isWhitespace).prefix(3).joined(separator: " ")
        return SQLiteError(code: code, message: String(cString: sqlite3_errmsg(handle)), attempt: "running \(words)")
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

/// A prepared statement. Parameters count from 1, columns from 0.
final class SQLiteStatement {
    private let handle: OpaquePointer
    private unowned let connection: SQLiteConnection
    private let sql: String

    fileprivate init(_ handle: OpaquePointer, _ connection: SQLiteConnection, _ sql: String) {
        self.handle = handle
        self.connection = connection
        self.sql = sql
    }

    fileprivate func finalize() { sqlite3_finalize(handle) }

    /// Ends what it was doing and forgets the parameters.
    func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    /// Goes to the next row.
    ///
    /// - Returns: Whether there is one.
    func step() throws(SQLiteError) -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        let error = connection.error(code, sql)
        sqlite3_reset(handle)
        throw error
    }

    /// Runs it to its end, and makes it ready for the next time.
    func run() throws(SQLiteError) {
        while try step() {}
        reset()
    }

    /// Runs it to its end with one parameter.
    func run(with value: Int64) throws(SQLiteError) {
        bind(1, value)
        try run()
    }

    func bind(_ index: Int32, _ value: Int64) { sqlite3_bind_int64(handle, index, value) }

    func bind(_ index: Int32, _ value: Double) { sqlite3_bind_double(handle, index, value) }

    func bind(_ index: Int32, _ bytes: some ContiguousBytes) {
        bytes.withUnsafeBytes { _ = lat_sqlite3_bind_blob(handle, index, $0.baseAddress, Int32($0.count)) }
    }

    /// A text as its bytes: compared byte by byte, and without an end of its own.
    func bind(_ index: Int32, utf8 text: String) {
        var text = text
        text.withUTF8 { _ = lat_sqlite3_bind_blob(handle, index, $0.baseAddress, Int32($0.count)) }
    }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func real(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// A copy of the bytes.
    func data(_ column: Int32) -> Data {
        guard let bytes = sqlite3_column_blob(handle, column) else { return Data() }
        return Data(bytes: bytes, count: Int(sqlite3_column_bytes(handle, column)))
    }

    /// A copy of the bytes.
    func bytes(_ column: Int32) -> [UInt8] {
        guard let bytes = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(handle, column))))
    }
}
