import HTTPCore

/// The operations on stored values, the same in an ``ObjectStore`` and in a ``Transaction``.
///
/// ```swift
/// func rename(_ id: Int, to name: String, in place: some ObjectAccess) throws {
///     guard var user = try place.fetch(User.self, id: id) else { return }
///     user.name = name
///     try place.update(user)
/// }
/// ```
///
/// On a store, each call is a transaction of its own. Every function throws `NetworkError` of kind
/// `NetworkError.Kind.storage`. Without a condition, a function applies to all values of the type.
public protocol ObjectAccess {
    /// Runs a body in this transaction, or in a new one of the store. All functions of this protocol call it.
    func access<Result>(isWriting: Bool, _ body: (Transaction) throws -> Result) throws -> Result
}

// MARK: Writing

extension ObjectAccess {
    /// Inserts a value.
    ///
    /// - Throws: ``StorageFailure/Reason/duplicate`` when a value with this id exists.
    public func insert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try insert(contentsOf: CollectionOfOne(value))
    }

    /// Inserts values. A store inserts all or none. In a transaction the values before a failed one stay, unless the
    /// error ends the transaction.
    ///
    /// - Throws: ``StorageFailure/Reason/duplicate`` when a value with one of the ids exists.
    public func insert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.write(.insert, values) }
    }

    /// Inserts a value, or replaces the one with its id.
    public func upsert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try upsert(contentsOf: CollectionOfOne(value))
    }

    /// Inserts values, or replaces those with their ids. See ``insert(contentsOf:)``.
    public func upsert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.write(.upsert, values) }
    }

    /// Replaces the value with the same id.
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

    /// Deletes the values that match a condition. ``Condition/all`` empties the table.
    ///
    /// - Returns: How many values were deleted.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, where condition: Condition<Object>) throws -> Int
    where Object.ID: Codable & Sendable {
        try access(isWriting: true) { try $0.deleteRows(type, condition) }
    }
}

// MARK: Reading

extension ObjectAccess {
    /// Returns the value with an id, `nil` when there is none.
    public func fetch<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Object?
    where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.row(type, id: id) }
    }

    /// Returns the values that match a condition.
    ///
    /// - Parameters:
    ///   - type: the type of the values.
    ///   - condition: the condition. Default: all values.
    ///   - order: the sort order, most significant first. Default: unspecified.
    ///   - limit: the maximum number of values to return. Default `nil`: no limit.
    ///   - offset: how many values to skip first. Default 0.
    public func fetch<Object: Storable>(
        _ type: Object.Type, where condition: Condition<Object> = .all, sortedBy order: [Sorting<Object>] = [],
        limit: Int? = nil, offset: Int = 0
    ) throws -> [Object] where Object.ID: Codable & Sendable {
        try fetch(Query(where: condition, sortedBy: order, limit: limit, offset: offset))
    }

    /// Returns the values that match a query.
    public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object]
    where Object.ID: Codable & Sendable {
        var objects: [Object] = []
        try forEach(query) { objects.append($0) }
        return objects
    }

    /// Calls a body with each value that matches a query, with only one of them in memory at a time.
    ///
    /// - Throws: what the body throws, which ends the loop; `NetworkError` of kind `NetworkError.Kind.storage`.
    public func forEach<Object: Storable>(_ query: Query<Object>, _ body: (Object) throws -> Void) throws
    where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.rows(query, body) }
    }

    /// Returns how many values match a condition.
    public func count<Object: Storable>(_ type: Object.Type, where condition: Condition<Object> = .all) throws -> Int
    where Object.ID: Codable & Sendable {
        try count(Query(where: condition))
    }

    /// Returns how many values a query returns, with its limit and offset applied.
    public func count<Object: Storable>(_ query: Query<Object>) throws -> Int where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.rowCount(query) }
    }
}

// MARK: Aggregates

extension ObjectAccess {
    /// Returns the smallest value of a field, `nil` when there is none.
    public func minimum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("min", Place(path), condition) }
    }

    /// See ``minimum(of:where:)``. Values that are `nil` do not count.
    public func minimum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("min", Place(path), condition) }
    }

    /// Returns the largest value of a field, `nil` when there is none.
    public func maximum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("max", Place(path), condition) }
    }

    /// See ``maximum(of:where:)``. Values that are `nil` do not count.
    public func maximum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.extreme("max", Place(path), condition) }
    }

    /// Returns the sum of a field, 0 without values. Decimals and integers are added exactly.
    ///
    /// - Throws: `NetworkError` of kind `NetworkError.Kind.storage` when the sum does not fit the type.
    public func sum<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.total(Place(path), condition) }
    }

    /// See ``sum(of:where:)``. Values that are `nil` do not count.
    public func sum<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.total(Place(path), condition) }
    }

    /// Returns the average of a field, computed by SQLite in doubles; `nil` without values.
    public func average<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Double? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.aggregate("avg", Place(path), condition, areNumbers: true).real }
    }

    /// See ``average(of:where:)``. Values that are `nil` do not count.
    public func average<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Double? where Object.ID: Codable & Sendable {
        try access(isWriting: false) { try $0.aggregate("avg", Place(path), condition, areNumbers: true).real }
    }
}
