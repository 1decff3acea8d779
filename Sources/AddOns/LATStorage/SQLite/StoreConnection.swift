import CSQLite
import Glibc
import HTTPCore
import Platform
import SQLite

/// The options with which a store opens its file.
struct StoreOptions: Sendable {
    var busyTimeout: Duration = .seconds(10)
    var isDurable = false
    var maximumByteCount: Int64?
}

/// Statements whose errors say what was attempted.
extension SQLiteConnection {
    /// Opens the file of a store, or makes it, at a time when nobody sets it aside.
    ///
    /// SQLite opens the file first and finds its log by name later. If the file was replaced in between, the connection
    /// would use the log of the new file with the old one, and commits of others would be lost.
    static func opening(_ path: String, _ options: StoreOptions, mode: Mode = .creating) throws -> SQLiteConnection {
        var lock: FileLock?
        if path != ":memory:" {
            do throws(SystemError) {
                lock = try FileLock(beside: path, isShared: true, patience: options.busyTimeout)
            } catch {
                // Who may not make the lock's file may not rename the store's file either.
                if let busy = FileLock.busy(error, "open \(path)", path) { throw busy }
            }
        }
        return try withExtendedLifetime(lock) { try SQLiteConnection(path: path, options: options, mode: mode) }
    }

    /// Opens the file of a store, or makes it in the mode `creating`.
    convenience init(path: String, options: StoreOptions, mode: Mode = .creating) throws {
        let operation = "open \(path)"
        do {
            try self.init(path: path, mode: mode, busyTimeout: options.busyTimeout)
        } catch {
            throw NetworkError.sqlite(error, path: path, operation: operation)
        }
        if let handle { _ = DecimalOrder.register(on: handle) }
        try enterWAL(waiting: options.busyTimeout)
        try execute("PRAGMA synchronous = \(options.isDurable ? "FULL" : "NORMAL")", operation: operation)
        // Reads the schema, which fails when the file is not a database.
        try execute("SELECT count(*) FROM sqlite_master", operation: operation)
        if let limit = options.maximumByteCount {
            let size = try scalar("PRAGMA page_size", operation: operation)
            try execute("PRAGMA max_page_count = \(max(1, limit / max(1, size)))", operation: operation)
        }
    }

    /// Switches to WAL. Two processes that make the file at the same time collide here, and SQLite does not wait.
    private func enterWAL(waiting time: Duration) throws {
        let clock = ContinuousClock()
        let end = clock.now + time
        while true {
            do {
                return try execute("PRAGMA journal_mode = WAL")
            } catch {
                guard error.isBusy, clock.now < end else { throw failure(error, "open \(path)") }
                usleep(2_000)
            }
        }
    }

    func failure(_ error: SQLiteError, _ operation: String, sql: String? = nil) -> NetworkError {
        .sqlite(error, path: path, operation: operation, sql: sql)
    }

    /// Lends the prepared statement of a text to a closure.
    func use<Result>(
        _ sql: String, operation: @autoclosure () -> String, _ body: (SQLiteStatement) throws -> Result
    ) throws -> Result {
        do { return try use(sql, body) } catch let error as SQLiteError { throw failure(error, operation(), sql: sql) }
    }

    /// Runs a statement with its values, and calls a body with each row.
    func run(
        _ sql: String, _ values: [StoredValue] = [], operation: String,
        row: (SQLiteStatement) throws -> Void = { _ in }
    ) throws {
        try use(sql, operation: operation) { statement in
            for (index, value) in values.enumerated() { try bind(value, at: index + 1, of: statement, operation) }
            while try step(statement, operation) { try row(statement) }
        }
    }

    /// Runs statements and ignores their rows.
    func execute(_ sql: String, operation: @autoclosure () -> String) throws {
        do { try execute(sql) } catch { throw failure(error, operation(), sql: sql) }
    }

    /// The first number of the first row; 0 without one.
    func scalar(_ sql: String, operation: @autoclosure () -> String) throws -> Int64 {
        do { return try number(sql) ?? 0 } catch { throw failure(error, operation(), sql: sql) }
    }

    /// SQLite's count of schema changes, by this or any other connection.
    func schemaVersion() throws -> Int64 {
        try scalar("PRAGMA schema_version", operation: "look for changes of the schema")
    }

    /// Goes to the next row; `false` when there is none.
    func step(_ statement: SQLiteStatement, _ operation: @autoclosure () -> String) throws -> Bool {
        do { return try statement.step() } catch { throw failure(error, operation(), sql: statement.sql) }
    }

    /// Binds a value; parameters count from 1.
    func bind(
        _ value: StoredValue, at index: Int, of statement: SQLiteStatement, _ operation: @autoclosure () -> String
    ) throws {
        let code = statement.bind(Int32(index), value)
        if code != 0 { throw failure(error(code, statement.sql), operation(), sql: statement.sql) }
    }
}

extension SQLiteStatement {
    func bind(_ index: Int32, _ value: StoredValue) -> Int32 {
        switch value {
        // What is not bound is NULL.
        case .null: 0
        case .integer(let value): bind(index, value)
        // SQLite stores NaN as NULL, so it is stored as text.
        case .real(let value): value.isNaN ? bind(index, text: "NaN") : bind(index, value)
        case .text(let value): bind(index, text: value)
        case .blob(let value): bind(index, value)
        }
    }

    func value(_ column: Int32) -> StoredValue {
        switch type(column) {
        case SQLITE_INTEGER: .integer(integer(column))
        case SQLITE_FLOAT: .real(real(column))
        case SQLITE_TEXT: .text(text(column))
        case SQLITE_BLOB: .blob(data(column))
        default: .null
        }
    }
}
