import CSQLite
import FoundationEssentials
import HTTPCore

/// A prepared statement, finalized with its last reference.
final class Statement {
    let pointer: OpaquePointer
    let sql: String
    private unowned let connection: Connection
    /// The connection's count when it was asked for last, 0 for never.
    var lastUse = 0

    init(_ pointer: OpaquePointer, sql: String, connection: Connection) {
        self.pointer = pointer
        self.sql = sql
        self.connection = connection
    }

    deinit { sqlite3_finalize(pointer) }

    /// Whether rows of it are being read.
    var isBusy: Bool { sqlite3_stmt_busy(pointer) != 0 }

    /// Goes to the next row; `false` when there is none.
    func step(_ operation: @autoclosure () -> String) throws -> Bool {
        let code = sqlite3_step(pointer)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        let error = connection.failure(code, operation(), sql: sql)
        sqlite3_reset(pointer)
        throw error
    }

    /// Ready for the next use. What was bound stays bound.
    func reset() { sqlite3_reset(pointer) }

    func check(_ code: Int32, _ operation: @autoclosure () -> String) throws {
        if code != SQLITE_OK { throw connection.failure(code, operation(), sql: sql) }
    }

    /// Binds a value; parameters count from 1.
    func bind(_ value: StoredValue, at index: Int, _ operation: @autoclosure () -> String) throws {
        try check(Self.bind(value, at: Int32(index), to: pointer), operation())
    }

    func bind(_ values: [StoredValue], _ operation: @autoclosure () -> String) throws {
        for (index, value) in values.enumerated() { try bind(value, at: index + 1, operation()) }
    }

    static func bind(_ value: StoredValue, at index: Int32, to pointer: OpaquePointer) -> Int32 {
        switch value {
        case .null: return sqlite3_bind_null(pointer, index)
        case .integer(let value): return sqlite3_bind_int64(pointer, index, value)
        case .real(let value): return bind(value, at: index, to: pointer)
        case .text(let value): return bind(value, at: index, to: pointer)
        case .blob(let value):
            guard value.count <= Int32.max else { return SQLITE_TOOBIG }
            return value.withUnsafeBytes { bytes in
                lat_sqlite3_bind_blob(pointer, index, bytes.baseAddress, Int32(bytes.count))
            }
        }
    }

    /// SQLite takes "not a number" for NULL, so it goes as the text `NaN`.
    static func bind(_ value: Double, at index: Int32, to pointer: OpaquePointer) -> Int32 {
        value.isNaN
            ? lat_sqlite3_bind_not_a_number(pointer, index) : sqlite3_bind_double(pointer, index, value)
    }

    /// With its length, so that a NUL in the text is a character like any other.
    static func bind(_ value: String, at index: Int32, to pointer: OpaquePointer) -> Int32 {
        var value = value
        return value.withUTF8 { bytes in
            guard bytes.count <= Int32.max else { return SQLITE_TOOBIG }
            guard let address = bytes.baseAddress, !bytes.isEmpty else {
                return lat_sqlite3_bind_empty_text(pointer, index)
            }
            let count = Int32(bytes.count)
            return address.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
                lat_sqlite3_bind_text(pointer, index, $0, count)
            }
        }
    }

    // MARK: Columns, which count from 0

    func value(_ column: Int) -> StoredValue { Self.value(Int32(column), of: pointer) }

    static func value(_ column: Int32, of pointer: OpaquePointer) -> StoredValue {
        switch sqlite3_column_type(pointer, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(pointer, column))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(pointer, column))
        case SQLITE_TEXT: return .text(text(column, of: pointer))
        case SQLITE_BLOB: return .blob(data(column, of: pointer))
        default: return .null
        }
    }

    static func text(_ column: Int32, of pointer: OpaquePointer) -> String {
        guard let bytes = sqlite3_column_text(pointer, column) else { return "" }
        let count = Int(sqlite3_column_bytes(pointer, column))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    static func data(_ column: Int32, of pointer: OpaquePointer) -> Data {
        guard let bytes = sqlite3_column_blob(pointer, column) else { return Data() }
        return Data(bytes: bytes, count: Int(sqlite3_column_bytes(pointer, column)))
    }
}
