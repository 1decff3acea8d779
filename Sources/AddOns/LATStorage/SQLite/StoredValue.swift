import CSQLite
public import FoundationEssentials

/// One value as SQLite stores it, which a ``Migration`` can change.
public enum StoredValue: Hashable, Sendable {
    /// No value.
    case null
    /// An integer; `true` and `false` are 1 and 0.
    case integer(Int64)
    /// A floating-point number. Dates are seconds since 2001 (`timeIntervalSinceReferenceDate`).
    case real(Double)
    /// A text. URLs, UUIDs and decimals are text; values with fields or elements of their own are JSON.
    case text(String)
    /// Bytes.
    case blob(Data)
}

/// The kind of values in a column. It is the declared type of the column, so that the file documents itself. The first
/// word gives SQLite's affinity (<https://www.sqlite.org/datatype3.html> §3.1).
enum FieldKind: String, Sendable {
    case integer = "INTEGER"
    case boolean = "INTEGER BOOLEAN"
    /// Values up to `Int64.max` are integers. Larger ones are texts of 20 digits; SQLite sorts them after all integers.
    case unsigned = "BLOB UNSIGNED"
    case real = "REAL"
    case text = "TEXT"
    case blob = "BLOB"
    case date = "REAL DATE"
    case uuid = "TEXT UUID"
    case url = "TEXT URL"
    case decimal = "TEXT DECIMAL"
    case json = "TEXT JSON"
    /// Used for a type that does not reveal its kind, as long as only `nil` was stored.
    case any = "BLOB ANY"

    /// The kind of a declared type; `any` for columns that no store made.
    init(declared: String) { self = FieldKind(rawValue: declared) ?? .any }

    /// The type in `CREATE TABLE`.
    var declaration: String { self == .decimal ? rawValue + " COLLATE " + DecimalOrder.name : rawValue }

    /// Whether a value of that kind can be written to this column and read back from it.
    func accepts(_ kind: FieldKind) -> Bool {
        if self == kind || self == .any || kind == .any { return true }
        switch (self, kind) {
        // A wider type reads what a narrower one wrote.
        case (.boolean, .integer), (.integer, .real): return true
        default: return false
        }
    }
}

/// The collation of columns that hold decimals as text. It compares by number: `9.5` is less than `10`, and `1.0` is
/// `1`.
enum DecimalOrder {
    static let name = "lat_decimal"

    static func register(on database: OpaquePointer) -> Int32 {
        sqlite3_create_collation_v2(
            database, name, SQLITE_UTF8, nil,
            { _, leftCount, left, rightCount, right in
                let left = DecimalOrder.text(left, leftCount)
                let right = DecimalOrder.text(right, rightCount)
                guard let first = Decimal(string: left), let second = Decimal(string: right) else {
                    return left < right ? -1 : left == right ? 0 : 1
                }
                return first < second ? -1 : first == second ? 0 : 1
            }, nil)
    }

    private static func text(_ bytes: UnsafeRawPointer?, _ count: Int32) -> String {
        guard let bytes else { return "" }
        return String(decoding: UnsafeRawBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    }
}

/// Identifiers in SQL.
enum Identifier {
    /// The name in quotes, with quotes in it doubled.
    static func quoted(_ name: String) -> String {
        var text = "\""
        for scalar in name.unicodeScalars {
            if scalar == "\"" { text += "\"" }
            text.unicodeScalars.append(scalar)
        }
        return text + "\""
    }

    /// A name for a message, shortened to 60 characters when it is longer than 80.
    static func shown(_ name: String) -> String {
        name.unicodeScalars.count <= 80 ? "\"\(name)\"" : "\"\(String(name.prefix(60)))…\""
    }
}
