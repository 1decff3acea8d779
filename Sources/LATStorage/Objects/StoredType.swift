/// What a stored type may say about itself. None of it is needed to store one.
///
/// ```swift
/// extension Shop.Item: StoredType {
///     static let storedName = "shop.item"                 // another type is called Item, too
///     static let storedPrototype: Item? = Item(id: 0, name: "", level: 1)
/// }
/// ```
public protocol StoredType {
    /// The name of the table. Default: the type's name without what it lies in, `Item`.
    static var storedName: String { get }
    /// A value whose fields stand in where a row has none: in rows from before a field was there, and for a field that
    /// is not optional in every row. Default `nil`: such a field reads as `nil` when it is optional, and is an error
    /// when it is not.
    static var storedPrototype: Self? { get }
}

extension StoredType {
    /// The type's name.
    public static var storedName: String { String(describing: Self.self) }
    /// None.
    public static var storedPrototype: Self? { nil }
}

extension TableLayout {
    /// Tables that begin so are the store's own.
    static let ownPrefix = "lat_store_"

    static func table(of type: Any.Type) -> String {
        (type as? any StoredType.Type)?.storedName ?? String(describing: type)
    }
}
