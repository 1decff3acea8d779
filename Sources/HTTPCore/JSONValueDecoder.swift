internal import FoundationEssentials

/// Makes models of JSON that was read already, with the rules of `JSONDecoder`'s defaults: `Data` is Base64, `URL` its
/// text, `Date` seconds since 2001, a whole number fits every number type that holds it.
///
/// `JSONDecoder` reads text only: a value would have to be written first, and its containers cost several times as much
/// as what they do here.
struct JSONValueDecoder: Decoder {
    let value: JSONValue
    let path: JSONPath

    var codingPath: [any CodingKey] { path.keys }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(_ value: JSONValue, at path: JSONPath = .top) {
        self.value = value
        self.path = path
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw mismatch([String: JSONValue].self) }
        return KeyedDecodingContainer(JSONMembers(members: members, path: path))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else { throw mismatch([JSONValue].self) }
        return JSONElements(elements: elements, path: path)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    // MARK: Values

    /// Decodes a value; types that JSON has no form for of its own take `JSONDecoder`'s.
    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        if let direct = try direct(type) { return direct }
        guard path.depth <= JSONValue.maximumDepth else {
            throw corrupted("more than \(JSONValue.maximumDepth) levels in one another")
        }
        return try T(from: self)
    }

    private func direct<T>(_ type: T.Type) throws -> T? {
        if type == String.self { return try string() as? T }
        if type == JSONValue.self { return value as? T }
        if type == Data.self {
            guard let data = Data(base64Encoded: try string()) else { throw corrupted("it is not Base64") }
            return data as? T
        }
        if type == URL.self {
            guard let url = URL(string: try string()) else { throw corrupted("it is no URL") }
            return url as? T
        }
        if type == Decimal.self {
            guard let decimal = value.decimal else { throw mismatch(type) }
            return decimal as? T
        }
        return nil
    }

    func string() throws -> String {
        guard case .string(let text) = value else { throw mismatch(String.self) }
        return text
    }

    func bool() throws -> Bool {
        guard case .bool(let bool) = value else { throw mismatch(Bool.self) }
        return bool
    }

    func integer<T: FixedWidthInteger>(_ type: T.Type) throws -> T {
        let integer: T?
        switch value {
        case .int(let number): integer = T(exactly: number)
        case .double(let number): integer = T(exactly: number)
        case .decimal(let number): integer = T(number.description)
        default: throw mismatch(type)
        }
        guard let integer else { throw corrupted("the number \(value) does not fit into \(type)") }
        return integer
    }

    func floatingPoint<T: BinaryFloatingPoint & LosslessStringConvertible>(_ type: T.Type) throws -> T {
        switch value {
        case .int(let number): return T(number)
        case .double(let number): return T(number)
        case .decimal(let number):
            guard let parsed = T(number.description) else { throw corrupted("\(number) does not fit into \(type)") }
            return parsed
        default: throw mismatch(type)
        }
    }

    private func mismatch(_ type: Any.Type) -> DecodingError {
        let context = DecodingError.Context(
            codingPath: codingPath, debugDescription: "expected \(type), found \(value.kindName)")
        return value.isNull ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }

    func corrupted(_ reason: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: codingPath, debugDescription: reason))
    }
}

/// Where in a document a decoder is; made into keys only when somebody asks.
indirect enum JSONPath: Sendable {
    case top
    case below(any CodingKey, JSONPath, depth: Int)

    var depth: Int {
        switch self {
        case .top: 0
        case .below(_, _, let depth): depth
        }
    }

    var keys: [any CodingKey] {
        var keys: [any CodingKey] = []
        var path = self
        while case .below(let key, let parent, _) = path {
            keys.append(key)
            path = parent
        }
        return keys.reversed()
    }

    func appending(_ key: some CodingKey) -> JSONPath { .below(key, self, depth: depth + 1) }
}

extension JSONValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value.isNull }
    func decode(_ type: Bool.Type) throws -> Bool { try bool() }
    func decode(_ type: String.Type) throws -> String { try string() }
    func decode(_ type: Double.Type) throws -> Double { try floatingPoint(type) }
    func decode(_ type: Float.Type) throws -> Float { try floatingPoint(type) }
    func decode(_ type: Int.Type) throws -> Int { try integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer(type) }
}

/// The members of an object.
private struct JSONMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: [String: JSONValue]
    let path: JSONPath

    var codingPath: [any CodingKey] { path.keys }
    var allKeys: [Key] { members.keys.compactMap { Key(stringValue: $0) } }

    private func member(_ key: Key) throws -> JSONValueDecoder {
        guard let value = members[key.stringValue] else {
            throw DecodingError.keyNotFound(
                key, .init(codingPath: codingPath, debugDescription: "there is no member \"\(key.stringValue)\""))
        }
        return JSONValueDecoder(value, at: path.appending(key))
    }

    func contains(_ key: Key) -> Bool { members[key.stringValue] != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try member(key).value.isNull }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try member(key).bool() }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try member(key).string() }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try member(key).floatingPoint(type) }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try member(key).floatingPoint(type) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try member(key).integer(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try member(key).integer(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try member(key).integer(type) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try member(key).integer(type) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try member(key).integer(type) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try member(key).integer(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try member(key).integer(type) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try member(key).integer(type) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try member(key).integer(type) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try member(key).integer(type) }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try member(key).decode(type) }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> { try member(key).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try member(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder {
        let key = JSONKey(stringValue: "super")
        return JSONValueDecoder(members["super"] ?? .null, at: path.appending(key))
    }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        JSONValueDecoder(members[key.stringValue] ?? .null, at: path.appending(key))
    }
}

/// The elements of an array, one after the other.
private struct JSONElements: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    let path: JSONPath
    private(set) var currentIndex = 0

    init(elements: [JSONValue], path: JSONPath) {
        self.elements = elements
        self.path = path
    }

    var codingPath: [any CodingKey] { path.keys }
    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    private func current(_ type: Any.Type) throws -> JSONValueDecoder {
        let here = path.appending(JSONKey(intValue: currentIndex))
        guard currentIndex < elements.count else {
            throw DecodingError.valueNotFound(
                type, .init(codingPath: here.keys, debugDescription: "the array has only \(elements.count) elements"))
        }
        return JSONValueDecoder(elements[currentIndex], at: here)
    }

    /// The index moves on only past what could be decoded.
    private mutating func next<T>(_ type: T.Type, _ read: (JSONValueDecoder) throws -> T) throws -> T {
        let value = try read(try current(type))
        currentIndex += 1
        return value
    }

    mutating func decodeNil() throws -> Bool {
        guard try current(Never.self).value.isNull else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode(_ type: Bool.Type) throws -> Bool { try next(type) { try $0.bool() } }
    mutating func decode(_ type: String.Type) throws -> String { try next(type) { try $0.string() } }
    mutating func decode(_ type: Double.Type) throws -> Double { try next(type) { try $0.floatingPoint(type) } }
    mutating func decode(_ type: Float.Type) throws -> Float { try next(type) { try $0.floatingPoint(type) } }
    mutating func decode(_ type: Int.Type) throws -> Int { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try next(type) { try $0.integer(type) } }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try next(type) { try $0.integer(type) } }
    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next(type) { try $0.decode(type) } }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        let container = try current(JSONValue.self).container(keyedBy: type)
        currentIndex += 1
        return container
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        let container = try current(JSONValue.self).unkeyedContainer()
        currentIndex += 1
        return container
    }

    mutating func superDecoder() throws -> any Decoder { try next(JSONValue.self) { $0.value }.decoder(at: path) }
}

extension JSONValue {
    fileprivate func decoder(at path: JSONPath) -> JSONValueDecoder { JSONValueDecoder(self, at: path) }

    /// What it is, for messages.
    fileprivate var kindName: String {
        switch self {
        case .null: "null"
        case .bool: "a Boolean"
        case .int, .double, .decimal: "a number"
        case .string: "a text"
        case .array: "an array"
        case .object: "an object"
        }
    }
}
