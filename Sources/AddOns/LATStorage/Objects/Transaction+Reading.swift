import FoundationEssentials
import HTTPCore
import SQLite

extension Transaction {
    // MARK: One

    func row<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Object?
    where Object.ID: Codable & Sendable {
        try check("fetch \(type)")
        guard let entry = try entry(for: type) else { return nil }
        let layout = entry.layout
        return try connection.use(.fetch, layout) { statement in
            try bind(id, to: statement, layout, .fetch)
            guard try connection.step(statement, layout.operation(.fetch)) else { return nil }
            return try decode(type, RowDecoder(entry, statement), layout)
        }
    }

    private func bind<ID: Encodable>(
        _ id: ID, to statement: SQLiteStatement, _ layout: TableLayout, _ purpose: TableLayout.Purpose
    ) throws {
        try connection.bind(
            ColumnCoding.id(id, layout.operation(purpose)), at: 1, of: statement, layout.operation(purpose))
    }

    private func decode<Object: Storable>(
        _ type: Object.Type, _ decoder: RowDecoder, _ layout: TableLayout
    ) throws -> Object {
        do {
            return try Object(from: decoder)
        } catch let error as DecodingError {
            if case .keyNotFound(let field, let context) = error, context.codingPath.isEmpty,
                layout.index(of: field.stringValue) == nil, !layout.unknownColumns.isEmpty
            {
                throw TypeChange.renamed([field.stringValue], layout)
            }
            let key = "\(decoder.statement.value(Int32(layout.key)))"
            throw NetworkError.storage(
                .value, "read \(type) from \(layout.shown)",
                "in the row with the key \(Identifier.shown(key)), \(error.summary); give the type a storedPrototype "
                    + "for new fields, or the store a Migration")
        }
    }

    // MARK: Many

    func rows<Object: Storable>(_ query: Query<Object>, _ body: (Object) throws -> Void) throws
    where Object.ID: Codable & Sendable {
        var decoder: RowDecoder?
        try run(for: Object.self) { entry, writer in
            try entry.layout.select + writer.sql(query)
        } row: { entry, statement in
            let row = decoder ?? RowDecoder(entry, statement)
            decoder = row
            row.begin()
            try body(self.decode(Object.self, row, entry.layout))
        }
    }

    func rowCount<Object: Storable>(_ query: Query<Object>) throws -> Int where Object.ID: Codable & Sendable {
        var count = 0
        var query = query
        query.order = []
        try run(for: Object.self) { entry, writer in
            try "SELECT count(*) FROM (SELECT 1 FROM \(Identifier.quoted(entry.layout.table))\(writer.sql(query)))"
        } row: { _, row in
            if case .integer(let number) = row.value(0) { count = Int(number) }
        }
        return count
    }

    /// Computes `min`, `max`, `sum` or `avg` of a place over the rows that match a condition.
    ///
    /// - Parameter areNumbers: whether the values are numbers, of which NaN is left out.
    func aggregate<Object: Storable>(
        _ function: String, _ place: Place, _ condition: Condition<Object>, areNumbers: Bool
    ) throws -> StoredValue where Object.ID: Codable & Sendable {
        var result = StoredValue.null
        try values(of: place, through: function, condition, areNumbers: areNumbers) { result = $0 }
        return result
    }

    /// Reads every value of a place one after the other, or an aggregate of them.
    func values<Object: Storable>(
        of place: Place, through function: String = "", _ condition: Condition<Object>, areNumbers: Bool = false,
        _ body: (StoredValue) throws -> Void
    ) throws where Object.ID: Codable & Sendable {
        try run(for: Object.self) { entry, writer in
            let expression = try areNumbers ? writer.number(place) : writer.expression(place)
            let clause = try writer.clause(condition)
            return "SELECT \(function)(\(expression)) FROM \(Identifier.quoted(entry.layout.table))\(clause)"
        } row: { _, row in
            try body(row.value(0))
        }
    }

    // MARK: Conditions

    /// Runs a statement about the table of a type, unless no row can match.
    ///
    /// - Returns: Whether it was run.
    @discardableResult
    private func run<Object: Storable>(
        _ purpose: TableLayout.Purpose = .scan, for type: Object.Type,
        sql: (TypeEntry, inout ConditionWriter) throws -> String,
        row: (TypeEntry, SQLiteStatement) throws -> Void = { _, _ in }
    ) throws -> Bool where Object.ID: Codable & Sendable {
        try check("query \(type)")
        guard let entry = try entry(for: type) else { return false }
        var writer = ConditionWriter(entry: entry) { try self.resolve($0, of: type, entry) }
        do {
            let sql = try sql(entry, &writer)
            try connection.run(sql, writer.values, operation: entry.layout.operation(purpose)) { try row(entry, $0) }
            return true
        } catch is FieldFinder<Object>.NoRows {
            return false
        }
    }

    private func resolve<Object: Storable>(
        _ place: Place, of type: Object.Type, _ entry: TypeEntry
    ) throws -> Field where Object.ID: Codable & Sendable {
        switch place {
        case .field(let field):
            if entry.names.contains(field.name) { return field }
            // Without a row, the known fields of the type may be incomplete.
            let source = SampleSource(row: KnownRow { [:] }, columns: [field.name])
            _ = try? Object(from: SampleDecoder(source: source))
            if source.known.contains(field.name) { return field }
            throw NetworkError.storage(
                .query, "query \(entry.layout.shown)",
                "there is no field \(Identifier.shown(field.name)); the fields are \(entry.shownFields)")
        case .path(let path):
            return try core.field(of: path) {
                let row = firstRow(entry.layout, entry.prototype)
                return try FieldFinder<Object>(entry: entry, row: row).field(of: path)
            }
        }
    }

    func deleteRows<Object: Storable>(_ type: Object.Type, _ condition: Condition<Object>) throws -> Int
    where Object.ID: Codable & Sendable {
        try refuseWhenFailed()
        let isRun = try run(.delete, for: type) { entry, writer in
            try "DELETE FROM \(Identifier.quoted(entry.layout.table))\(writer.clause(condition))"
        }
        let count = isRun ? connection.changeCount : 0
        if count > 0 { noteChange(try core.table(of: type)) }
        return count
    }

    func deleteRow<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool
    where Object.ID: Codable & Sendable {
        try check("delete \(type)")
        try refuseWhenFailed()
        guard let entry = try entry(for: type) else { return false }
        try connection.use(.delete, entry.layout) { statement in
            try bind(id, to: statement, entry.layout, .delete)
            _ = try connection.step(statement, entry.layout.operation(.delete))
        }
        guard connection.changeCount > 0 else { return false }
        noteChange(entry.layout.table)
        return true
    }
}

extension Transaction {
    func extreme<Object: Storable, Value: Decodable>(
        _ function: String, _ place: Place, _ condition: Condition<Object>
    ) throws -> Value? where Object.ID: Codable & Sendable {
        let kind = ColumnCoding.kind(of: Value.self)
        let stored = try aggregate(function, place, condition, areNumbers: kind == .real || kind == .date)
        return stored == .null ? nil : try read(Value.self, stored, Object.self)
    }

    func total<Object: Storable, Value: Codable & Numeric>(
        _ place: Place, _ condition: Condition<Object>
    ) throws -> Value where Object.ID: Codable & Sendable {
        // SQLite would convert decimals and integers above Int64.max to doubles.
        if Value.self == Decimal.self || ColumnCoding.kind(of: Value.self) == .unsigned {
            var sum: Decimal = 0
            try values(of: place, condition) { stored in
                if stored != .null { sum += try read(Decimal.self, stored.asDecimal, Object.self) }
            }
            if let sum = sum as? Value { return sum }
            return try read(Value.self, ColumnCoding.unsigned(UInt64(sum.description) ?? 0, of: sum), Object.self)
        }
        let stored = try aggregate("sum", place, condition, areNumbers: true)
        return stored == .null ? .zero : try read(Value.self, stored, Object.self)
    }

    private func read<Value: Decodable, Object>(
        _ type: Value.Type, _ stored: StoredValue, _ object: Object.Type
    ) throws -> Value {
        do {
            return try ColumnCoding.value(type, from: stored, at: [])
        } catch {
            throw NetworkError.storage(
                .value, "compute a value of \(object)",
                "the result, \(stored.shape), does not fit \(type); the sum may be too large")
        }
    }
}

extension StoredValue {
    /// The number as the text of a decimal.
    fileprivate var asDecimal: StoredValue {
        switch self {
        case .integer(let value): .text(String(value))
        case .real(let value): .text("\(value)")
        default: self
        }
    }
}

extension ColumnCoding {
    /// A sum as it would be stored; `.null` when it does not fit.
    fileprivate static func unsigned(_ value: UInt64, of sum: Decimal) -> StoredValue {
        String(value) == sum.description ? unsigned(value) : .null
    }
}
