internal import FoundationEssentials

/// Makes JSON of anything that is `Encodable`, as values and not as text.
///
/// - `nil` is left out of objects, whether by `encodeIfPresent`, by `encodeNil(forKey:)` or as a dictionary's
///   value; in arrays it is a null, to keep the places. `JSONValue.null` is data and always stays.
/// - Numbers and Booleans stay typed. Integers beyond `Int64` become ``JSONValue/decimal(_:)``; a `Float` becomes the
///   double with the same shortest text, so that `0.1` stays `0.1`.
/// - `Date` is text by ``dates``, `Data` is Base64, `URL` its absolute text, `UUID` its text, `Decimal` a number. Sets
///   are sorted by their JSON: otherwise equal requests would differ from run to run.
/// - A type that encodes nothing is an empty object.
///
/// Errors are `EncodingError.invalidValue` with the path, among them every number JSON cannot carry and more than
/// ``JSONValue/maximumDepth`` levels (a cycle of objects, most likely).
package struct JSONValueEncoder: Sendable {
    /// How dates are written.
    package enum DateStrategy: Sendable {
        /// `2025-03-01T09:30:00Z` (RFC 3339), fractions of a second cut off.
        case iso8601
        /// `2025-03-01T09:30:00.250Z`.
        case iso8601WithFractionalSeconds
        /// Seconds since 1970 as a number, with fraction.
        case secondsSince1970
        /// Milliseconds since 1970 as a whole number.
        case millisecondsSince1970

        fileprivate var isText: Bool {
            switch self {
            case .iso8601, .iso8601WithFractionalSeconds: true
            case .secondsSince1970, .millisecondsSince1970: false
            }
        }
    }

    /// The years 1 to 9999 in seconds: RFC 3339 has four digits, and beyond them the formatter writes other dates.
    fileprivate static let yearsInText = Date.distantPast.timeIntervalSince1970..<253_402_300_800.0

    /// How dates are written. Default: ``DateStrategy/iso8601``.
    package var dates: DateStrategy

    package init(dates: DateStrategy = .iso8601) { self.dates = dates }

    /// The value as JSON; `nil` at the top is ``JSONValue/null``.
    package func encode(_ value: some Encodable) throws -> JSONValue {
        try encodeIfPresent(value) ?? .null
    }

    /// The value as JSON; `nil` when it is an optional without value.
    ///
    /// - Parameter path: where the value stands, put before the paths in errors.
    package func encodeIfPresent(_ value: some Encodable, at path: [any CodingKey] = []) throws -> JSONValue? {
        try encode(value, at: { path })
    }

    /// The members of the object a value is encoded to, sorted; `nil` when it is no object.
    func members(of value: some Encodable) throws -> [EncodedMembers.Member]? {
        let node = JSONEncodingNode(encoder: self, path: [])
        try value.encode(to: node)
        return node.sortedMembers
    }

    func encode<T: Encodable>(_ value: T, at path: () -> [any CodingKey]) throws -> JSONValue? {
        // One look-up of a conformance instead of a cast for every type that has a short cut.
        if let direct = value as? any DirectlyJSONEncodable { return try direct.json(by: self, at: path) }
        let path = path()
        guard path.count <= JSONValue.maximumDepth else {
            throw EncodingError.unwritable(value, at: path, "more than \(JSONValue.maximumDepth) levels in one another")
        }
        let node = JSONEncodingNode(encoder: self, path: path)
        try value.encode(to: node)
        let json = node.resolved
        if value is any UnorderedElements, case .array(let elements) = json {
            return .array(elements.map { ($0.description, $0) }.sorted { $0.0 < $1.0 }.map(\.1))
        }
        return json
    }
}

// MARK: Types with a short cut

/// What is JSON without an `Encoder` in between: scalars, Foundation's values, and collections of those.
private protocol DirectlyJSONEncodable {
    func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue
}

/// Marks collections whose order says nothing and changes from run to run.
private protocol UnorderedElements {}

extension Set: UnorderedElements {}

extension JSONValue: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        switch self {
        case .null, .bool, .int, .string: break
        case .double, .decimal, .array, .object: try checkWritable(at: path())
        }
        return self
    }
}

extension Bool: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) -> JSONValue { .bool(self) }
}

extension String: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) -> JSONValue { .string(self) }
}

extension DirectlyJSONEncodable where Self: FixedWidthInteger {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        if let value = Int64(exactly: self) { return .int(value) }
        // 128 bits are just what a `Decimal` holds, but for the lowest `Int128` and what its parser makes of it.
        if let value = Decimal(string: description), value.description == description { return .decimal(value) }
        throw EncodingError.unwritable(self, at: path(), "\(self) is too large")
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
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        if isFinite, let value = self as? Double ?? Double(description) { return .double(value) }
        throw EncodingError.unwritable(self, at: path(), "\(self) is no number JSON can carry")
    }
}

extension Double: DirectlyJSONEncodable {}
extension Float: DirectlyJSONEncodable {}

extension Decimal: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        try JSONValue.decimal(self).json(by: encoder, at: path)
    }
}

extension Date: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        let seconds = timeIntervalSince1970
        if encoder.dates.isText, !JSONValueEncoder.yearsInText.contains(seconds) {
            // Not the date itself: the text of one that is infinite traps, and errors are printed.
            throw EncodingError.unwritable(seconds, at: path(), "a date outside of the years 1 to 9999")
        }
        switch encoder.dates {
        case .iso8601: return .string(formatted(.iso8601))
        case .iso8601WithFractionalSeconds:
            return .string(formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
        case .secondsSince1970: return try seconds.json(by: encoder, at: path)
        case .millisecondsSince1970:
            if let milliseconds = Int64(exactly: (seconds * 1000).rounded()) { return .int(milliseconds) }
            throw EncodingError.unwritable(seconds, at: path(), "\(seconds) seconds are no date")
        }
    }
}

extension Data: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) -> JSONValue {
        .string(base64EncodedString())
    }
}

extension URL: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) -> JSONValue {
        .string(absoluteString)
    }
}

extension UUID: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) -> JSONValue {
        .string(uuidString)
    }
}

extension Array: DirectlyJSONEncodable where Element: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        var elements: [JSONValue] = []
        elements.reserveCapacity(count)
        for (index, element) in enumerated() {
            elements.append(try element.json(by: encoder) { path() + [JSONKey(intValue: index)] })
        }
        return .array(elements)
    }
}

extension Dictionary: DirectlyJSONEncodable where Key == String, Value: DirectlyJSONEncodable {
    fileprivate func json(by encoder: JSONValueEncoder, at path: () -> [any CodingKey]) throws -> JSONValue {
        var members: [String: JSONValue] = [:]
        members.reserveCapacity(count)
        for (name, value) in self {
            members[name] = try value.json(by: encoder) { path() + [JSONKey(stringValue: name)] }
        }
        return .object(members)
    }
}
