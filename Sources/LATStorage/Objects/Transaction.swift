import CSQLite
import FoundationEssentials
import HTTPCore

/// Several changes that are kept together or not at all.
///
/// ```swift
/// try store.transaction { transaction in
///     try transaction.upsert(order)
///     try? transaction.transaction { inner in             // undone by itself when it throws
///         try inner.delete(Draft.self, id: order.draft)
///     }
/// }
/// ```
///
/// It is over when the closure is: later calls throw ``StorageFailure/Reason/closed``. It belongs to the thread it was
/// given to.
public final class Transaction {
    let core: StoreCore
    let connection: Connection
    let isWriting: Bool
    /// Tables that were written to.
    private(set) var changed: Set<String> = []
    /// What has become known of types in here, and holds for others only when it is committed.
    private(set) var pending: [ObjectIdentifier: TypeEntry] = [:]
    private var depth = 0
    private var isOver = false

    init(core: StoreCore, connection: Connection, isWriting: Bool) {
        self.core = core
        self.connection = connection
        self.isWriting = isWriting
    }

    func end() { isOver = true }

    func check(_ operation: String) throws {
        if isOver || connection.handle == nil {
            throw NetworkError.storage(.closed, operation, "the transaction is over, or its store closed")
        }
    }

    func refuseWhenFailed() throws {
        guard isWriting else {
            throw NetworkError.storage(
                .readOnly, "write in a snapshot", "it only reads; use ObjectStore.transaction(_:)")
        }
        guard !connection.isInTransaction else { return }
        throw NetworkError.storage(
            .closed, "go on with the transaction",
            "SQLite has rolled it back after the failure before; let that error end the transaction")
    }

    func noteChange(_ table: String) { changed.insert(table) }

    /// Runs changes inside that are undone together when the body throws, while those before stay (`SAVEPOINT`).
    ///
    /// - Throws: what the body throws; ``NetworkError`` of kind ``NetworkError/Kind/storage``.
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
            if connection.handle != nil, connection.isInTransaction {
                try? connection.execute("ROLLBACK TO \(name); RELEASE \(name)", operation: "roll back")
            }
            (changed, pending) = (changedBefore, pendingBefore)
            throw error
        }
    }

    // MARK: What is known of a type

    /// The type's table, `nil` when there is none yet. What the type has gained is added to it.
    func entry<Object: Storable>(for type: Object.Type) throws -> TypeEntry? {
        let identifier = ObjectIdentifier(type)
        if let entry = pending[identifier] ?? core.entry(of: identifier) { return entry }
        let table = try core.table(of: type)
        guard let layout = try TableLayout.read(table, from: connection) else { return nil }
        let entry = try adapted(type, layout)
        keep(entry, for: identifier)
        return entry
    }

    func keep(_ entry: TypeEntry, for type: ObjectIdentifier) {
        if isWriting { pending[type] = entry } else { core.keep(entry, for: type) }
    }

    /// Compares what a row has with what the type asks for, and adds the fields that are new.
    private func adapted<Object: Storable>(_ type: Object.Type, _ layout: TableLayout) throws -> TypeEntry {
        let operation = "look at a row of \(layout.shown)"
        let statement = try connection.prepare(layout.select + " LIMIT 1", operation: operation, isLasting: false)
        defer { statement.finalize() }
        guard try statement.step(operation) else { return TypeEntry(layout) }
        let decoder = RowDecoder(layout: layout, statement: statement.pointer, checksNames: true)
        // Whether the row can be read is for those to tell who want it.
        _ = try? Object(from: decoder)
        if !decoder.strangers.isEmpty { throw TypeChange.removed(decoder.strangers, layout) }
        let prototype = try Prototype(of: type)
        let missing = prototype.fields.map(\.column).filter { layout.index(of: $0.name) == nil }
        let added = missing + decoder.missing.filter { column in !missing.contains { $0.name == column.name } }
        guard !added.isEmpty else {
            let entry = TypeEntry(layout)
            entry.isChecked.store(true, ordering: .relaxed)
            return entry
        }
        statement.finalize()
        if isWriting { return try add(added, to: layout.table, prototype) }
        // What a snapshot sees does not change: a column that is added now it would not have.
        if connection.isInTransaction { return TypeEntry(layout) }
        do {
            return try core.write { try $0.add(added, to: layout.table, prototype) }
        } catch is NetworkError {
            // Nobody can add them now; to read, what the type asks for and the file does not have is absent.
            return TypeEntry(layout)
        }
    }

    private func add(_ columns: [Column], to table: String, _ prototype: Prototype) throws -> TypeEntry {
        // Another process may have been first.
        let known = try TableLayout.read(table, from: connection)
        let missing = columns.filter { known?.index(of: $0.name) == nil }
        try TypeChange.validate(missing.map(\.name), of: table)
        try TableLayout.add(missing, to: table, on: connection)
        for field in prototype.fields where missing.contains(where: { $0.name == field.column.name }) {
            let operation = "fill the field \(Identifier.shown(field.column.name)) of \(Identifier.shown(table))"
            let sql = "UPDATE \(Identifier.quoted(table)) SET \(Identifier.quoted(field.column.name)) = ?1"
            let statement = try connection.prepare(sql, operation: operation, isLasting: false)
            defer { statement.finalize() }
            try statement.bind(field.value, at: 1, operation)
            _ = try statement.step(operation)
        }
        guard let layout = try TableLayout.read(table, from: connection) else {
            throw NetworkError.storage(
                .schema, "add fields to \(Identifier.shown(table))", "the table is gone; try again")
        }
        return TypeEntry(layout)
    }

    // MARK: Writing rows

    func write<Object: Storable>(_ purpose: Connection.Purpose, _ values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        let type = Object.self
        try check("\(purpose) \(type)")
        try refuseWhenFailed()
        var current = try entry(for: type)
        var row: (encoder: RowEncoder, statement: Statement, entry: TypeEntry)?
        for value in values {
            while true {
                if row == nil, let entry = current {
                    let statement = try connection.statement(purpose, entry.layout)
                    let isChecked = entry.isChecked.load(ordering: .relaxed)
                    let encoder = RowEncoder(
                        layout: entry.layout, statement: statement.pointer, checksNames: !isChecked)
                    row = (encoder, statement, entry)
                }
                guard let (encoder, statement, entry) = row else {
                    current = try makeTable(for: value)
                    continue
                }
                encoder.begin()
                try encode(value, by: encoder, entry.layout)
                if encoder.missing.isEmpty {
                    entry.isChecked.store(true, ordering: .relaxed)
                    try execute(purpose, value, statement, entry.layout)
                    break
                }
                let missing = encoder.missing.map(\.column)
                let wider = try add(missing, to: entry.layout.table, Prototype(of: type))
                keep(wider, for: ObjectIdentifier(type))
                current = wider
                row = nil
            }
        }
        if let current { noteChange(current.layout.table) }
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
            throw connection.failure(error.code, operation + ", field \(Identifier.shown(error.name))")
        } catch let error as NestedFailure {
            throw NetworkError.storage(
                .value, operation, "the field \(Identifier.shown(error.name)) cannot be JSON: \(error.reason)")
        } catch let error as EncodingError {
            throw NetworkError.storage(.value, operation, "the value cannot be encoded: \(error)")
        }
        if !encoder.strangers.isEmpty, let layout { throw TypeChange.removed(encoder.strangers, layout) }
        if let name = encoder.handmade {
            throw NetworkError.storage(
                .value, operation,
                "the field \(Identifier.shown(name)) is laid out by hand (nestedContainer or superEncoder); "
                    + "give it a type of its own")
        }
        if !encoder.hasFields {
            throw NetworkError.storage(
                .value, operation, "it encodes no fields with names; wrap it in a struct that does")
        }
    }

    /// The first value of a type tells what the table must look like.
    private func makeTable<Object: Storable>(for value: Object) throws -> TypeEntry where Object.ID: Encodable {
        let table = try core.table(of: Object.self)
        let encoder = RowEncoder(layout: nil, statement: nil, checksNames: false)
        try encode(value, by: encoder, nil)
        let id = try ColumnCoding.stored(value.id)
        try TypeChange.validate(encoder.missing.map(\.column.name), of: table)
        var columns = encoder.missing.map(\.column)
        var key = encoder.missing.firstIndex { $0.column.name == "id" && $0.value == id.value }
        if key == nil {
            columns.insert(Column(name: TableLayout.ownKey, kind: id.kind), at: 0)
            key = 0
        }
        let layout = TableLayout(table: table, columns: columns, key: key ?? 0)
        try layout.create(on: connection)
        let entry = TypeEntry(layout)
        entry.isChecked.store(true, ordering: .relaxed)
        keep(entry, for: ObjectIdentifier(Object.self))
        return entry
    }

    private func execute<Object: Storable>(
        _ purpose: Connection.Purpose, _ value: Object, _ statement: Statement, _ layout: TableLayout
    ) throws where Object.ID: Encodable {
        if layout.hasOwnKey {
            let id = try ColumnCoding.stored(value.id).value
            try statement.bind(id, at: layout.key + 1, layout.operation(purpose))
        }
        do {
            _ = try statement.step(layout.operation(purpose))
            statement.reset()
        } catch let error as NetworkError {
            guard let code = error.storageFailure?.code, code & 0xFF == Int(SQLITE_CONSTRAINT) else { throw error }
            throw NetworkError.storage(
                .duplicate, layout.operation(purpose),
                "there is one with id \(Identifier.shown("\(value.id)")) already, or it has none; "
                    + "use upsert to replace it",
                code: Int32(code), sql: statement.sql)
        }
        if purpose == .update, connection.changes == 0 {
            throw NetworkError.storage(
                .missing, layout.operation(purpose),
                "there is none with id \(Identifier.shown("\(value.id)")); use upsert to insert it", sql: statement.sql)
        }
    }
}
