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
        _modify {
            guard var members = takeObject() else {
                let isNull = isNull
                var member: JSONValue?
                defer { if isNull, let member { self = .object([key: member]) } }
                yield &member
                return
            }
            defer { self = .object(members) }
            yield &members[key]
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
        _modify {
            var elements = isNull ? [] : takeArray()
            let isThere = elements?.indices.contains(index) == true
            var element = isThere ? elements?[index].take() : nil
            defer {
                if isThere {
                    if let element { elements?[index] = element } else { elements?.remove(at: index) }
                } else if index == elements?.count, let element {
                    elements?.append(element)
                }
                if let elements, !isNull || !elements.isEmpty { self = .array(elements) }
            }
            yield &element
        }
    }

    // What is taken out has one reference, so that it is changed without a copy. A payload that is bound in a `switch` has two.

    /// Returns the value and leaves a null.
    private mutating func take() -> JSONValue {
        var value = JSONValue.null
        swap(&value, &self)
        return value
    }

    /// Returns the elements and leaves a null; `nil`, and no change, for everything else.
    mutating func takeArray() -> [JSONValue]? {
        guard case .array(let elements) = self else { return nil }
        self = .null
        return elements
    }

    /// Returns the members and leaves a null; `nil`, and no change, for everything else.
    mutating func takeObject() -> [String: JSONValue]? {
        guard case .object(let members) = self else { return nil }
        self = .null
        return members
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
        _modify {
            let isAbsent = self == nil
            var value = take() ?? .null
            defer { if !isAbsent || !value.isNull { self = value } }
            yield &value[key]
        }
    }

    /// The element; see ``JSONValue/subscript(_:)-(Int)``. Setting element 0 of an absent value makes an array.
    public subscript(index: Int) -> JSONValue? {
        get { self?[index] }
        _modify {
            let isAbsent = self == nil
            var value = take() ?? .null
            defer { if !isAbsent || !value.isNull { self = value } }
            yield &value[index]
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
