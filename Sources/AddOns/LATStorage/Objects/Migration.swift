import FoundationEssentials
import HTTPCore
import SQLite

/// A change of stored types that the store cannot make by itself: fields that were renamed or have another type.
///
/// ```swift
/// let store = try ObjectStore(path: path, migrations: [
///     Migration("2026-03 names") { migrator in
///         try migrator.renameField("nick", of: "User", to: "nickname")
///         try migrator.removeField("legacy", of: "User")
///         try migrator.changeField("age", of: "User", to: Int.self) { old in
///             if case .text(let text) = old, let age = Int64(text) { .integer(age) } else { .null }
///         }
///     },
/// ])
/// ```
///
/// Each migration runs once per file, when a store opens it, in one transaction with the other pending ones. When one
/// throws, the file stays unchanged and the store does not open. Types are named by their tables, because the Swift
/// type may no longer exist. Fields that were added or dropped need no migration; removing a dropped field frees its
/// space.
public struct Migration: Sendable {
    let name: String
    let change: @Sendable (Migrator) throws -> Void

    /// Makes a migration.
    ///
    /// - Parameters:
    ///   - name: the name under which the file records that the migration has run. Never change it.
    ///   - change: makes the change.
    public init(_ name: String, _ change: @escaping @Sendable (Migrator) throws -> Void) {
        self.name = name
        self.change = change
    }
}

/// Changes tables during a ``Migration``.
///
/// Every function throws `NetworkError` of kind `NetworkError.Kind.storage`. A type or field that the file does not
/// have is not an error, since migrations also run on a new file.
public final class Migrator {
    private let transaction: Transaction
    private var connection: SQLiteConnection { transaction.connection }

    private init(_ transaction: Transaction) { self.transaction = transaction }

    static func run(_ migrations: [Migration], in transaction: Transaction) throws {
        let connection = transaction.connection
        let operation = "look for migrations"
        try connection.execute(
            "CREATE TABLE IF NOT EXISTS lat_store_migrations (name TEXT PRIMARY KEY NOT NULL, time REAL NOT NULL)",
            operation: operation)
        for migration in migrations {
            try connection.run(
                "INSERT OR IGNORE INTO lat_store_migrations (name, time) VALUES (?1, ?2)",
                [.text(migration.name), .real(Date().timeIntervalSinceReferenceDate)], operation: operation)
            if connection.changeCount > 0 { try migration.change(Migrator(transaction)) }
        }
    }

    /// The names of the stored types.
    public func types() throws -> [String] {
        var names: [String] = []
        try connection.run(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", operation: "list the types"
        ) { names.append($0.text(0)) }
        return names.filter { !$0.hasPrefix(TableLayout.ownPrefix) && !$0.hasPrefix("sqlite_") }
    }

    /// The names of a type's fields; empty when it is not stored.
    public func fields(of type: String) throws -> [String] {
        try layout(type)?.columns.map(\.name).filter { $0 != TableLayout.ownKey } ?? []
    }

    /// Renames a type.
    public func renameType(_ type: String, to name: String) throws {
        guard try layout(type) != nil else { return }
        try execute(
            "ALTER TABLE \(Identifier.quoted(type)) RENAME TO \(Identifier.quoted(name))",
            "rename the type \(Identifier.shown(type))")
    }

    /// Removes a type and all its values.
    public func removeType(_ type: String) throws {
        guard try layout(type) != nil else { return }
        try execute("DROP TABLE \(Identifier.quoted(type))", "remove the type \(Identifier.shown(type))")
    }

    /// Renames a field.
    public func renameField(_ field: String, of type: String, to name: String) throws {
        guard try layout(type)?.index(of: field) != nil else { return }
        try TypeChange.validate([name], of: type)
        try execute(
            "ALTER TABLE \(Identifier.quoted(type)) RENAME COLUMN \(Identifier.quoted(field)) "
                + "TO \(Identifier.quoted(name))",
            "rename the field \(Identifier.shown(field)) of \(Identifier.shown(type))")
    }

    /// Removes a field and its values. The id cannot be removed.
    public func removeField(_ field: String, of type: String) throws {
        guard try layout(type)?.index(of: field) != nil else { return }
        try execute(
            "ALTER TABLE \(Identifier.quoted(type)) DROP COLUMN \(Identifier.quoted(field))",
            "remove the field \(Identifier.shown(field)) of \(Identifier.shown(type))")
    }

    /// Gives a field another type.
    ///
    /// - Parameters:
    ///   - field: the name of the field.
    ///   - type: the stored name of the type that has the field.
    ///   - newType: the new type of the field. Whether it is wrapped in an `Optional` does not matter.
    ///   - change: makes the new value from the old one. It is called for every row. A value that cannot be read as the new
    ///     type ends the migration.
    public func changeField<Value: Codable>(
        _ field: String, of type: String, to newType: Value.Type, _ change: (StoredValue) throws -> StoredValue
    ) throws {
        guard let layout = try layout(type), let index = layout.index(of: field) else { return }
        let operation = "change the field \(Identifier.shown(field)) of \(Identifier.shown(type))"
        if index == layout.key {
            throw NetworkError.storage(.schema, operation, "it is the id; remove the type and insert its values again")
        }
        let table = Identifier.quoted(type)
        var temporary = "lat_changed"
        while layout.index(of: temporary) != nil { temporary += "_" }
        let plainType = (newType as? any OptionalType.Type)?.wrapped ?? newType
        let new = Column(name: temporary, kind: ColumnCoding.kind(of: plainType))
        try TableLayout.add([new], to: type, on: connection)
        let taken = Set(layout.columns.map { $0.name.lowercased() })
        guard let row = ["rowid", "_rowid_", "oid"].first(where: { !taken.contains($0) }) else {
            throw NetworkError.storage(.schema, operation, "it has fields rowid, _rowid_ and oid; rename one first")
        }
        let reading = "SELECT \(row), \(Identifier.quoted(field)) FROM \(table)"
        let name = Identifier.quoted(temporary)
        let writing = "UPDATE \(table) SET \(name) = ?1 WHERE \(row) = ?2 RETURNING \(name)"
        try connection.run(reading, operation: operation) { old in
            try connection.run(writing, [change(old.value(1)), old.value(0)], operation: operation) { new in
                let value = new.value(0)
                guard value != .null, (try? ColumnCoding.value(newType, from: value, at: [])) == nil else { return }
                throw NetworkError.storage(
                    .value, operation,
                    "a new value is \(value.shape), which is no \(newType); return another one")
            }
        }
        try removeField(field, of: type)
        try renameField(temporary, of: type, to: field)
    }

    private func layout(_ type: String) throws -> TableLayout? {
        try transaction.check("migrate \(Identifier.shown(type))")
        return try TableLayout.read(type, from: connection)
    }

    private func execute(_ sql: String, _ operation: String) throws {
        try connection.execute(sql, operation: operation)
    }
}

/// An `Optional`, which tells the type that it wraps.
private protocol OptionalType {
    static var wrapped: Any.Type { get }
}

extension Optional: OptionalType {
    fileprivate static var wrapped: Any.Type { Wrapped.self }
}
