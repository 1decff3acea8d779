import FoundationEssentials
import HTTPCore

/// Makes values of a type without a row: gives every field a value of its own, in every sample another one.
///
/// Texts have both cases and spaces around them, numbers a sign and, where they can, a fraction, optionals are `nil` at
/// times: so whatever a type works out from a field differs from the field in some sample. Where a type takes none of
/// the values that are made up, the field has the value of ``SampleSource/row``.
struct SampleDecoder: Decoder {
    let source: SampleSource
    /// The names on the way here.
    var path: [String] = []
    /// How many lists and dictionaries are around it. Types may hold themselves in those.
    var lists = 0
    /// Counts the values that a type did not take.
    var attempt = 0

    private static let attemptLimit = 24
    private static let depthLimit = 8

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        if path.isEmpty { source.noteNames(of: type) }
        return KeyedDecodingContainer(SampleKeyedContainer<Key>(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { SampleList(decoder: self) }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { SampleValue(decoder: self) }

    func member(_ name: String, inList: Bool = false) -> SampleDecoder {
        var member = self
        member.path.append(name)
        if inList { member.lists += 1 }
        return member
    }

    /// Elements of a list, members of a dictionary.
    var elementCount: Int { lists == 0 ? 3 + Int(bits % 2) : lists == 1 ? 1 : 0 }

    var isNil: Bool { source.keeps(path) ? source.isNil(path) : path.count > Self.depthLimit || bits % 3 == 0 }

    func value<T: Decodable>(_ type: T.Type) throws -> T {
        if source.keeps(path) {
            if let known = source.known(type, at: path) { return known }
            if source.changed == "" { throw SampleSource.Unknown() }
        }
        if let scalar = scalar(type) ?? (type as? any CaseIterable.Type).flatMap({ oneCase($0) }) as? T {
            return scalar
        }
        do { return try make(type) } catch {
            if let known = source.known(type, at: path) { return known }
            throw error
        }
    }

    /// A value of a type that decodes itself, and may refuse some.
    func make<T: Decodable>(_ type: T.Type) throws -> T {
        do { return try T(from: self) } catch {
            guard attempt == 0, !source.row.refusing.contains(ObjectIdentifier(type)) else { throw error }
            var other = self
            for attempt in 1...Self.attemptLimit {
                other.attempt = attempt
                if let value = try? T(from: other) { return value }
            }
            source.row.refusing.insert(ObjectIdentifier(type))
            throw error
        }
    }

    // MARK: Making up

    private func scalar<T>(_ type: T.Type) -> T? {
        let bits = bits
        if let number = type as? any FixedWidthInteger.Type { return integer(number) as? T }
        let fraction = Double(Int64(bits % 2_000_001) - 1_000_000) / 8
        let digits = String(bits % 0xFFFF_FFFF_FFFF, radix: 16)
        let stored: StoredValue
        switch ColumnCoding.kind(of: type) {
        case .boolean: stored = .integer(Int64(bits >> 7 & 1))
        case .real, .date: stored = .real(fraction)
        case .text: stored = .text(bits % 8 == 0 ? "" : " xX\(digits) ")
        case .blob: stored = .blob(Data(digits.utf8))
        case .uuid:
            stored = .text("00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits)
        case .url: stored = .text("https://example.org/xX" + digits)
        case .decimal: stored = .text("\(fraction)")
        case .integer, .unsigned, .json, .any: return nil
        }
        return ColumnCoding.direct(type, from: stored)
    }

    /// Small ones after the first was not taken: raw values of enums mostly are.
    private func integer<Number: FixedWidthInteger>(_ type: Number.Type) -> Number {
        if attempt > 0 { return Number((seed(0) % UInt64(Self.attemptLimit) + UInt64(attempt)) % 24) }
        let magnitude = Int64((bits >> 8) % 1_000_000)
        return Number(truncatingIfNeeded: Number.isSigned && bits % 2 == 0 ? -magnitude - 2 : magnitude + 2)
    }

    private func oneCase<Cases: CaseIterable>(_ type: Cases.Type) -> Cases? {
        let cases = Array(type.allCases)
        return cases.isEmpty ? nil : cases[Int(bits % UInt64(cases.count))]
    }

    /// The same whenever the same place of the same sample is asked for.
    private var bits: UInt64 { seed(attempt) }

    private func seed(_ attempt: Int) -> UInt64 {
        var state = UInt64(truncatingIfNeeded: source.number * 64 + attempt + 1) &* 0x9E37_79B9_7F4A_7C15
        for name in path {
            for byte in name.utf8 { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
            state = (state ^ 0xFF) &* 0x100_0000_01B3
        }
        state = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        state = (state ^ (state >> 27)) &* 0x94D0_49BB_1331_11EB
        return state ^ (state >> 31)
    }
}

/// What the samples of a type are made of, and what the type asks for meanwhile.
final class SampleSource {
    /// The row does not have what the type asks for, and nothing is to be made up.
    struct Unknown: Error {}

    /// Which sample it is.
    let number: Int
    let row: KnownRow
    /// The only field that does not have its value of ``row``; `nil` when every field is made up, "" for none.
    let changed: String?
    private let columns: [String]
    /// The fields that the type asked for, and whether it can do without a value.
    private(set) var fields: [String: Bool] = [:]
    /// Columns whose names are fields of the type, asked for or not.
    private(set) var known: Set<String> = []
    /// Every field that was asked for, those inside of others too.
    private(set) var paths: Set<[String]> = []

    init(number: Int = 0, row: KnownRow, changed: String? = "", columns: [String]) {
        self.number = number
        self.row = row
        self.changed = changed
        self.columns = columns
    }

    func noteNames<Key: CodingKey>(of type: Key.Type) {
        for name in columns where Key(stringValue: name) != nil { known.insert(name) }
    }

    func note(_ path: [String], isOptional: Bool) {
        paths.insert(path)
        if path.count == 1 { fields[path[0]] = isOptional || fields[path[0]] == true }
    }

    /// The names that a type with keys of any name is told.
    func names(at path: [String], count: Int) -> [String] {
        path.isEmpty ? columns.filter { !isAbsent([$0]) } : (0..<count).map { "\(number * 8 + $0)" }
    }

    func keeps(_ path: [String]) -> Bool { changed.map { path.first != $0 } ?? false }

    func isAbsent(_ path: [String]) -> Bool { keeps(path) && isNil(path) }

    func isNil(_ path: [String]) -> Bool { path.first.flatMap { row.values[$0] } ?? .null == .null }

    func known<T: Decodable>(_ type: T.Type, at path: [String]) -> T? {
        guard let name = path.first, let stored = row.values[name], stored != .null else { return nil }
        if path.count == 1 { return try? ColumnCoding.value(type, from: stored, at: []) }
        var node = stored.json
        for name in path.dropFirst() { node = node?[name] }
        return try? node?.decode(type)
    }
}

/// Values of a type that are known, by the names of fields. Looked up when they are needed first: a row may be large.
final class KnownRow {
    private let load: () -> [String: StoredValue]
    private(set) lazy var values = load()
    /// Types that took nothing that was made up.
    var refusing: Set<ObjectIdentifier> = []

    init(_ load: @escaping () -> [String: StoredValue]) { self.load = load }
}

extension StoredValue {
    /// What a column of JSON holds.
    var json: JSONValue? { text.flatMap { try? JSONValue(parsing: Data($0.utf8)) } }
}

private struct SampleKeyedContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: SampleDecoder
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] {
        decoder.source.names(at: decoder.path, count: decoder.elementCount).compactMap { Key(stringValue: $0) }
    }

    /// A type whose keys may have any name is a dictionary.
    private func member(_ key: Key, isOptional: Bool) -> SampleDecoder {
        let member = decoder.member(key.stringValue, inList: key.intValue != nil)
        if member.lists == 0 { decoder.source.note(member.path, isOptional: isOptional) }
        return member
    }

    func contains(_ key: Key) -> Bool {
        !decoder.source.isAbsent(member(key, isOptional: true).path)
    }

    func decodeNil(forKey key: Key) throws -> Bool { member(key, isOptional: true).isNil }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        try member(key, isOptional: false).value(type)
    }

    /// Scalars go through the function of the protocol, which asks the two above.
    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        let member = member(key, isOptional: true)
        return member.isNil ? nil : try? member.value(type)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { try member(key, isOptional: false).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try member(key, isOptional: false).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { decoder.member("super") }
    func superDecoder(forKey key: Key) throws -> any Decoder { member(key, isOptional: false) }
}

private struct SampleList: UnkeyedDecodingContainer {
    let decoder: SampleDecoder
    var currentIndex = 0
    var codingPath: [any CodingKey] { [] }
    var count: Int? { decoder.elementCount }
    var isAtEnd: Bool { currentIndex >= decoder.elementCount }

    private mutating func next() -> SampleDecoder {
        currentIndex += 1
        return decoder.member("[\(currentIndex)]", inList: true)
    }

    mutating func decodeNil() throws -> Bool { false }
    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next().value(type) }

    mutating func nestedContainer<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        try next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }
    mutating func superDecoder() throws -> any Decoder { next() }
}

private struct SampleValue: SingleValueDecodingContainer {
    let decoder: SampleDecoder
    var codingPath: [any CodingKey] { [] }

    func decodeNil() -> Bool { decoder.isNil }
    func decode<T: Decodable>(_ type: T.Type) throws -> T { try decoder.value(type) }
}
