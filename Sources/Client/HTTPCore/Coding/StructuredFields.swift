import FoundationEssentials

/// Structured fields (RFC 9651): how `Signature-Input`, `Content-Digest`, `RateLimit` and other new fields are written.
///
///     let fields = StructuredField.dictionary(headers[values: "Signature-Input"].joined(separator: ", "))
///     fields?["sig1"]?.parameters["created"]        // .integer(1618884473)
///
/// The readers return `nil` for what the grammar does not allow, as RFC 9651 §4.2 asks: such a field is ignored as a whole.
package enum StructuredField {
    /// A bare item (RFC 9651 §3.3).
    package enum Value: Hashable, Sendable {
        case integer(Int64)
        /// In thousandths, so that it is exact.
        case decimal(thousandths: Int64)
        case string(String)
        case token(String)
        case bytes([UInt8])
        case boolean(Bool)
        /// Seconds since 1970.
        case date(Int64)
        case displayString(String)
    }

    /// Values by key in the order in which the keys were first set.
    package struct Keyed<Element: Hashable & Sendable>: Hashable, Sendable {
        package private(set) var keys: [String] = []
        private var values: [String: Element] = [:]

        package init() {}

        package subscript(key: String) -> Element? {
            get { values[key] }
            set {
                if newValue == nil { keys.removeAll { $0 == key } } else if values[key] == nil { keys.append(key) }
                values[key] = newValue
            }
        }
    }

    package typealias Parameters = Keyed<Value>

    /// An item, or an inner list of items, with its parameters.
    package struct Member: Hashable, Sendable {
        package enum Content: Hashable, Sendable {
            case value(Value)
            /// The members are items.
            case list([Member])
        }

        package var content: Content
        package var parameters: Parameters

        package init(_ content: Content, _ parameters: Parameters = Parameters()) {
            self.content = content
            self.parameters = parameters
        }

        package init(_ value: Value) { self.init(.value(value)) }

        /// The value of an item; `nil` for an inner list.
        package var value: Value? { if case .value(let value) = content { value } else { nil } }

        /// The items of an inner list; `nil` for an item.
        package var items: [Member]? { if case .list(let items) = content { items } else { nil } }
    }

    // MARK: Reading

    package static func dictionary(_ text: String) -> Keyed<Member>? { parse(text) { $0.dictionary() } }
    package static func list(_ text: String) -> [Member]? { parse(text) { $0.list() } }
    package static func item(_ text: String) -> Member? { parse(text) { $0.item() } }

    private static func parse<Result>(_ text: String, _ read: (inout StructuredFieldParser) -> Result?) -> Result? {
        var parser = StructuredFieldParser(text)
        parser.skipSpaces()
        guard let result = read(&parser) else { return nil }
        parser.skipSpaces()
        return parser.isAtEnd ? result : nil
    }

    // MARK: Writing

    /// The text of a list; `nil` if a value or key cannot be written. An empty list is an empty text: the field is left out.
    package static func text(_ list: [Member]) -> String? { joined(list.map(\.text)) }

    /// The text of a dictionary, like ``text(_:)-(_)``.
    package static func text(_ dictionary: Keyed<Member>) -> String? {
        joined(
            dictionary.keys.map { key in
                guard isKey(key), let member = dictionary[key] else { return nil }
                if member.value == .boolean(true) { return member.parameters.text.map { key + $0 } }
                return member.text.map { "\(key)=\($0)" }
            })
    }

    private static func joined(_ parts: [String?]) -> String? {
        parts.contains(nil) ? nil : parts.compactMap(\.self).joined(separator: ", ")
    }

    fileprivate static func isKey(_ text: String) -> Bool {
        guard let first = text.utf8.first, Byte.isLower(first) || first == Byte.star else { return false }
        return text.utf8.allSatisfy(Byte.isKey)
    }

    fileprivate static func isToken(_ text: String) -> Bool {
        guard let first = text.utf8.first, Byte.isAlpha(first) || first == Byte.star else { return false }
        return text.utf8.allSatisfy(Byte.isToken)
    }

    fileprivate static let integers: ClosedRange<Int64> = -999_999_999_999_999...999_999_999_999_999

    fileprivate enum Byte {
        static let star = UInt8(ascii: "*")

        static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
        static func isLower(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }
        static func isAlpha(_ byte: UInt8) -> Bool { isLower(byte | 0x20) }
        static func isKey(_ byte: UInt8) -> Bool { isLower(byte) || isDigit(byte) || "_-.*".utf8.contains(byte) }
        static func isToken(_ byte: UInt8) -> Bool {
            isAlpha(byte) || isDigit(byte) || "!#$%&'*+-.^_`|~:/".utf8.contains(byte)
        }
    }
}

extension StructuredField.Value {
    /// The value as text (RFC 9651 §4.1.3.1); `nil` if it cannot be written.
    package var text: String? {
        switch self {
        case .integer(let number): return StructuredField.integers.contains(number) ? "\(number)" : nil
        case .decimal(let thousandths):
            guard StructuredField.integers.contains(thousandths) else { return nil }
            let size = thousandths.magnitude
            var fraction = String("\(1000 + size % 1000)".dropFirst())
            while fraction.count > 1, fraction.hasSuffix("0") { fraction.removeLast() }
            return "\(thousandths < 0 ? "-" : "")\(size / 1000).\(fraction)"
        case .string(let text):
            guard text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return nil }
            return "\"" + text.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : "\($0)" }.joined() + "\""
        case .token(let text): return StructuredField.isToken(text) ? text : nil
        case .bytes(let bytes): return ":\(Data(bytes).base64EncodedString()):"
        case .boolean(let value): return value ? "?1" : "?0"
        case .date(let seconds): return StructuredField.integers.contains(seconds) ? "@\(seconds)" : nil
        case .displayString(let text):
            let escaped = text.utf8.map { byte in
                (0x20...0x7E).contains(byte) && byte != 0x25 && byte != 0x22
                    ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
            return "%\"\(escaped.joined())\""
        }
    }
}

extension StructuredField.Keyed<StructuredField.Value> {
    /// The parameters with a semicolon before each; `nil` if a key or value cannot be written.
    package var text: String? {
        var text = ""
        for key in keys {
            guard StructuredField.isKey(key), let value = self[key], let written = value.text else { return nil }
            text += value == .boolean(true) ? ";\(key)" : ";\(key)=\(written)"
        }
        return text
    }
}

extension StructuredField.Member {
    /// The item or inner list with its parameters; `nil` if a part of it cannot be written.
    package var text: String? {
        guard let parameters = parameters.text else { return nil }
        switch content {
        case .value(let value): return value.text.map { $0 + parameters }
        case .list(let items):
            let texts = items.map(\.text)
            return texts.contains(nil) ? nil : "(\(texts.compactMap(\.self).joined(separator: " ")))\(parameters)"
        }
    }
}

/// Reads the grammar of RFC 9651 §4.2 byte by byte. Each function returns `nil` for what the grammar does not allow.
private struct StructuredFieldParser {
    private typealias Byte = StructuredField.Byte
    private var rest: ArraySlice<UInt8>

    init(_ text: String) { rest = Array(text.utf8)[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skipSpaces() { rest = rest.drop { $0 == 0x20 } }

    private mutating func skipFieldWhitespace() { rest = rest.drop { $0 == 0x20 || $0 == 0x09 } }

    private mutating func take(_ byte: Character) -> Bool {
        guard let value = byte.asciiValue, rest.first == value else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func take(while isPart: (UInt8) -> Bool) -> String {
        let part = rest.prefix(while: isPart)
        rest = rest.dropFirst(part.count)
        return String(decoding: part, as: UTF8.self)
    }

    /// Whether another element follows in a list; `nil` for a comma with nothing after it, or something else.
    private mutating func hasNext() -> Bool? {
        skipFieldWhitespace()
        if isAtEnd { return false }
        guard take(",") else { return nil }
        skipFieldWhitespace()
        return isAtEnd ? nil : true
    }

    mutating func list() -> [StructuredField.Member]? {
        var members: [StructuredField.Member] = []
        while !isAtEnd {
            guard let member = member() else { return nil }
            members.append(member)
            guard let hasNext = hasNext() else { return nil }
            if !hasNext { break }
        }
        return members
    }

    mutating func dictionary() -> StructuredField.Keyed<StructuredField.Member>? {
        var members = StructuredField.Keyed<StructuredField.Member>()
        while !isAtEnd {
            guard let key = key() else { return nil }
            if take("=") {
                guard let member = member() else { return nil }
                members[key] = member
            } else {
                guard let parameters = parameters() else { return nil }
                members[key] = StructuredField.Member(.value(.boolean(true)), parameters)
            }
            guard let hasNext = hasNext() else { return nil }
            if !hasNext { break }
        }
        return members
    }

    private mutating func member() -> StructuredField.Member? {
        guard take("(") else { return item() }
        var items: [StructuredField.Member] = []
        while true {
            skipSpaces()
            if take(")") {
                return parameters().map { StructuredField.Member(.list(items), $0) }
            }
            guard let item = item(), let next = rest.first, next == 0x20 || next == UInt8(ascii: ")") else {
                return nil
            }
            items.append(item)
        }
    }

    mutating func item() -> StructuredField.Member? {
        guard let value = value(), let parameters = parameters() else { return nil }
        return StructuredField.Member(.value(value), parameters)
    }

    private mutating func parameters() -> StructuredField.Parameters? {
        var parameters = StructuredField.Parameters()
        while take(";") {
            skipSpaces()
            guard let key = key() else { return nil }
            guard take("=") else {
                parameters[key] = .boolean(true)
                continue
            }
            guard let value = value() else { return nil }
            parameters[key] = value
        }
        return parameters
    }

    private mutating func key() -> String? {
        guard let first = rest.first, Byte.isLower(first) || first == Byte.star else { return nil }
        return take(while: Byte.isKey)
    }

    private mutating func value() -> StructuredField.Value? {
        guard let first = rest.first else { return nil }
        switch first {
        case UInt8(ascii: "-"), 0x30...0x39: return number()
        case UInt8(ascii: "\""): return string().map { .string($0) }
        case UInt8(ascii: ":"): return bytes()
        case UInt8(ascii: "?"):
            rest.removeFirst()
            if take("1") { return .boolean(true) }
            return take("0") ? .boolean(false) : nil
        case UInt8(ascii: "@"):
            rest.removeFirst()
            guard case .integer(let seconds) = number() else { return nil }
            return .date(seconds)
        case UInt8(ascii: "%"): return displayString()
        case _ where Byte.isAlpha(first) || first == Byte.star: return .token(take(while: Byte.isToken))
        default: return nil
        }
    }

    private mutating func number() -> StructuredField.Value? {
        let sign: Int64 = take("-") ? -1 : 1
        let whole = take(while: Byte.isDigit)
        guard !whole.isEmpty, whole.utf8.count <= 15 else { return nil }
        guard take(".") else { return Int64(whole).map { .integer(sign * $0) } }
        let fraction = take(while: Byte.isDigit)
        guard whole.utf8.count <= 12, (1...3).contains(fraction.utf8.count) else { return nil }
        return Int64(whole + fraction + String(repeating: "0", count: 3 - fraction.utf8.count))
            .map { .decimal(thousandths: sign * $0) }
    }

    private mutating func string() -> String? {
        guard take("\"") else { return nil }
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let escaped = rest.popFirst(), escaped == 0x22 || escaped == 0x5C else { return nil }
                text.append(escaped)
            case 0x20...0x7E: text.append(byte)
            default: return nil
            }
        }
        return nil
    }

    private mutating func bytes() -> StructuredField.Value? {
        rest.removeFirst()
        let text = take { Byte.isAlpha($0) || Byte.isDigit($0) || "+/=".utf8.contains($0) }
        guard take(":") else { return nil }
        // Missing padding is accepted (RFC 9651 §4.2.7).
        let digits = text.prefix { $0 != "=" }
        guard text.dropFirst(digits.count).allSatisfy({ $0 == "=" }) else { return nil }
        let padding = String(repeating: "=", count: (4 - digits.utf8.count % 4) % 4)
        return Data(base64Encoded: digits + padding).map { .bytes(Array($0)) }
    }

    private mutating func displayString() -> StructuredField.Value? {
        rest.removeFirst()
        guard take("\"") else { return nil }
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return String(validating: text, as: UTF8.self).map { .displayString($0) }
            case UInt8(ascii: "%"):
                let digits = rest.prefix(2)
                guard digits.count == 2, digits.allSatisfy({ Byte.isDigit($0) || (0x61...0x66).contains($0) }),
                    let escaped = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
                else { return nil }
                rest = rest.dropFirst(2)
                text.append(escaped)
            case 0x20...0x7E: text.append(byte)
            default: return nil
            }
        }
        return nil
    }
}
