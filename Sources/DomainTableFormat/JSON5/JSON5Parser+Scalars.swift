extension JSON5Parser {
    // MARK: Strings

    /// Parses a string in single or double quotes (JSON5 §5).
    mutating func string() throws(Failure) -> String {
        let start = index
        let quote = bytes[index]
        index += 1
        var text: [UInt8] = []
        while let byte = current {
            switch byte {
            case quote:
                index += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"): try escape(into: &text)
            case 0x0A, 0x0D:
                throw Failure(
                    range: start..<index,
                    message: "the string is not closed in its line; expected \(Character(Unicode.Scalar(quote)))")
            default:
                text.append(byte)
                index += 1
            }
        }
        throw Failure(
            range: start..<index,
            message: "the file ends inside the string; expected \(Character(Unicode.Scalar(quote)))")
    }

    private mutating func escape(into text: inout [UInt8]) throws(Failure) {
        let start = index
        index += 1
        guard let byte = current else { return }
        let length = lineEndLength(at: index)
        if length > 0 {
            // A continued line: the line end is not part of the string.
            index += length
            if byte == 0x0D { _ = take(0x0A) }
            return
        }
        index += 1
        switch byte {
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "v"): text.append(0x0B)
        case UInt8(ascii: "x"): append(Unicode.Scalar(UInt8(try hexadecimal(digits: 2, from: start))), to: &text)
        case UInt8(ascii: "u"): append(try unicodeEscape(from: start), to: &text)
        case UInt8(ascii: "0") where current?.isDigit != true: text.append(0)
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
            throw Failure(range: start..<index, message: "a digit cannot be escaped; write \\xHH or \\uHHHH")
        default:
            // Any other character stands for itself. The caller appends its remaining bytes.
            text.append(byte)
        }
    }

    private mutating func unicodeEscape(from start: Int) throws(Failure) -> Unicode.Scalar {
        let first = try hexadecimal(digits: 4, from: start)
        if let scalar = Unicode.Scalar(first) { return scalar }
        if first < 0xDC00, take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) {
            let second = try hexadecimal(digits: 4, from: start)
            if (0xDC00...0xDFFF).contains(second),
                let scalar = Unicode.Scalar(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
            {
                return scalar
            }
        }
        throw Failure(
            range: start..<min(index, bytes.count),
            message: "half a surrogate pair is not a character; write both halves, or the character itself")
    }

    mutating func hexadecimal(digits: Int, from start: Int) throws(Failure) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<digits {
            guard let digit = current.flatMap({ Character(Unicode.Scalar($0)).hexDigitValue }) else {
                throw Failure(
                    range: start..<min(index + 1, bytes.count), message: "expected \(digits) hexadecimal digits",
                    expected: "\(digits) hexadecimal digits")
            }
            index += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    private func append(_ scalar: Unicode.Scalar, to text: inout [UInt8]) {
        text.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
    }

    // MARK: Numbers

    /// Parses a number (JSON5 §6).
    mutating func number() throws(Failure) -> JSON5Node {
        let token = token(at: index)
        let text = source.text(token)
        guard let number = Self.number(text) else {
            let isDuration = text.first?.isNumber == true && DurationText.parse(text) != nil
            let advice = isDuration ? "; durations are written in quotes: \"\(text)\"" : ""
            throw Failure(
                range: token, message: "\(shown(token)) is not a number\(advice)", expected: "a number",
                found: shown(token))
        }
        index = token.upperBound
        return JSON5Node(.number(number), at: token)
    }

    private static func number(_ text: String) -> JSON5Number? {
        var digits = Substring(text)
        var isNegative = false
        if let sign = digits.first, sign == "-" || sign == "+" {
            isNegative = sign == "-"
            digits.removeFirst()
        }
        switch digits {
        case "Infinity": return JSON5Number(double: isNegative ? -.infinity : .infinity, integer: nil, text: text)
        case "NaN": return JSON5Number(double: .nan, integer: nil, text: text)
        default: break
        }
        if digits.hasPrefix("0x") || digits.hasPrefix("0X") {
            return hexadecimal(digits.dropFirst(2), isNegative, text)
        }
        return decimal(Array(digits.utf8), isNegative, text)
    }

    private static func hexadecimal(_ digits: Substring, _ isNegative: Bool, _ text: String) -> JSON5Number? {
        guard !digits.isEmpty else { return nil }
        var double = 0.0
        for digit in digits {
            guard digit.isASCII, let value = digit.hexDigitValue else { return nil }
            double = double * 16 + Double(value)
        }
        let integer = Int64((isNegative ? "-" : "") + digits, radix: 16)
        return JSON5Number(double: isNegative ? -double : double, integer: integer, text: text)
    }

    /// Parses digits with an optional decimal point, which may come first or last, and an optional exponent. Leading zeros
    /// are not allowed.
    private static func decimal(_ bytes: [UInt8], _ isNegative: Bool, _ text: String) -> JSON5Number? {
        let mantissa = bytes.prefix { $0.isDigit || $0 == UInt8(ascii: ".") }
        let exponent = bytes.dropFirst(mantissa.count)
        let whole = mantissa.prefix { $0.isDigit }
        let fraction = mantissa.dropFirst(whole.count + 1)
        guard !whole.isEmpty || !fraction.isEmpty, fraction.allSatisfy(\.isDigit) else { return nil }
        guard whole.count < 2 || whole.first != UInt8(ascii: "0") else { return nil }
        if let first = exponent.first {
            guard first | 0x20 == UInt8(ascii: "e") else { return nil }
            let digits = exponent.dropFirst().drop { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }
            guard exponent.count - digits.count <= 2, !digits.isEmpty, digits.allSatisfy(\.isDigit) else { return nil }
        }
        let ascii = { (bytes: ArraySlice<UInt8>) in String(decoding: bytes, as: UTF8.self) }
        let plain =
            (isNegative ? "-" : "") + (whole.isEmpty ? "0" : ascii(whole)) + "."
            + (fraction.isEmpty ? "0" : ascii(fraction)) + ascii(exponent)
        guard let double = Double(plain) else { return nil }
        let isInteger = mantissa.count == whole.count && exponent.isEmpty
        let integer = isInteger ? Int64((isNegative ? "-" : "") + ascii(whole)) : nil
        return JSON5Number(double: double, integer: integer, text: text)
    }
}
