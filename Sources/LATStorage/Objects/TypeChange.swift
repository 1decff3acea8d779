import HTTPCore

/// What a type and its table do not agree on.
enum TypeChange {
    /// Fields that no row has, while rows have others that the type does not know: a field was renamed, most likely.
    static func renamed(_ names: [String], _ layout: TableLayout) -> NetworkError {
        func list(_ names: [String]) -> String { names.map { Identifier.shown($0) }.joined(separator: ", ") }
        return .storage(
            .schema, "use \(layout.shown)",
            "the type asks for \(list(names)), which no row has, and does not know \(list(layout.strangers)), which "
                + "rows hold; give the store a Migration that renames or removes it, or the type a storedPrototype")
    }

    static func retyped(_ field: RetypedField, _ layout: TableLayout?) -> NetworkError {
        .storage(
            .schema, "use \(layout?.shown ?? "the table")",
            "the field \(Identifier.shown(field.column.name)) is \(field.found.rawValue) in the type and "
                + "\(field.column.kind.rawValue) in the file; give the store a Migration that changes it")
    }

    /// Refuses names that no column can have.
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
                "a field is called \(TableLayout.ownKey), as the store's own; rename it in CodingKeys")
        }
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
