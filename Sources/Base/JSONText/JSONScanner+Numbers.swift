// Numbers (RFC 8259 §6), read as the narrowest type that holds all digits.
extension JSONScanner {
    mutating func number() throws(JSONFailure) {
        guard isJSON5 else { return try decimal(from: position, isNegative: take(UInt8(ascii: "-"))) }
        let token = token(at: position)
        do throws(JSONFailure) {
            try additionalNumber()
        } catch {
            throw JSONFailure(position == token.upperBound ? error.problem : .number(expected: nil), at: token)
        }
        guard position == token.upperBound else { throw JSONFailure(.number(expected: nil), at: token) }
    }

    /// Reads a number after its sign. In JSON5 the decimal point may come first or last.
    mutating func decimal(from start: Int, isNegative: Bool) throws(JSONFailure) {
        var significand: UInt64 = 0
        var digitCount = 0  // Without leading zeros.
        let integerStart = position
        guard peek.isDigit || isJSON5 && peek == UInt8(ascii: ".") else { throw failure(.number(expected: "a digit")) }
        if !take(UInt8(ascii: "0")) { takeDigits(into: &significand, count: &digitCount) }
        if peek.isDigit { throw failure(.number(expected: nil)) }
        let integerEnd = position
        var exponent = 0
        if take(UInt8(ascii: ".")) {
            guard peek.isDigit || isJSON5 && integerEnd > integerStart else {
                throw failure(.number(expected: "a digit after the decimal point"))
            }
            let first = position
            takeDigits(into: &significand, count: &digitCount)
            exponent = first - position
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) { exponent += try exponentPart() }

        if position == integerEnd, digitCount <= 18, !(isNegative && significand == 0) {
            return tokens.append(.int(isNegative ? -Int64(significand) : Int64(significand)))
        }
        if digitCount <= 15, exponent.magnitude <= 22 {
            // Both operands are exact, so the result is rounded once, and a `Double` holds 15 digits.
            let power = Double.powersOfTen[Int(exponent.magnitude)]
            let value = exponent < 0 ? Double(significand) / power : Double(significand) * power
            return tokens.append(.double(isNegative ? -value : value))
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if position == integerEnd, let value = Int64(text) { return tokens.append(.int(value)) }
        let double = Double(text) ?? .infinity
        guard double.isFinite else { throw JSONFailure(.other("the number is too large"), at: start..<position) }
        let isExact =
            digitCount <= 19
            ? ShortDigits(significand, exponent) == ShortDigits(double.magnitude.description)
            : DecimalDigits(text) == DecimalDigits(double.description)
        if isExact { return tokens.append(.double(double)) }
        tokens.append(number: text)
    }

    private mutating func takeDigits(into significand: inout UInt64, count: inout Int) {
        while peek.isDigit {
            if count > 0 || peek != UInt8(ascii: "0") { count += 1 }
            significand = significand &* 10 &+ UInt64(peek &- UInt8(ascii: "0"))
            position += 1
        }
    }

    private mutating func exponentPart() throws(JSONFailure) -> Int {
        let isNegative = take(UInt8(ascii: "-"))
        if !isNegative { _ = take(UInt8(ascii: "+")) }
        guard peek.isDigit else { throw failure(.number(expected: "a digit in the exponent")) }
        var value = 0
        while peek.isDigit {
            if value < 1_000_000 { value = value * 10 + Int(peek &- UInt8(ascii: "0")) }
            position += 1
        }
        return isNegative ? -value : value
    }
}

/// At most 19 digits of a number without trailing zeros, and its exponent.
private struct ShortDigits: Equatable {
    private var digits: UInt64
    private var exponent: Int

    init(_ digits: UInt64, _ exponent: Int) {
        (self.digits, self.exponent) = digits == 0 ? (0, 0) : (digits, exponent)
        while self.digits > 0, self.digits % 10 == 0 {
            self.digits /= 10
            self.exponent += 1
        }
    }

    /// - Parameter text: the description of a `Double`, which has at most 18 digits and no sign.
    init(_ text: String) {
        var (digits, exponent, isPastPoint) = (UInt64(0), 0, false)
        for byte in text.utf8 {
            if byte.isDigit {
                digits = digits &* 10 &+ UInt64(byte &- UInt8(ascii: "0"))
                if isPastPoint { exponent -= 1 }
            } else if byte == UInt8(ascii: ".") {
                isPastPoint = true
            } else {
                exponent += text.split(separator: "e").last.flatMap { Int($0) } ?? 0
                break
            }
        }
        self.init(digits, exponent)
    }
}

/// The digits of a number in text, without leading and trailing zeros, and its exponent.
package struct DecimalDigits: Equatable {
    private var digits: [UInt8] = []
    private var exponent = 0

    package init(_ text: String) {
        var isPastPoint = false
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte.isDigit {
                if !digits.isEmpty || byte != UInt8(ascii: "0") { digits.append(byte) }
                if isPastPoint { exponent -= 1 }
            } else if byte == UInt8(ascii: ".") {
                isPastPoint = true
            } else if byte | 0x20 == UInt8(ascii: "e") {
                // The bound exceeds every valid exponent, and later additions cannot make it overflow an `Int`.
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

extension Double {
    /// The powers that a `Double` holds exactly.
    package static let powersOfTen: [Double] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ]
}
