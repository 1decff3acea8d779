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
            // A column of ids that is no field is what `id` says; there is nothing to try.
            if layout.columns[column].name != first { return place }
            // A row may be missing, or hold a value for which no other is known: then the name is enough.
            guard let partial = path as? PartialKeyPath<Object>, let base = try object(replacing: nil) else {
                return place
            }
            if try follows(partial, place, base) != false { return place }
        }
        guard let partial = path as? PartialKeyPath<Object>, names?.count ?? 1 == 1 else { throw unknown(path) }
        guard let base = try object(replacing: nil) else { throw NoRows() }
        let found = try layout.columns.indices.filter { try reproduces(partial, $0, base) }
        guard found.count == 1 else { throw unknown(path) }
        return ResolvedPlace(column: found[0])
    }

    private func column(_ name: String) -> Int? {
        layout.index(of: name) ?? (name == "id" && layout.hasOwnKey ? layout.key : nil)
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
        var isTried = false
        for other in try others(at: place) {
            guard let changed = try? object(replacing: (place, other)),
                let isEqual = Self.areEqual(base[keyPath: path], changed[keyPath: path])
            else { continue }
            if !isEqual { return true }
            isTried = true
        }
        return isTried ? false : nil
    }

    /// Whether the property is what the column holds, now and with every other value: not something made of it.
    private func reproduces(_ path: PartialKeyPath<Object>, _ column: Int, _ base: Object) throws -> Bool {
        let place = ResolvedPlace(column: column)
        guard try Self.stored(base[keyPath: path]) == stored(place) else { return false }
        var isTried = false
        for other in try others(at: place) {
            guard let changed = try? object(replacing: (place, other)) else { continue }
            guard Self.stored(changed[keyPath: path]) == other else { return false }
            isTried = true
        }
        return isTried
    }

    private static func stored(_ value: Any) -> StoredValue? {
        (value as? any Encodable).flatMap { try? ColumnCoding.stored($0).value }
    }

    private func others(at place: ResolvedPlace) throws -> [StoredValue] {
        guard let old = try stored(place) else { return [] }
        return Self.others(than: old, place.path.isEmpty ? layout.columns[place.column].kind : .any)
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

    /// The first row as a value, with another value at one place; `nil` without rows.
    private func object(replacing change: (place: ResolvedPlace, value: StoredValue)?) throws -> Object? {
        var names = layout.columns.map { Identifier.quoted($0.name) }
        var values: [StoredValue] = []
        if let (place, value) = change {
            if place.path.isEmpty {
                names[place.column] = "?1"
                values = [value]
            } else {
                names[place.column] = "json_set(\(names[place.column]), ?1, ?2)"
                values = [.text(Self.jsonPath(place.path)), value]
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

    /// Other values of the kind, of which a type may not take every one. Chosen so that what is made of a value, in
    /// capitals, trimmed, rounded, without its sign, is not the value.
    private static func others(than old: StoredValue, _ kind: FieldKind) -> [StoredValue] {
        switch (kind, old) {
        case (.json, _), (.any, .null): []
        case (.boolean, .integer(let value)): [.integer(1 - value)]
        case (.boolean, _): [.integer(1), .integer(0)]
        case (.uuid, _):
            [.text("00000000-0000-4000-8000-00000000000A"), .text("00000000-0000-4000-8000-00000000000B")]
                .filter { $0 != old }
        case (.decimal, .text(let value)): [.text((-(Decimal(string: value) ?? 0) - 1.5).description)]
        case (.decimal, _): [.text("-1.5")]
        case (.url, .text(let value)): [.text(value + "xX")]
        case (.url, _): [.text("xX:")]
        case (_, .integer(let value)):
            [.integer(-1 - value), .integer(value == .max ? 0 : value + 1), .integer(1)]
                .filter { $0 != old }
        case (_, .real(let value)): [.real(value.isFinite ? -value * 2 - 1.5 : 0.5)]
        case (_, .text(let value)): [.text(value + " xX "), .text("xX")].filter { $0 != old }
        case (_, .blob(let value)): [.blob(value + [0])]
        case (.integer, .null), (.unsigned, .null): [.integer(-1), .integer(1)]
        case (.real, .null), (.date, .null): [.real(-1.5)]
        case (.text, .null): [.text(" xX ")]
        case (.blob, .null): [.blob(Data([0]))]
        }
    }
}
