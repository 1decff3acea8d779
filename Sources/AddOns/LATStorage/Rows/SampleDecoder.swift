import FoundationEssentials
import HTTPCore

/// Makes values of a type without a row. Every field gets a value of its own, which is different in every sample.
///
/// Texts have letters of both cases and spaces around them, numbers have a sign and where possible a fraction, and some
/// optionals are `nil`. So a computed property differs from a field in at least one sample. If a type refuses every
/// made-up value, the field gets the value that it has in ``SampleSource/row``.
struct SampleDecoder: Decoder {
    let source: SampleSource
    /// The path of names to this value.
    var path: [String] = []
    /// The number of lists and dictionaries around this value. A type may contain itself through those.
    var lists = 0
    /// Counts the values that the type refused.
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

    /// The number of elements of a list, or of members of a dictionary.
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

    /// Makes a value of a type that decodes itself and may refuse some values.
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

    /// After the first refusal the numbers are small, as most raw values of enums are.
    private func integer<Number: FixedWidthInteger>(_ type: Number.Type) -> Number {
        if attempt > 0 { return Number((seed(0) % UInt64(Self.attemptLimit) + UInt64(attempt)) % 24) }
        let magnitude = Int64((bits >> 8) % 1_000_000)
        return Number(truncatingIfNeeded: Number.isSigned && bits % 2 == 0 ? -magnitude - 2 : magnitude + 2)
    }

    private func oneCase<Cases: CaseIterable>(_ type: Cases.Type) -> Cases? {
        let cases = Array(type.allCases)
        return cases.isEmpty ? nil : cases[Int(bits % UInt64(cases.count))]
    }

    /// Pseudo-random bits, always the same for one place and attempt of one sample.
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

/// The source of one sample's values. It records which fields the type decodes.
final class SampleSource {
    /// Thrown when the row has no value for a field and none may be made up.
    struct Unknown: Error {}

    /// The number of the sample.
    let number: Int
    let row: KnownRow
    /// The only field whose value is not that of ``row``; `nil` when every field is made up, "" for none.
    let changed: String?
    private let columns: [String]
    /// The fields that the type decoded, and whether each is optional.
    private(set) var fields: [String: Bool] = [:]
    /// The columns whose names are fields of the type, whether it decoded them or not.
    private(set) var known: Set<String> = []
    /// The paths of all decoded fields, nested ones too.
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

    /// The keys in the keyed container of a type that accepts any key, such as a dictionary.
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
        return try? node?.decode(type, coding: Self.coding)
    }

    /// How ``ColumnCoding`` writes JSON.
    private static let coding: Coding = {
        var coding = Coding(dates: .secondsSince2001)
        coding.nonConformingNumbers = .texts(infinity: "Infinity", negativeInfinity: "-Infinity", nan: "NaN")
        return coding
    }()
}

/// The known values of a type by field name. They are read when they are first needed, as a row may be large.
final class KnownRow {
    private let load: () -> [String: StoredValue]
    private(set) lazy var values = load()
    /// The types that refused every made-up value.
    var refusing: Set<ObjectIdentifier> = []

    init(_ load: @escaping () -> [String: StoredValue]) { self.load = load }
}

extension StoredValue {
    /// The value of a JSON column.
    var json: JSONValue? { text.flatMap { try? JSONValue(parsing: Data($0.utf8)) } }
}

private struct SampleKeyedContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: SampleDecoder
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] {
        decoder.source.names(at: decoder.path, count: decoder.elementCount).compactMap { Key(stringValue: $0) }
    }

    /// Returns the decoder of a member, and records it as a field of the type. The made-up keys of a dictionary are
    /// numbers, so a key with an `intValue` belongs to a dictionary and is not recorded.
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

    /// There are no overloads for scalars: the protocol's defaults call `decodeNil(forKey:)` and `decode(_:forKey:)`.
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
