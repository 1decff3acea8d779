/// What was encoded. Its objects are lists of members, which cost less than the dictionaries of a ``JSONValue``.
enum EncodedJSON {
    struct Member {
        let name: String
        let value: EncodedJSON
    }

    case value(JSONValue)
    case array([EncodedJSON])
    /// The members in the order of encoding. The last of repeated members counts.
    case object([Member])

    var value: JSONValue {
        switch self {
        case .value(let value): return value
        case .array(let elements): return .array(elements.map(\.value))
        case .object(let members):
            var object: [String: JSONValue] = [:]
            object.reserveCapacity(members.count)
            for member in members { object[member.name] = member.value.value }
            return .object(object)
        }
    }

    /// Members sorted by name, without repeated names.
    static func sorted(_ members: [Member]) -> [Member] {
        guard members.count > 1 else { return members }
        var sorted: [Member] = []
        sorted.reserveCapacity(members.count)
        for member in members.sorted(by: { $0.name < $1.name }) {
            // Like a dictionary: the first of equal names, with the last value.
            let name = sorted.last?.name == member.name ? sorted.removeLast().name : member.name
            sorted.append(Member(name: name, value: member.value))
        }
        return sorted
    }
}

/// The place of a value: the encoder of the object or array that contains it, and its key there.
struct JSONEncodingPlace {
    var node: JSONEncodingNode?
    var key: JSONCodingPath.Key?
    /// The path of the outermost value.
    var beginning: [any CodingKey] = []

    var depth: Int { node.map { $0.depth + 1 } ?? beginning.count }

    var keys: [any CodingKey] {
        guard let node, let key else { return beginning }
        return node.codingPath + [key.codingKey]
    }
}

/// The `Encoder` of one value, with what was encoded so far.
///
/// `Encoder` cannot report that a type asks for two kinds of container for one value, so the later one counts.
final class JSONEncodingNode: Encoder {
    private enum Content {
        case nothing
        case single(EncodedJSON)
        case array
        case object
    }

    let encoder: JSONValueEncoder
    fileprivate let place: JSONEncodingPlace
    let depth: Int
    var codingPath: [any CodingKey] { place.keys }
    private let changesNames: Bool
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    @exclusivity(unchecked) private var content = Content.nothing
    @exclusivity(unchecked) private var elements: [EncodedJSON] = []
    @exclusivity(unchecked) private var members: [EncodedJSON.Member] = []
    /// The names of the first members of a large object, in which a search for each name would be slow.
    @exclusivity(unchecked) private var names: Set<String> = []
    @exclusivity(unchecked) private var countedNames = 0
    /// Nested containers, whose content is known only at the end.
    @exclusivity(unchecked) private var nestedElements: [Int: JSONEncodingNode] = [:]
    @exclusivity(unchecked) private var nestedMembers: [String: JSONEncodingNode] = [:]

    /// - Parameter keepsNames: whether the names of members are the keys of a dictionary.
    init(encoder: JSONValueEncoder, at place: JSONEncodingPlace, keepsNames: Bool = false) {
        self.encoder = encoder
        self.place = place
        depth = place.depth
        changesNames = !keepsNames && encoder.rules?.usesSnakeCase == true
    }

    /// Whether more members can be encoded beside what was encoded, which is an object or nothing then.
    func takesMembers() -> Bool {
        switch content {
        case .nothing, .object: return true
        case .array: return false
        case .single(.object(let object)): members = object
        case .single(.value(.object(let object))):
            members = object.map { EncodedJSON.Member(name: $0.key, value: .value($0.value)) }
        case .single: return false
        }
        content = .object
        return true
    }

    var resolved: EncodedJSON {
        switch content {
        case .nothing: return .object([])
        case .single(let value): return value
        case .array:
            for (index, node) in nestedElements { elements[index] = node.resolved }
            return .array(elements)
        case .object:
            let nested = nestedMembers.map { EncodedJSON.Member(name: $0.key, value: $0.value.resolved) }
            return .object(nested.isEmpty ? members : members + nested)
        }
    }

    /// The members of the encoded object; `nil` when the value is not an object.
    var sortedMembers: [EncodedMembers.Member]? {
        let json = resolved
        guard case .object(let members) = json else { return json.value.object.map { EncodedMembers.list(of: $0) } }
        return EncodedJSON.sorted(members).map { .init(name: $0.name, value: $0.value.value) }
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

    func setSingle(_ value: EncodedJSON) { content = .single(value) }

    /// Whatever was recorded for an earlier member of the same name does not count any more.
    func forgetMember(_ key: some CodingKey) {
        guard let deferred = encoder.deferred, !deferred.notes.isEmpty else { return }
        if hasMember(key.stringValue) { deferred.forget(at: codingPath + [key]) }
    }

    private func hasMember(_ name: String) -> Bool {
        if nestedMembers[name] != nil { return true }
        guard members.count > 16 else { return members.contains { $0.name == name } }
        for member in members[countedNames...] { names.insert(member.name) }
        countedNames = members.count
        return names.contains(name)
    }

    /// An optional property without value is left out.
    func leaveOutMember() {
        if depth == 0 { encoder.deferred?.leavesOutNil = true }
    }

    func setMember(_ key: some CodingKey, _ value: EncodedJSON) {
        let name = changesNames ? key.stringValue.snakeCase : key.stringValue
        if !nestedMembers.isEmpty { nestedMembers[name] = nil }
        members.append(EncodedJSON.Member(name: name, value: value))
    }

    func append(_ value: EncodedJSON) { elements.append(value) }

    func nestedMember(_ key: any CodingKey) -> JSONEncodingNode {
        let name = changesNames ? key.stringValue.snakeCase : key.stringValue
        if let node = nestedMembers[name] { return node }
        let node = JSONEncodingNode(encoder: encoder, at: JSONEncodingPlace(node: self, key: .member(key)))
        nestedMembers[name] = node
        return node
    }

    func nestedElement() -> JSONEncodingNode {
        let index = elements.count
        let node = JSONEncodingNode(encoder: encoder, at: JSONEncodingPlace(node: self, key: .element(index)))
        nestedElements[index] = node
        elements.append(.value(.null))
        return node
    }
}

/// The generic `encode` also implements the protocol's overloads for scalars, except for `Int128` and `UInt128`, which have
/// implementations in the standard library that fail.
private struct KeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: JSONEncodingNode
    var codingPath: [any CodingKey] { node.codingPath }

    func encodeNil(forKey key: Key) {
        node.forgetMember(key)
        node.setMember(key, .value(.null))
    }

    @inline(__always)  // Lets the compiler specialize `encode` for scalar types.
    private func set<T: Encodable>(_ key: Key, _ value: T) throws {
        node.forgetMember(key)
        node.setMember(key, try node.encoder.encoded(value) { JSONEncodingPlace(node: node, key: .member(key)) })
    }

    @inline(__always)
    private func setIfPresent<T: Encodable>(_ key: Key, _ value: T?) throws {
        if let value { try set(key, value) } else { node.leaveOutMember() }
    }

    @inline(__always)
    func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try set(key, value) }
    func encode(_ value: Int128, forKey key: Key) throws { try set(key, value) }
    func encode(_ value: UInt128, forKey key: Key) throws { try set(key, value) }

    // The standard library implements each overload, so the generic one alone would not be called for scalars.
    func encodeIfPresent<T: Encodable>(_ value: T?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Bool?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: String?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Double?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Float?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Int?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Int8?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Int16?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Int32?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: Int128?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: UInt?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws { try setIfPresent(key, value) }
    func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws { try setIfPresent(key, value) }

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

    func encodeNil() { node.append(.value(.null)) }

    private func append<T: Encodable>(_ value: T) throws {
        let index = node.count
        node.append(try node.encoder.encoded(value) { JSONEncodingPlace(node: node, key: .element(index)) })
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

    func encodeNil() { node.setSingle(.value(.null)) }

    private func set<T: Encodable>(_ value: T) throws {
        node.setSingle(try node.encoder.encoded(value) { node.place })
    }

    func encode<T: Encodable>(_ value: T) throws { try set(value) }
    func encode(_ value: Int128) throws { try set(value) }
    func encode(_ value: UInt128) throws { try set(value) }
}
