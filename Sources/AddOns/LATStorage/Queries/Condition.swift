/// A condition on the values of a type: the argument of `where:`.
///
/// ```swift
/// try store.fetch(User.self, where: \.age >= 18 && \.nick != nil)
/// try store.fetch(User.self, where: .in(\.age, [17, 18]) || .like(\.name, "A%"))
/// try store.fetch(User.self, where: !(\.address.city == "Turku"))
/// ```
///
/// A condition means what the same expression means in Swift: `nil` equals only `nil` and is neither less nor greater
/// than anything, and `!` negates any condition. Texts compare by their bytes, decimals by number, and dates, UUIDs and
/// URLs by their own order. Values are always bound, never written into the statement.
public struct Condition<Object>: Sendable {
    indirect enum Node: Sendable {
        case always
        /// More conditions within each other than SQLite accepts.
        case tooDeep
        case compare(Place, Comparison, Operand)
        case like(Place, String)
        case `in`(Place, [Operand])
        case isNil(Place)
        case and(Node, Node)
        case or(Node, Node)
        case not(Node)
    }

    /// The comparisons, as SQL writes them.
    enum Comparison: String, Sendable {
        // Unlike `=`, `IS` is true or false for NULL too.
        case equal = "IS"
        case unequal = "IS NOT"
        case less = "<"
        case atMost = "<="
        case greater = ">"
        case atLeast = ">="
    }

    let node: Node
    /// How many conditions are within each other.
    private let depth: Int
    /// SQLite's limit. Longer chains would also overflow the stack.
    private static var depthLimit: Int { 1_000 }

    init(_ node: Node, over conditions: Condition...) {
        depth = (conditions.map(\.depth).max() ?? 0) + 1
        self.node = depth > Self.depthLimit ? .tooDeep : node
    }

    /// The condition that every value meets.
    public static var all: Condition { Condition(.always) }

    /// Whether the text matches a pattern: `%` stands for any characters, `_` for one, and `\` escapes either. Letters
    /// A to Z match in either case (SQLite's `LIKE`).
    public static func like(_ path: KeyPath<Object, String> & Sendable, _ pattern: String) -> Condition {
        Condition(.like(Place(path), pattern))
    }

    /// See ``like(_:_:)-(KeyPath<Object,String>Sendable,_)``; `nil` matches no pattern.
    public static func like(_ path: KeyPath<Object, String?> & Sendable, _ pattern: String) -> Condition {
        Condition(.like(Place(path), pattern))
    }

    /// See ``like(_:_:)-(KeyPath<Object,String>Sendable,_)``.
    public static func like(_ field: Field, _ pattern: String) -> Condition {
        Condition(.like(Place(field), pattern))
    }

    /// Whether the value is one of several.
    public static func `in`<Value: Encodable & Sendable>(
        _ path: KeyPath<Object, Value> & Sendable, _ values: some Sequence<Value>
    ) -> Condition {
        Condition(.in(Place(path), values.map { Operand($0) }))
    }

    /// Whether the value is one of several.
    public static func `in`<Value: Encodable & Sendable>(_ field: Field, _ values: some Sequence<Value>) -> Condition {
        Condition(.in(Place(field), values.map { Operand($0) }))
    }

    /// Whether the value is `nil`.
    public static func isNil<Value>(_ path: KeyPath<Object, Value?> & Sendable) -> Condition {
        Condition(.isNil(Place(path)))
    }

    /// Whether the value is `nil`, or the place does not exist in it.
    public static func isNil(_ field: Field) -> Condition { Condition(.isNil(Place(field))) }

    /// Whether both conditions hold.
    public static func && (left: Condition, right: Condition) -> Condition {
        Condition(.and(left.node, right.node), over: left, right)
    }

    /// Whether at least one of the conditions holds.
    public static func || (left: Condition, right: Condition) -> Condition {
        Condition(.or(left.node, right.node), over: left, right)
    }

    /// Whether the condition does not hold.
    public static prefix func ! (condition: Condition) -> Condition { Condition(.not(condition.node), over: condition) }
}

/// A field by its name, for places without a key path: an element of an array, a member of a dictionary, a field
/// without a property.
///
/// ```swift
/// try store.fetch(User.self, where: Field("full_name") == "Ada")              // the encoded name
/// try store.fetch(User.self, where: Field("address", "city") == "Turku")     // inside a value that is stored as JSON
/// try store.fetch(User.self, where: Field("tags", 0) == "new")                // the first element of an array
/// ```
///
/// The name is the encoded one (`CodingKeys`). A name that the type does not have makes the query throw
/// ``StorageFailure/Reason/query``.
public struct Field: Hashable, Sendable {
    /// One step of the path into a value.
    public enum Step: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
        /// A member of an object.
        case name(String)
        /// An element of an array, from 0.
        case index(Int)

        /// Makes a ``name(_:)``.
        public init(stringLiteral value: String) { self = .name(value) }
        /// Makes an ``index(_:)``.
        public init(integerLiteral value: Int) { self = .index(value) }
    }

    /// The name of the field.
    public let name: String
    /// The path into its value; empty for the field itself.
    public let path: [Step]

    /// Makes a field, or a place inside one.
    public init(_ name: String, _ path: Step...) { self.init(name, path: path) }

    /// Makes a field, or a place inside one.
    public init(_ name: String, path: [Step]) {
        self.name = name
        self.path = path
    }
}

/// The place that a condition, an order or an aggregate refers to.
enum Place: Sendable {
    case field(Field)
    case path(AnyKeyPath & Sendable)

    init(_ field: Field) { self = .field(field) }
    init(_ path: AnyKeyPath & Sendable) { self = .path(path) }
}

/// A value to compare with. It is encoded when the statement is made, so that a failure is an error of the query.
struct Operand: Sendable {
    /// The value as a column holds it.
    let stored: @Sendable () throws -> StoredValue
    /// The value as JSON holds it.
    let json: @Sendable () throws -> String

    init<Value: Encodable & Sendable>(_ value: Value) {
        stored = { try ColumnCoding.compared(value) }
        json = { try ColumnCoding.json(value) }
    }
}

// Each operator exists for key paths and for fields by name. The operators that order optional fields take a value that
// is not optional, because nothing is less or greater than `nil`.

/// Whether a field is equal to a value; `nil` equals only `nil`.
public func == <Object, Value: Encodable & Equatable & Sendable>(
    path: KeyPath<Object, Value> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .equal, Operand(value))) }

/// Whether a field is not equal to a value.
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

/// Whether a field has a value that is less than this one.
public func < <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .less, Operand(value))) }

/// Whether a field has a value that is at most this one.
public func <= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atMost, Operand(value))) }

/// Whether a field has a value that is greater than this one.
public func > <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .greater, Operand(value))) }

/// Whether a field has a value that is at least this one.
public func >= <Object, Value: Encodable & Comparable & Sendable>(
    path: KeyPath<Object, Value?> & Sendable, value: Value
) -> Condition<Object> { Condition(.compare(Place(path), .atLeast, Operand(value))) }

/// Whether a field is equal to a value; `nil` equals only `nil`.
public func == <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .equal, Operand(value)))
}

/// Whether a field is not equal to a value.
public func != <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .unequal, Operand(value)))
}

/// Whether a field has a value that is less than this one.
public func < <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .less, Operand(value)))
}

/// Whether a field has a value that is at most this one.
public func <= <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .atMost, Operand(value)))
}

/// Whether a field has a value that is greater than this one.
public func > <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .greater, Operand(value)))
}

/// Whether a field has a value that is at least this one.
public func >= <Object>(field: Field, value: some Encodable & Sendable) -> Condition<Object> {
    Condition(.compare(Place(field), .atLeast, Operand(value)))
}
