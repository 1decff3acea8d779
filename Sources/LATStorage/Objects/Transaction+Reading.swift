import CSQLite
import FoundationEssentials
import HTTPCore

extension Transaction {
    // MARK: One

    /// See ``ObjectStore/fetch(_:id:)``.
    public func fetch<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Object?
    where Object.ID: Codable & Sendable {
        try check("fetch \(type)")
        guard let entry = try entry(for: type) else { return nil }
        let layout = entry.layout
        let statement = try connection.statement(.fetch, layout)
        defer { statement.reset() }
        try bind(id, to: statement, layout, .fetch)
        guard try statement.step(layout.operation(.fetch)) else { return nil }
        return try decode(type, RowDecoder(entry, statement), layout)
    }

    private func bind<ID: Encodable>(
        _ id: ID, to statement: Statement, _ layout: TableLayout, _ purpose: Connection.Purpose
    ) throws {
        if ID.self == Int.self, let number = id as? Int {
            return try statement.check(
                sqlite3_bind_int64(statement.pointer, 1, Int64(number)), layout.operation(purpose))
        }
        try statement.bind(ColumnCoding.stored(id).value, at: 1, layout.operation(purpose))
    }

    private func decode<Object: Storable>(
        _ type: Object.Type, _ decoder: RowDecoder, _ layout: TableLayout
    ) throws -> Object {
        do {
            return try Object(from: decoder)
        } catch let error as DecodingError {
            if case .keyNotFound(let field, let context) = error, context.codingPath.isEmpty,
                layout.index(of: field.stringValue) == nil, !layout.strangers.isEmpty
            {
                throw TypeChange.renamed([field.stringValue], layout)
            }
            let key = "\(Statement.value(Int32(layout.key), of: decoder.statement))"
            throw NetworkError.storage(
                .value, "read \(type) from \(layout.shown)",
                "in the row with the key \(Identifier.shown(key)), \(error.summary); give the type a storedPrototype "
                    + "for new fields, or the store a Migration")
        }
    }

    // MARK: Many

    /// See ``ObjectStore/fetch(_:where:sortedBy:limit:offset:)``.
    public func fetch<Object: Storable>(
        _ type: Object.Type, where condition: Condition<Object> = .all, sortedBy order: [Sorting<Object>] = [],
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Object] where Object.ID: Codable & Sendable {
        try fetch(Query(where: condition, sortedBy: order, limit: limit, offset: offset))
    }

    /// See ``ObjectStore/fetch(_:)``.
    public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object]
    where Object.ID: Codable & Sendable {
        var objects: [Object] = []
        try forEach(query) { objects.append($0) }
        return objects
    }

    /// See ``ObjectStore/forEach(_:_:)``.
    public func forEach<Object: Storable>(_ query: Query<Object>, _ body: (Object) throws -> Void) throws
    where Object.ID: Codable & Sendable {
        try select(of: Object.self) { entry, writer in
            let layout = entry.layout
            let sql = try layout.select + writer.sql(query)
            // Not one of the kept: the body may ask the same again.
            let statement = try self.connection.prepare(sql, operation: layout.operation(.scan), isLasting: false)
            defer { statement.finalize() }
            try statement.bind(writer.values, layout.operation(.scan))
            let decoder = RowDecoder(entry, statement)
            while try statement.step(layout.operation(.scan)) {
                decoder.begin()
                try body(self.decode(Object.self, decoder, layout))
            }
        }
    }

    /// See ``ObjectStore/count(_:where:)``.
    public func count<Object: Storable>(_ type: Object.Type, where condition: Condition<Object> = .all) throws -> Int
    where Object.ID: Codable & Sendable {
        try count(Query(where: condition))
    }

    /// See ``ObjectStore/count(_:)``.
    public func count<Object: Storable>(_ query: Query<Object>) throws -> Int where Object.ID: Codable & Sendable {
        var count = 0
        var query = query
        query.order = []
        try select(of: Object.self) { entry, writer in
            let rows = "SELECT 1 FROM \(Identifier.quoted(entry.layout.table))\(try writer.sql(query))"
            let value = try self.value("SELECT count(*) FROM (\(rows))", writer.values, entry.layout)
            if case .integer(let number) = value { count = Int(number) }
        }
        return count
    }

    // MARK: Aggregates

    /// One number of all rows: `min`, `max`, `sum` or `avg` of a place.
    func aggregate<Object: Storable>(
        _ function: String, _ place: Place, _ condition: Condition<Object>
    ) throws -> StoredValue where Object.ID: Codable & Sendable {
        var result = StoredValue.null
        try select(of: Object.self) { entry, writer in
            let expression = try writer.expression(place)
            let clause = try writer.clause(condition)
            let sql = "SELECT \(function)(\(expression)) FROM \(Identifier.quoted(entry.layout.table))\(clause)"
            result = try self.value(sql, writer.values, entry.layout)
        }
        return result
    }

    /// Every value of a place, one after the other.
    func values<Object: Storable>(
        of place: Place, _ condition: Condition<Object>, _ body: (StoredValue) throws -> Void
    ) throws where Object.ID: Codable & Sendable {
        try select(of: Object.self) { entry, writer in
            let layout = entry.layout
            let expression = try writer.expression(place)
            let sql = "SELECT \(expression) FROM \(Identifier.quoted(layout.table))\(try writer.clause(condition))"
            let statement = try self.connection.prepare(sql, operation: layout.operation(.scan), isLasting: false)
            defer { statement.finalize() }
            try statement.bind(writer.values, layout.operation(.scan))
            while try statement.step(layout.operation(.scan)) { try body(statement.value(0)) }
        }
    }

    private func value(_ sql: String, _ values: [StoredValue], _ layout: TableLayout) throws -> StoredValue {
        let statement = try connection.statement(sql, operation: layout.operation(.scan))
        defer { statement.reset() }
        try statement.bind(values, layout.operation(.scan))
        return try statement.step(layout.operation(.scan)) ? statement.value(0) : .null
    }

    // MARK: Conditions

    /// Runs a body with what it needs to write a statement. Not at all where no row can be meant.
    private func select<Object: Storable>(
        of type: Object.Type, _ body: (TypeEntry, inout ConditionWriter) throws -> Void
    ) throws where Object.ID: Codable & Sendable {
        try check("query \(type)")
        guard let entry = try entry(for: type) else { return }
        var writer = ConditionWriter(entry: entry) { try self.resolve($0, of: type, entry) }
        do {
            try body(entry, &writer)
        } catch is FieldFinder<Object>.NoRows {
        }
    }

    private func resolve<Object: Storable>(
        _ place: Place, of type: Object.Type, _ entry: TypeEntry
    ) throws -> Field where Object.ID: Codable & Sendable {
        switch place {
        case .field(let field):
            if entry.layout.index(of: field.name) != nil || entry.fields[field.name] != nil { return field }
            throw NetworkError.storage(
                .query, "query \(entry.layout.shown)",
                "there is no field \(Identifier.shown(field.name)); there are \(entry.shownFields)")
        case .path(let path):
            return try core.field(of: path) {
                guard let path = path as? PartialKeyPath<Object> else { throw FieldFinder<Object>.NoRows() }
                return try FieldFinder<Object>(entry: entry, row: firstRow(entry.layout, entry.prototype))
                    .field(of: path)
            }
        }
    }

    /// Deletes what a condition means.
    func deleteRows<Object: Storable>(_ type: Object.Type, _ condition: Condition<Object>) throws -> Int
    where Object.ID: Codable & Sendable {
        var count = 0
        try refuseWhenFailed()
        try select(of: type) { entry, writer in
            let layout = entry.layout
            let sql = "DELETE FROM \(Identifier.quoted(layout.table))\(try writer.clause(condition))"
            let statement = try self.connection.statement(sql, operation: layout.operation(.delete))
            defer { statement.reset() }
            try statement.bind(writer.values, layout.operation(.delete))
            _ = try statement.step(layout.operation(.delete))
            count = self.connection.changes
            if count > 0 { self.noteChange(layout.table) }
        }
        return count
    }

    func deleteRow<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool
    where Object.ID: Codable & Sendable {
        try check("delete \(type)")
        try refuseWhenFailed()
        guard let entry = try entry(for: type) else { return false }
        let statement = try connection.statement(.delete, entry.layout)
        defer { statement.reset() }
        try bind(id, to: statement, entry.layout, .delete)
        _ = try statement.step(entry.layout.operation(.delete))
        guard connection.changes > 0 else { return false }
        noteChange(entry.layout.table)
        return true
    }
}
