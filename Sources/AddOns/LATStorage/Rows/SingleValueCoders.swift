import HTTPCore

/// Encodes a value that is a single value, such as an enum with raw values, and detects whether it is one.
final class SingleValueEncoder: Encoder, SingleValueEncodingContainer {
    private(set) var result: (kind: FieldKind, value: StoredValue)?
    /// Whether the value asked for a container, so that it must be stored as JSON.
    private(set) var isNested = false
    var codingPath: [any CodingKey] { [] }
    /// SQLite has infinite numbers, but NaN is stored as a text.
    var userInfo: [CodingUserInfoKey: Any] { CodingUserInfoKey.numbersAsTexts.map { [$0: false] } ?? [:] }

    /// Thrown to stop a value whose encoding is not needed.
    fileprivate struct Nested: Error {}

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        isNested = true
        return KeyedEncodingContainer(DiscardingKeyedContainer<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        isNested = true
        return DiscardingUnkeyedContainer(encoder: self)
    }

    func encodeNil() { result = (.any, .null) }

    /// Also encodes the scalars without an overload here.
    func encode<T: Encodable>(_ value: T) throws {
        if let scalar = ColumnCoding.scalar(value) { result = scalar } else { try value.encode(to: self) }
    }
}

private struct DiscardingKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: SingleValueEncoder
    var codingPath: [any CodingKey] { [] }

    func encodeNil(forKey key: Key) throws { throw SingleValueEncoder.Nested() }
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { throw SingleValueEncoder.Nested() }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> { encoder.container(keyedBy: keyType) }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { encoder.unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder }
    func superEncoder(forKey key: Key) -> any Encoder { encoder }
}

private struct DiscardingUnkeyedContainer: UnkeyedEncodingContainer {
    let encoder: SingleValueEncoder
    var codingPath: [any CodingKey] { [] }
    var count: Int { 0 }

    func encodeNil() throws { throw SingleValueEncoder.Nested() }
    func encode<T: Encodable>(_ value: T) throws { throw SingleValueEncoder.Nested() }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type
    ) -> KeyedEncodingContainer<NestedKey> { encoder.container(keyedBy: keyType) }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }
    func superEncoder() -> any Encoder { encoder }
}

/// Decodes a type from one stored value.
struct SingleValueDecoder: Decoder, SingleValueDecodingContainer {
    /// Thrown when the type asks for fields or elements: the value is then JSON.
    struct Nested: Error {}

    let stored: StoredValue
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> { throw Nested() }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw Nested() }
    func singleValueContainer() -> any SingleValueDecodingContainer { self }
    func decodeNil() -> Bool { stored == .null }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        if let direct = ColumnCoding.direct(type, from: stored) { return direct }
        if ColumnCoding.kind(of: type) != .any { throw ColumnCoding.mismatch(type, stored, codingPath) }
        return try T(from: self)
    }
}
