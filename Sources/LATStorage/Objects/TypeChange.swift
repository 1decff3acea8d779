import HTTPCore

/// What a type and its table do not agree on.
enum TypeChange {
    static func removed(_ names: [String], _ layout: TableLayout) -> NetworkError {
        let shown = names.map { Identifier.shown($0) }.joined(separator: ", ")
        return .storage(
            .schema, "use \(layout.shown)",
            "the type no longer has \(shown), which rows hold; give the store a Migration that removes or renames it")
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

/// The fields of ``StoredType/storedPrototype``.
struct Prototype {
    let fields: [(column: Column, value: StoredValue)]

    init(of type: Any.Type) throws {
        func encoded<Object: StoredType>(_ type: Object.Type) throws -> [(column: Column, value: StoredValue)] {
            guard let prototype = type.storedPrototype, let value = prototype as? any Encodable else { return [] }
            let encoder = RowEncoder(layout: nil, statement: nil, checksNames: false)
            try value.encode(to: encoder)
            return encoder.missing
        }
        fields = if let type = type as? any StoredType.Type { try encoded(type) } else { [] }
    }
}
