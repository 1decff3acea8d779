import FoundationEssentials
import HTTPCore
import SQLite

/// Binds the fields of a value straight to the parameters of a statement, without an intermediate value.
///
/// Parameter *n* + 1 belongs to column *n* of the layout. Fields without a column are collected in ``missing``. Without
/// a layout these are all fields, which then become the columns of a new table. A `nil` is not bound and stays NULL.
final class RowEncoder: Encoder {
    private let layout: TableLayout?
    private let statement: SQLiteStatement?
    /// The column tried first: fields usually come in the same order for every value.
    private var next = 0
    /// The fields without a column, and their values.
    private(set) var missing: [(column: Column, value: StoredValue)] = []
    private(set) var hasFields = false
    /// The value that is bound to the column of the primary key.
    private(set) var key = StoredValue.null
    /// A field that the type encodes through a nested container. It is refused, because nothing says when that
    /// container is complete.
    private(set) var nestedField: String?

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(layout: TableLayout? = nil, statement: SQLiteStatement? = nil) {
        self.layout = layout
        self.statement = statement
    }

    /// Prepares for the next value.
    func begin() {
        next = 0
        hasFields = false
        key = .null
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        hasFields = true
        return KeyedEncodingContainer(RowKeyedEncodingContainer<Key>(row: self))
    }

    /// A row needs named fields: what is encoded here is dropped, and ``hasFields`` stays `false`.
    func unkeyedContainer() -> any UnkeyedEncodingContainer { SingleValueEncoder().unkeyedContainer() }
    func singleValueContainer() -> any SingleValueEncodingContainer { SingleValueEncoder() }

    // MARK: Fields

    func refuse(_ name: String) { nestedField = name }

    /// The parameter of a field, 0 when it has none.
    func parameter(_ name: String, _ kind: FieldKind) throws -> Int32 {
        guard let layout else { return 0 }
        let index: Int
        if next < layout.columns.count, layout.columns[next].name == name {
            index = next
        } else if let found = layout.index(of: name) {
            index = found
        } else {
            return 0
        }
        next = index + 1
        let column = layout.columns[index]
        if !column.isOwn { return 0 }
        if column.kind != kind, !column.kind.accepts(kind) { throw RetypedField(column: column, found: kind) }
        return Int32(truncatingIfNeeded: index + 1)
    }

    func note(_ name: String, _ kind: FieldKind, _ value: StoredValue) {
        if let index = missing.firstIndex(where: { $0.column.name == name }) {
            missing[index] = (Column(name: name, kind: kind), value)
        } else {
            missing.append((Column(name: name, kind: kind), value))
        }
    }

    /// Binds a field, or adds it to ``missing``. A `nil` is NULL already.
    func put(_ value: StoredValue, _ kind: FieldKind, _ name: String) throws {
        if value == .null { return }
        let parameter = try parameter(name, kind)
        guard parameter > 0, let layout, let statement else { return note(name, kind, value) }
        if Int(parameter) == layout.key + 1 { key = value }
        let code = statement.bind(parameter, value)
        if code != 0 { throw UnboundField(name: name, code: code) }
    }

    /// Whether the column of a field is JSON, so that encoding it as a single value need not be tried.
    func isNested(_ name: String) -> Bool {
        guard let layout, let index = layout.index(of: name) else { return false }
        return layout.columns[index].kind == .json
    }
}

/// Thrown when the column of a field has another kind than its value.
struct RetypedField: Error {
    let column: Column
    let found: FieldKind
}

/// Thrown when SQLite refuses a value.
struct UnboundField: Error {
    let name: String
    let code: Int32
}

private struct RowKeyedEncodingContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let row: RowEncoder
    var codingPath: [any CodingKey] { [] }

    func encodeNil(forKey key: Key) throws {}
    func encode(_ value: Bool, forKey key: Key) throws {
        try row.put(.integer(value ? 1 : 0), .boolean, key.stringValue)
    }
    func encode(_ value: String, forKey key: Key) throws { try row.put(.text(value), .text, key.stringValue) }
    func encode(_ value: Double, forKey key: Key) throws { try row.put(.real(value), .real, key.stringValue) }
    func encode(_ value: Float, forKey key: Key) throws { try encode(Double(value), forKey: key) }
    func encode(_ value: Int, forKey key: Key) throws { try encode(Int64(value), forKey: key) }
    func encode(_ value: Int64, forKey key: Key) throws { try row.put(.integer(value), .integer, key.stringValue) }
    func encode(_ value: Int32, forKey key: Key) throws { try encode(Int64(value), forKey: key) }

    /// Also encodes the scalars without an overload here.
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        let name = key.stringValue
        if T.self == Date.self, let date = value as? Date {
            return try row.put(.real(date.timeIntervalSinceReferenceDate), .date, name)
        }
        do {
            if row.isNested(name), ColumnCoding.kind(of: T.self) == .any {
                let text = try ColumnCoding.json(value)
                return try row.put(text == "null" ? .null : .text(text), .json, name)
            }
            let (kind, stored) = try ColumnCoding.stored(value)
            try row.put(stored, kind, name)
        } catch let error as EncodingError {
            throw NestedFailure(name: name, reason: error)
        }
    }

    // Nested containers are refused, because nothing says when one is complete.
    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        row.refuse(key.stringValue)
        return SingleValueEncoder().container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        row.refuse(key.stringValue)
        return SingleValueEncoder().unkeyedContainer()
    }

    func superEncoder() -> any Encoder {
        row.refuse("super")
        return SingleValueEncoder()
    }

    func superEncoder(forKey key: Key) -> any Encoder {
        row.refuse(key.stringValue)
        return SingleValueEncoder()
    }
}

/// Thrown when the value of a field cannot be encoded.
struct NestedFailure: Error {
    let name: String
    let reason: EncodingError
}
