import HTTPCore

/// What can be done with stored values, the same in an ``ObjectStore`` and in a ``Transaction`` of it.
///
/// ```swift
/// func rename(_ id: Int, to name: String, in place: some ObjectAccess) throws {
///     guard var user = try place.fetch(User.self, id: id) else { return }
///     user.name = name
///     try place.update(user)
/// }
/// ```
///
/// Each call in a store is a transaction of its own. Every function throws ``NetworkError`` of kind
/// ``NetworkError/Kind/storage``.
public protocol ObjectAccess {
    /// Runs a body in the transaction, or in one of its own; what the functions of this protocol stand on.
    func access<Result>(isWriting: Bool, _ body: (Transaction) throws -> Result) throws -> Result
}

// MARK: Writing

extension ObjectAccess {
    /// Inserts a value.
    ///
    /// - Throws: ``StorageFailure/Reason/duplicate`` when there is one with its id.
    public func insert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try insert(contentsOf: CollectionOfOne(value))
    }

    /// Inserts values. In a store all or none; in a transaction those before one that fails stay, unless the error ends
    /// the transaction.
    ///
    /// - Throws: ``StorageFailure/Reason/duplicate`` when there is one with an id of theirs.
    public func insert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.write(.insert, values) }
    }

    /// Inserts a value, or puts it in place of the one with its id.
    public func upsert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try upsert(contentsOf: CollectionOfOne(value))
    }

    /// Inserts values or puts them in place of those with their ids. See ``insert(contentsOf:)``.
    public func upsert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.write(.upsert, values) }
    }

    /// Puts a value in place of the one with its id.
    ///
    /// - Throws: ``StorageFailure/Reason/missing`` when there is none.
    public func update<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.write(.update, CollectionOfOne(value)) }
    }

    /// Deletes the value with the same id.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func delete<Object: Storable>(_ value: Object) throws -> Bool where Object.ID: Codable & Sendable {
        try delete(Object.self, id: value.id)
    }

    /// Deletes the value with an id.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.deleteRow(type, id: id) }
    }

    /// Deletes the values that a condition means; ``Condition/all`` empties the table.
    ///
    /// - Returns: How many there were.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, where condition: Condition<Object>) throws -> Int
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.deleteRows(type, condition) }
    }
}

// MARK: Reading

extension ObjectAccess {
    /// The value with an id, `nil` when there is none.
    public func fetch<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Object?
    where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.row(type, id: id) }
    }

    /// The values that a condition means.
    ///
    /// - Parameters:
    ///   - condition: which. Default: all.
    ///   - order: in what order, the first first. Default: none in particular.
    ///   - limit: how many at most. Default `nil`: all.
    ///   - offset: how many to leave out first. Default 0.
    public func fetch<Object: Storable>(
        _ type: Object.Type, where condition: Condition<Object> = .all, sortedBy order: [Sorting<Object>] = [],
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Object] where Object.ID: Codable & Sendable {
        try fetch(Query(where: condition, sortedBy: order, limit: limit, offset: offset))
    }

    /// The values that a query means.
    public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object]
    where Object.ID: Codable & Sendable {
        var objects: [Object] = []
        try forEach(query) { objects.append($0) }
        return objects
    }

    /// Hands over the values that a query means one after the other, with the memory of one.
    ///
    /// - Throws: what the body throws, which ends it; ``NetworkError`` of kind ``NetworkError/Kind/storage``.
    public func forEach<Object: Storable>(_ query: Query<Object>, _ body: (Object) throws -> Void) throws
    where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.rows(query, body) }
    }

    /// How many values a condition means.
    public func count<Object: Storable>(_ type: Object.Type, where condition: Condition<Object> = .all) throws -> Int
    where Object.ID: Codable & Sendable {
        try count(Query(where: condition))
    }

    /// How many values a query means, its limit and offset counted in.
    public func count<Object: Storable>(_ query: Query<Object>) throws -> Int where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.rowCount(query) }
    }
}

// MARK: Aggregates

extension ObjectAccess {
    /// The smallest value of a field, `nil` when there is none.
    public func minimum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("min", Place(path), condition) }
    }

    /// See ``minimum(of:where:)``; values that are `nil` do not count.
    public func minimum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("min", Place(path), condition) }
    }

    /// The largest value of a field, `nil` when there is none.
    public func maximum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("max", Place(path), condition) }
    }

    /// See ``maximum(of:where:)``; values that are `nil` do not count.
    public func maximum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("max", Place(path), condition) }
    }

    /// The sum of a field, 0 without values. Decimals are added exactly, and whole numbers.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage`` when the sum does not fit the type.
    public func sum<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.total(Place(path), condition) }
    }

    /// See ``sum(of:where:)``; values that are `nil` do not count.
    public func sum<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.total(Place(path), condition) }
    }

    /// The average of a field, as SQLite works it out in doubles; `nil` without values.
    public func average<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Double? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.aggregate("avg", Place(path), condition).real }
    }

    /// See ``average(of:where:)``; values that are `nil` do not count.
    public func average<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Double? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.aggregate("avg", Place(path), condition).real }
    }
}
