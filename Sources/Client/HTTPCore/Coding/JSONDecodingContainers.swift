// The three containers of a decoder of JSON.

/// In the three containers the generic functions for integers implement the protocol's overloads for each type of integer,
/// and those for `Double` and `Float` likewise. Only the overloads for `Int128` and `UInt128`, which have implementations in the
/// standard library that fail, are functions of their own.
extension JSONDocumentDecoder: SingleValueDecodingContainer {
    private func read<T>(_ value: T?) throws -> T { try document.read(value, at: place) }

    func decodeNil() -> Bool { document.isNull }
    func decode(_ type: Bool.Type) throws -> Bool { try read(document.bool) }
    func decode(_ type: String.Type) throws -> String { try read(document.string) }
    func decode<T: Decodable & JSONFloat>(_ type: T.Type) throws -> T { try read(document.floatingPoint(rules)) }
    func decode<T: Decodable & FixedWidthInteger>(_ type: T.Type) throws -> T { try read(document.integer()) }
    func decode(_ type: Int128.Type) throws -> Int128 { try read(document.integer()) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try read(document.integer()) }
    func decode<T: Decodable>(_ type: T.Type) throws -> T { try document.decode(type, at: place) }
}

struct JSONMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: JSONDocumentDecoder

    var codingPath: [any CodingKey] { decoder.codingPath }
    var allKeys: [Key] {
        Set(decoder.memberNames).compactMap { name in
            // The cases of an enum are keys, too.
            Key(stringValue: name) ?? (decoder.usesSnakeCase ? Key(stringValue: name.camelCase) : nil)
        }
    }

    private func member(_ key: Key) throws -> JSONDocument {
        let name = key.stringValue
        if let member = decoder.member(name) { return member }
        throw DecodingError.keyNotFound(
            key, .init(codingPath: codingPath, debugDescription: "there is no member \"\(name)\""))
    }

    @inline(__always)  // The caller knows `T`, but not `Key`.
    private func read<T>(_ key: Key, _ value: (JSONDocument) -> T?) throws -> T {
        let member = try member(key)
        return try member.read(value(member), at: JSONCodingPath(decoder: decoder, key: .member(key)))
    }

    /// Looks the name up once. The default implementations of `decodeIfPresent` would do it three times.
    @inline(__always)
    private func readIfPresent<T>(_ key: Key, _ value: (JSONDocument) -> T?) throws -> T? {
        guard let member = decoder.member(key.stringValue), !member.isNull else { return nil }
        return try member.read(value(member), at: JSONCodingPath(decoder: decoder, key: .member(key)))
    }

    func contains(_ key: Key) -> Bool { decoder.member(key.stringValue) != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try member(key).isNull }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try read(key) { $0.bool } }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try read(key) { $0.string } }
    @inline(__always)
    func decode<T: Decodable & JSONFloat>(_ type: T.Type, forKey key: Key) throws -> T {
        try read(key) { $0.floatingPoint(decoder.rules) }
    }
    @inline(__always)
    func decode<T: Decodable & FixedWidthInteger>(_ type: T.Type, forKey key: Key) throws -> T {
        try read(key) { $0.integer() }
    }
    func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 { try read(key) { $0.integer() } }
    func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 { try read(key) { $0.integer() } }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        try member(key).decode(type, at: JSONCodingPath(decoder: decoder, key: .member(key)))
    }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try readIfPresent(key) { $0.bool } }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        try readIfPresent(key) { $0.string }
    }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        try readIfPresent(key) { $0.floatingPoint(decoder.rules) }
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try readIfPresent(key) { $0.integer() } }
    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        guard let member = decoder.member(key.stringValue), !member.isNull else { return nil }
        return try member.decode(type, at: JSONCodingPath(decoder: decoder, key: .member(key)))
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try decoder(of: try member(key), at: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder(of: try member(key), at: key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder {
        decoder(of: decoder.member("super"), at: JSONKey(stringValue: "super"))
    }

    func superDecoder(forKey key: Key) throws -> any Decoder { decoder(of: decoder.member(key.stringValue), at: key) }

    private func decoder(of member: JSONDocument?, at key: any CodingKey) -> JSONDocumentDecoder {
        JSONDocumentDecoder(member ?? .null, at: JSONCodingPath(decoder: decoder, key: .member(key)))
    }
}

/// The elements of an array, in order.
struct JSONElements: UnkeyedDecodingContainer {
    private let decoder: JSONDocumentDecoder
    private let elementCount: Int
    private var element: JSONDocument
    private(set) var currentIndex = 0

    init(of decoder: JSONDocumentDecoder) {
        self.decoder = decoder
        elementCount = decoder.document.elementCount ?? 0
        element = decoder.document.first
    }

    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { elementCount }
    var isAtEnd: Bool { currentIndex >= elementCount }

    private var place: JSONCodingPath { JSONCodingPath(decoder: decoder, key: .element(currentIndex)) }

    private func current(_ type: Any.Type) throws -> JSONDocument {
        guard isAtEnd else { return element }
        throw DecodingError.valueNotFound(
            type, .init(codingPath: place.keys, debugDescription: "the array has only \(elementCount) elements"))
    }

    /// Moves to the next element, after this one was decoded.
    private mutating func advance<T>(past value: T) -> T {
        currentIndex += 1
        element = element.next
        return value
    }

    private mutating func read<T>(_ value: (JSONDocument) -> T?) throws -> T {
        let element = try current(T.self)
        return advance(past: try element.read(value(element), at: place))
    }

    mutating func decodeNil() throws -> Bool { try current(Never.self).isNull && advance(past: true) }
    mutating func decode(_ type: Bool.Type) throws -> Bool { try read { $0.bool } }
    mutating func decode(_ type: String.Type) throws -> String { try read { $0.string } }
    mutating func decode<T: Decodable & JSONFloat>(_ type: T.Type) throws -> T {
        let rules = decoder.rules
        return try read { $0.floatingPoint(rules) }
    }
    mutating func decode<T: Decodable & FixedWidthInteger>(_ type: T.Type) throws -> T { try read { $0.integer() } }
    mutating func decode(_ type: Int128.Type) throws -> Int128 { try read { $0.integer() } }
    mutating func decode(_ type: UInt128.Type) throws -> UInt128 { try read { $0.integer() } }

    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
        advance(past: try current(type).decode(type, at: place))
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        advance(past: try currentDecoder().container(keyedBy: type))
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        advance(past: try currentDecoder().unkeyedContainer())
    }

    mutating func superDecoder() throws -> any Decoder { advance(past: try currentDecoder()) }

    private func currentDecoder() throws -> JSONDocumentDecoder {
        JSONDocumentDecoder(try current(JSONValue.self), at: place)
    }
}
