import HTTPCore

/// Writes conditions as SQL. Names are quoted, and values are always bound.
struct ConditionWriter {
    let entry: TypeEntry
    /// Returns the field of a place.
    let resolve: (Place) throws -> Field
    private(set) var values: [StoredValue] = []

    /// A longer list of integers or texts is bound as one JSON array, because SQLite allows 32,766 parameters.
    private static let listLimit = 500

    private var layout: TableLayout { entry.layout }

    init(entry: TypeEntry, resolve: @escaping (Place) throws -> Field) {
        self.entry = entry
        self.resolve = resolve
    }

    mutating func sql<Object>(_ query: Query<Object>) throws -> String {
        var sql = try clause(query.condition)
        let order = try query.order.map { try expression($0.place) + ($0.isAscending ? " ASC" : " DESC") }
        if !order.isEmpty { sql += " ORDER BY " + order.joined(separator: ", ") }
        if query.limit != nil || query.offset > 0 {
            // In SQLite a negative limit means none.
            sql += " LIMIT \(parameter(.integer(Int64(query.limit.map { max(0, $0) } ?? -1))))"
            sql += " OFFSET \(parameter(.integer(Int64(max(0, query.offset)))))"
        }
        return sql
    }

    /// ` WHERE` and the condition; empty when every value matches.
    mutating func clause<Object>(_ condition: Condition<Object>) throws -> String {
        if case .always = condition.node { return "" }
        return try " WHERE " + write(condition.node)
    }

    /// The SQL of a field, or of a place inside it.
    mutating func expression(_ place: Place) throws -> String { try expression(resolve(place)) }

    /// The SQL of a number, which is `NULL` for NaN. NaN is stored as a text, and in JSON the infinite numbers are too.
    mutating func number(_ place: Place) throws -> String { try number(resolve(place)) }

    private mutating func number(_ place: Field) throws -> String {
        let sql = try expression(place)
        return place.path.isEmpty
            ? "nullif(\(sql), 'NaN')"
            : "CASE \(sql) WHEN 'NaN' THEN NULL WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999 ELSE \(sql) END"
    }

    private func mayBeNaN(_ name: String) -> Bool {
        switch layout.column(name)?.kind {
        case .real?, .date?, .any?, nil: true
        default: false
        }
    }

    private mutating func expression(_ place: Field) throws -> String {
        var (expression, kind) = column(place.name)
        if place.path.isEmpty { return expression }
        guard kind == .json || kind == .any else {
            throw NetworkError.storage(
                .query, "query \(layout.shown)",
                "the field \(Identifier.shown(place.name)) is a single value; leave out the path into it")
        }
        if let path = Self.jsonPath(place.path) { return "json_extract(\(expression), \(parameter(.text(path))))" }
        // JSON paths cannot express every name, but a bound value can.
        for step in place.path {
            let key: StoredValue =
                switch step {
                case .name(let name): .text(name)
                case .index(let index): .integer(Int64(index))
                }
            expression = "(SELECT value FROM json_each(\(expression)) WHERE key = \(parameter(key)))"
        }
        return expression
    }

    /// The SQL of a column. A missing value or column is replaced by the value that the type reads in its place.
    private mutating func column(_ name: String) -> (sql: String, kind: FieldKind) {
        let column = layout.column(name) ?? entry.prototype.column(name)
        guard let kind = column?.kind else { return ("NULL", .any) }
        let quoted = layout.index(of: name) == nil ? nil : Identifier.quoted(name)
        guard let standIn = entry.standIn(for: name, hasColumn: quoted != nil) else { return (quoted ?? "NULL", kind) }
        let sql = quoted.map { "coalesce(\($0), \(parameter(standIn)))" } ?? parameter(standIn)
        // The collation of a column does not apply to an expression, so it is written out.
        return (kind == .decimal ? "(\(sql) COLLATE \(DecimalOrder.name))" : sql, kind)
    }

    /// A path such as `$.address.lines[0]`; `nil` when a name has other characters than letters, digits and `_`.
    private static func jsonPath(_ steps: [Field.Step]) -> String? {
        var path = "$"
        for step in steps {
            switch step {
            case .index(let index) where index >= 0: path += "[\(index)]"
            case .name(let name) where !name.isEmpty && name.utf8.allSatisfy(isPlain): path += "." + name
            default: return nil
            }
        }
        return path
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private mutating func parameter(_ value: StoredValue) -> String {
        values.append(value)
        return "?\(values.count)"
    }

    private mutating func write<Object>(_ node: Condition<Object>.Node) throws -> String {
        switch node {
        case .always: return "1"
        case .tooDeep:
            throw NetworkError.storage(
                .query, "query \(layout.shown)",
                "more than 1000 conditions are within each other; use .in for a list of values, or several queries")
        case .compare(let place, let comparison, let operand):
            let place = try resolve(place)
            let compared = try stored(operand, at: place)
            guard let number = compared.number else {
                return "\(try expression(place)) \(comparison.rawValue) \(try self.operand(operand, at: place))"
            }
            if number.isNaN { return comparison == .unequal ? "1" : "0" }
            guard place.path.isEmpty else {
                let right = try number.isFinite ? self.operand(operand, at: place) : parameter(compared)
                return "\(try self.number(place)) \(comparison.rawValue) \(right)"
            }
            let left = try expression(place)
            let test = "\(left) \(comparison.rawValue) \(parameter(compared))"
            // SQLite sorts the text of NaN above all numbers.
            guard comparison == .greater || comparison == .atLeast, mayBeNaN(place.name) else { return test }
            return "(\(test) AND \(left) <> 'NaN')"
        case .like(let place, let pattern):
            return "\(try expression(place)) LIKE \(parameter(.text(pattern))) ESCAPE '\\'"
        case .isNil(let place): return "\(try expression(place)) IS NULL"
        case .in(let place, let operands): return try isIn(place, operands)
        case .and, .or: return try "(\(chain(node, in: node)))"
        // An SQL condition may be NULL, such as `NULL < 1`. That counts as false, so its negation holds.
        case .not(let node): return "((\(try write(node))) IS NOT TRUE)"
        }
    }

    /// A chain of one operator has no parentheses inside: SQLite's parser accepts less than a hundred within each other.
    private mutating func chain<Object>(
        _ node: Condition<Object>.Node, in whole: Condition<Object>.Node
    ) throws -> String {
        switch (whole, node) {
        case (.and, .and(let left, let right)): try chain(left, in: whole) + " AND " + chain(right, in: whole)
        case (.or, .or(let left, let right)): try chain(left, in: whole) + " OR " + chain(right, in: whole)
        default: try write(node)
        }
    }

    private mutating func operand(_ operand: Operand, at place: Field) throws -> String {
        if place.path.isEmpty {
            return parameter(try stored(operand, at: place))
        }
        // The value is encoded as JSON and extracted again, like the stored value that it is compared with.
        return "json_extract(\(parameter(.text(try encoding { try operand.json() }))), '$')"
    }

    private func stored(_ operand: Operand, at place: Field) throws -> StoredValue {
        let stored = try encoding { try operand.stored() }
        // A JSON column may hold a single value too. It is compared as JSON.
        let isJSON = place.path.isEmpty && layout.column(place.name)?.kind == .json && stored != .null
        return isJSON ? .text(try encoding { try operand.json() }) : stored
    }

    private func encoding<Value>(_ work: () throws -> Value) throws -> Value {
        do { return try work() } catch let error as EncodingError {
            throw NetworkError.storage(
                .query, "query \(layout.shown)", "a value to compare with cannot be encoded: \(error.summary)")
        }
    }

    private mutating func isIn(_ place: Place, _ operands: [Operand]) throws -> String {
        let place = try resolve(place)
        let stored = try operands.map { try self.stored($0, at: place) }
        let hasNil = stored.contains(.null)
        let present = operands.indices.filter { stored[$0] != .null && stored[$0].number?.isNaN != true }
        var parts: [String] = []
        if place.path.isEmpty, present.count > Self.listLimit, let list = Self.list(present.map { stored[$0] }) {
            parts.append("\(try expression(place)) IN (SELECT value FROM json_each(\(parameter(.text(list)))))")
        } else if !present.isEmpty {
            let left = try expression(place)
            let list = try present.map { try operand(operands[$0], at: place) }
            parts.append("\(left) IN (\(list.joined(separator: ", ")))")
        }
        if hasNil { parts.append("\(try expression(place)) IS NULL") }
        return parts.isEmpty ? "0" : "(\(parts.joined(separator: " OR ")))"
    }

    /// The integers or texts as one JSON array. `nil` for other values, which JSON would round or refuse.
    private static func list(_ values: [StoredValue]) -> String? {
        let integers = values.compactMap { if case .integer(let value) = $0 { value } else { nil } }
        if integers.count == values.count { return try? ColumnCoding.json(integers) }
        let texts = values.compactMap(\.text)
        return texts.count == values.count ? try? ColumnCoding.json(texts) : nil
    }
}

extension StoredValue {
    fileprivate var number: Double? {
        switch self {
        case .real(let value): value
        case .integer(let value): Double(value)
        case .null, .text, .blob: nil
        }
    }
}
