public import FoundationEssentials

extension JSONValue {
    /// The member of an object; `nil` when this is no object or has no such member.
    ///
    /// Setting puts the member in place, setting `nil` removes it (`.null` sets
    /// a null). A ``null`` becomes an object first. Every other value that is no
    /// object stays as it is: a wrong path never destroys data.
    public subscript(key: String) -> JSONValue? {
        get {
            guard case .object(let members) = self else { return nil }
            return members[key]
        }
        set {
            switch self {
            case .object(var members):
                self = .null  // Gives up the second reference, so that the dictionary is changed in place.
                members[key] = newValue
                self = .object(members)
            case .null:
                if let newValue { self = .object([key: newValue]) }
            default:
                break
            }
        }
    }

    /// The element of an array; `nil` when this is no array or the index is outside of it.
    ///
    /// Setting replaces the element, setting `nil` removes it and closes the
    /// gap, and setting at the end (`index == count`) appends. A ``null`` counts
    /// as an empty array. Any other index, and a value that is no array, is left
    /// as it is.
    public subscript(index: Int) -> JSONValue? {
        get {
            guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
            return elements[index]
        }
        set {
            switch self {
            case .array(var elements):
                self = .null  // As above.
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

    /// The number when it is whole and an `Int` holds it exactly, `nil` for everything else: `2.5`, `"2"`, `true`.
    public var int: Int? { int64.flatMap(Int.init(exactly:)) }

    /// The number when it is whole and an `Int64` holds it exactly, `nil` for everything else.
    public var int64: Int64? {
        if case .int(let value) = JSONNumber(self) { value } else { nil }
    }

    /// The number as the nearest `Double`, `nil` for everything else.
    public var double: Double? {
        switch self {
        case .int(let value): Double(value)
        case .double(let value): value
        case .decimal(let value): Double(value.description)  // Rounds once; the conversion of `Decimal` does not.
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

    /// `true` or `false`, `nil` for everything else. `0`, `1` and `"true"` are no Booleans.
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

/// The same look-ups on what a look-up returned, so that a path needs no `?`:
/// `json["a"]["b"][0].string`. What is absent has nothing in it.
extension Optional where Wrapped == JSONValue {
    /// The member; see ``JSONValue/subscript(_:)-(String)``. Setting into what is absent makes an object.
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

    /// The element; see ``JSONValue/subscript(_:)-(Int)``. Setting at 0 into what is absent makes an array.
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

    /// Whether a null is there. `false` when the value is absent.
    public var isNull: Bool { self?.isNull ?? false }

    /// See ``JSONValue/decode(_:)``. Throws `DecodingError.valueNotFound` when the value is absent.
    public func decode<T: Decodable>(_ type: T.Type) throws -> T {
        guard let self else {
            let context = DecodingError.Context(codingPath: [], debugDescription: "the JSON value is absent")
            throw DecodingError.valueNotFound(type, context)
        }
        return try self.decode(type)
    }
}
