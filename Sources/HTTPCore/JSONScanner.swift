/// A JSON parser (RFC 8259) that checks a whole document and produces its tokens.
///
/// Decoding ``JSONValue`` with `JSONDecoder` takes about 400 ms for a megabyte of small objects, because every wrong
/// guess of a type throws. `JSONDecoder` also accepts `[1,]` and does not report where a document is malformed.
struct JSONScanner {
    typealias Failure = JSONValue.ParsingError

    let bytes: UnsafeBufferPointer<UInt8>
    var position = 0
    private var tokens = JSONTokens()

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    static func tokens(of bytes: UnsafeBufferPointer<UInt8>) throws(Failure) -> JSONTokens {
        var scanner = JSONScanner(bytes)
        // An estimate: names and values take about ten bytes each.
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
        case UInt8(ascii: "{"): try elements(upTo: UInt8(ascii: "}"), depth: depth + 1)
        case UInt8(ascii: "["): try elements(upTo: UInt8(ascii: "]"), depth: depth + 1)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): tokens.append(try number())
        case UInt8(ascii: "t") where take("true"): tokens.append(.bool(true))
        case UInt8(ascii: "f") where take("false"): tokens.append(.bool(false))
        case UInt8(ascii: "n") where take("null"): tokens.append(.null)
        default: throw failure("expected a value, found \(found)")
        }
    }

    /// Reads an array, or an object, whose elements have names.
    private mutating func elements(upTo end: UInt8, depth: Int) throws(Failure) {
        guard depth <= JSONValue.maximumDepth else {
            throw failure("more than \(JSONValue.maximumDepth) nested arrays and objects")
        }
        position += 1
        let isObject = end == UInt8(ascii: "}")
        let place = tokens.open()
        var count = 0
        skipWhitespace()
        while !(count == 0 && take(end)) {
            if isObject { try name() }
            try value(depth: depth)
            count += 1
            skipWhitespace()
            if take(end) { break }
            guard take(UInt8(ascii: ",")) else {
                throw failure("expected \",\" or \"\(Unicode.Scalar(end))\", found \(found)")
            }
            skipWhitespace()
        }
        let (size, next) = (UInt32(clamping: count), tokens.list.count)
        tokens.list[place] = isObject ? .object(count: size, end: next) : .array(count: size, end: next)
    }

    private mutating func name() throws(Failure) {
        guard peek == UInt8(ascii: "\"") else { throw failure("expected a member's name, found \(found)") }
        try text()
        skipWhitespace()
        guard take(UInt8(ascii: ":")) else { throw failure("expected \":\" after the name, found \(found)") }
        skipWhitespace()
    }
}

// MARK: Strings

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

    /// Reads a string with escapes or non-ASCII characters, or throws the reason why it is malformed.
    private mutating func string(from start: Int) throws(Failure) -> String {
        var content: [UInt8] = []
        var run = start  // The start of the bytes that are not yet in `content`.
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                let rest = UnsafeBufferPointer(rebasing: bytes[run..<position])
                if run > start { content.append(contentsOf: rest) }
                let text = run > start ? content.withUnsafeBufferPointer { $0.utf8Text } : rest.utf8Text
                guard let text else {
                    position = start
                    throw failure("the string is not in UTF-8")
                }
                position += 1
                return text
            case UInt8(ascii: "\\"):
                content.append(contentsOf: bytes[run..<position])
                position += 1
                content.append(contentsOf: String(try escape()).utf8)
                run = position
            case 0..<0x20:
                throw failure("a control character in a string must be escaped")
            default:
                position += 1
            }
        }
        throw failure("the string has no closing quote")
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
        default: throw failure("unknown escape: \\ followed by \(found)")
        }
        position += 1
        return scalar
    }

    private mutating func unicodeEscape() throws(Failure) -> Unicode.Scalar {
        guard let first = hexadecimalUnit() else { throw failure("expected four hexadecimal digits after \\u") }
        if let scalar = Unicode.Scalar(first) { return scalar }
        // RFC 8259 §7: a character beyond the Basic Multilingual Plane takes two escapes.
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

// MARK: Bytes

extension JSONScanner {
    /// The next byte. At the end it is 0, which JSON allows nowhere.
    var peek: UInt8 { position < bytes.count ? bytes[position] : 0 }

    mutating func take(_ byte: UInt8) -> Bool {
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

    /// The character at the position, for errors.
    var found: String {
        guard position < bytes.count else { return "the end of the document" }
        let next = String(decoding: bytes[position..<min(position + 4, bytes.count)], as: UTF8.self)
        return next.unicodeScalars.first.map { "\"\($0.escaped(asASCII: false))\"" } ?? "nothing"
    }

    func failure(_ reason: String) -> Failure {
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
    /// The index of the first byte that is `"`, `\`, a control character or not ASCII; the end if there is none. Compares
    /// eight bytes at a time.
    func endOfPlainText(from start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let bytes = UnsafeRawBufferPointer(self)
        var position = start
        while count - position >= 8 {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            let quotes = word ^ (ones &* 0x22)
            let backslashes = word ^ (ones &* 0x5C)
            // The high bit of every byte that matches. Borrows can set it in other bytes, but only above the first match.
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
