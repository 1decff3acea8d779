import HTTPCore

extension ObjectStore {
    /// The smallest value of a field, `nil` when there is none.
    public func minimum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try core.read { try $0.minimum(of: path, where: condition) }
    }

    /// See ``minimum(of:where:)``; values that are `nil` do not count.
    public func minimum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try core.read { try $0.minimum(of: path, where: condition) }
    }

    /// The largest value of a field, `nil` when there is none.
    public func maximum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try core.read { try $0.maximum(of: path, where: condition) }
    }

    /// See ``maximum(of:where:)``; values that are `nil` do not count.
    public func maximum<Object: Storable, Value: Codable & Comparable>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value? where Object.ID: Codable & Sendable {
        try core.read { try $0.maximum(of: path, where: condition) }
    }

    /// The sum of a field, 0 without values. Decimals are added exactly, and whole numbers.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage`` when the sum does not fit the type.
    public func sum<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value where Object.ID: Codable & Sendable {
        try core.read { try $0.sum(of: path, where: condition) }
    }

    /// See ``sum(of:where:)``; values that are `nil` do not count.
    public func sum<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Value where Object.ID: Codable & Sendable {
        try core.read { try $0.sum(of: path, where: condition) }
    }

    /// The average of a field, as SQLite works it out in doubles; `nil` without values.
    public func average<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Double? where Object.ID: Codable & Sendable {
        try core.read { try $0.average(of: path, where: condition) }
    }

    /// See ``average(of:where:)``; values that are `nil` do not count.
    public func average<Object: Storable, Value: Codable & Numeric>(
        of path: KeyPath<Object, Value?> & Sendable, where condition: Condition<Object> = .all
    ) throws -> Double? where Object.ID: Codable & Sendable {
        try core.read { try $0.average(of: path, where: condition) }
    }
}
