public import FoundationEssentials

extension JSONValue {
    /// Reads one JSON document in UTF-8 (RFC 8259).
    ///
    /// Any value may stand at the top, a byte order mark before it is skipped, of
    /// a member named twice the last stays. A half of a surrogate pair in an
    /// escape reads as U+FFFD, since servers that cut texts send them. Everything
    /// else the RFC does not allow is an error: comments, trailing commas, `NaN`,
    /// text after the value, bytes that are no UTF-8, more than
    /// ``maximumDepth`` levels, numbers beyond `Double` and `Decimal`.
    ///
    /// - Throws: ``ParsingError``, which says where and what.
    public init(parsing data: Data) throws {
        self = try data.withUnsafeBytes { raw throws(ParsingError) in
            try raw.withMemoryRebound(to: UInt8.self) { bytes throws(ParsingError) in
                var parser = JSONParser(bytes)
                return try parser.document()
            }
        }
    }

    /// Reads one JSON document; see ``init(parsing:)-(Data)``.
    ///
    /// - Throws: ``ParsingError``, which says where and what.
    public init(parsing text: String) throws {
        var text = text
        self = try text.withUTF8 { bytes throws(ParsingError) in
            var parser = JSONParser(bytes)
            return try parser.document()
        }
    }

    /// Why a text is no JSON.
    public struct ParsingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The line, from 1.
        public let line: Int
        /// The character in the line (a Unicode scalar), from 1.
        public let column: Int
        /// What was expected or is wrong there.
        public let reason: String

        /// `line 3, column 14: expected ":" after the name, found "}"`.
        public var description: String { "line \(line), column \(column): \(reason)" }
    }
}

/// A reader of RFC 8259 over bytes.
///
/// Decoding ``JSONValue`` with `JSONDecoder` takes some 400 ms for a megabyte of small objects, because every guess at
/// a type that is wrong throws; it also takes `[1,]` and cannot tell where a text is broken.
private struct JSONParser {
    typealias Failure = JSONValue.ParsingError

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    mutating func document() throws(Failure) -> JSONValue {
        if bytes.count >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF { position = 3 }
        skipWhitespace()
        if position == bytes.count { throw failure("the document is empty") }
        let value = try value(depth: 0)
        skipWhitespace()
        if position < bytes.count { throw failure("expected the end of the document, found \(found)") }
        return value
    }

    private mutating func value(depth: Int) throws(Failure) -> JSONValue {
        switch peek {
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try array(depth: depth + 1)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number()
        case UInt8(ascii: "t") where take("true"): return .bool(true)
        case UInt8(ascii: "f") where take("false"): return .bool(false)
        case UInt8(ascii: "n") where take("null"): return .null
        default: throw failure("expected a value, found \(found)")
        }
    }

    private mutating func object(depth: Int) throws(Failure) -> JSONValue {
        try enter(depth)
        var members: [String: JSONValue] = [:]
        skipWhitespace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            guard peek == UInt8(ascii: "\"") else { throw failure("expected a member's name, found \(found)") }
            let name = try string()
            skipWhitespace()
            guard take(UInt8(ascii: ":")) else { throw failure("expected \":\" after the name, found \(found)") }
            skipWhitespace()
            members[name] = try value(depth: depth)
            skipWhitespace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { throw failure("expected \",\" or \"}\", found \(found)") }
            skipWhitespace()
        }
    }

    private mutating func array(depth: Int) throws(Failure) -> JSONValue {
        try enter(depth)
        var elements: [JSONValue] = []
        skipWhitespace()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            elements.append(try value(depth: depth))
            skipWhitespace()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { throw failure("expected \",\" or \"]\", found \(found)") }
            skipWhitespace()
        }
    }

    private mutating func enter(_ depth: Int) throws(Failure) {
        guard depth <= JSONValue.maximumDepth else {
            throw failure("more than \(JSONValue.maximumDepth) arrays and objects in one another")
        }
        position += 1
    }
}

// MARK: Texts

extension JSONParser {
    private mutating func string() throws(Failure) -> String {
        position += 1
        let start = position
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: "\"") {
                let content = UnsafeBufferPointer(rebasing: bytes[start..<position])
                guard let text = String(validating: content, as: UTF8.self) else { throw notUTF8(from: start) }
                position += 1
                return text
            }
            if byte == UInt8(ascii: "\\") { return try escapedString(from: start) }
            if byte < 0x20 { throw failure("a control character in a text must be escaped") }
            position += 1
        }
        throw failure("a text does not end")
    }

    /// The rest of a text from its first escape on.
    private mutating func escapedString(from start: Int) throws(Failure) -> String {
        var content = [UInt8](bytes[start..<position])
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: content, as: UTF8.self) else { throw notUTF8(from: start) }
                position += 1
                return text
            case UInt8(ascii: "\\"):
                position += 1
                content.append(contentsOf: String(try escape()).utf8)
            case 0..<0x20:
                throw failure("a control character in a text must be escaped")
            default:
                content.append(byte)
                position += 1
            }
        }
        throw failure("a text does not end")
    }

    private mutating func escape() throws(Failure) -> Unicode.Scalar {
        let scalar: Unicode.Scalar
        switch peek {
        case UInt8(ascii: "\""): scalar = "\""
        case UInt8(ascii: "\\"): scalar = "\\"
        case UInt8(ascii: "/"): scalar = "/"
        case UInt8(ascii: "b"): scalar = "\u{8}"
        case UInt8(ascii: "f"): scalar = "\u{C}"
        case UInt8(ascii: "n"): scalar = "\n"
        case UInt8(ascii: "r"): scalar = "\r"
        case UInt8(ascii: "t"): scalar = "\t"
        case UInt8(ascii: "u"):
            position += 1
            return try unicodeEscape()
        default: throw failure("unknown escape \\ and \(found)")
        }
        position += 1
        return scalar
    }

    private mutating func unicodeEscape() throws(Failure) -> Unicode.Scalar {
        guard let first = hexadecimalUnit() else { throw failure("expected four hexadecimal digits after \\u") }
        if let scalar = Unicode.Scalar(first) { return scalar }
        // RFC 8259 §7: beyond the basic plane, two escapes are one character.
        let afterFirst = position
        if first < 0xDC00, take("\\u"), let second = hexadecimalUnit(), (0xDC00...0xDFFF).contains(second) {
            return Unicode.Scalar(0x10000 + (UInt32(first) - 0xD800) << 10 + (UInt32(second) - 0xDC00)) ?? "\u{FFFD}"
        }
        position = afterFirst
        return "\u{FFFD}"
    }

    private mutating func hexadecimalUnit() -> UInt16? {
        guard bytes.count - position >= 4 else { return nil }
        var unit: UInt16 = 0
        for index in position..<position + 4 {
            guard let digit = bytes[index].hexadecimalValue else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        position += 4
        return unit
    }

    private mutating func notUTF8(from start: Int) -> Failure {
        position = start
        return failure("the text is not in UTF-8")
    }
}

// MARK: Numbers

extension JSONParser {
    private static let powersOfTen: [Double] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ]

    private mutating func number() throws(Failure) -> JSONValue {
        let start = position
        let isNegative = take(UInt8(ascii: "-"))
        var significand: UInt64 = 0
        var digitCount = 0  // Without leading zeros.
        guard peek.isDigit else { throw failure("expected a digit, found \(found)") }
        if !take(UInt8(ascii: "0")) { takeDigits(into: &significand, count: &digitCount) }
        if peek.isDigit { throw failure("a number must not begin with 0") }
        let integerEnd = position
        var exponent = 0
        if take(UInt8(ascii: ".")) {
            guard peek.isDigit else { throw failure("expected a digit after the point, found \(found)") }
            let first = position
            takeDigits(into: &significand, count: &digitCount)
            exponent = first - position
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) { exponent += try exponentPart() }

        if position == integerEnd, digitCount <= 18, !(isNegative && significand == 0) {
            return .int(isNegative ? -Int64(significand) : Int64(significand))
        }
        if digitCount <= 15, exponent.magnitude <= 22 {
            // Both operands are exact, so the result is rounded once, and 15 digits survive a Double.
            let power = JSONParser.powersOfTen[Int(exponent.magnitude)]
            let value = exponent < 0 ? Double(significand) / power : Double(significand) * power
            return .double(isNegative ? -value : value)
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if position == integerEnd, let value = Int64(text) { return .int(value) }
        if let value = JSONParser.fraction(text) { return value }
        position = start
        throw failure("the number is too large")
    }

    private mutating func takeDigits(into significand: inout UInt64, count: inout Int) {
        while peek.isDigit {
            if count > 0 || peek != UInt8(ascii: "0") { count += 1 }
            significand = significand &* 10 &+ UInt64(peek &- UInt8(ascii: "0"))
            position += 1
        }
    }

    private mutating func exponentPart() throws(Failure) -> Int {
        let isNegative = take(UInt8(ascii: "-"))
        if !isNegative { _ = take(UInt8(ascii: "+")) }
        guard peek.isDigit else { throw failure("expected a digit in the exponent, found \(found)") }
        var value = 0
        while peek.isDigit {
            if value < 1_000_000 { value = value * 10 + Int(peek &- UInt8(ascii: "0")) }
            position += 1
        }
        return isNegative ? -value : value
    }

    /// A number that is no `Int64`: a `Double` where that holds all the digits, else a `Decimal`, else the nearest
    /// `Double` there is.
    private static func fraction(_ text: String) -> JSONValue? {
        let double = Double(text) ?? .infinity
        if double.isFinite, DecimalDigits(text) == DecimalDigits(double.description) { return .double(double) }
        if let decimal = Decimal(string: text), decimal.isFinite { return .decimal(decimal) }
        return double.isFinite ? .double(double) : nil
    }
}

/// The digits of a number in text, without zeros at the ends, and where the point is.
private struct DecimalDigits: Equatable {
    private var digits: [UInt8] = []
    private var exponent = 0

    init(_ text: String) {
        var isPastPoint = false
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte.isDigit {
                if !digits.isEmpty || byte != UInt8(ascii: "0") { digits.append(byte) }
                if isPastPoint { exponent -= 1 }
            } else if byte == UInt8(ascii: ".") {
                isPastPoint = true
            } else if byte | 0x20 == UInt8(ascii: "e") {
                exponent += Int(Substring(rest)) ?? 0
                break
            }
        }
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            exponent += 1
        }
        if digits.isEmpty { exponent = 0 }
    }
}

// MARK: Bytes

extension JSONParser {
    /// The next byte; 0, which is nowhere allowed, at the end.
    private var peek: UInt8 { position < bytes.count ? bytes[position] : 0 }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    private mutating func take(_ word: StaticString) -> Bool {
        guard bytes.count - position >= word.utf8CodeUnitCount else { return false }
        for offset in 0..<word.utf8CodeUnitCount where bytes[position + offset] != word.utf8Start[offset] {
            return false
        }
        position += word.utf8CodeUnitCount
        return true
    }

    private mutating func skipWhitespace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    /// What is at the position, for errors.
    private var found: String {
        guard position < bytes.count else { return "the end of the document" }
        let next = String(decoding: bytes[position..<min(position + 4, bytes.count)], as: UTF8.self)
        return next.unicodeScalars.first.map { "\"\($0.escaped(asASCII: false))\"" } ?? "nothing"
    }

    private func failure(_ reason: String) -> Failure {
        var line = 1
        var column = 1
        for byte in bytes[..<position] {
            if byte == 0x0A {
                line += 1
                column = 1
            } else if byte & 0xC0 != 0x80 {
                column += 1
            }
        }
        return Failure(line: line, column: column, reason: reason)
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { self >= UInt8(ascii: "0") && self <= UInt8(ascii: "9") }
}
