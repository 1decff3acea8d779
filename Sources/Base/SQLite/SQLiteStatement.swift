import CSQLite
import FoundationEssentials
import Glibc

/// A prepared statement, which ``SQLiteConnection/use(_:_:)`` lends. Parameters count from 1, columns from 0.
///
/// It is finalized when its last reference is released. The `bind` functions return SQLite's result code, which differs
/// from `SQLITE_OK` only for a value that is too large.
package final class SQLiteStatement {
    @usableFromInline let handle: OpaquePointer
    package let sql: String
    private unowned let connection: SQLiteConnection
    /// The connection's use count at the last use.
    var lastUse = 0
    /// Whether a closure has borrowed it.
    var isInUse = true

    init(_ handle: OpaquePointer, _ connection: SQLiteConnection, _ sql: String) {
        self.handle = handle
        self.connection = connection
        self.sql = sql
    }

    deinit { sqlite3_finalize(handle) }

    /// Ends the execution and clears the parameters, for the next values of the same use.
    package func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    /// Advances to the next row and returns whether there is one.
    package func step() throws(SQLiteError) -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        let error = connection.error(code, sql)
        reset()
        throw error
    }

    // MARK: Parameters

    @discardableResult
    package func bind(_ index: Int32, _ value: Int64) -> Int32 { sqlite3_bind_int64(handle, index, value) }

    /// Binds a number. SQLite stores NaN as NULL.
    @discardableResult
    package func bind(_ index: Int32, _ value: Double) -> Int32 { sqlite3_bind_double(handle, index, value) }

    @discardableResult
    package func bind(_ index: Int32, _ bytes: Data) -> Int32 { bytes.withUnsafeBytes { bind(index, $0) } }

    @discardableResult
    package func bind(_ index: Int32, _ bytes: [UInt8]) -> Int32 { bytes.withUnsafeBytes { bind(index, $0) } }

    private func bind(_ index: Int32, _ bytes: UnsafeRawBufferPointer) -> Int32 {
        guard let count = Int32(exactly: bytes.count) else { return SQLITE_TOOBIG }
        return lat_sqlite3_bind_blob(handle, index, bytes.baseAddress, count)
    }

    /// Binds the bytes of a text as a blob, which is compared byte by byte.
    @discardableResult
    package func bind(_ index: Int32, utf8 text: String) -> Int32 {
        var text = text
        return text.withUTF8 { bind(index, UnsafeRawBufferPointer($0)) }
    }

    /// Binds a text with its length, so that it may contain NUL.
    @discardableResult
    package func bind(_ index: Int32, text: String) -> Int32 {
        var text = text
        return text.withUTF8 { bytes in
            guard let count = Int32(exactly: bytes.count) else { return SQLITE_TOOBIG }
            // A null address would bind NULL.
            guard let address = bytes.baseAddress else { return lat_sqlite3_bind_text(handle, index, "", 0) }
            return address.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
                lat_sqlite3_bind_text(handle, index, $0, count)
            }
        }
    }

    // MARK: Columns

    /// The type of a column's value: `SQLITE_INTEGER`, `SQLITE_FLOAT`, `SQLITE_TEXT`, `SQLITE_BLOB` or `SQLITE_NULL`,
    /// which also means that there is no such column.
    @inlinable package func type(_ column: Int32) -> Int32 { sqlite3_column_type(handle, column) }

    @inlinable package func isNull(_ column: Int32) -> Bool { type(column) == SQLITE_NULL }

    @inlinable package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    @inlinable package func real(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

    package func text(_ column: Int32) -> String {
        guard let bytes = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    package func data(_ column: Int32) -> Data {
        guard let bytes = sqlite3_column_blob(handle, column) else { return Data() }
        return Data(bytes: bytes, count: Int(sqlite3_column_bytes(handle, column)))
    }

    /// The bytes of a column as text; `known` if it has the same ones, so that equal texts of many rows are kept once.
    package func text(_ column: Int32, like known: String?) -> String {
        guard var known, known.withUTF8({ isEqual(column, UnsafeRawBufferPointer($0)) }) else { return text(column) }
        return known
    }

    /// The bytes of a column; `known` if it has the same ones.
    package func data(_ column: Int32, like known: Data?) -> Data {
        known.flatMap { known in known.withUnsafeBytes { isEqual(column, $0) } ? known : nil } ?? data(column)
    }

    private func isEqual(_ column: Int32, _ known: UnsafeRawBufferPointer) -> Bool {
        guard let bytes = sqlite3_column_blob(handle, column), let address = known.baseAddress else { return false }
        return known.count == Int(sqlite3_column_bytes(handle, column)) && memcmp(bytes, address, known.count) == 0
    }

    package func bytes(_ column: Int32) -> [UInt8] {
        guard let bytes = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(handle, column))))
    }
}
