public import FoundationEssentials

/// How values become parameters and bodies, and how responses become values.
///
/// ```swift
/// var configuration = CentralRequestManager.Configuration()
/// configuration.coding.dates = .unixSeconds           // default: ISO 8601
/// configuration.coding.keys = .snakeCase              // userName is user_name in JSON
/// ```
///
/// It applies in both directions: to the parameters of calls, the properties of entities, ``HTTPBody/json(_:encoder:)``,
/// the models of replies and ``HTTPResponse/decode(_:decoder:)``. `dates`, `keys` and `decimals` in a row of the
/// table override these properties. The coding of an entity or a call replaces the whole coding.
public struct Coding: Sendable, Hashable {
    /// How dates are written and read.
    public enum Dates: Sendable, Hashable {
        /// `2025-03-01T09:30:00Z` (RFC 3339). Reads any zone, with and without fractions of a second, and a day alone as
        /// its midnight in UTC. The default.
        case iso8601
        /// The same, written with milliseconds: `2025-03-01T09:30:00.250Z`.
        case iso8601WithFractionalSeconds
        /// Seconds since 1970 as a number, with a fraction where there is one.
        case unixSeconds
        /// Milliseconds since 1970 as a whole number. Reads fractions too.
        case unixMilliseconds
        /// Seconds since 2001 as a number, which `JSONEncoder` writes and `JSONDecoder` reads by default.
        case secondsSince2001
        /// A pattern such as `yyyy-MM-dd HH:mm:ss`, in UTC unless it contains a zone. The letters are those of Unicode
        /// (UTS #35): `y M d H m s S X Z`; other letters must be quoted, as in `yyyy-MM-dd'T'HH:mm`. `yy` is one of the years
        /// from 80 years ago to 19 years from now, and a date in another year is not written. An invalid pattern fails when
        /// the first date is written or read.
        case pattern(String)
    }

    /// How the names of properties become the names of members.
    public enum Keys: String, Sendable, Hashable, CaseIterable {
        /// As they are declared. The default.
        case asDeclared
        /// `userName` is `user_name`, `imageURL` is `image_url`, `addressLine1` is `address_line1`. Read are also a number that is
        /// a word of its own, `address_line_1`, and a member that has the declared name. The keys of dictionaries, also those
        /// of `parameters`, stay as they are.
        case snakeCase
    }

    /// How `Decimal` is written and read. Both keep all digits: a number or a text of more digits than a `Decimal` holds is an
    /// error, never rounded.
    public enum Decimals: String, Sendable, Hashable, CaseIterable {
        /// As a number: `12.5`. The default.
        case number
        /// As a text: `"12.5"`. Reads numbers too.
        case text
    }

    /// How `Data` is written and read.
    public enum Bytes: Sendable, Hashable {
        /// Base64 (RFC 4648 §4). The default.
        case base64
        /// Base64 for URLs and file names, without padding (RFC 4648 §5).
        case base64URL
    }

    /// How infinite numbers and NaN, which JSON lacks, are written and read.
    public enum NonConformingNumbers: Sendable, Hashable {
        /// Not at all: encoding fails. The default.
        case refused
        /// As these texts.
        case texts(infinity: String, negativeInfinity: String, nan: String)
    }

    /// How dates are written and read. Default ``Dates/iso8601``.
    public var dates = Dates.iso8601
    /// How the names of properties become the names of members. Default ``Keys/asDeclared``.
    public var keys = Keys.asDeclared
    /// How `Decimal` is written and read. Default ``Decimals/number``.
    public var decimals = Decimals.number
    /// How `Data` is written and read. Default ``Bytes/base64``.
    public var data = Bytes.base64
    /// How infinite numbers and NaN are written and read. Default ``NonConformingNumbers/refused``.
    public var nonConformingNumbers = NonConformingNumbers.refused
    /// Whether members that are `null` are read as if they were missing. Default `false`.
    public var ignoresNullMembers = false
    /// Encodes ``HTTPBody/json(_:encoder:)`` in place of these settings, which still apply to parameters and entities.
    /// Default `nil`.
    public var encoder: JSONEncoder? {
        get { ownEncoder?.coder }
        set { ownEncoder = newValue.map(Reference.init) }
    }
    /// Decodes responses in place of these settings. Default `nil`.
    public var decoder: JSONDecoder? {
        get { ownDecoder?.coder }
        set { ownDecoder = newValue.map(Reference.init) }
    }

    private var ownEncoder: Reference<JSONEncoder>?
    private var ownDecoder: Reference<JSONDecoder>?

    /// Creates a coding. By default it has ISO 8601 dates, names as declared, and decimals as numbers.
    public init(dates: Dates = .iso8601, keys: Keys = .asDeclared, decimals: Decimals = .number) {
        self.dates = dates
        self.keys = keys
        self.decimals = decimals
    }

    /// A coder, compared by identity.
    private struct Reference<Coder: AnyObject & Sendable>: Sendable, Hashable {
        let coder: Coder

        init(_ coder: Coder) { self.coder = coder }

        static func == (lhs: Self, rhs: Self) -> Bool { lhs.coder === rhs.coder }

        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(coder)) }
    }
}

/// A ``Coding`` and its parsed date pattern. Coders hold `nil` for the standard coding, so that it costs nothing.
package final class CodingRules: Sendable {
    package let coding: Coding
    /// The pattern of ``Coding/Dates/pattern(_:)``, or why it is invalid.
    private let pattern: Result<DatePattern, CodingProblem>?
    /// Notes which members are read; `nil` for all decoding but ``JSONDocument/decodes(_:reading:by:)``.
    let watch: MemberWatch?

    init(_ coding: Coding, watch: MemberWatch? = nil) {
        self.coding = coding
        self.watch = watch
        pattern =
            if case .pattern(let text) = coding.dates {
                Result { () throws(CodingProblem) in try DatePattern(text) }
            } else { nil }
    }

    /// The rules of a coding; `nil` for the standard one.
    package static func of(_ coding: Coding) -> CodingRules? { coding == Coding() ? nil : CodingRules(coding) }

    var usesSnakeCase: Bool { coding.keys == .snakeCase }

    // MARK: Dates

    /// A date in the form of the rules; `rules` are `nil` for the standard coding.
    ///
    /// - Throws: a ``CodingProblem`` for a date that the form cannot represent, and for an invalid pattern.
    static func value(of date: Date, by rules: CodingRules?) throws(CodingProblem) -> JSONValue {
        let seconds = date.timeIntervalSince1970
        let dates = rules?.coding.dates ?? .iso8601
        switch dates {
        case .unixSeconds, .secondsSince2001:
            let number = dates == .unixSeconds ? seconds : date.timeIntervalSinceReferenceDate
            guard number.isFinite else { throw CodingProblem("\(number) seconds are not a valid date") }
            return .double(number)
        case .unixMilliseconds:
            guard let milliseconds = Int64(exactly: (seconds * 1000).rounded()) else {
                throw CodingProblem("\(seconds) seconds are not a valid date")
            }
            return .int(milliseconds)
        case .iso8601, .iso8601WithFractionalSeconds, .pattern:
            guard CivilTime.yearsInText.contains(seconds) else {
                throw CodingProblem("the date is outside of the years 0 to 9999")
            }
            if case .pattern = dates { return .string(try pattern(of: rules).text(of: date)) }
            return .string(CivilTime.iso8601(date, hasFraction: dates == .iso8601WithFractionalSeconds))
        }
    }

    /// - Throws: a ``CodingProblem`` for a value that is not a date in the form of the rules.
    static func date(from document: JSONDocument, by rules: CodingRules?) throws(CodingProblem) -> Date {
        let dates = rules?.coding.dates ?? .iso8601
        switch dates {
        case .iso8601, .iso8601WithFractionalSeconds, .pattern:
            guard let text = document.string else {
                throw CodingProblem("expected a date as text (\(dates.name)), found \(document.kindName)")
            }
            if case .pattern = dates {
                if let date = try pattern(of: rules).date(from: text) { return date }
            } else if let date = CivilTime.date(iso8601: text) {
                return date
            }
            throw CodingProblem("\"\(text.prefix(40))\" is not a date in the form \(dates.name)")
        case .unixSeconds, .unixMilliseconds, .secondsSince2001:
            guard let number = document.number?.double else {
                throw CodingProblem("expected a date as a number (\(dates.name)), found \(document.kindName)")
            }
            if dates == .secondsSince2001 { return Date(timeIntervalSinceReferenceDate: number) }
            return Date(timeIntervalSince1970: dates == .unixSeconds ? number : number / 1000)
        }
    }

    private static func pattern(of rules: CodingRules?) throws(CodingProblem) -> DatePattern {
        guard let pattern = rules?.pattern else { throw CodingProblem("no pattern is set") }
        return try pattern.get()
    }

    // MARK: Bytes and numbers

    /// - Throws: a ``CodingProblem`` for a value that is not a decimal in the form of the rules, or has too many digits.
    static func decimal(from document: JSONDocument, by rules: CodingRules?) throws(CodingProblem) -> Decimal {
        var number = document
        if let text = document.string {
            guard let inText = try? JSONDocument(parsing: Data(text.utf8)), inText.number != nil else {
                throw CodingProblem("\"\(text.prefix(40))\" is not a decimal")
            }
            guard rules?.coding.decimals == .text else {
                throw CodingProblem("expected Decimal as a number, found a string; set the coding's decimals to .text")
            }
            number = inText
        }
        if let decimal = number.exactDecimal { return decimal }
        guard let lossy = number.number else { throw CodingProblem("expected Decimal, found \(document.kindName)") }
        throw CodingProblem("Decimal does not hold all digits of a number near \(lossy); read a Double or a String")
    }

    static func text(of data: Data, by rules: CodingRules?) -> String {
        rules?.coding.data == .base64URL ? Base64.urlText(of: data) : data.base64EncodedString()
    }

    static func data(from text: String, by rules: CodingRules?) -> Data? {
        rules?.coding.data == .base64URL ? Base64.data(of: text) : Data(base64Encoded: text)
    }

    /// The text of an infinite number or NaN; `nil` when it is refused.
    static func text(ofNonConforming number: Double, by rules: CodingRules?) -> String? {
        guard case .texts(let infinity, let negativeInfinity, let nan)? = rules?.coding.nonConformingNumbers
        else { return nil }
        return number.isNaN ? nan : number < 0 ? negativeInfinity : infinity
    }

    static func nonConformingNumber(from text: String?, by rules: CodingRules?) -> Double? {
        guard let text, case .texts(let infinity, let negativeInfinity, let nan)? = rules?.coding.nonConformingNumbers
        else { return nil }
        return text == infinity ? .infinity : text == negativeInfinity ? -.infinity : text == nan ? .nan : nil
    }
}

/// Why a value cannot be written or read, or a pattern of dates cannot be used, as a sentence without its full stop.
package struct CodingProblem: Error {
    package let reason: String

    init(_ reason: String) { self.reason = reason }
}

extension Coding.Dates {
    /// The name in messages.
    fileprivate var name: String {
        switch self {
        case .iso8601, .iso8601WithFractionalSeconds: "ISO 8601"
        case .unixSeconds: "seconds since 1970"
        case .unixMilliseconds: "milliseconds since 1970"
        case .secondsSince2001: "seconds since 2001"
        case .pattern(let text): "\"\(text)\""
        }
    }
}

extension String {
    /// The name in snake case: `userName` is `user_name`, `imageURL` is `image_url`, `myURLPath` is `my_url_path`.
    package var snakeCase: String { snakeCase(separatingNumbers: false) }

    /// - Parameter separatingNumbers: whether a number is a word: `addressLine1` is `address_line_1`.
    package func snakeCase(separatingNumbers: Bool) -> String {
        let letters = Array(utf8)
        func isDigit(_ index: Int) -> Bool { (0x30...0x39).contains(letters[index]) }
        func isUpper(_ index: Int) -> Bool { (0x41...0x5A).contains(letters[index]) }
        func isLower(_ index: Int) -> Bool { (0x61...0x7A).contains(letters[index]) || letters[index] >= 0x80 }
        var result: [UInt8] = []
        result.reserveCapacity(letters.count + 4)
        for index in letters.indices {
            guard isUpper(index) else {
                let beginsNumber = isDigit(index) && index > 0 && !isDigit(index - 1) && letters[index - 1] != 0x5F
                if separatingNumbers, beginsNumber { result.append(0x5F) }
                result.append(letters[index])
                continue
            }
            // A word begins at a capital after a small letter or a digit, and at the last of several capitals if a small
            // letter follows.
            let followsWord = index > 0 && !isUpper(index - 1) && letters[index - 1] != 0x5F
            let endsCapitals = index > 0 && isUpper(index - 1) && index + 1 < letters.count && isLower(index + 1)
            if followsWord || endsCapitals { result.append(0x5F) }
            result.append(letters[index] | 0x20)
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// The name that ``snakeCase`` was made from, if no word of it had several capitals: `user_name` is `userName`.
    var camelCase: String {
        let words = split(separator: "_")
        return words.dropFirst().reduce(String(words.first ?? "")) { $0 + $1.prefix(1).uppercased() + $1.dropFirst() }
    }
}
