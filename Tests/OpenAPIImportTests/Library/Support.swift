// Made by lat openapi import from Library API (library.yaml). Change the document or the overrides, and import again.
import LATNetworking

/// The name of a member that no schema names.
struct MemberName: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(_ name: String) { stringValue = name }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

/// Stores a value elsewhere, so that a type can contain itself.
@propertyWrapper
struct Boxed<Value: Codable & Hashable & Sendable>: Codable, Hashable, Sendable {
    private indirect enum Box: Hashable, Sendable { case value(Value) }
    private var box: Box

    var wrappedValue: Value {
        get {
            switch box {
            case .value(let value): value
            }
        }
        set { box = .value(newValue) }
    }

    init(wrappedValue: Value) { box = .value(wrappedValue) }
    init(from decoder: any Decoder) throws { box = .value(try Value(from: decoder)) }
    func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

// A member that is missing is nil, as for any other optional property.
extension KeyedDecodingContainer {
    func decode<Value>(_ type: Boxed<Value?>.Type, forKey key: Key) throws -> Boxed<Value?> {
        Boxed(wrappedValue: try decodeIfPresent(Value.self, forKey: key))
    }
}

extension KeyedEncodingContainer {
    mutating func encode<Value>(_ box: Boxed<Value?>, forKey key: Key) throws {
        try encodeIfPresent(box.wrappedValue, forKey: key)
    }
}
