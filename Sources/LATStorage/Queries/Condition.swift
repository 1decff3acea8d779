/// Which values of a type are meant: what stands after `where:`.
///
/// ```swift
/// try store.fetch(User.self, where: \.age >= 18 && \.nick != nil)
/// try store.fetch(User.self, where: .in(\.city, ["Turku", "Oulu"]) || .like(\.name, "A%"))
/// try store.fetch(User.self, where: !(\.address.city == "Turku"))
/// ```
///
/// It means what the same expression means in Swift: `nil` equals `nil` and nothing else, no order holds for it, and
/// `!` turns around whatever stands after it. Texts compare by their bytes, dates, UUIDs and URLs as what they are, and
/// decimals by number. Values are always bound, never written into the statement.
public struct Condition<Object>: Sendable {
    indirect enum Node: Sendable {
        case always
        case compare(Place, Comparison, Operand)
        case like(Place, String)
        case `in`(Place, [Operand])
        case isNil(Place)
        case and(Node, Node)
        case or(Node, Node)
        case not(Node)
    }

    /// How two values compare, as SQL writes it.
    enum Comparison: String, Sendable {
        // `IS` answers for NULL too, with yes or no.
        case equal = "IS"
        case unequal = "IS NOT"
        case less = "<"
        case atMost = "<="
        case greater = ">"
        case atLeast = ">="
    }

    let node: Node

    init(_ node: Node) { self.node = node }

    /// Every value there is.
    public static var all: Condition { Condition(.always) }

    /// Whether the text is like a pattern: `%` stands for any characters, `_` for one, `\` before either for itself.
    /// Letters A to Z match in either case (SQLite's `LIKE`).
    public static func like(_ path: KeyPath<Object, String> & Sendable, _ pattern: String) -> Condition {
        Condition(.like(Place(path), pattern))
    }

    /// See ``like(_:_:)-(KeyPath<Object,String>,_)``; `nil` is like nothing.
    public static func like(_ path: KeyPath<Object, String?> & Sendable, _ pattern: String) -> Condition {
        Condition(.like(Place(path), pattern))
    }

    /// See ``like(_:_:)-(KeyPath<Object,String>,_)``.
    public static func like(_ field: Field, _ pattern: String) -> Condition {
        Condition(.like(Place(field), pattern))
    }

    /// Whether the value is one of some.
    public static func `in`<Value: Encodable & Sendable>(
        _ path: KeyPath<Object, Value> & Sendable, _ values: some Sequence<Value>
    ) -> Condition {
        Condition(.in(Place(path), values.map { Operand($0) }))
    }

    /// Whether the value is one of some.
    public static func `in`<Value: Encodable & Sendable>(_ field: Field, _ values: some Sequence<Value>) -> Condition {
        Condition(.in(Place(field), values.map { Operand($0) }))
    }

    /// Whether there is no value.
    public static func isNil<Value>(_ path: KeyPath<Object, Value?> & Sendable) -> Condition {
        Condition(.isNil(Place(path)))
    }

    /// Whether there is no value, or no such place in it.
    public static func isNil(_ field: Field) -> Condition { Condition(.isNil(Place(field))) }

    /// Both.
    public static func && (left: Condition, right: Condition) -> Condition { Condition(.and(left.node, right.node)) }

    /// One of both, or both.
    public static func || (left: Condition, right: Condition) -> Condition { Condition(.or(left.node, right.node)) }

    /// Not what it says.
    public static prefix func ! (condition: Condition) -> Condition { Condition(.not(condition.node)) }
}

/// A field by its name, where a key path does not do: an element of an array, a member of a dictionary, a field that no
/// property is.
///
/// ```swift
/// try store.fetch(User.self, where: Field("full_name") == "Ada")              // as it is encoded
/// try store.fetch(User.self, where: Field("address", "city") == "Turku")     // inside a value that is stored as JSON
/// try store.fetch(User.self, where: Field("tags", 0) == "new")                // the first element of an array
/// ```
///
/// The name is the one that is encoded (`CodingKeys`). A name that the type does not have is an error when the query
/// runs, ``StorageFailure/Reason/query``.
public struct Field: Hashable, Sendable {
    /// One step on the way into a value.
    public enum Step: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
        /// A member of an object.
        case name(String)
        /// An element of an array, from 0.
        case index(Int)

        /// ``name(_:)``.
        public init(stringLiteral value: String) { self = .name(value) }
        /// ``index(_:)``.
        public init(integerLiteral value: Int) { self = .index(value) }
    }

    /// The field of the type.
    public let name: String
    /// The way into its value; empty for the field itself.
    public let path: [Step]

    /// A field, or what is inside of one.
    public init(_ name: String, _ path: Step...) { self.init(name, path: path) }

    /// A field, or what is inside of one.
    public init(_ name: String, path: [Step]) {
        self.name = name
        self.path = path
    }
}

/// What a condition, an order or an aggregate looks at.
enum Place: Sendable {
    case field(Field)
    case path(AnyKeyPath & Sendable)

    init(_ field: Field) { self = .field(field) }
    init(_ path: AnyKeyPath & Sendable) { self = .path(path) }
}

/// A value to compare with. It is encoded when the statement is made, so that a failure is an error of the query.
struct Operand: Sendable {
    /// As a column holds it.
    let stored: @Sendable () throws -> StoredValue
    /// As JSON holds it.
    let json: @Sendable () throws -> String

    init<Value: Encodable & Sendable>(_ value: Value) {
        stored = { try ColumnCoding.stored(value).value }
        json = { try ColumnCoding.json(value) }
    }
}

// Each once for key paths and once for fields by name. The order of optionals is written without them on the right:
// nothing is smaller or larger than `nil`.

/// Whether a field is equal to a value; `nil` to `nil` only.
public func == <Object, Value: Encodable & Equatable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .equal, Operand(value))) }

/// Whether a field is another than a value.
public func != <Object, Value: Encodable & Equatable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .unequal, Operand(value))) }

/// Whether a field is less than a value.
public func < <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .less, Operand(value))) }

/// Whether a field is at most a value.
public func <= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atMost, Operand(value))) }

/// Whether a field is greater than a value.
public func > <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .greater, Operand(value))) }

/// Whether a field is at least a value.
public func >= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atLeast, Operand(value))) }

/// Whether a field has a value and it is less.
public func < <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .less, Operand(value))) }

/// Whether a field has a value and it is at most.
public func <= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atMost, Operand(value))) }

/// Whether a field has a value and it is greater.
public func > <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .greater, Operand(value))) }

/// Whether a field has a value and it is at least.
public func >= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atLeast, Operand(value))) }

/// Whether a field is equal to a value; `nil` to `nil` only.
public func == <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .equal, Operand(value)))
}

/// Whether a field is another than a value.
public func != <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .unequal, Operand(value)))
}

/// Whether a field has a value and it is less.
public func < <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .less, Operand(value)))
}

/// Whether a field has a value and it is at most.
public func <= <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .atMost, Operand(value)))
}

/// Whether a field has a value and it is greater.
public func > <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .greater, Operand(value)))
}

/// Whether a field has a value and it is at least.
public func >= <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .atLeast, Operand(value)))
}
