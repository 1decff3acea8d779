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
