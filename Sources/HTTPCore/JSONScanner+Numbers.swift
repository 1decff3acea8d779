internal import FoundationEssentials

// Numbers (RFC 8259 §6), read as the narrowest type that holds all digits.
extension JSONScanner {

    mutating func number() throws(Failure) -> JSONValue {
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
            guard peek.isDigit else { throw failure("expected a digit after the decimal point, found \(found)") }
            let first = position
            takeDigits(into: &significand, count: &digitCount)
            exponent = first - position
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) { exponent += try exponentPart() }

        if position == integerEnd, digitCount <= 18, !(isNegative && significand == 0) {
            return .int(isNegative ? -Int64(significand) : Int64(significand))
        }
        if digitCount <= 15, exponent.magnitude <= 22 {
            // Both operands are exact, so the result is rounded once, and a `Double` holds 15 digits.
            let power = Double.powersOfTen[Int(exponent.magnitude)]
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

    /// Returns a number that is not an `Int64`: a `Double` if that holds all digits, else a `Decimal`, else the nearest
    /// `Double`.
    private static func fraction(_ text: String) -> JSONValue? {
        let double = Double(text) ?? .infinity
        if double.isFinite, DecimalDigits(text) == DecimalDigits(double.description) { return .double(double) }
        if let decimal = Decimal(string: text), decimal.isFinite { return .decimal(decimal) }
        return double.isFinite ? .double(double) : nil
    }
}

/// The digits of a number in text, without leading and trailing zeros, and its exponent.
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
    static let powersOfTen: [Double] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ]
}
