internal import FoundationEssentials
import Synchronization

extension JSONDocument {
    /// Decodes the value.
    ///
    /// - Throws: `DecodingError` as `JSONDecoder` does. Its coding path begins at this value.
    package func decode<T: Decodable>(_ type: T.Type, by rules: CodingRules? = nil) throws -> T {
        if let decoder = rules?.coding.decoder { return try decoder.decode(type, from: value.data()) }
        return try decode(type, at: JSONCodingPath(rules: rules))
    }

    /// Whether the value can be decoded, and the type reads one of these members of it, so that it knows them.
    package func decodes<T: Decodable>(_ type: T.Type, reading names: Set<String>, by rules: CodingRules?) -> Bool {
        // Of these every member is read, or nobody can tell.
        if type == JSONValue.self || rules?.coding.decoder != nil { return true }
        let watch = MemberWatch(names)
        guard (try? decode(type, by: CodingRules(rules?.coding ?? Coding(), watch: watch))) != nil else { return false }
        return watch.hasNoted
    }

    /// JSON has no dates, bytes and URLs. A `Date` and `Data` are decoded as the ``Coding`` says, a `URL` from text.
    fileprivate func decode<T: Decodable>(_ type: T.Type, at place: JSONCodingPath) throws -> T {
        // Each bit cast converts to the same type. `as? T` would do a slow look-up.
        if type == String.self { return unsafeBitCast(try read(string, at: place), to: type) }
        if type == JSONValue.self {
            let ignoresNulls = place.allRules?.coding.ignoresNullMembers == true
            return unsafeBitCast(ignoresNulls ? value.withoutNullMembers : value, to: type)
        }
        if type == Date.self {
            do throws(CodingProblem) {
                return unsafeBitCast(try CodingRules.date(from: self, by: place.allRules), to: type)
            } catch {
                throw isNull ? mismatch(Date.self, at: place) : place.corrupted(error.reason)
            }
        }
        if type == Data.self {
            guard let data = CodingRules.data(from: try read(string, at: place), by: place.allRules) else {
                throw place.corrupted("it is not Base64")
            }
            return unsafeBitCast(data, to: type)
        }
        if type == URL.self {
            guard let url = URL(string: try read(string, at: place)) else { throw place.corrupted("it is not a URL") }
            return unsafeBitCast(url, to: type)
        }
        if type == Decimal.self {
            do throws(CodingProblem) {
                return unsafeBitCast(try CodingRules.decimal(from: self, by: place.allRules), to: type)
            } catch {
                guard number == nil else { throw place.corrupted(error.reason) }
                throw isNull ? mismatch(Decimal.self, at: place) : mismatch(Decimal.self, at: place, error.reason)
            }
        }
        guard place.depth <= JSONValue.maximumDepth else {
            throw place.corrupted("more than \(JSONValue.maximumDepth) levels of nesting")
        }
        return try T(from: JSONDocumentDecoder(self, at: place, keepsNames: type is any StringKeys.Type))
    }

    /// The number as an integer; `nil` when this is not a number or does not fit.
    fileprivate func integer<T: FixedWidthInteger>() -> T? {
        if case .int(let number) = number { return T(exactly: number) }
        let (signed, unsigned) = wideInteger
        return signed.flatMap { T(exactly: $0) } ?? unsigned.flatMap { T(exactly: $0) }
    }

    /// A number that is not held as `Int64`, as integers of the widest types. Not generic, because converting a `Double` or
    /// text is long code, which would be compiled for each of the ten types.
    private var wideInteger: (signed: Int128?, unsigned: UInt128?) {
        switch number {
        case .double(let number): (Int128(exactly: number), UInt128(exactly: number))
        case .decimal(let number): (Int128(number.description), UInt128(number.description))
        default: (nil, nil)
        }
    }

    /// The number as the nearest `Double` or `Float`; `nil` when it is too large.
    fileprivate func floatingPoint<T: JSONFloat>(_ rules: CodingRules?) -> T? {
        switch number {
        case .int(let number): T(number)
        case .double(let number): T(number).fitting(number)
        case .decimal(let number): T(number.description)?.fitting(0)
        default: rules.flatMap { CodingRules.nonConformingNumber(from: string, by: $0) }.map { T($0) }
        }
    }

    /// Unwraps what was read of this value, or throws the reason why it could not be read.
    fileprivate func read<T>(_ value: T?, at place: @autoclosure () -> JSONCodingPath) throws -> T {
        if let value { return value }
        throw unreadable(T.self, at: place())
    }

    private func unreadable(_ type: Any.Type, at place: JSONCodingPath) -> DecodingError {
        if let number, type is any BinaryInteger.Type || type is any BinaryFloatingPoint.Type {
            return place.corrupted("the number \(number) does not fit into \(type)")
        }
        return mismatch(type, at: place)
    }

    fileprivate func mismatch(_ type: Any.Type, at place: JSONCodingPath, _ reason: String? = nil) -> DecodingError {
        // The types that a container asks for are not the model's.
        let expected =
            type == [String: JSONValue].self ? "an object" : type == [JSONValue].self ? "an array" : "\(type)"
        let context = DecodingError.Context(
            codingPath: place.keys, debugDescription: reason ?? "expected \(expected), found \(kindName)")
        return isNull ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }
}

/// Notes whether one of several members of a document was read.
final class MemberWatch: Sendable {
    private let names: Set<String>
    private let isNoted = Atomic(false)

    init(_ names: Set<String>) { self.names = names }

    var hasNoted: Bool { isNoted.load(ordering: .relaxed) }

    func note(_ name: String) { if names.contains(name) { isNoted.store(true, ordering: .relaxed) } }
}

extension BinaryFloatingPoint {
    /// This value; `nil` if it is infinite and the number that it was made of is not.
    fileprivate func fitting(_ number: Double) -> Self? { isFinite || !number.isFinite ? self : nil }
}

/// `Double` and `Float`.
typealias JSONFloat = BinaryFloatingPoint & LosslessStringConvertible

/// The place of a value in a document: the decoder of the object or array that contains it, and its key there. The coding
/// path is made only for errors.
private struct JSONCodingPath {
    var decoder: JSONDocumentDecoder?
    var key: (any CodingKey)?
    /// The coding at the root; `nil` for the standard one.
    var rules: CodingRules?

    var allRules: CodingRules? { decoder?.rules ?? rules }

    var depth: Int { decoder.map { $0.depth + 1 } ?? 0 }

    var keys: [any CodingKey] {
        var keys: [any CodingKey] = []
        var place = self
        while let key = place.key, let decoder = place.decoder {
            keys.append(key)
            place = decoder.place
        }
        return keys.reversed()
    }

    func corrupted(_ reason: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: keys, debugDescription: reason))
    }
}

final class JSONDocumentDecoder: Decoder {
    let document: JSONDocument
    fileprivate let place: JSONCodingPath
    fileprivate let depth: Int
    fileprivate let rules: CodingRules?
    fileprivate let usesSnakeCase: Bool
    /// The members of a large object, in which a linear search for each name would be slow.
    private let table: [String: JSONDocument]?

    /// - Parameter keepsNames: Whether the names are the keys of a dictionary, which are data.
    fileprivate init(
        _ document: JSONDocument, at place: JSONCodingPath, keepsNames: @autoclosure () -> Bool = false
    ) {
        self.document = document
        self.place = place
        depth = place.depth
        rules = place.allRules
        usesSnakeCase = rules?.usesSnakeCase == true && !keepsNames()
        table = (document.memberCount ?? 0) > 64 ? Dictionary(document.members) { $1 } : nil
    }

    var codingPath: [any CodingKey] { place.keys }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard document.memberCount != nil else { throw document.mismatch([String: JSONValue].self, at: place) }
        return KeyedDecodingContainer(JSONMembers(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard let count = document.elementCount else { throw document.mismatch([JSONValue].self, at: place) }
        return JSONElements(of: self, count: count)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    @inline(__always)
    fileprivate func member(_ name: String) -> JSONDocument? {
        rules == nil ? anyMember(name) : codedMember(name)
    }

    private func anyMember(_ name: String) -> JSONDocument? {
        if let table { table[name] } else { document[name] }
    }

    private func codedMember(_ name: String) -> JSONDocument? {
        if let watch = rules?.watch, depth == 0 { watch.note(name) }
        let member = usesSnakeCase ? snakeMember(name) ?? anyMember(name) : anyMember(name)
        return rules?.coding.ignoresNullMembers == true && member?.isNull == true ? nil : member
    }

    /// Servers write a number as a word of its own, `address_line_1`, or as the end of one, `address_line1`.
    private func snakeMember(_ name: String) -> JSONDocument? {
        if let member = anyMember(name.snakeCase) { return member }
        guard name.utf8.contains(where: { (0x30...0x39).contains($0) }) else { return nil }
        return anyMember(name.snakeCase(separatingNumbers: true))
    }

    fileprivate var memberNames: [String] {
        let names = table.map { Array($0.keys) } ?? document.members.map(\.name)
        if let watch = rules?.watch, depth == 0 { names.forEach(watch.note) }
        return rules?.coding.ignoresNullMembers == true ? names.filter { anyMember($0)?.isNull == false } : names
    }
}

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

private struct JSONMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
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
        return try member.read(value(member), at: JSONCodingPath(decoder: decoder, key: key))
    }

    /// Looks the name up once. The default implementations of `decodeIfPresent` would do it three times.
    @inline(__always)
    private func readIfPresent<T>(_ key: Key, _ value: (JSONDocument) -> T?) throws -> T? {
        guard let member = decoder.member(key.stringValue), !member.isNull else { return nil }
        return try member.read(value(member), at: JSONCodingPath(decoder: decoder, key: key))
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
        try member(key).decode(type, at: JSONCodingPath(decoder: decoder, key: key))
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
        return try member.decode(type, at: JSONCodingPath(decoder: decoder, key: key))
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
        JSONDocumentDecoder(member ?? .null, at: JSONCodingPath(decoder: decoder, key: key))
    }
}

/// The elements of an array, in order.
private struct JSONElements: UnkeyedDecodingContainer {
    private let decoder: JSONDocumentDecoder
    private let elementCount: Int
    private var element: JSONDocument
    private(set) var currentIndex = 0

    init(of decoder: JSONDocumentDecoder, count: Int) {
        self.decoder = decoder
        elementCount = count
        element = decoder.document.first
    }

    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { elementCount }
    var isAtEnd: Bool { currentIndex >= elementCount }

    private var place: JSONCodingPath { JSONCodingPath(decoder: decoder, key: JSONKey(intValue: currentIndex)) }

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
