import HTTPCore

/// Options of a stored type. A type can be stored without any of them.
///
/// ```swift
/// struct Item: Codable, Identifiable, StoredType {
///     static let storedName = "shop.item"              // another type is named Item too
///     static let storedPrototype: Item? = Item(id: 0, level: 1)
///     var id: Int
///     var level: Int
/// }
/// ```
public protocol StoredType {
    /// The name of the table. Default: the type's name without its enclosing types, `Item`.
    static var storedName: String { get }
    /// A value whose fields replace missing ones. For a field that is not optional, this applies to every row without a
    /// value; for an optional field, only while the table has no column for it. Default `nil`: a missing optional field
    /// is `nil`, and any other missing field is an error.
    static var storedPrototype: Self? { get }
}

extension StoredType {
    /// The default: the type's name without its enclosing types.
    public static var storedName: String { String(describing: Self.self) }
    /// The default: no prototype.
    public static var storedPrototype: Self? { nil }
}

extension TableLayout {
    /// The prefix of the store's own tables.
    static let ownPrefix = "lat_store_"

    static func table(of type: Any.Type) -> String {
        (type as? any StoredType.Type)?.storedName ?? String(describing: type)
    }
}

/// The fields of ``StoredType/storedPrototype`` that have a value.
struct Prototype: Sendable {
    let columns: [Column]
    let values: [String: StoredValue]

    init(of type: Any.Type) throws {
        func fields<Object: StoredType>(_ type: Object.Type) throws -> [(column: Column, value: StoredValue)] {
            guard let prototype = type.storedPrototype, let value = prototype as? any Encodable else { return [] }
            let encoder = RowEncoder()
            try value.encode(to: encoder)
            return encoder.missing
        }
        let found = try (type as? any StoredType.Type).map { try fields($0) } ?? []
        columns = found.map(\.column)
        values = Dictionary(found.map { ($0.column.name, $0.value) }) { $1 }
    }

    func column(_ name: String) -> Column? { columns.first { $0.name == name } }
}

/// What a store knows about a type. A change of its table makes a new entry.
final class TypeEntry: Sendable {
    let layout: TableLayout
    let prototype: Prototype
    /// SQLite's count of schema changes, read before the layout or in the same write transaction.
    let version: Int64
    /// The fields that the type decodes, and whether each is optional.
    let fields: [String: Bool]
    /// Whether ``fields`` is complete. It may not be if no value of the type could be decoded.
    let isCertain: Bool
    /// Whether every field of the type has a column, so that no change of the schema matters.
    var isComplete: Bool { isCertain && names.count == layout.columns.count }
    /// The names of columns and fields.
    let names: [String]
    /// The columns that the table lacks. Their values come from the prototype.
    let absent: [Column]

    init(_ layout: TableLayout, _ prototype: Prototype, version: Int64, fields: [String: Bool], isCertain: Bool) {
        self.layout = layout
        self.prototype = prototype
        self.version = version
        self.fields = fields
        self.isCertain = isCertain
        names = layout.columns.map(\.name) + fields.keys.filter { layout.index(of: $0) == nil }.sorted()
        absent = prototype.columns.filter { layout.index(of: $0.name) == nil }
    }

    /// Makes the entry by decoding a value from a row.
    convenience init<Object: Decodable>(
        _ type: Object.Type, _ layout: TableLayout, _ prototype: Prototype, version: Int64, row: KnownRow
    ) {
        let source = SampleSource(row: row, columns: layout.columns.map(\.name))
        let isMade = (try? Object(from: SampleDecoder(source: source))) != nil
        self.init(
            layout.owned { source.known.contains($0) || source.fields[$0] != nil }, prototype, version: version,
            fields: source.fields, isCertain: isMade)
    }

    /// Returns the entry for a type that also has these fields.
    func owning(_ names: Set<String>) -> TypeEntry {
        TypeEntry(
            layout.owned { layout.column($0)?.isOwn == true || names.contains($0) }, prototype, version: version,
            fields: fields, isCertain: isCertain)
    }

    /// The prototype's value to use for a field without a value; `nil` to use none.
    func standIn(for name: String, hasColumn: Bool) -> StoredValue? {
        hasColumn && fields[name] != false ? nil : prototype.values[name]
    }

    /// The names of fields for a message.
    var shownFields: String { names.prefix(20).map { Identifier.shown($0) }.joined(separator: ", ") }
}

/// Errors for types that do not fit their table.
enum TypeChange {
    /// The error for fields of the type that no row has, while the rows have fields that the type does not know. Most
    /// likely, a field was renamed.
    static func renamed(_ names: [String], _ layout: TableLayout) -> NetworkError {
        func list(_ names: [String]) -> String { names.map { Identifier.shown($0) }.joined(separator: ", ") }
        return .storage(
            .schema, "use \(layout.shown)",
            "the type reads \(list(names)), which no row has, and does not know \(list(layout.unknownColumns)), which "
                + "rows have; give the store a Migration that renames or removes it, or the type a storedPrototype")
    }

    static func retyped(_ field: RetypedField, _ layout: TableLayout?) -> NetworkError {
        .storage(
            .schema, "use \(layout?.shown ?? "the table")",
            "the field \(Identifier.shown(field.column.name)) is \(field.found.rawValue) in the type and "
                + "\(field.column.kind.rawValue) in the file; give the store a Migration that changes it")
    }

    /// Throws for names that no column can have.
    static func validate(_ names: [String], of table: String) throws {
        let operation = "store the type of \(Identifier.shown(table))"
        for name in names where name.utf8.contains(0) {
            throw NetworkError.storage(
                .schema, operation, "the field \(Identifier.shown(name)) has a NUL in its name; rename it in CodingKeys"
            )
        }
        if names.contains(TableLayout.ownKey) {
            throw NetworkError.storage(
                .schema, operation,
                "the field name \(TableLayout.ownKey) is reserved for the store; rename it in CodingKeys")
        }
    }
}
