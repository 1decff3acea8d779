/// Values of a type: which, in what order, how many.
///
/// ```swift
/// let adults = Query<User>(where: \.age >= 18).sorted(by: .ascending(\.name), .descending(\.age)).limited(to: 20)
/// try store.fetch(adults)
/// try store.count(adults)
/// for try await users in store.values(of: adults) { show(users) }
/// ```
public struct Query<Object: Storable>: Sendable where Object.ID: Codable & Sendable {
    /// Which values. Default: all.
    public var condition: Condition<Object>
    /// In what order. Default: as they are found, which means nothing.
    public var order: [Sorting<Object>]
    /// How many at most. Default `nil`: all.
    public var limit: Int?
    /// How many are left out at the beginning. Default 0.
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

    /// The same in this order.
    public func sorted(by order: Sorting<Object>...) -> Query {
        var query = self
        query.order = order
        return query
    }

    /// The same, no more than so many, from the one at `offset` on.
    public func limited(to limit: Int, offset: Int = 0) -> Query {
        var query = self
        query.limit = limit
        query.offset = offset
        return query
    }
}

/// What can be stored: any plain type that is `Codable`, `Identifiable` and `Sendable`.
public typealias Storable = Codable & Identifiable & Sendable

/// An order of values.
///
/// Values that are `nil` come first when ascending. Texts are ordered by their UTF-8 bytes.
public struct Sorting<Object>: Sendable {
    let place: Place
    let isAscending: Bool

    /// From small to large.
    public static func ascending<Value>(_ path: KeyPath<Object, Value> & Sendable) -> Sorting {
        Sorting(place: Place(path), isAscending: true)
    }

    /// From large to small.
    public static func descending<Value>(_ path: KeyPath<Object, Value> & Sendable) -> Sorting {
        Sorting(place: Place(path), isAscending: false)
    }

    /// From small to large.
    public static func ascending(_ field: Field) -> Sorting { Sorting(place: Place(field), isAscending: true) }

    /// From large to small.
    public static func descending(_ field: Field) -> Sorting { Sorting(place: Place(field), isAscending: false) }
}
