import CSQLite
import FoundationEssentials
import HTTPCore
import SQLite

/// Reads the fields of a value straight from the columns of a statement's current row.
///
/// Column *n* of the statement is column *n* of the layout.
final class RowDecoder: Decoder {
    private let entry: TypeEntry
    private let layout: TableLayout
    let statement: SQLiteStatement
    /// The column tried first: fields are usually read in the same order in every row.
    private var next = 0

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(_ entry: TypeEntry, _ statement: SQLiteStatement) {
        self.entry = entry
        layout = entry.layout
        self.statement = statement
    }

    /// Prepares for the next row.
    func begin() { next = 0 }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(RowKeyedDecodingContainer<Key>(row: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw notFields() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw notFields() }

    private func notFields() -> DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: "a stored type must decode named fields"))
    }

    var names: [String] { layout.columns.map(\.name) }

    /// The column of a field, -1 when it has none.
    func column(_ name: String) -> Int32 {
        if next < layout.columns.count, layout.columns[next].name == name {
            next += 1
            return Int32(truncatingIfNeeded: next - 1)
        }
        // `contains` or `decodeNil` has usually just looked up the same field.
        if next > 0, layout.columns[next - 1].name == name { return Int32(truncatingIfNeeded: next - 1) }
        guard let index = layout.index(of: name) else { return -1 }
        next = index + 1
        return Int32(truncatingIfNeeded: index)
    }

    /// The value in a column. If there is none, the value that the type reads in its place.
    func value(_ column: Int32, _ name: String) -> StoredValue? {
        let stored = column < 0 ? .null : statement.value(column)
        if stored != .null { return stored }
        return entry.prototype.values[name] ?? (column < 0 ? nil : .null)
    }

    /// Whether a column holds JSON.
    func isNested(_ column: Int32) -> Bool { column >= 0 && layout.columns[Int(column)].kind == .json }

    func isNull(_ name: String) -> Bool {
        let column = column(name)
        return column < 0
            ? entry.prototype.values[name] == nil : statement.isNull(column)
    }
}

private struct RowKeyedDecodingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let row: RowDecoder
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { row.names.filter { !row.isNull($0) }.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { !row.isNull(key.stringValue) }
    func decodeNil(forKey key: Key) -> Bool { row.isNull(key.stringValue) }

    /// Reads a value that the functions below do not convert themselves. A field without a column, which is column -1,
    /// comes here too, because SQLite returns NULL for it.
    private func slow<T: Decodable>(_ type: T.Type, _ column: Int32, _ key: Key) throws -> T {
        guard let stored = row.value(column, key.stringValue) else {
            throw DecodingError.keyNotFound(key, .init(codingPath: [], debugDescription: "no such field is stored"))
        }
        if let direct = ColumnCoding.direct(type, from: stored) { return direct }
        if ColumnCoding.kind(of: type) != .any { throw ColumnCoding.mismatch(type, stored, [key]) }
        // A type that first tries to be a text would take the JSON for one.
        if case .text(let text) = stored, row.isNested(column), row.statement.type(column) == SQLITE_TEXT {
            return try ColumnCoding.nested(type, from: text, at: [key])
        }
        return try ColumnCoding.value(type, from: stored, at: [key])
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        let column = row.column(key.stringValue)
        guard row.statement.type(column) == SQLITE_INTEGER else { return try slow(type, column, key) }
        let number = row.statement.integer(column)
        guard number == 0 || number == 1 else { throw ColumnCoding.mismatch(type, .integer(number), [key]) }
        return number == 1
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        let column = row.column(key.stringValue)
        guard row.statement.type(column) == SQLITE_TEXT else { return try slow(type, column, key) }
        return row.statement.text(column)
    }

    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        let column = row.column(key.stringValue)
        guard row.statement.type(column) == SQLITE_FLOAT else { return try slow(type, column, key) }
        return row.statement.real(column)
    }

    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try integer(type, key) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try integer(type, key) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try integer(type, key) }

    private func integer<Number: FixedWidthInteger & Decodable>(_ type: Number.Type, _ key: Key) throws -> Number {
        let column = row.column(key.stringValue)
        guard row.statement.type(column) == SQLITE_INTEGER,
            let number = Number(exactly: row.statement.integer(column))
        else { return try slow(type, column, key) }
        return number
    }

    /// Also decodes the scalars without an overload here.
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        let column = row.column(key.stringValue)
        if T.self == Date.self, row.statement.type(column) == SQLITE_FLOAT {
            let date = Date(timeIntervalSinceReferenceDate: row.statement.real(column))
            if let date = date as? T { return date }
        }
        return try slow(type, column, key)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { throw nestedField(key) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw nestedField(key) }
    func superDecoder() throws -> any Decoder {
        throw DecodingError.dataCorrupted(
            .init(codingPath: [], debugDescription: "a stored type cannot use a super decoder; call super.init(from:)")
        )
    }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw nestedField(key) }

    private func nestedField(_ key: Key) -> DecodingError {
        .dataCorrupted(
            .init(codingPath: [key], debugDescription: "it uses a nested container; give the field a type of its own"))
    }
}
