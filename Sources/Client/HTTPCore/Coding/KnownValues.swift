import Synchronization

/// A type with constants for the values that are known, which keeps every other value too. The enums that `lat openapi import`
/// writes are such types.
///
/// ```swift
/// struct Genre: KnownValues {
///     var rawValue: String
///
///     static let novel = Self(rawValue: "novel")
///     static let poetry = Self(rawValue: "poetry")
///     static let knownValues = [novel, poetry]
/// }
/// ```
///
/// The raw value is what is encoded and decoded. A value that is not known and comes in a reply is told to the observers of the
/// call, as ``CallEvent/Kind/unknownValue(type:value:)``.
public protocol KnownValues: RawRepresentable, Codable, Hashable, Sendable {
    /// The values that are known.
    static var knownValues: [Self] { get }
}

extension KnownValues where RawValue == String {
    /// Decodes the raw value, whether it is known or not.
    public init(from decoder: any Decoder) throws { self = try UnknownValues.decode(decoder, UnknownValues.text) }
}

extension KnownValues where RawValue == Int {
    /// Decodes the raw value, whether it is known or not.
    public init(from decoder: any Decoder) throws { self = try UnknownValues.decode(decoder) { "\($0)" } }
}

/// The values of enums that are decoded and not known.
package final class UnknownValues: Sendable {
    /// A value with the name of its type.
    package struct Value: Hashable, Sendable {
        package let type: String
        /// As it is in JSON.
        package let text: String
    }

    @TaskLocal private static var current: UnknownValues?
    /// A reply with more has another defect than a new value.
    private static let limit = 100
    private let found = Mutex<[Value]>([])

    private init() {}

    /// A text as it is in JSON, and no more of it than an observer can use. A character may have any number of scalars.
    fileprivate static func text(_ value: String) -> String {
        JSONValue.string(String(value.unicodeScalars.prefix(200))).description
    }

    /// Decodes, and returns what was found, each value once.
    package static func found<Result>(in decode: () throws -> Result) rethrows -> (Result, [Value]) {
        let values = UnknownValues()
        let result = try $current.withValue(values, operation: decode)
        return (result, values.found.withLock { $0 })
    }

    fileprivate static func decode<Known: KnownValues>(
        _ decoder: any Decoder, _ text: (Known.RawValue) -> String
    ) throws -> Known where Known.RawValue: Decodable {
        let container = try decoder.singleValueContainer()
        let raw = try container.decode(Known.RawValue.self)
        guard let value = Known(rawValue: raw) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(Known.self) has no \(text(raw))")
        }
        if let current, !Known.knownValues.contains(value) {
            current.note(Value(type: "\(Known.self)", text: text(raw)))
        }
        return value
    }

    private func note(_ value: Value) {
        found.withLock { found in
            if found.count < Self.limit, !found.contains(value) { found.append(value) }
        }
    }
}
