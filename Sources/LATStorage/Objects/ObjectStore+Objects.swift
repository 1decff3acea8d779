import HTTPCore

extension ObjectStore {
    // MARK: Writing

    /// Inserts a value.
    ///
    /// - Throws: ``StorageFailure/Reason/duplicate`` when there is one with its id.
    public func insert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try transaction { try $0.insert(value) }
    }

    /// Inserts values, all or none.
    ///
    /// - Throws: ``StorageFailure/Reason/duplicate`` when there is one with an id of theirs.
    public func insert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try transaction { try $0.insert(contentsOf: values) }
    }

    /// Inserts a value, or puts it in place of the one with its id.
    public func upsert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try transaction { try $0.upsert(value) }
    }

    /// Inserts values or puts them in place of those with their ids, all or none.
    public func upsert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try transaction { try $0.upsert(contentsOf: values) }
    }

    /// Puts a value in place of the one with its id.
    ///
    /// - Throws: ``StorageFailure/Reason/missing`` when there is none.
    public func update<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try transaction { try $0.update(value) }
    }

    /// Deletes the value with the same id.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func delete<Object: Storable>(_ value: Object) throws -> Bool where Object.ID: Codable & Sendable {
        try transaction { try $0.delete(value) }
    }

    /// Deletes the value with an id.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool
    where Object.ID: Codable & Sendable {
        try transaction { try $0.delete(type, id: id) }
    }

    /// Deletes the values that a condition means; ``Condition/all`` empties the table.
    ///
    /// - Returns: How many there were.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, where condition: Condition<Object>) throws -> Int
    where Object.ID: Codable & Sendable {
        try transaction { try $0.delete(type, where: condition) }
    }

    // MARK: Reading

    /// The value with an id, `nil` when there is none.
    public func fetch<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Object?
    where Object.ID: Codable & Sendable {
        try core.read { try $0.fetch(type, id: id) }
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
        try core.read {
            try $0.fetch(Query(where: condition, sortedBy: order, limit: limit, offset: offset))
        }
    }

    /// The values that a query means.
    public func fetch<Object: Storable>(_ query: Query<Object>) throws -> [Object]
    where Object.ID: Codable & Sendable {
        try core.read { try $0.fetch(query) }
    }

    /// Hands over the values that a query means one after the other, with the memory of one.
    ///
    /// - Throws: what the body throws, which ends it; ``NetworkError`` of kind ``NetworkError/Kind/storage``.
    public func forEach<Object: Storable>(_ query: Query<Object>, _ body: (Object) throws -> Void) throws
    where Object.ID: Codable & Sendable {
        try core.read { try $0.forEach(query, body) }
    }

    /// How many values a condition means.
    public func count<Object: Storable>(_ type: Object.Type, where condition: Condition<Object> = .all) throws -> Int
    where Object.ID: Codable & Sendable {
        try core.read { try $0.count(type, where: condition) }
    }

    /// How many values a query means, its limit and offset counted in.
    public func count<Object: Storable>(_ query: Query<Object>) throws -> Int where Object.ID: Codable & Sendable {
        try core.read { try $0.count(query) }
    }
}
