public import FoundationEssentials

extension JSONValue {
    /// The member of an object; `nil` when this is not an object or has no such member.
    ///
    /// Setting a value adds or replaces the member. Setting `nil` removes it
    /// (`.null` sets a null). A ``null`` becomes an object first. Any other value
    /// that is not an object stays unchanged, so a wrong path never destroys data.
    public subscript(key: String) -> JSONValue? {
        get {
            guard case .object(let members) = self else { return nil }
            return members[key]
        }
        set {
            switch self {
            case .object(var members):
                self = .null  // Drops the second reference, so that the dictionary is changed in place.
                members[key] = newValue
                self = .object(members)
            case .null:
                if let newValue { self = .object([key: newValue]) }
            default:
                break
            }
        }
    }

    /// The element of an array; `nil` when this is not an array or the index is out of range.
    ///
    /// Setting a value replaces the element, or appends when `index == count`.
    /// Setting `nil` removes the element. A ``null`` counts as an empty array.
    /// Any other index changes nothing, and neither does setting an element of a
    /// value that is not an array.
    public subscript(index: Int) -> JSONValue? {
        get {
            guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
            return elements[index]
        }
        set {
            switch self {
            case .array(var elements):
                self = .null  // Drops the second reference, as above.
                if elements.indices.contains(index) {
                    if let newValue { elements[index] = newValue } else { elements.remove(at: index) }
                } else if index == elements.count, let newValue {
                    elements.append(newValue)
                }
                self = .array(elements)
            case .null:
                if index == 0, let newValue { self = .array([newValue]) }
            default:
                break
            }
        }
    }

    /// The text, `nil` for everything else.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The number if it is whole and fits into an `Int`, `nil` for everything else: `2.5`, `"2"`, `true`.
    public var int: Int? { int64.flatMap(Int.init(exactly:)) }

    /// The number if it is whole and fits into an `Int64`, `nil` for everything else.
    public var int64: Int64? {
        if case .int(let value) = JSONNumber(self) { value } else { nil }
    }

    /// The number as the nearest `Double`, `nil` for everything else.
    public var double: Double? {
        switch self {
        case .int(let value): Double(value)
        case .double(let value): value
        case .decimal(let value): Double(value.description)  // Rounds once, unlike a conversion from `Decimal`.
        default: nil
        }
    }

    /// The number as a `Decimal`; `nil` for everything else and for a double outside the range of `Decimal` (10¹²⁷).
    /// A double is read as its shortest text: `0.1` is a tenth.
    public var decimal: Decimal? {
        switch self {
        case .int(let value): Decimal(value)
        case .double(let value): value.isFinite ? Decimal(string: value.description) : nil
        case .decimal(let value): value
        default: nil
        }
    }

    /// `true` or `false`, `nil` for everything else. `0`, `1` and `"true"` are not Booleans.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The elements, `nil` for everything else.
    public var array: [JSONValue]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// The members, `nil` for everything else.
    public var object: [String: JSONValue]? {
        if case .object(let members) = self { members } else { nil }
    }

    /// Whether this is ``null``.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }
}

/// The same look-ups on the result of a look-up, so that a path needs no `?`:
/// `json["a"]["b"][0].string`. Every look-up in an absent value is `nil`.
extension Optional where Wrapped == JSONValue {
    /// The member; see ``JSONValue/subscript(_:)-(String)``. Setting a member of an absent value makes an object.
    public subscript(key: String) -> JSONValue? {
        get { self?[key] }
        set {
            guard newValue != nil || self != nil else { return }
            var value = self ?? .null
            self = nil
            value[key] = newValue
            self = value
        }
    }

    /// The element; see ``JSONValue/subscript(_:)-(Int)``. Setting element 0 of an absent value makes an array.
    public subscript(index: Int) -> JSONValue? {
        get { self?[index] }
        set {
            guard self != nil || (index == 0 && newValue != nil) else { return }
            var value = self ?? .null
            self = nil
            value[index] = newValue
            self = value
        }
    }

    /// See ``JSONValue/string``.
    public var string: String? { self?.string }

    /// See ``JSONValue/int``.
    public var int: Int? { self?.int }

    /// See ``JSONValue/int64``.
    public var int64: Int64? { self?.int64 }

    /// See ``JSONValue/double``.
    public var double: Double? { self?.double }

    /// See ``JSONValue/decimal``.
    public var decimal: Decimal? { self?.decimal }

    /// See ``JSONValue/bool``.
    public var bool: Bool? { self?.bool }

    /// See ``JSONValue/array``.
    public var array: [JSONValue]? { self?.array }

    /// See ``JSONValue/object``.
    public var object: [String: JSONValue]? { self?.object }

    /// Whether this is a null. `false` when the value is absent.
    public var isNull: Bool { self?.isNull ?? false }

    /// Decodes the value; see ``JSONValue/decode(_:coding:)``.
    ///
    /// - Throws: `DecodingError.valueNotFound` when the value is absent.
    public func decode<T: Decodable>(_ type: T.Type, coding: Coding = Coding()) throws -> T {
        guard let self else {
            let context = DecodingError.Context(codingPath: [], debugDescription: "the JSON value is absent")
            throw DecodingError.valueNotFound(type, context)
        }
        return try self.decode(type, coding: coding)
    }
}

extension JSONValue {
    /// The value without the members that are null, at every level. Elements of arrays stay.
    package var withoutNullMembers: JSONValue {
        switch self {
        case .object(let members):
            .object(members.filter { $0.value != .null }.mapValues(\.withoutNullMembers))
        case .array(let elements): .array(elements.map(\.withoutNullMembers))
        default: self
        }
    }
}
