package import FoundationEssentials

/// Encodes any `Encodable` value as a ``JSONValue``.
///
/// - `nil` is left out only by `encodeIfPresent`, which the compiler calls for optional properties. `encodeNil(forKey:)`,
///   `encode(nil, forKey:)`, a type that encodes nil, and dictionaries and arrays of optionals give a null.
/// - Numbers and Booleans stay typed. Integers beyond `Int64` become ``JSONValue/decimal(_:)``. A `Float` becomes the
///   double with the same shortest text, so that `0.1` stays `0.1`.
/// - The ``Coding`` determines the form of a `Date`, of `Data` and of names. `URL` is its absolute text, `UUID` its text in
///   small letters (RFC 9562 §4), `Decimal` a number. Sets are sorted by their JSON; otherwise equal requests would differ
///   from run to run.
/// - A type that encodes nothing is an empty object.
///
/// Errors are `EncodingError.invalidValue` with the path: for a refused number or date, and for more than
/// ``JSONValue/maximumDepth`` levels, as in a cycle of objects.
package struct JSONValueEncoder {
    /// The coding; `nil` for the standard one.
    let rules: CodingRules?
    /// Records the values that depend on the coding; `nil` when the coding is known.
    let deferred: DeferredCoding?

    package init(rules: CodingRules? = nil) { self.init(rules: rules, deferred: nil) }

    init(rules: CodingRules?, deferred: DeferredCoding?) {
        self.rules = rules
        self.deferred = deferred
    }

    /// Encodes a value; `nil` at the top level becomes ``JSONValue/null``.
    package func encode(_ value: some Encodable) throws -> JSONValue {
        try encoded(value, at: { JSONEncodingPlace() }).value
    }

    /// Encodes a value as JSON, like ``encode(_:)`` and ``JSONValue/data(prettyPrinted:sortedKeys:)``.
    package func data(of value: some Encodable) throws -> Data {
        let json = try encoded(value, at: { JSONEncodingPlace() })
        var writer = JSONWriter(isPretty: false, sortsKeys: true)
        writer.write(json, depth: 0)
        if writer.isUnwritable { try json.value.checkWritable() }
        return Data(writer.bytes)
    }

    /// Encodes a value; `nil` when it is an optional without value.
    ///
    /// - Parameter path: the path of the value, which is the prefix of the paths in errors.
    package func encodeIfPresent(_ value: some Encodable, at path: [any CodingKey] = []) throws -> JSONValue? {
        if (value as? any OptionalValue)?.isNil == true { return nil }
        return try encoded(value, at: { JSONEncodingPlace(beginning: path) }).value
    }

    /// Encodes a value and returns its members, sorted by name; `nil` when the result is not an object.
    func members(of value: some Encodable) throws -> [EncodedMembers.Member]? {
        // Encoded as a whole, because its names are data.
        if type(of: value) == JSONValue.self, let value = value as? JSONValue {
            return try encode(value).object.map { EncodedMembers.list(of: $0) }
        }
        let place = JSONEncodingPlace()
        let node = JSONEncodingNode(encoder: self, at: place, keepsNames: keepsNames(of: value, at: place))
        try value.encode(to: node)
        return node.sortedMembers
    }

    /// Encodes the value at a place, which is made only for objects, for errors and for what is deferred.
    func encoded<T: Encodable>(_ value: T, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        // Each bit cast converts to the same type. `as? String` would do a slow look-up, and so does the cast further down:
        // it is left out for most models, which take more memory than any type that is encoded directly.
        if T.self == String.self { return .value(.string(unsafeBitCast(value, to: String.self))) }
        if T.self == Int.self { return .value(.int(Int64(unsafeBitCast(value, to: Int.self)))) }
        if T.self == Bool.self { return .value(.bool(unsafeBitCast(value, to: Bool.self))) }
        if MemoryLayout<T>.size <= MemoryLayout<JSONValue>.size, let direct = value as? any DirectlyJSONEncodable {
            return try direct.json(by: self, at: place)
        }
        let place = place()
        guard place.depth <= JSONValue.maximumDepth else {
            throw EncodingError.unwritable(
                value, at: place.keys, "more than \(JSONValue.maximumDepth) levels of nesting")
        }
        let node = JSONEncodingNode(encoder: self, at: place, keepsNames: keepsNames(of: value, at: place))
        let notes = deferred?.notes.count
        try value.encode(to: node)
        if MemoryLayout<T>.size == MemoryLayout<Set<Int>>.size, value is any UnorderedElements,
            case .array(let elements) = node.resolved.value
        {
            // The recorded values are found by their index, so the elements are sorted after these are written.
            guard let deferred, deferred.notes.count != notes else { return .value(Self.sorted(elements)) }
            deferred.note(.unordered, at: place.keys)
        }
        return node.resolved
    }

    static func sorted(_ elements: [JSONValue]) -> JSONValue { .array(order(of: elements).map { elements[$0] }) }

    /// The indexes of the elements of a set, sorted by their JSON.
    static func order(of elements: [JSONValue]) -> [Int] {
        elements.enumerated().map { ($1.description, $0) }.sorted { $0.0 < $1.0 }.map(\.1)
    }

    /// Whether the members of a value are the keys of a dictionary, which are data and not names.
    private func keepsNames<T: Encodable>(of value: T, at place: JSONEncodingPlace) -> Bool {
        // The cast does a slow look-up, so it is left out for what cannot be a dictionary.
        guard MemoryLayout<T>.size == MemoryLayout<[Int: Int]>.size, rules?.usesSnakeCase == true || deferred != nil,
            value is any StringKeys
        else { return false }
        deferred?.note(.dictionary, at: place.keys)
        return true
    }
}

// MARK: Types that are encoded directly

/// Types that become JSON without an `Encoder`: scalars, Foundation's values, and collections of them.
protocol DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON
}

/// Collections whose order has no meaning and changes from run to run.
private protocol UnorderedElements {}

extension Set: UnorderedElements {}

/// An optional or a ``Settable`` of any type, to recognize a parameter without value.
protocol OptionalValue {
    var isNil: Bool { get }
    var isLeftOut: Bool { get }
}

extension Optional: OptionalValue {
    var isLeftOut: Bool { false }
    var isNil: Bool { map { ($0 as? any OptionalValue)?.isNil ?? false } ?? true }
}

/// A dictionary, whose keys are data and not names.
protocol StringKeys {}

extension Dictionary: StringKeys where Key: CodingKeyRepresentable {}

extension JSONValue: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        switch self {
        case .null, .bool, .int, .string: break
        case .double, .decimal, .array, .object: try checkWritable(at: place().keys)
        }
        if case .object = self { encoder.deferred?.note(.json, at: place().keys) }
        if case .array = self { encoder.deferred?.note(.json, at: place().keys) }
        return .value(self)
    }
}

extension Bool: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) -> EncodedJSON { .value(.bool(self)) }
}

extension String: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) -> EncodedJSON { .value(.string(self)) }
}

extension DirectlyJSONEncodable where Self: FixedWidthInteger {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        if let value = Int64(exactly: self) { return .value(.int(value)) }
        // A `Decimal` holds every `Int128` and `UInt128`. The comparison detects parsing errors.
        if let value = Decimal(string: description), value.description == description {
            return .value(.decimal(value))
        }
        throw EncodingError.unwritable(self, at: place().keys, "\(self) is too large")
    }
}

extension Int: DirectlyJSONEncodable {}
extension Int8: DirectlyJSONEncodable {}
extension Int16: DirectlyJSONEncodable {}
extension Int32: DirectlyJSONEncodable {}
extension Int64: DirectlyJSONEncodable {}
extension Int128: DirectlyJSONEncodable {}
extension UInt: DirectlyJSONEncodable {}
extension UInt8: DirectlyJSONEncodable {}
extension UInt16: DirectlyJSONEncodable {}
extension UInt32: DirectlyJSONEncodable {}
extension UInt64: DirectlyJSONEncodable {}
extension UInt128: DirectlyJSONEncodable {}

extension DirectlyJSONEncodable where Self: BinaryFloatingPoint & CustomStringConvertible {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        if isFinite, let value = self as? Double ?? Double(description) { return .value(.double(value)) }
        if let deferred = encoder.deferred {
            deferred.note(.number(Double(self)), at: place().keys)
            return .value(.null)
        }
        if let text = CodingRules.text(ofNonConforming: Double(self), by: encoder.rules) {
            return .value(.string(text))
        }
        throw EncodingError.unwritable(self, at: place().keys, "\(self) is not a number in JSON")
    }
}

extension Double: DirectlyJSONEncodable {}
extension Float: DirectlyJSONEncodable {}

extension Decimal: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        let number = try JSONValue.decimal(self).json(by: encoder, at: place)
        encoder.deferred?.note(.decimal, at: place().keys)
        return encoder.rules?.coding.decimals == .text ? .value(.string(description)) : number
    }
}

extension Date: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        if let deferred = encoder.deferred {
            deferred.note(.date(self), at: place().keys)
            return .value(.null)
        }
        do throws(CodingProblem) {
            return .value(try CodingRules.value(of: self, by: encoder.rules))
        } catch {
            // The seconds instead of the date: errors are printed, and the description of an infinite date traps.
            throw EncodingError.unwritable(timeIntervalSince1970, at: place().keys, error.reason)
        }
    }
}

extension Data: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) -> EncodedJSON {
        encoder.deferred?.note(.data(self), at: place().keys)
        return .value(.string(CodingRules.text(of: self, by: encoder.rules)))
    }
}

extension URL: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) -> EncodedJSON {
        .value(.string(absoluteString))
    }
}

extension UUID: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) -> EncodedJSON {
        .value(.string(uuidString.lowercased()))
    }
}

extension Array: DirectlyJSONEncodable where Element: Encodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        var array: JSONEncodingNode?
        var elements: [EncodedJSON] = []
        elements.reserveCapacity(count)
        for element in self {
            let index = elements.count
            elements.append(
                try encoder.encoded(element) {
                    let node = array ?? JSONEncodingNode(encoder: encoder, at: place())
                    array = node
                    return JSONEncodingPlace(node: node, key: .element(index))
                })
        }
        return .array(elements)
    }
}

extension Dictionary: DirectlyJSONEncodable where Key == String, Value: DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at place: () -> JSONEncodingPlace) throws -> EncodedJSON {
        encoder.deferred?.note(.dictionary, at: place().keys)
        let object = JSONEncodingNode(encoder: encoder, at: place())
        var members: [String: JSONValue] = [:]
        members.reserveCapacity(count)
        for (name, value) in self {
            let key = JSONKey(stringValue: name)
            members[name] = try value.json(by: encoder) { JSONEncodingPlace(node: object, key: .member(key)) }.value
        }
        return .value(.object(members))
    }
}
