// What JSON5 allows in addition to JSON: comments, trailing commas, single quotes, names without quotes, more forms of
// numbers, more escapes, and lines of a string that are continued with a backslash.
extension JSONScanner {

    // MARK: Numbers

    /// Whether a number begins here in a form that JSON does not have.
    var beginsNumber: Bool {
        switch peek {
        case UInt8(ascii: "+"), UInt8(ascii: "."): true
        default: ["Infinity", "NaN"].contains { bytes[token(at: position)].elementsEqual($0.utf8) }
        }
    }

    /// Reads a number (JSON5 §6): as in JSON, or with a plus sign, hexadecimal, infinite, or NaN.
    mutating func additionalNumber() throws(JSONFailure) {
        let start = position
        let isNegative = take(UInt8(ascii: "-"))
        if !isNegative { _ = take(UInt8(ascii: "+")) }
        let digits = String(decoding: bytes[position..<token(at: start).upperBound], as: UTF8.self)
        switch digits {
        case "Infinity": tokens.append(.double(isNegative ? -.infinity : .infinity))
        case "NaN": tokens.append(.double(.nan))
        case _ where digits.hasPrefix("0x") || digits.hasPrefix("0X"):
            guard let number = hexadecimal(digits.dropFirst(2), isNegative) else { return }
            tokens.append(number)
        default: return try decimal(from: start, isNegative: isNegative)
        }
        position += digits.utf8.count
    }

    private func hexadecimal(_ digits: Substring, _ isNegative: Bool) -> JSONToken? {
        var double = 0.0
        for digit in digits.utf8 {
            guard let value = digit.hexadecimalValue else { return nil }
            double = double * 16 + Double(value)
        }
        if let integer = Int64((isNegative ? "-" : "") + digits, radix: 16) { return .int(integer) }
        return digits.isEmpty ? nil : .double(isNegative ? -double : double)
    }

    // MARK: Strings

    /// Takes the line end after a backslash. It is not part of the string.
    mutating func takeLineEnd() -> Bool {
        let length = lineEndLength
        let isReturn = peek == 0x0D
        position += length
        if isReturn { _ = take(0x0A) }
        return length > 0
    }

    /// Reads an escape that JSON does not have. Any character but a digit may be escaped, and 0 if no digit follows.
    mutating func additionalEscape() throws(JSONFailure) -> Unicode.Scalar {
        guard isJSON5, let (scalar, length) = scalar(at: position) else { throw failure(.escape) }
        let start = position - 1
        position += length
        switch scalar {
        case "v": return "\u{B}"
        case "x":
            guard bytes.count - position >= 2, let high = bytes[position].hexadecimalValue,
                let low = bytes[position + 1].hexadecimalValue
            else { throw JSONFailure(.other("expected two hexadecimal digits after \\x"), at: start..<position) }
            position += 2
            return Unicode.Scalar(high << 4 | low)
        case "0" where !peek.isDigit: return "\0"
        case "0"..."9":
            throw JSONFailure(.other("a digit cannot be escaped; write \\xHH or \\uHHHH"), at: start..<position)
        default: return scalar
        }
    }

    // MARK: Names

    var beginsIdentifier: Bool { scalar(at: position)?.0.beginsIdentifier ?? false }

    /// Reads a name without quotes: an `IdentifierName` of ECMAScript 5.1 §7.6.
    mutating func identifier() throws(JSONFailure) -> String {
        let start = position
        var name = String.UnicodeScalarView()
        while var (scalar, length) = scalar(at: position) {
            let isEscape = scalar == "\\"
            if isEscape {
                let begin = position
                position += 1
                guard take(UInt8(ascii: "u")), let escaped = Unicode.Scalar(try hexadecimalUnit()) else {
                    throw JSONFailure(.other("the only escape in a bare key is \\uXXXX"), at: begin..<position)
                }
                (scalar, length) = (escaped, 0)
            }
            guard name.isEmpty ? scalar.beginsIdentifier : scalar.continuesIdentifier else {
                guard isEscape else { break }
                throw JSONFailure(.other("this character needs quotes around the key"), at: position - 6..<position)
            }
            name.append(scalar)
            position += length
        }
        if peek == UInt8(ascii: "-") || peek == UInt8(ascii: ".") {
            throw JSONFailure(.bareName, at: token(at: start))
        }
        return String(name)
    }

    // MARK: Arrays and objects

    /// Throws at the end of the text, and at a closing bracket of the wrong kind.
    func requireOpen(_ start: Int, closing: UInt8) throws(JSONFailure) {
        let isClosed = peek == UInt8(ascii: "}") || peek == UInt8(ascii: "]")
        if isClosed || position == bytes.count { throw failure(.unclosed(start: start, closing: closing)) }
    }

    /// Whether an element, or a member of an object, may begin here, so that only the comma before it is missing.
    func beginsElement(_ isMember: Bool) -> Bool {
        if isMember { return peek == UInt8(ascii: "\"") || peek == UInt8(ascii: "'") || beginsIdentifier }
        return peek != UInt8(ascii: ":") && peek != UInt8(ascii: "=")
    }

    // MARK: White space

    /// Skips a comment, or white space that JSON does not have. Returns `false` at everything else.
    mutating func skipAdditionalBlank() throws(JSONFailure) -> Bool {
        if peek == UInt8(ascii: "/") {
            try skipComment()
            return true
        }
        guard let (scalar, length) = scalar(at: position), scalar.isJSON5Space else { return false }
        position += length
        return true
    }

    private mutating func skipComment() throws(JSONFailure) {
        let start = position
        switch position + 1 < bytes.count ? bytes[position + 1] : 0 {
        case UInt8(ascii: "/"):
            while position < bytes.count, lineEndLength == 0 { position += 1 }
        case UInt8(ascii: "*"):
            position += 2
            while position + 1 < bytes.count {
                position += 1
                if bytes[position] == UInt8(ascii: "/"), bytes[position - 1] == UInt8(ascii: "*") {
                    position += 1
                    return
                }
            }
            throw JSONFailure(.other("the comment is not closed; expected */"), at: start..<start + 2)
        default: throw failure(.comment)
        }
    }

    /// The length of LF, CR, LS or PS here; 0 when there is none. For CR LF it is 1, the length of CR.
    private var lineEndLength: Int {
        guard let (scalar, length) = scalar(at: position) else { return 0 }
        return ["\n", "\r", "\u{2028}", "\u{2029}"].contains(scalar) ? length : 0
    }

    // MARK: Characters

    /// The token at a byte: at least one character, up to the next white space, bracket, comma, colon, quote or slash. Empty
    /// at the end of the text.
    func token(at start: Int) -> Range<Int> {
        var end = start
        while let (scalar, length) = scalar(at: end) {
            let isDelimiter = scalar.isJSON5Space || "{}[]:,'\"/ \n\r\t".unicodeScalars.contains(scalar)
            if isDelimiter, end > start { break }
            end += length
            if isDelimiter { break }
        }
        return start..<end
    }

    /// The character that begins at a byte, and its length in bytes.
    private func scalar(at index: Int) -> (Unicode.Scalar, Int)? {
        guard index < bytes.count else { return nil }
        if bytes[index] < 0x80 { return (Unicode.Scalar(bytes[index]), 1) }
        var decoder = UTF8()
        var rest = bytes[index..<min(index + 4, bytes.count)].makeIterator()
        guard case .scalarValue(let scalar) = decoder.decode(&rest) else { return nil }
        return (scalar, UTF8.width(scalar))
    }
}

extension Unicode.Scalar {
    /// Whether a name without quotes may begin with this character.
    package var beginsIdentifier: Bool {
        if isASCII { return properties.isAlphabetic || self == "_" || self == "$" }
        return properties.isIDStart
    }

    fileprivate var continuesIdentifier: Bool {
        if beginsIdentifier || ("0"..."9").contains(self) { return true }
        return !isASCII && (properties.isIDContinue || self == "\u{200C}" || self == "\u{200D}")
    }

    /// White space and line ends of JSON5 §8 that JSON does not have.
    fileprivate var isJSON5Space: Bool {
        switch value {
        case 0xB, 0xC, 0xA0, 0x1680, 0x2000...0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF: true
        default: false
        }
    }
}
