internal import FoundationEssentials

/// A reader of RFC 8259 over bytes: checks all of a document, and leaves its tokens.
///
/// Decoding ``JSONValue`` with `JSONDecoder` takes some 400 ms for a megabyte of small objects, because every guess at
/// a type that is wrong throws; it also takes `[1,]` and cannot tell where a text is broken.
struct JSONScanner {
    typealias Failure = JSONValue.ParsingError

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0
    private var tokens = JSONTokens()

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// The tokens of one document.
    static func tokens(of bytes: UnsafeBufferPointer<UInt8>) throws(Failure) -> JSONTokens {
        var scanner = JSONScanner(bytes)
        // A guess for text in which names and values take some ten bytes each.
        scanner.tokens.list.reserveCapacity(bytes.count / 10 + 8)
        try scanner.document()
        return scanner.tokens
    }

    private mutating func document() throws(Failure) {
        if bytes.count >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF { position = 3 }
        skipWhitespace()
        if position == bytes.count { throw failure("the document is empty") }
        try value(depth: 0)
        skipWhitespace()
        if position < bytes.count { throw failure("expected the end of the document, found \(found)") }
    }

    private mutating func value(depth: Int) throws(Failure) {
        switch peek {
        case UInt8(ascii: "\""): try text()
        case UInt8(ascii: "{"): try object(depth: depth + 1)
        case UInt8(ascii: "["): try array(depth: depth + 1)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): tokens.append(try number())
        case UInt8(ascii: "t") where take("true"): tokens.append(.bool(true))
        case UInt8(ascii: "f") where take("false"): tokens.append(.bool(false))
        case UInt8(ascii: "n") where take("null"): tokens.append(.null)
        default: throw failure("expected a value, found \(found)")
        }
    }

    private mutating func object(depth: Int) throws(Failure) {
        try enter(depth)
        let place = tokens.open()
        var count = 0
        skipWhitespace()
        while !(count == 0 && take(UInt8(ascii: "}"))) {
            guard peek == UInt8(ascii: "\"") else { throw failure("expected a member's name, found \(found)") }
            try text()
            skipWhitespace()
            guard take(UInt8(ascii: ":")) else { throw failure("expected \":\" after the name, found \(found)") }
            skipWhitespace()
            try value(depth: depth)
            count += 1
            skipWhitespace()
            if take(UInt8(ascii: "}")) { break }
            guard take(UInt8(ascii: ",")) else { throw failure("expected \",\" or \"}\", found \(found)") }
            skipWhitespace()
        }
        tokens.list[place] = .object(count: UInt32(clamping: count), end: tokens.list.count)
    }

    private mutating func array(depth: Int) throws(Failure) {
        try enter(depth)
        let place = tokens.open()
        var count = 0
        skipWhitespace()
        while !(count == 0 && take(UInt8(ascii: "]"))) {
            try value(depth: depth)
            count += 1
            skipWhitespace()
            if take(UInt8(ascii: "]")) { break }
            guard take(UInt8(ascii: ",")) else { throw failure("expected \",\" or \"]\", found \(found)") }
            skipWhitespace()
        }
        tokens.list[place] = .array(count: UInt32(clamping: count), end: tokens.list.count)
    }

    private mutating func enter(_ depth: Int) throws(Failure) {
        guard depth <= JSONValue.maximumDepth else {
            throw failure("more than \(JSONValue.maximumDepth) arrays and objects in one another")
        }
        position += 1
    }
}

// MARK: Texts

extension JSONScanner {
    private mutating func text() throws(Failure) {
        position += 1
        let start = position
        position = bytes.endOfPlainText(from: start)
        guard peek == UInt8(ascii: "\""), let count = UInt32(exactly: position - start) else {
            return tokens.append(.string(try string(from: start)))
        }
        tokens.list.append(.text(start: start, count: count))
        position += 1
    }

    /// A text with escapes or beyond ASCII; or none, and then it says why.
    private mutating func string(from start: Int) throws(Failure) -> String {
        var content: [UInt8] = []
        var run = start  // Where the bytes begin that are not yet in `content`.
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                let rest = UnsafeBufferPointer(rebasing: bytes[run..<position])
                if run > start { content.append(contentsOf: rest) }
                let text = run > start ? content.withUnsafeBufferPointer { $0.utf8Text } : rest.utf8Text
                guard let text else {
                    position = start
                    throw failure("the text is not in UTF-8")
                }
                position += 1
                return text
            case UInt8(ascii: "\\"):
                content.append(contentsOf: bytes[run..<position])
                position += 1
                content.append(contentsOf: String(try escape()).utf8)
                run = position
            case 0..<0x20:
                throw failure("a control character in a text must be escaped")
            default:
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
}

// MARK: Numbers

extension JSONScanner {
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
            let power = JSONScanner.powersOfTen[Int(exponent.magnitude)]
            let value = exponent < 0 ? Double(significand) / power : Double(significand) * power
            return .double(isNegative ? -value : value)
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if position == integerEnd, let value = Int64(text) { return .int(value) }
        if let value = JSONScanner.fraction(text) { return value }
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
struct DecimalDigits: Equatable {
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
                // Far beyond what a number may have, and not so far that a digit more is too much for an `Int`.
                exponent += min(max(Int(Substring(rest)) ?? 0, -1 << 60), 1 << 60)
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

extension JSONScanner {
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

extension UnsafeBufferPointer<UInt8> {
    /// Where the first byte is that is not ASCII or may not stand in a JSON text as it is, `"`, `\` or a control
    /// character; the end if there is none. Looks at eight bytes at a time.
    func endOfPlainText(from start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let bytes = UnsafeRawBufferPointer(self)
        var position = start
        while count - position >= 8 {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            let quotes = word ^ (ones &* 0x22)
            let backslashes = word ^ (ones &* 0x5C)
            // The high bit of every byte that is one of them. A borrow makes others hits too, but only above the first.
            let hits =
                ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes | (word &- ones &* 0x20) & ~word
                    | word) & (ones &* 0x80)
            if hits != 0 { return position + hits.trailingZeroBitCount / 8 }
            position += 8
        }
        while position < count, case let byte = self[position], byte < 0x80, byte >= 0x20, byte != 0x22, byte != 0x5C {
            position += 1
        }
        return position
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { self >= UInt8(ascii: "0") && self <= UInt8(ascii: "9") }
}
