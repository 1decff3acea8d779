import HTTPCore
import SQLite

/// A field of a type as a column of its table.
struct Column: Hashable, Sendable {
    var name: String
    var kind: FieldKind
    /// Whether the stored type has the field. The store does not change columns of other versions of the type.
    var isOwn = true
}

/// The columns of a type's table, and the statements made from them. A layout never changes: a change of the table
/// makes a new one.
final class TableLayout: Sendable {
    /// The operations on a table, in words for messages.
    enum Purpose: String {
        case insert = "insert into"
        case upsert = "upsert into"
        case update
        case delete = "delete from"
        case fetch = "fetch from"
        case scan = "read"
    }

    /// The id column of types that do not encode their id as `id`.
    static let ownKey = "lat_id"

    let table: String
    let columns: [Column]
    /// The index of the primary key's column.
    let key: Int
    private let indices: [String: Int]
    fileprivate let statements: [Purpose: String]
    /// `SELECT` with the columns, `FROM` and the table.
    let select: String

    init(table: String, columns: [Column], key: Int) {
        self.table = table
        self.columns = columns
        self.key = key
        indices = Dictionary(columns.enumerated().map { ($0.element.name, $0.offset) }) { first, _ in first }
        let name = Identifier.quoted(table)
        let names = columns.map { Identifier.quoted($0.name) }
        let id = names[key]
        let own = names.indices.filter { $0 == key || columns[$0].isOwn }
        let others = own.filter { $0 != key }
        func list(_ indices: [Int], _ item: (Int) -> String) -> String { indices.map(item).joined(separator: ", ") }
        let select = "SELECT \(names.joined(separator: ", ")) FROM \(name)"
        let insert = "INSERT INTO \(name) (\(list(own) { names[$0] })) VALUES (\(list(own) { "?\($0 + 1)" }))"
        let excluded =
            others.isEmpty ? "NOTHING" : "UPDATE SET " + list(others) { "\(names[$0]) = excluded.\(names[$0])" }
        let changed = list(others.isEmpty ? [key] : others) { "\(names[$0]) = ?\($0 + 1)" }
        statements = [
            .insert: insert,
            .upsert: "\(insert) ON CONFLICT (\(id)) DO \(excluded)",
            .update: "UPDATE \(name) SET \(changed) WHERE \(id) = ?\(key + 1)",
            .delete: "DELETE FROM \(name) WHERE \(id) = ?1",
            .fetch: "\(select) WHERE \(id) = ?1",
        ]
        self.select = select
    }

    func index(of name: String) -> Int? { indices[name] }
    func column(_ name: String) -> Column? { indices[name].map { columns[$0] } }

    /// The names of columns that are not fields of the type.
    var unknownColumns: [String] { columns.filter { !$0.isOwn }.map(\.name) }

    /// Returns the same table for a type that has only some of the fields.
    func owned(_ isOwn: (String) -> Bool) -> TableLayout {
        TableLayout(
            table: table,
            columns: columns.map {
                Column(name: $0.name, kind: $0.kind, isOwn: $0.name == Self.ownKey || isOwn($0.name))
            }, key: key)
    }

    /// Whether the id is in a column that is not a field of the type.
    var hasOwnKey: Bool { columns[key].name == Self.ownKey }

    func operation(_ purpose: Purpose) -> String { "\(purpose.rawValue) \(shown)" }

    /// The table's name for messages.
    var shown: String { Identifier.shown(table) }

    // MARK: In the file

    /// Reads the layout from the file; `nil` when there is no such table.
    static func read(_ table: String, from connection: SQLiteConnection) throws -> TableLayout? {
        let operation = "read the table \(Identifier.shown(table))"
        var columns: [Column] = []
        var key: Int?
        try connection.run(
            "SELECT name, type, pk FROM pragma_table_info(?1) ORDER BY cid", [.text(table)], operation: operation
        ) { row in
            if row.value(2) == .integer(1) { key = columns.count }
            columns.append(Column(name: row.text(0), kind: FieldKind(declared: row.text(1))))
        }
        if columns.isEmpty { return nil }
        guard let key else {
            throw NetworkError.storage(
                .schema, operation, "it has no primary key, so no store made it; give the type another storedName")
        }
        return TableLayout(table: table, columns: columns, key: key)
    }

    func create(on connection: SQLiteConnection) throws {
        let definitions = columns.enumerated().map { index, column in
            let quoted = Identifier.quoted(column.name)
            guard index == key else { return "\(quoted) \(column.kind.declaration)" }
            return "\(quoted) \(column.kind.declaration) PRIMARY KEY NOT NULL"
        }
        try connection.execute(
            "CREATE TABLE \(Identifier.quoted(table)) (\(definitions.joined(separator: ", ")))",
            operation: "make the table \(shown)")
    }

    /// Adds columns. Existing rows have no value in them.
    static func add(_ columns: [Column], to table: String, on connection: SQLiteConnection) throws {
        for column in columns {
            try connection.execute(
                "ALTER TABLE \(Identifier.quoted(table)) "
                    + "ADD COLUMN \(Identifier.quoted(column.name)) \(column.kind.declaration)",
                operation: "add the field \(Identifier.shown(column.name)) to \(Identifier.shown(table))")
        }
    }
}

extension SQLiteConnection {
    /// Lends the statement of an operation on a table to a closure.
    func use<Result>(
        _ purpose: TableLayout.Purpose, _ layout: TableLayout, _ body: (SQLiteStatement) throws -> Result
    ) throws -> Result {
        try use(layout.statements[purpose] ?? layout.select, operation: layout.operation(purpose), body)
    }
}
