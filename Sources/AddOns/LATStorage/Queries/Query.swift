/// A query for values of a type: which, in what order, and how many.
///
/// ```swift
/// let adults = Query<User>(where: \.age >= 18).sorted(by: .ascending(\.name), .descending(\.age)).limited(to: 20)
/// try store.fetch(adults)
/// try store.count(adults)
/// for try await users in store.values(of: adults) { show(users) }
/// ```
public struct Query<Object: Storable>: Sendable where Object.ID: Codable & Sendable {
    /// The condition. Default: all values.
    public var condition: Condition<Object>
    /// The sort order. Default: unspecified.
    public var order: [Sorting<Object>]
    /// The maximum number of values to return. Default `nil`: no limit.
    public var limit: Int?
    /// How many values to skip first. Default 0.
    public var offset: Int

    /// Makes a query.
    public init(
        where condition: Condition<Object> = .all, sortedBy order: [Sorting<Object>] = [], limit: Int? = nil,
        offset: Int = 0
    ) {
        self.condition = condition
        self.order = order
        self.limit = limit
        self.offset = offset
    }

    /// Returns the same query in another order.
    public func sorted(by order: Sorting<Object>...) -> Query {
        var query = self
        query.order = order
        return query
    }

    /// Returns the same query with at most `limit` values, beginning at `offset`. Default: the first.
    public func limited(to limit: Int, offset: Int = 0) -> Query {
        var query = self
        query.limit = limit
        query.offset = offset
        return query
    }
}

/// What can be stored: any plain type that is `Codable`, `Identifiable` and `Sendable`.
public typealias Storable = Codable & Identifiable & Sendable

/// A sort order of values.
///
/// Values that are `nil` come first when ascending. Texts are ordered by their UTF-8 bytes.
public struct Sorting<Object>: Sendable {
    let place: Place
    let isAscending: Bool

    /// Sorts from small to large.
    public static func ascending<Value>(_ path: KeyPath<Object, Value> & Sendable) -> Sorting {
        Sorting(place: Place(path), isAscending: true)
    }

    /// Sorts from large to small.
    public static func descending<Value>(_ path: KeyPath<Object, Value> & Sendable) -> Sorting {
        Sorting(place: Place(path), isAscending: false)
    }

    /// Sorts from small to large.
    public static func ascending(_ field: Field) -> Sorting { Sorting(place: Place(field), isAscending: true) }

    /// Sorts from large to small.
    public static func descending(_ field: Field) -> Sorting { Sorting(place: Place(field), isAscending: false) }
}
