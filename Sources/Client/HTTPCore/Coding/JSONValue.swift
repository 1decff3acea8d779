public import FoundationEssentials
import JSONText

/// Any JSON value (RFC 8259), read without a model type.
///
/// ```swift
/// let json = try JSONValue(parsing: data)
/// json["args"]["q"].string        // String?, nil when a step is absent or of another type
/// json["items"][0]["id"].int      // Int?
/// json["note"].isNull             // true for a null, false for an absent member
///
/// var order: JSONValue = ["name": "Ada", "tags": ["a", "b"], "note": nil, "total": 12.5]
/// order["name"] = "Grace"         // sets
/// order["note"] = nil             // removes; `.null` sets a null
/// try order.data(prettyPrinted: true)
/// ```
///
/// Look-ups never trap: an absent key, an index out of range and a look-up in a
/// number all return `nil`. Nothing is converted silently: the string `"1"` has
/// no ``int``, the number `1` no ``string`` and no ``bool``.
///
/// Numbers keep their exact value. JSON has one number type, so the three
/// cases only say how a number is *stored*. Numbers compare and hash by
/// value (`.int(1) == .double(1)`), and each number accessor returns the value
/// whenever it fits.
public enum JSONValue: Sendable {
    /// `null`. A look-up returns `nil` for an absent member, not this.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number without fraction and exponent that fits into an `Int64`.
    case int(Int64)
    /// A number whose shortest `Double` text has the same value. NaN and infinities cannot be written as JSON
    /// (RFC 8259 §6).
    case double(Double)
    /// A number of up to 38 digits that `Int64` and `Double` do not hold exactly: `12345678901234567890`.
    case decimal(Decimal)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object: members by name. Names are unique and have no order (RFC 8259 §4).
    case object([String: JSONValue])

    /// The largest depth of nested arrays and objects, 512. Deeper documents are neither parsed nor written, so that a
    /// hostile one cannot exhaust the stack (RFC 8259 §9).
    public static let maximumDepth = 512
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByStringInterpolation,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Makes ``null``.
    public init(nilLiteral: ()) { self = .null }

    /// Makes a ``bool(_:)``.
    public init(booleanLiteral value: Bool) { self = .bool(value) }

    /// Makes an ``int(_:)``.
    public init(integerLiteral value: Int64) { self = .int(value) }

    /// Makes a ``double(_:)``.
    public init(floatLiteral value: Double) { self = .double(value) }

    /// Makes a ``string(_:)``.
    public init(stringLiteral value: String) { self = .string(value) }

    /// Makes an ``array(_:)``.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// Makes an ``object(_:)``. The last of repeated names counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}

extension JSONValue: Hashable {
    /// Whether both values are equal. Numbers compare by value, whatever their case. The order of members does not count.
    public static func == (lhs: JSONValue, rhs: JSONValue) -> Bool {
        switch (lhs, rhs) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.string(let left), .string(let right)): left == right
        case (.int(let left), .int(let right)): left == right
        case (.double(let left), .double(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default:
            if let left = JSONNumber(lhs), let right = JSONNumber(rhs) { left == right } else { false }
        }
    }

    /// Hashes what `==` compares.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .array(let elements): hasher.combine(elements)
        case .object(let members): hasher.combine(members)
        case .int, .double, .decimal: hasher.combine(JSONNumber(self))
        }
    }
}

/// A number in canonical form, in which equal values are equal: an `Int64` if it fits, else a `Double` if its shortest
/// text has the same value, else a `Decimal`.
///
/// A double stands for its shortest text, which is also what is written as JSON: `0.1` is a tenth, not the nearest binary
/// fraction. Otherwise a value would change when it is written and read.
enum JSONNumber: Hashable {
    case int(Int64)
    case double(Double)
    case decimal(Decimal)

    /// The number of a value; `nil` when it is not a number.
    init?(_ value: JSONValue) {
        switch value {
        case .int(let value): self = .int(value)
        case .double(let value): self.init(value)
        case .decimal(let value): self.init(value)
        default: return nil
        }
    }

    private init(_ value: Double) {
        if value.magnitude < 0x1p53 {
            // Below 2^53 the text of a whole number is the number itself.
            if let whole = Int64(exactly: value) { self = .int(whole) } else { self = .double(value) }
        } else if value.magnitude < 0x1p64, let decimal = Decimal(string: value.description),
            let whole = Int64(decimal.description)
        {
            self = .int(whole)
        } else {
            self = .double(value)
        }
    }

    private init(_ value: Decimal) {
        let text = value.description
        if let whole = Int64(text) {
            self = .int(whole)
        } else if let double = Double(text), double.isFinite, DecimalDigits(text) == DecimalDigits(double.description) {
            self = .double(double)
        } else {
            self = .decimal(value)
        }
    }
}

extension JSONValue {
    /// Parses a JSON document in UTF-8 (RFC 8259).
    ///
    /// The top level may be any value. A byte order mark is skipped. The last of
    /// repeated members counts. An escape of an unpaired surrogate reads as
    /// U+FFFD, because servers that truncate strings send them. Everything else
    /// that the RFC does not allow is an error: comments, trailing commas, `NaN`,
    /// text after the value, bytes that are not UTF-8. So are more than
    /// ``maximumDepth`` levels and numbers beyond `Double` and `Decimal`.
    ///
    /// - Throws: ``ParsingError``, with the position and the reason.
    public init(parsing data: Data) throws {
        self = try data.withUnsafeBytes { raw throws(ParsingError) in
            try raw.withMemoryRebound(to: UInt8.self) { bytes throws(ParsingError) in
                try JSONTokens.scanning(bytes).value(in: bytes)
            }
        }
    }

    /// Parses a JSON document; see ``init(parsing:)-(Data)``.
    ///
    /// - Throws: ``ParsingError``, with the position and the reason.
    public init(parsing text: String) throws {
        var text = text
        self = try text.withUTF8 { bytes throws(ParsingError) in
            try JSONTokens.scanning(bytes).value(in: bytes)
        }
    }

    /// The reason why a text is not JSON.
    public struct ParsingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The line, from 1.
        public let line: Int
        /// The column in the line, counted in Unicode scalars from 1.
        public let column: Int
        /// What was expected, or what is wrong.
        public let reason: String

        /// The position and the reason: `line 3, column 14: expected ":" after the name, found "}"`.
        public var description: String { "line \(line), column \(column): \(reason)" }
    }
}

extension JSONValue.ParsingError: LocalizedError {
    /// The same as the description, which `localizedDescription` returns too.
    public var errorDescription: String? { "\(self)" }
}
