import CSQLite
import FoundationEssentials
import Glibc
import HTTPCore

/// One connection to a database file, with its prepared statements. Belongs to one thread at a time.
final class Connection {
    struct Options {
        var busyTimeout: Duration = .seconds(10)
        var isDurable = false
        var maximumByteCount: Int64?
    }

    /// What is done with a table, in words.
    enum Purpose: String {
        case insert = "insert into"
        case upsert = "upsert into"
        case update
        case delete = "delete from"
        case fetch = "fetch from"
        case scan = "read"
    }

    let path: String
    private(set) var handle: OpaquePointer?
    private var statements: [String: Statement] = [:]
    private var uses = 0

    /// Statements that are kept. Where more are used, those that were not for the longest time go.
    private static let limit = 64

    init(path: String, options: Options) throws {
        self.path = path
        let flags =
            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        // A path is a path, whatever it begins with.
        let name = path == ":memory:" || path.hasPrefix("/") ? path : "./" + path
        if path != ":memory:", access(name, F_OK) != 0 {
            // A new file is its owner's alone, and so are those that SQLite puts beside it.
            let descriptor = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if descriptor >= 0 { Glibc.close(descriptor) }
        }
        let code = sqlite3_open_v2(name, &handle, flags, nil)
        guard code == SQLITE_OK else {
            let error = failure(code, "open \(path)")
            close()
            throw error
        }
        do {
            try configure(options)
        } catch {
            close()
            throw error
        }
    }

    deinit { close() }

    func close() {
        // One that is in use is finalized after that, and only then the file is closed.
        statements = [:]
        sqlite3_close_v2(handle)
        handle = nil
    }

    private func configure(_ options: Options) throws {
        let (seconds, attoseconds) = options.busyTimeout.components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        sqlite3_busy_timeout(handle, Int32(clamping: milliseconds))
        // A name in double quotes that is none must not be taken for a text.
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DML, 0)
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DDL, 0)
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1)
        _ = lat_sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        if let handle { _ = DecimalOrder.register(on: handle) }
        try enterWAL(waiting: options.busyTimeout)
        try execute("PRAGMA synchronous = \(options.isDurable ? "FULL" : "NORMAL")", operation: "open \(path)")
        // Reads the head of the schema, which a file that is no database does not have.
        try execute("SELECT count(*) FROM sqlite_master", operation: "open \(path)")
        if let limit = options.maximumByteCount {
            let size = try scalar("PRAGMA page_size", operation: "open \(path)")
            try execute("PRAGMA max_page_count = \(max(1, limit / max(1, size)))", operation: "open \(path)")
        }
    }

    /// Two processes that make a file at the same time get in each other's way here, and SQLite does not wait.
    private func enterWAL(waiting time: Duration) throws {
        let clock = ContinuousClock()
        let end = clock.now + time
        while true {
            do {
                return try execute("PRAGMA journal_mode = WAL", operation: "open \(path)")
            } catch let error as NetworkError where error.storageFailure?.reason == .busy && clock.now < end {
                usleep(2_000)
            }
        }
    }

    /// The error for a code that this connection has just reported.
    func failure(_ code: Int32, _ operation: String, sql: String? = nil) -> NetworkError {
        let detail = handle.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(code))
        return .sqlite(code, detail, path: path, operation: operation, sql: sql)
    }

    // MARK: Statements

    private func prepare(_ sql: String, operation: String) throws -> Statement {
        var pointer: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &pointer, nil)
        guard code == SQLITE_OK, let pointer else { throw failure(code, operation, sql: sql) }
        return Statement(pointer, sql: sql, connection: self)
    }

    /// The statement of a text, prepared once.
    func statement(_ sql: String, operation: @autoclosure () -> String) throws -> Statement {
        uses += 1
        let statement = try statements[sql] ?? prepare(sql, operation: operation())
        if statement.lastUse == 0 {
            if statements.count >= Self.limit, let oldest = statements.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                statements[oldest.key] = nil
            }
            statements[sql] = statement
        }
        statement.lastUse = uses
        return statement
    }

    /// Runs a statement with its values, and hands over each of its rows.
    func run(
        _ sql: String, _ values: [StoredValue] = [], operation: String, row: (Statement) throws -> Void = { _ in }
    ) throws {
        var statement = try statement(sql, operation: operation)
        // Asked for again while its rows are read.
        if statement.isBusy { statement = try prepare(sql, operation: operation) }
        defer { statement.reset() }
        try statement.bind(values, operation)
        while try statement.step(operation) { try row(statement) }
    }

    /// Runs statements that give no rows that matter.
    func execute(_ sql: String, operation: String) throws {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw failure(code, operation, sql: sql) }
    }

    /// The first number of the first row; 0 without one.
    func scalar(_ sql: String, operation: String) throws -> Int64 {
        var value: Int64?
        try run(sql, operation: operation) { value = value ?? sqlite3_column_int64($0.pointer, 0) }
        return value ?? 0
    }

    /// SQLite's count of changes of the schema, by whomever.
    func schemaVersion() throws -> Int64 {
        try scalar("PRAGMA schema_version", operation: "look for changes of the schema")
    }

    /// How many rows the last statement changed.
    var changes: Int { Int(sqlite3_changes64(handle)) }

    /// Whether a transaction is open. SQLite ends one by itself on some failures, a full disk for one; closing does.
    var isInTransaction: Bool { handle.map { sqlite3_get_autocommit($0) == 0 } ?? false }
}
