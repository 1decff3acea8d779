import HTTPCore

extension Transaction {
    /// See ``ObjectStore/insert(_:)``.
    public func insert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try write(.insert, CollectionOfOne(value))
    }

    /// See ``ObjectStore/insert(contentsOf:)``. When one of them fails those before stay, unless the error ends the
    /// transaction.
    public func insert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try write(.insert, values)
    }

    /// See ``ObjectStore/upsert(_:)``.
    public func upsert<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try write(.upsert, CollectionOfOne(value))
    }

    /// See ``ObjectStore/upsert(contentsOf:)``.
    public func upsert<Object: Storable>(contentsOf values: some Sequence<Object>) throws
    where Object.ID: Codable & Sendable {
        try write(.upsert, values)
    }

    /// See ``ObjectStore/update(_:)``.
    public func update<Object: Storable>(_ value: Object) throws where Object.ID: Codable & Sendable {
        try write(.update, CollectionOfOne(value))
    }

    /// See ``ObjectStore/delete(_:)``.
    @discardableResult
    public func delete<Object: Storable>(_ value: Object) throws -> Bool where Object.ID: Codable & Sendable {
        try deleteRow(Object.self, id: value.id)
    }

    /// See ``ObjectStore/delete(_:id:)``.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, id: Object.ID) throws -> Bool
    where Object.ID: Codable & Sendable {
        try deleteRow(type, id: id)
    }

    /// See ``ObjectStore/delete(_:where:)``.
    @discardableResult
    public func delete<Object: Storable>(_ type: Object.Type, where condition: Condition<Object>) throws -> Int
    where Object.ID: Codable & Sendable {
        try deleteRows(type, condition)
    }
}
