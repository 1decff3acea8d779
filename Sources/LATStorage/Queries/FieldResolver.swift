import CSQLite
import FoundationEssentials
import HTTPCore

/// Finds the field that a key path of a plain type leads to.
///
/// Swift tells the name of a stored property (SE-0369), and where a type does not rename its fields that is the field.
/// It is not believed but tried: in a row that is there the field is given another value, and the property must follow.
/// Properties without a name (of classes) or with another one (`CodingKeys`) are found the same way, by giving every
/// field in turn another value. A property that no field, or more than one, decides is an error that says what to
/// write instead; a wrong field is never taken.
struct FieldResolver<Object: Decodable> {
    /// There is no row to try with, and so none that a query could find.
    struct NoRows: Error {}

    let layout: TableLayout
    let connection: Connection

    func resolve(_ path: AnyKeyPath) throws -> ResolvedPlace {
        let names = Self.properties(of: path)
        if let names, let first = names.first, let column = column(first) {
            let place = ResolvedPlace(column: column, path: names.dropFirst().map { .name($0) })
            // A row may be missing, or hold a value for which no other is known: then the name is enough.
            guard let partial = path as? PartialKeyPath<Object>, let base = try object(replacing: nil) else {
                return place
            }
            if try follows(partial, place, base) != false { return place }
        }
        guard let partial = path as? PartialKeyPath<Object>, names?.count ?? 1 == 1 else { throw unknown(path) }
        guard let base = try object(replacing: nil) else { throw NoRows() }
        let found = try layout.columns.indices.filter {
            try follows(partial, ResolvedPlace(column: $0), base) == true && holds(partial, $0, base)
        }
        guard found.count == 1 else { throw unknown(path) }
        return ResolvedPlace(column: found[0])
    }

    private func column(_ name: String) -> Int? {
        layout.index(of: name) ?? (name == "id" ? layout.key : nil)
    }

    private func unknown(_ path: AnyKeyPath) -> NetworkError {
        .storage(
            .query, "query \(layout.shown)",
            "\(path.debugDescription) is no field of its own, or which one cannot be told; write Field(\"name\") with "
                + "one of \(layout.columns.prefix(20).map { Identifier.shown($0.name) }.joined(separator: ", "))")
    }

    /// The names of stored properties on the way, `nil` when there is another step.
    static func properties(of path: AnyKeyPath) -> [String]? {
        let text = path.debugDescription
        let type = "\\" + "\(Object.self)"
        // The type is shown as in source; what follows it are the steps, `.address.city` or `.address?.city?`.
        let short = text.hasPrefix(type + ".") ? text.dropFirst(type.count + 1) : nil
        guard let rest = short ?? text.firstIndex(of: ".").map({ text[text.index(after: $0)...] }) else { return nil }
        if rest.contains("<") || rest.contains("(") { return nil }
        return rest.split(separator: ".", omittingEmptySubsequences: false).map {
            var name = $0
            while let last = name.last, last == "?" || last == "!" { name = name.dropLast() }
            return name.filter { $0 != "`" }
        }
    }

    // MARK: Trying

    /// Whether the property changes with the place; `nil` when that cannot be tried.
    private func follows(
        _ path: PartialKeyPath<Object>, _ place: ResolvedPlace, _ base: Object
    ) throws -> Bool? {
        guard let changed = try? object(replacing: place) else { return nil }
        guard let isEqual = Self.areEqual(base[keyPath: path], changed[keyPath: path]) else { return nil }
        return !isEqual
    }

    /// Whether the property is what the column holds, and not something made of it.
    private func holds(_ path: PartialKeyPath<Object>, _ column: Int, _ base: Object) throws -> Bool {
        guard let value = base[keyPath: path] as? any Encodable, let stored = try? ColumnCoding.stored(value).value
        else { return false }
        return try self.stored(ResolvedPlace(column: column)) == stored
    }

    private static func areEqual(_ first: Any, _ second: Any) -> Bool? {
        func compare<Value: Equatable>(_ value: Value) -> Bool? { (second as? Value).map { $0 == value } }
        guard let first = first as? any Equatable else { return nil }
        return compare(first)
    }

    private var operation: String { "look at a row of \(layout.shown)" }

    /// What the first row holds at a place.
    private func stored(_ place: ResolvedPlace) throws -> StoredValue? {
        let column = Identifier.quoted(layout.columns[place.column].name)
        let sql = place.path.isEmpty ? column : "json_extract(\(column), ?1)"
        let statement = try connection.prepare(
            "SELECT \(sql) FROM \(Identifier.quoted(layout.table)) LIMIT 1", operation: operation, isLasting: false)
        defer { statement.finalize() }
        if !place.path.isEmpty { try statement.bind(.text(Self.jsonPath(place.path)), at: 1, operation) }
        return try statement.step(operation) ? statement.value(0) : nil
    }

    /// The first row as a value, with another value at one place; `nil` without rows, or when none is known.
    private func object(replacing place: ResolvedPlace?) throws -> Object? {
        var names = layout.columns.map { Identifier.quoted($0.name) }
        var values: [StoredValue] = []
        if let place {
            let kind = place.path.isEmpty ? layout.columns[place.column].kind : .any
            guard let old = try stored(place), let other = Self.other(than: old, kind) else { return nil }
            if place.path.isEmpty {
                names[place.column] = "?1"
                values = [other]
            } else {
                names[place.column] = "json_set(\(names[place.column]), ?1, ?2)"
                values = [.text(Self.jsonPath(place.path)), other]
            }
        }
        let statement = try connection.prepare(
            "SELECT \(names.joined(separator: ", ")) FROM \(Identifier.quoted(layout.table)) LIMIT 1",
            operation: operation, isLasting: false)
        defer { statement.finalize() }
        try statement.bind(values, operation)
        guard try statement.step(operation) else { return nil }
        return try Object(from: RowDecoder(layout: layout, statement: statement.pointer))
    }

    /// Names of Swift properties need no escapes in a JSON path.
    private static func jsonPath(_ steps: [Field.Step]) -> String {
        steps.reduce(into: "$") { path, step in
            switch step {
            case .name(let name): path += ".\(name)"
            case .index(let index): path += "[\(index)]"
            }
        }
    }

    /// Another value of the kind.
    private static func other(than old: StoredValue, _ kind: FieldKind) -> StoredValue? {
        switch (kind, old) {
        case (.json, _): nil
        case (.boolean, .integer(let value)): .integer(1 - value)
        case (.boolean, _): .integer(1)
        case (.uuid, .text("00000000-0000-4000-8000-000000000000")): .text("00000000-0000-4000-8000-000000000001")
        case (.uuid, _): .text("00000000-0000-4000-8000-000000000000")
        case (.decimal, .text(let value)): .text(((Decimal(string: value) ?? 0) + 1).description)
        case (_, .integer(let value)): .integer(value == .max || value == 127 || value == 255 ? value - 1 : value + 1)
        case (_, .real(let value)): .real(value.isFinite ? value * 2 + 1 : 0)
        case (_, .text(let value)): .text(value + "x")
        case (_, .blob(let value)): .blob(value + [0])
        case (.integer, .null), (.unsigned, .null): .integer(1)
        case (.real, .null), (.date, .null): .real(1)
        case (.text, .null), (.url, .null): .text("x")
        case (.decimal, .null): .text("1")
        case (.blob, .null): .blob(Data([0]))
        case (.any, .null): nil
        }
    }
}
