import CSQLite
import FoundationEssentials
import HTTPCore

/// Reads the fields of a value straight from the columns of the row a statement is at.
///
/// Column *n* of the statement is column *n* of the layout.
final class RowDecoder: Decoder {
    private let layout: TableLayout
    let statement: OpaquePointer
    private var next = 0
    /// Fields that the type asked for and the layout does not have.
    private(set) var missing: [Column] = []
    /// Names that the type does not know any longer. Looked at once for every layout.
    private(set) var strangers: [String] = []
    private let checksNames: Bool

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(layout: TableLayout, statement: OpaquePointer, checksNames: Bool = false) {
        self.layout = layout
        self.statement = statement
        self.checksNames = checksNames
    }

    /// Ready for the next row.
    func begin() { next = 0 }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        if checksNames { strangers = layout.strangers(to: type) }
        return KeyedDecodingContainer(RowKeyedDecodingContainer<Key>(row: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw notFields() }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw notFields() }

    private func notFields() -> DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: "a stored type is decoded from fields with names"))
    }

    var names: [String] { layout.columns.map(\.name) }

    /// The column of a field, -1 when there is none.
    func column(_ name: String) -> Int32 {
        if next < layout.columns.count, layout.columns[next].name == name {
            next += 1
            return Int32(truncatingIfNeeded: next - 1)
        }
        guard let index = layout.index(of: name) else { return -1 }
        next = index + 1
        return Int32(truncatingIfNeeded: index)
    }

    func note(_ name: String, _ type: Any.Type) {
        guard !missing.contains(where: { $0.name == name }) else { return }
        missing.append(Column(name: name, kind: ColumnCoding.kind(of: type)))
    }

    func value(_ column: Int32) -> StoredValue { column < 0 ? .null : Statement.value(column, of: statement) }

    func isNull(_ column: Int32) -> Bool { column < 0 || sqlite3_column_type(statement, column) == SQLITE_NULL }
}

private struct RowKeyedDecodingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let row: RowDecoder
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { row.names.filter { contains($0) }.compactMap { Key(stringValue: $0) } }

    private func contains(_ name: String) -> Bool { !row.isNull(row.column(name)) }
    func contains(_ key: Key) -> Bool { contains(key.stringValue) }
    func decodeNil(forKey key: Key) -> Bool { row.isNull(row.column(key.stringValue)) }

    /// The column of a field, which must have one.
    private func column(_ key: Key, _ type: Any.Type) throws -> Int32 {
        let name = key.stringValue
        let column = row.column(name)
        guard column < 0 else { return column }
        row.note(name, type)
        throw DecodingError.keyNotFound(key, .init(codingPath: [], debugDescription: "no such field is stored"))
    }

    private func integer<Number: FixedWidthInteger & Decodable>(_ type: Number.Type, _ key: Key) throws -> Number {
        let column = try column(key, type)
        if sqlite3_column_type(row.statement, column) == SQLITE_INTEGER,
            let number = Number(exactly: sqlite3_column_int64(row.statement, column))
        {
            return number
        }
        return try slow(type, column, key)
    }

    private func slow<T: Decodable>(_ type: T.Type, _ column: Int32, _ key: Key) throws -> T {
        let stored = row.value(column)
        if let direct = ColumnCoding.direct(type, from: stored) { return direct }
        if ColumnCoding.kind(of: type) != .any { throw ColumnCoding.mismatch(type, stored, [key]) }
        return try ColumnCoding.value(type, from: stored, at: [key])
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        let column = try column(key, type)
        guard sqlite3_column_type(row.statement, column) == SQLITE_INTEGER else { return try slow(type, column, key) }
        let number = sqlite3_column_int64(row.statement, column)
        guard number == 0 || number == 1 else { throw ColumnCoding.mismatch(type, .integer(number), [key]) }
        return number == 1
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        let column = try column(key, type)
        guard sqlite3_column_type(row.statement, column) == SQLITE_TEXT else { return try slow(type, column, key) }
        return Statement.text(column, of: row.statement)
    }

    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        let column = try column(key, type)
        guard sqlite3_column_type(row.statement, column) == SQLITE_FLOAT else { return try slow(type, column, key) }
        return sqlite3_column_double(row.statement, column)
    }

    func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
        try slow(type, column(key, type), key)
    }

    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try integer(type, key) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try integer(type, key) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try integer(type, key) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try integer(type, key) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try integer(type, key) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try integer(type, key) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try integer(type, key) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try integer(type, key) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try integer(type, key) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try integer(type, key) }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        let column = try column(key, type)
        if T.self == Date.self, sqlite3_column_type(row.statement, column) == SQLITE_FLOAT {
            let date = Date(timeIntervalSinceReferenceDate: sqlite3_column_double(row.statement, column))
            if let date = date as? T { return date }
        }
        return try slow(type, column, key)
    }

    // The same as the defaults, with one look for the column where nothing is stored.
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try present(type, key) }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        isAbsent(type, key) ? nil : try decode(type, forKey: key)
    }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        isAbsent(type, key) ? nil : try decode(type, forKey: key)
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        isAbsent(type, key) ? nil : try decode(type, forKey: key)
    }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? { try present(type, key) }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? { try present(type, key) }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? { try present(type, key) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? { try present(type, key) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try present(type, key) }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? { try present(type, key) }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? { try present(type, key) }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? { try present(type, key) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? { try present(type, key) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? { try present(type, key) }
    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? { try present(type, key) }

    private func present<T: Decodable>(_ type: T.Type, _ key: Key) throws -> T? {
        isAbsent(type, key) ? nil : try decode(type, forKey: key)
    }

    private func isAbsent(_ type: Any.Type, _ key: Key) -> Bool {
        let name = key.stringValue
        let column = row.column(name)
        if column < 0 { row.note(name, type) }
        return row.isNull(column)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { throw handmade(key) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw handmade(key) }
    func superDecoder() throws -> any Decoder {
        throw DecodingError.dataCorrupted(
            .init(codingPath: [], debugDescription: "a stored type cannot have a super decoder; call super.init(from:)")
        )
    }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw handmade(key) }

    private func handmade(_ key: Key) -> DecodingError {
        .dataCorrupted(
            .init(codingPath: [key], debugDescription: "it is laid out by hand; give the field a type of its own"))
    }
}
