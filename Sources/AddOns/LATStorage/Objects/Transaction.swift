import CSQLite
import FoundationEssentials
import HTTPCore
import SQLite

/// A transaction of an ``ObjectStore``: several changes of which all are kept, or none.
///
/// ```swift
/// try store.transaction { transaction in
///     try transaction.upsert(order)
///     try? transaction.transaction { inner in             // when it throws, only its changes are undone
///         try inner.delete(Draft.self, id: 3)
///     }
/// }
/// ```
///
/// The transaction ends with the closure; later calls throw ``StorageFailure/Reason/closed``. Use it only on the thread
/// that runs the closure.
public final class Transaction: ObjectAccess {
    let core: StoreCore
    let connection: SQLiteConnection
    let isWriting: Bool
    /// The tables that were written to.
    private(set) var changed: Set<String> = []
    /// What this transaction learned about types. Other transactions may rely on it only after the commit.
    private(set) var pending: [ObjectIdentifier: TypeEntry] = [:]
    private var depth = 0
    private var isOver = false

    init(core: StoreCore, connection: SQLiteConnection, isWriting: Bool) {
        self.core = core
        self.connection = connection
        self.isWriting = isWriting
    }

    func end() { isOver = true }

    func check(_ operation: String) throws {
        if isOver || connection.handle == nil {
            throw NetworkError.storage(.closed, operation, "the transaction has ended, or its store is closed")
        }
    }

    /// Throws when the transaction is read-only, or was rolled back by an earlier error.
    func refuseWhenFailed() throws {
        guard isWriting else {
            throw NetworkError.storage(
                .readOnly, "write in a snapshot", "a snapshot is read-only; use ObjectStore.transaction(_:)")
        }
        guard !connection.isInTransaction else { return }
        throw NetworkError.storage(
            .closed, "continue the transaction",
            "an earlier error rolled it back, or the store is closed; let that error end the transaction")
    }

    func noteChange(_ table: String) { changed.insert(table) }

    /// Runs changes that are undone together when the body throws, while earlier changes stay (`SAVEPOINT`).
    ///
    /// - Throws: what the body throws; `NetworkError` of kind `NetworkError.Kind.storage`.
    @discardableResult
    public func transaction<Result>(_ body: (Transaction) throws -> Result) throws -> Result {
        try check("begin an inner transaction")
        try refuseWhenFailed()
        depth += 1
        defer { depth -= 1 }
        let name = "lat_\(depth)"
        let (changedBefore, pendingBefore) = (changed, pending)
        try connection.execute("SAVEPOINT \(name)", operation: "begin an inner transaction")
        do {
            let result = try body(self)
            try refuseWhenFailed()
            try connection.execute("RELEASE \(name)", operation: "end an inner transaction")
            return result
        } catch {
            if connection.isInTransaction {
                try? connection.execute("ROLLBACK TO \(name); RELEASE \(name)", operation: "roll back")
            }
            (changed, pending) = (changedBefore, pendingBefore)
            throw error
        }
    }

    /// Runs a body with this transaction.
    public func access<Result>(isWriting: Bool, _ body: (Transaction) throws -> Result) throws -> Result {
        try body(self)
    }

    // MARK: What is known of a type

    /// The entry of the type, `nil` when it has no table yet. This changes nothing in the file.
    func entry<Object: Storable>(for type: Object.Type) throws -> TypeEntry? {
        let identifier = ObjectIdentifier(type)
        if let entry = pending[identifier], entry.isCertain { return entry }
        let known = core.entry(of: identifier)
        // The known layout may be newer than a snapshot, and what is written must fit the table as it is now.
        let isInTransaction = connection.isInTransaction
        if let known, known.isComplete, !isInTransaction { return known }
        let version = try connection.schemaVersion()
        if let known, known.isCertain, known.version == version { return known }
        guard let layout = try TableLayout.read(core.table(of: type), from: connection) else { return nil }
        let prototype = try known?.prototype ?? Prototype(of: type)
        let entry = TypeEntry(type, layout, prototype, version: version, row: firstRow(layout, prototype))
        if isInTransaction { pending[identifier] = entry } else { core.keep(entry, for: identifier) }
        return entry
    }

    /// The first row. A field without a value has the value of the prototype.
    func firstRow(_ layout: TableLayout, _ prototype: Prototype) -> KnownRow {
        KnownRow { [connection] in
            var values = prototype.values
            let operation = "read a row of \(layout.shown)"
            try? connection.run(layout.select + " LIMIT 1", operation: operation) { statement in
                for (index, column) in layout.columns.enumerated() {
                    let value = statement.value(Int32(index))
                    if value != .null || values[column.name] == nil { values[column.name] = value }
                }
            }
            return values
        }
    }

    /// Adds the columns that a value needs, or uses existing ones that were not known to be fields of the type.
    private func widened<Object: Storable>(
        _ type: Object.Type, _ entry: TypeEntry, for columns: [Column]
    ) throws -> TypeEntry {
        let needed = entry.absent + columns.filter { entry.prototype.values[$0.name] == nil }
        guard needed.contains(where: { entry.layout.index(of: $0.name) == nil }) else {
            return entry.owning(Set(needed.map(\.name)))
        }
        let table = entry.layout.table
        // Another process may have added them first.
        let known = try TableLayout.read(table, from: connection)
        let missing = needed.filter { known?.index(of: $0.name) == nil }
        try TypeChange.validate(missing.map(\.name), of: table)
        let required = missing.map(\.name).filter { entry.fields[$0] == false && entry.prototype.values[$0] == nil }
        if !required.isEmpty, !entry.layout.unknownColumns.isEmpty, try hasRows(entry.layout) {
            throw TypeChange.renamed(required, entry.layout)
        }
        try TableLayout.add(missing, to: table, on: connection)
        for column in missing {
            guard let value = entry.prototype.values[column.name] else { continue }
            try connection.run(
                "UPDATE \(Identifier.quoted(table)) SET \(Identifier.quoted(column.name)) = ?1", [value],
                operation: "fill the field \(Identifier.shown(column.name)) of \(Identifier.shown(table))")
        }
        guard let layout = try TableLayout.read(table, from: connection) else {
            throw NetworkError.storage(
                .schema, "add fields to \(Identifier.shown(table))", "the table no longer exists; try again")
        }
        return try TypeEntry(
            type, layout, entry.prototype, version: connection.schemaVersion(),
            row: firstRow(layout, entry.prototype))
    }

    private func hasRows(_ layout: TableLayout) throws -> Bool {
        try connection.scalar(
            "SELECT EXISTS (SELECT 1 FROM \(Identifier.quoted(layout.table)))",
            operation: "look for rows of \(layout.shown)") > 0
    }

    // MARK: Writing rows

    func write<Object: Storable>(_ purpose: TableLayout.Purpose, _ values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        let type = Object.self
        try check("\(purpose) \(type)")
        try refuseWhenFailed()
        var current = try entry(for: type)
        // Rows before one that fails stay when the app goes on with the transaction.
        defer { if let current { noteChange(current.layout.table) } }
        var values = values.makeIterator()
        var next = values.next()
        while let first = next {
            guard let entry = current else {
                current = try makeTable(for: first)
                continue
            }
            // Ends at the first value with fields that have no column.
            let missing = try connection.use(purpose, entry.layout) { statement -> [Column] in
                let encoder = RowEncoder(layout: entry.layout, statement: statement)
                while let value = next {
                    encoder.begin()
                    try encode(value, by: encoder, entry.layout)
                    guard encoder.missing.isEmpty, entry.absent.isEmpty else { return encoder.missing.map(\.column) }
                    try execute(purpose, value, encoder.key, statement, entry.layout)
                    next = values.next()
                }
                return []
            }
            guard next != nil else { return }
            current = try widened(type, entry, for: missing)
            pending[ObjectIdentifier(type)] = current
        }
    }

    private func encode<Object: Storable>(
        _ value: Object, by encoder: RowEncoder, _ layout: TableLayout?
    ) throws {
        let table = try layout?.shown ?? Identifier.shown(core.table(of: Object.self))
        let operation = "store \(Object.self) in \(table)"
        do {
            try value.encode(to: encoder)
        } catch let error as RetypedField {
            throw TypeChange.retyped(error, layout)
        } catch let error as UnboundField {
            throw connection.failure(
                connection.error(error.code, operation), operation + ", field \(Identifier.shown(error.name))")
        } catch let error as NestedFailure {
            throw NetworkError.storage(
                .value, operation, "field \(Identifier.shown(error.name)) cannot be stored: \(error.reason.summary)")
        } catch let error as EncodingError {
            throw NetworkError.storage(.value, operation, "the value cannot be encoded: \(error.summary)")
        }
        if let name = encoder.nestedField {
            throw NetworkError.storage(
                .value, operation,
                "the field \(Identifier.shown(name)) encodes through nestedContainer or superEncoder; "
                    + "give it a type of its own")
        }
        if !encoder.hasFields {
            throw NetworkError.storage(
                .value, operation, "it encodes no named fields; wrap it in a struct that does")
        }
    }

    /// Makes the table from the fields of the first value.
    private func makeTable<Object: Storable>(for value: Object) throws -> TypeEntry where Object.ID: Encodable {
        let table = try core.table(of: Object.self)
        let encoder = RowEncoder()
        try encode(value, by: encoder, nil)
        let id = try id(of: value, "store \(Object.self) in \(Identifier.shown(table))")
        try TypeChange.validate(encoder.missing.map(\.column.name), of: table)
        var columns = encoder.missing.map(\.column)
        var key = encoder.missing.firstIndex { $0.column.name == "id" && $0.value == id }
        if key == nil {
            columns.insert(Column(name: TableLayout.ownKey, kind: try ColumnCoding.stored(value.id).kind), at: 0)
            key = 0
        }
        let layout = TableLayout(table: table, columns: columns, key: key ?? 0)
        try layout.create(on: connection)
        let row = Dictionary(encoder.missing.map { ($0.column.name, $0.value) }) { $1 }
        let entry = try TypeEntry(
            Object.self, layout, Prototype(of: Object.self), version: connection.schemaVersion(), row: KnownRow { row })
        pending[ObjectIdentifier(Object.self)] = entry
        return entry
    }

    private func id<Object: Storable>(
        of value: Object, _ operation: @autoclosure () -> String
    ) throws -> StoredValue where Object.ID: Encodable {
        let id = try ColumnCoding.id(value.id, operation())
        if id == .null { throw NetworkError.storage(.value, operation(), "the id of the value is nil; give it one") }
        return id
    }

    private func execute<Object: Storable>(
        _ purpose: TableLayout.Purpose, _ value: Object, _ key: StoredValue, _ statement: SQLiteStatement,
        _ layout: TableLayout
    ) throws where Object.ID: Encodable {
        let id = try id(of: value, layout.operation(purpose))
        if layout.hasOwnKey {
            try connection.bind(id, at: layout.key + 1, of: statement, layout.operation(purpose))
        } else if key != id {
            // SQLite would make up a number for a missing one, and another value's row may have this one.
            throw NetworkError.storage(
                .value, layout.operation(purpose),
                "the key of the table is the field \(Identifier.shown(layout.columns[layout.key].name)), which has not "
                    + "the id of the value; encode the id under this name, or give the type another storedName")
        }
        do {
            _ = try connection.step(statement, layout.operation(purpose))
            statement.reset()
        } catch let error as NetworkError {
            guard let code = error.storageFailure?.code, code & 0xFF == Int(SQLITE_CONSTRAINT) else { throw error }
            throw NetworkError.storage(
                .duplicate, layout.operation(purpose),
                "a value with the id \(Identifier.shown("\(value.id)")) exists; use upsert to replace it",
                code: Int32(code), sql: statement.sql)
        }
        if purpose == .update, connection.changeCount == 0 {
            throw NetworkError.storage(
                .missing, layout.operation(purpose),
                "no value has the id \(Identifier.shown("\(value.id)")); use upsert to insert it", sql: statement.sql)
        }
    }
}
