/// A value that a server may add cases to: one of the app's enum, or a raw value that it does not know, which is kept.
///
/// ```swift
/// enum State: String, Sendable { case open, paid, shipped }
/// struct Invoice: Codable, Sendable { var state: OpenEnum<State> }
///
/// var invoice = try response.decode(Invoice.self)
/// if invoice.state == .paid { invoice.state = .known(.shipped) }
/// switch invoice.state {
/// case .known(let state): print(state)
/// case .unknown(let text): print("a new state:", text)       // is sent back as it came
/// }
/// ```
///
/// The raw value is what `Codable` and parameters write and read. A raw value of another type than the enum's is still an error.
public enum OpenEnum<Known: RawRepresentable>: RawRepresentable where Known.RawValue: Hashable {
    /// A case of the app's enum.
    case known(Known)
    /// A raw value that the app's enum does not have.
    case unknown(Known.RawValue)

    /// The case with a raw value, ``unknown(_:)`` if there is none.
    public init(rawValue: Known.RawValue) { self = Known(rawValue: rawValue).map(OpenEnum.known) ?? .unknown(rawValue) }

    /// The raw value, whether it is known or not.
    public var rawValue: Known.RawValue {
        switch self {
        case .known(let known): known.rawValue
        case .unknown(let rawValue): rawValue
        }
    }

    /// The case of the app's enum; `nil` for an unknown raw value.
    public var known: Known? {
        if case .known(let known) = self { known } else { nil }
    }
}

extension OpenEnum: Hashable {
    /// Whether the raw values are equal.
    public static func == (lhs: OpenEnum, rhs: OpenEnum) -> Bool { lhs.rawValue == rhs.rawValue }

    /// Whether this is a case: `order.state == .paid`.
    public static func == (lhs: OpenEnum, rhs: Known) -> Bool { lhs.rawValue == rhs.rawValue }

    /// Whether this is another one than a case: `order.state != .paid`.
    public static func != (lhs: OpenEnum, rhs: Known) -> Bool { lhs.rawValue != rhs.rawValue }

    /// Hashes the raw value.
    public func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }
}

extension OpenEnum: Sendable where Known: Sendable, Known.RawValue: Sendable {}

extension OpenEnum: Decodable where Known.RawValue: Decodable {
    /// Decodes the raw value.
    public init(from decoder: any Decoder) throws {
        self.init(rawValue: try decoder.singleValueContainer().decode(Known.RawValue.self))
    }
}

extension OpenEnum: Encodable where Known.RawValue: Encodable {
    /// Encodes the raw value.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }
}

/// A key of a dictionary, which is an object in JSON.
extension OpenEnum: CodingKeyRepresentable where Known.RawValue == String {}

extension OpenEnum: CustomStringConvertible {
    /// The raw value.
    public var description: String { "\(rawValue)" }
}
