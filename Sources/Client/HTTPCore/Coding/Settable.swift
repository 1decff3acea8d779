/// A property with the three states of a member in a PATCH (RFC 7396): left out, null, or a value.
///
/// ```swift
/// struct ChangeUser: RequestEntity, Encodable {
///     static let route = Route("PATCH", server: "user.change")
///     var id: Int
///     var name: Settable<String> = .leftOut
///     var note: Settable<String> = .leftOut
/// }
/// try await ChangeUser(id: 42, name: "Ada", note: .null).startRequest()     // {"name":"Ada","note":null}
/// ```
///
/// The compiler's `Codable` of any type writes and reads it, with `JSONEncoder` and `JSONDecoder` too: a member that is absent
/// is ``leftOut``. Literals make a ``value(_:)``. There is no `nil`, because it would have two meanings: in `parameters` it
/// leaves out, in JSON it is a null.
///
/// An element of an array or a dictionary cannot be left out; encoding it fails.
public enum Settable<Value> {
    /// The member is not there: the server keeps what it has.
    case leftOut
    /// The member is `null`: the server removes what it has.
    case null
    /// The member has this value.
    case value(Value)

    /// The value, or for `nil` what the second argument says: `Settable(form.note, else: .null)`.
    public init(_ value: Value?, else other: Settable) { self = value.map(Settable.value) ?? other }

    /// The value; `nil` when there is none.
    public var value: Value? {
        if case .value(let value) = self { value } else { nil }
    }
}

extension Settable: Sendable where Value: Sendable {}
extension Settable: Equatable where Value: Equatable {}
extension Settable: Hashable where Value: Hashable {}

extension Settable: OptionalValue {
    var isNil: Bool { isLeftOut }
    var isLeftOut: Bool {
        if case .leftOut = self { true } else { false }
    }
}

extension Settable: Decodable where Value: Decodable {
    /// Decodes a value that is there: a null or a value.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        self = try container.decodeNil() ? .null : .value(container.decode(Value.self))
    }
}

extension Settable: Encodable where Value: Encodable {
    /// Encodes a null or a value.
    ///
    /// - Throws: `EncodingError.invalidValue` for ``leftOut``, which only the member of an object can be.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .leftOut:
            throw EncodingError.unwritable(
                self, at: encoder.codingPath, "a Settable that is left out must be a property; use .null, or remove it")
        case .null:
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        case .value(let value):
            var container = encoder.singleValueContainer()
            try container.encode(value)
        }
    }
}

// The `Codable` that the compiler makes calls these overloads.

extension KeyedDecodingContainer {
    /// Decodes a property of three states. A member that is absent is ``Settable/leftOut``.
    public func decode<Value: Decodable>(
        _ type: Settable<Value>.Type, forKey key: Key
    ) throws -> Settable<Value> {
        guard contains(key) else { return .leftOut }
        return try decodeNil(forKey: key) ? .null : .value(decode(Value.self, forKey: key))
    }

    /// Decodes an optional property of three states. A member that is absent is `nil`.
    public func decodeIfPresent<Value: Decodable>(
        _ type: Settable<Value>.Type, forKey key: Key
    ) throws -> Settable<Value>? {
        contains(key) ? try decode(type, forKey: key) : nil
    }
}

extension KeyedEncodingContainer {
    /// Encodes a property of three states. A ``Settable/leftOut`` encodes nothing.
    public mutating func encode<Value: Encodable>(_ value: Settable<Value>, forKey key: Key) throws {
        switch value {
        case .leftOut: try encodeIfPresent(Value?.none, forKey: key)
        case .null: try encodeNil(forKey: key)
        case .value(let value): try encode(value, forKey: key)
        }
    }

    /// Encodes an optional property of three states. `nil` encodes nothing.
    public mutating func encodeIfPresent<Value: Encodable>(_ value: Settable<Value>?, forKey key: Key) throws {
        try encode(value ?? .leftOut, forKey: key)
    }
}

// MARK: Literals

extension Settable: ExpressibleByUnicodeScalarLiteral where Value: ExpressibleByUnicodeScalarLiteral {
    /// Makes a ``value(_:)``.
    public init(unicodeScalarLiteral value: Value.UnicodeScalarLiteralType) {
        self = .value(Value(unicodeScalarLiteral: value))
    }
}

extension Settable: ExpressibleByExtendedGraphemeClusterLiteral
where Value: ExpressibleByExtendedGraphemeClusterLiteral {
    /// Makes a ``value(_:)``.
    public init(extendedGraphemeClusterLiteral value: Value.ExtendedGraphemeClusterLiteralType) {
        self = .value(Value(extendedGraphemeClusterLiteral: value))
    }
}

extension Settable: ExpressibleByStringLiteral where Value: ExpressibleByStringLiteral {
    /// Makes a ``value(_:)``.
    public init(stringLiteral value: Value.StringLiteralType) { self = .value(Value(stringLiteral: value)) }
}

extension Settable: ExpressibleByIntegerLiteral where Value: ExpressibleByIntegerLiteral {
    /// Makes a ``value(_:)``.
    public init(integerLiteral value: Value.IntegerLiteralType) { self = .value(Value(integerLiteral: value)) }
}

extension Settable: ExpressibleByFloatLiteral where Value: ExpressibleByFloatLiteral {
    /// Makes a ``value(_:)``.
    public init(floatLiteral value: Value.FloatLiteralType) { self = .value(Value(floatLiteral: value)) }
}

extension Settable: ExpressibleByBooleanLiteral where Value: ExpressibleByBooleanLiteral {
    /// Makes a ``value(_:)``.
    public init(booleanLiteral value: Value.BooleanLiteralType) { self = .value(Value(booleanLiteral: value)) }
}
