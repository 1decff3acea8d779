/// The `Encoder` of one value, with what was encoded so far.
///
/// `Encoder` cannot report that a type asks for two kinds of container for one value, so the later one counts.
final class JSONEncodingNode: Encoder {
    private enum Content {
        case nothing
        case absent
        case single(JSONValue)
        case array
        case object
    }

    private struct Member {
        let name: String
        let value: JSONValue?
    }

    let encoder: JSONValueEncoder
    let codingPath: [any CodingKey]
    private let changesNames: Bool
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    private var content = Content.nothing
    private var elements: [JSONValue] = []
    /// The members in the order of encoding. The last of repeated members counts; if it is `nil`, it removes the others.
    @exclusivity(unchecked) private var members: [Member] = []
    /// Nested containers, whose content is known only at the end.
    private var nestedElements: [Int: JSONEncodingNode] = [:]
    private var nestedMembers: [String: JSONEncodingNode] = [:]

    /// - Parameter keepsNames: whether the names of members are the keys of a dictionary.
    init(encoder: JSONValueEncoder, path: [any CodingKey], keepsNames: Bool = false) {
        self.encoder = encoder
        codingPath = path
        changesNames = !keepsNames && encoder.rules?.usesSnakeCase == true
    }

    /// The encoded value; `nil` for an optional without value.
    var resolved: JSONValue? {
        switch content {
        case .nothing: return .object([:])
        case .absent: return nil
        case .single(let value): return value
        case .array:
            for (index, node) in nestedElements { elements[index] = node.resolved ?? .null }
            return .array(elements)
        case .object:
            var object: [String: JSONValue] = [:]
            object.reserveCapacity(members.count + nestedMembers.count)
            for member in members { object[member.name] = member.value }
            for (name, node) in nestedMembers { object[name] = node.resolved }
            return .object(object)
        }
    }

    /// The members of the encoded object, made without a dictionary; `nil` when the value is not an object.
    var sortedMembers: [EncodedMembers.Member]? {
        guard case .object = content, nestedMembers.isEmpty else {
            return resolved?.object.map { EncodedMembers.list(of: $0) }
        }
        members.sort { $0.name < $1.name }
        var sorted: [EncodedMembers.Member] = []
        sorted.reserveCapacity(members.count)
        for member in members {
            // Like a dictionary: the first of equal names, with the last value.
            let name = sorted.last?.name == member.name ? sorted.removeLast().name : member.name
            if let value = member.value { sorted.append(.init(name: name, value: value)) }
        }
        return sorted
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        content = .object
        members.reserveCapacity(8)
        return KeyedEncodingContainer(KeyedContainer(node: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        content = .array
        return UnkeyedContainer(node: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { SingleValueContainer(node: self) }

    var count: Int { elements.count }

    func setSingle(_ value: JSONValue?) { content = value.map { .single($0) } ?? .absent }

    func setMember(_ key: some CodingKey, _ value: JSONValue?) {
        let name = changesNames ? key.stringValue.snakeCase : key.stringValue
        if !nestedMembers.isEmpty { nestedMembers[name] = nil }
        members.append(Member(name: name, value: value))
    }

    func append(_ value: JSONValue) { elements.append(value) }

    func nestedMember(_ key: any CodingKey) -> JSONEncodingNode {
        let name = changesNames ? key.stringValue.snakeCase : key.stringValue
        if let node = nestedMembers[name] { return node }
        let node = JSONEncodingNode(encoder: encoder, path: codingPath + [key])
        nestedMembers[name] = node
        return node
    }

    func nestedElement() -> JSONEncodingNode {
        let index = elements.count
        let node = JSONEncodingNode(encoder: encoder, path: codingPath + [JSONKey(intValue: index)])
        nestedElements[index] = node
        elements.append(.null)
        return node
    }
}

/// The generic `encode` also implements the protocol's overloads for scalars, except for `Int128` and `UInt128`, which have
/// implementations in the standard library that fail.
private struct KeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: JSONEncodingNode
    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil(forKey key: Key) { node.setMember(key, nil) }

    @inline(__always)  // Lets the compiler specialize `encode` for scalar types.
    private func set<T: Encodable>(_ key: Key, _ value: T) throws {
        node.setMember(key, try node.encoder.encode(value) { node.codingPath + [key] })
    }

    @inline(__always)
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try set(key, value) }
    func encode(_ value: Int128, forKey key: Key) throws { try set(key, value) }
    func encode(_ value: UInt128, forKey key: Key) throws { try set(key, value) }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type, forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        node.nestedMember(key).container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        node.nestedMember(key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { node.nestedMember(JSONKey(stringValue: "super")) }

    func superEncoder(forKey key: Key) -> any Encoder { node.nestedMember(key) }
}

private struct UnkeyedContainer: UnkeyedEncodingContainer {
    let node: JSONEncodingNode
    var codingPath: [any CodingKey] { node.codingPath }
    var count: Int { node.count }

    func encodeNil() { node.append(.null) }

    private func append<T: Encodable>(_ value: T) throws {
        let index = node.count
        node.append(try node.encoder.encode(value) { node.codingPath + [JSONKey(intValue: index)] } ?? .null)
    }

    func encode<T: Encodable>(_ value: T) throws { try append(value) }
    func encode(_ value: Int128) throws { try append(value) }
    func encode(_ value: UInt128) throws { try append(value) }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type
    ) -> KeyedEncodingContainer<NestedKey> {
        node.nestedElement().container(keyedBy: keyType)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { node.nestedElement().unkeyedContainer() }

    func superEncoder() -> any Encoder { node.nestedElement() }
}

private struct SingleValueContainer: SingleValueEncodingContainer {
    let node: JSONEncodingNode
    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil() { node.setSingle(nil) }

    private func set<T: Encodable>(_ value: T) throws {
        node.setSingle(try node.encoder.encode(value) { node.codingPath })
    }

    func encode<T: Encodable>(_ value: T) throws { try set(value) }
    func encode(_ value: Int128) throws { try set(value) }
    func encode(_ value: UInt128) throws { try set(value) }
}
