internal import FoundationEssentials

extension JSONValue: Codable {
    /// Decodes any value from any decoder. For JSON as bytes ``init(parsing:)-(Data)`` is about ten times as fast.
    /// Throws what the decoder throws.
    public init(from decoder: any Decoder) throws {
        // A failed attempt costs a thrown error, so the frequent types come first. `try?` opens a container but does not
        // decode its content, so that an error further down is reported.
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .int(value)
        } else if let members = try? decoder.container(keyedBy: JSONKey.self) {
            var object: [String: JSONValue] = [:]
            for key in members.allKeys {
                object[key.stringValue] = try members.decode(JSONValue.self, forKey: key)
            }
            self = .object(object)
        } else if var elements = try? decoder.unkeyedContainer() {
            var array: [JSONValue] = []
            while !elements.isAtEnd { array.append(try elements.decode(JSONValue.self)) }
            self = .array(array)
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            let exact = try? container.decode(Decimal.self)
            if let exact, exact != Decimal(string: value.description) {
                self = .decimal(exact)
            } else {
                self = .double(value)
            }
        } else {
            self = .decimal(try container.decode(Decimal.self))
        }
    }

    /// Encodes the value with any encoder. Throws what the encoder throws.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let members):
            var container = encoder.container(keyedBy: JSONKey.self)
            for (key, value) in members { try container.encode(value, forKey: JSONKey(stringValue: key)) }
        case .array(let elements):
            var container = encoder.unkeyedContainer()
            for value in elements { try container.encode(value) }
        case .null:
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        case .bool(let value): try encodeSingle(value, to: encoder)
        case .int(let value): try encodeSingle(value, to: encoder)
        case .double(let value):
            if !value.isFinite { try Self.refuse(value, in: encoder) }
            try encodeSingle(value, to: encoder)
        case .decimal(let value): try encodeSingle(value, to: encoder)
        case .string(let value): try encodeSingle(value, to: encoder)
        }
    }

    /// Throws if the encoder says that it writes this number as a text (``CodingUserInfoKey/numbersAsTexts``).
    private static func refuse(_ number: Double, in encoder: any Encoder) throws {
        guard let key = CodingUserInfoKey.numbersAsTexts, let areInfiniteToo = encoder.userInfo[key] as? Bool,
            number.isNaN || areInfiniteToo
        else { return }
        let reason = "a JSONValue in it is \(number.isNaN ? "NaN" : "infinite"), which JSON does not have; use null"
        throw EncodingError.invalidValue(number, .init(codingPath: encoder.codingPath, debugDescription: reason))
    }

    private func encodeSingle(_ value: some Encodable, to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }

    /// Decodes the value.
    ///
    /// ```swift
    /// let user = try response.json()["data"]["user"].decode(User.self)
    /// ```
    ///
    /// - Parameter coding: how dates, names and bytes are read. Default `Coding()`: dates in ISO 8601.
    /// - Throws: `DecodingError` as `JSONDecoder` does.
    public func decode<T: Decodable>(_ type: T.Type, coding: Coding = Coding()) throws -> T {
        guard let document = JSONDocument(self) else {
            let reason = "more than \(JSONValue.maximumDepth) levels of nesting"
            throw DecodingError.dataCorrupted(.init(codingPath: [], debugDescription: reason))
        }
        return try document.decode(type, by: CodingRules.of(coding))
    }
}

extension CodingUserInfoKey {
    /// An encoder that writes NaN as a text sets this key, to `true` if it writes infinite numbers as texts too. Such a
    /// text would be read back as a string, so such a number in a ``JSONValue`` is refused.
    package static let numbersAsTexts = CodingUserInfoKey(rawValue: "JSONValue.numbersAsTexts")
}

/// A coding key: the name of a member or the index of an element.
///
/// It is the key of all members whose names are known only when the program runs, or for which an enum of keys is not worth it:
///
/// ```swift
/// struct Kind: Decodable {
///     var kind: String
///     init(from decoder: any Decoder) throws {
///         kind = try decoder.container(keyedBy: JSONKey.self).decode(String.self, forKey: .name("kind"))
///     }
/// }
/// ```
public enum JSONKey: CodingKey {
    /// The name of a member of an object.
    case name(String)
    /// The index of an element of an array.
    case index(Int)

    /// The key of a member.
    public init(stringValue: String) { self = .name(stringValue) }
    /// The key of an element.
    public init(intValue: Int) { self = .index(intValue) }

    /// The name, or the index as text.
    public var stringValue: String {
        switch self {
        case .name(let name): name
        case .index(let index): String(index)
        }
    }

    /// The index; `nil` for a name.
    public var intValue: Int? {
        if case .index(let index) = self { index } else { nil }
    }
}

extension [any CodingKey] {
    /// The path as text, `filter.prices[2]`; empty at the top level.
    package var jsonPath: String {
        reduce(into: "") { text, key in
            if let index = key.intValue {
                text += "[\(index)]"
            } else {
                text += text.isEmpty ? key.stringValue : ".\(key.stringValue)"
            }
        }
    }
}
