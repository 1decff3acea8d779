public import FoundationEssentials

/// Any JSON (RFC 8259), looked into without a model.
///
/// ```swift
/// let json = try JSONValue(parsing: data)
/// json["args"]["q"].string        // String?, nil when a step is absent or of another type
/// json["items"][0]["id"].int      // Int?
/// json["note"].isNull             // true only for a null that is there
///
/// var order: JSONValue = ["name": "Ada", "tags": ["a", "b"], "note": nil, "total": 12.5]
/// order["name"] = "Grace"         // sets
/// order["note"] = nil             // removes; `.null` sets a null
/// try order.data(prettyPrinted: true)
/// ```
///
/// Look-ups never trap: an absent key, an index out of range and a step into a
/// number all read as `nil`. Nothing is converted silently: the text `"1"` has
/// no ``int``, the number `1` no ``string`` and no ``bool``.
///
/// Numbers keep their exact value. JSON has one number type, so the three
/// cases are how a number is *held*, not what it is: they compare and hash by
/// value (`.int(1) == .double(1)`), and each number accessor answers whenever
/// the value fits.
public enum JSONValue: Sendable {
    /// `null`. Not the same as an absent member, which look-ups report as `nil`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number written without fraction and exponent that `Int64` holds.
    case int(Int64)
    /// A number whose shortest `Double` text is the same value. Not a number and infinities cannot be written
    /// as JSON (RFC 8259 §6).
    case double(Double)
    /// A number that neither of the above holds exactly, up to 38 digits: `12345678901234567890`.
    case decimal(Decimal)
    /// A text.
    case string(String)
    /// Values in order.
    case array([JSONValue])
    /// Members by name. Names are unique and have no order (RFC 8259 §4).
    case object([String: JSONValue])

    /// How many arrays and objects may lie in one another, 512. Deeper text is refused when parsed and when written,
    /// so that a hostile document cannot exhaust the stack (RFC 8259 §9).
    public static let maximumDepth = 512
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByStringInterpolation,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// ``null``.
    public init(nilLiteral: ()) { self = .null }

    /// ``bool(_:)``.
    public init(booleanLiteral value: Bool) { self = .bool(value) }

    /// ``int(_:)``.
    public init(integerLiteral value: Int64) { self = .int(value) }

    /// ``double(_:)``.
    public init(floatLiteral value: Double) { self = .double(value) }

    /// ``string(_:)``.
    public init(stringLiteral value: String) { self = .string(value) }

    /// ``array(_:)``.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// ``object(_:)``. Of a name given twice the last value stays.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(Dictionary(elements) { _, last in last })
    }
}

extension JSONValue: Hashable {
    /// Whether both are the same JSON. Numbers compare by value however they are held; members without order.
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

/// A number in the one form its value has, so that equal values are equal here: an `Int64` where that holds it, else
/// a `Double` whose shortest text it is, else a `Decimal`.
///
/// A double stands for its shortest text, as it does in the JSON it is written to: `0.1` is a tenth and not the
/// binary fraction next to it. Otherwise a value would change by being written and read.
enum JSONNumber: Hashable {
    case int(Int64)
    case double(Double)
    case decimal(Decimal)

    /// `nil` when the value is no number.
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
