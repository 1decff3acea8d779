/// Validates UTF-8 while it arrives (RFC 3629), so that an invalid text fails at its first invalid byte.
struct UTF8Check {
    /// How many bytes of the current character are missing.
    private var missing = 0
    /// The range of the next byte: narrower after some first bytes, which rules out overlong forms, surrogates and
    /// numbers above U+10FFFF.
    private var low: UInt8 = 0x80
    private var high: UInt8 = 0xBF

    /// Whether the text may end here.
    var isWhole: Bool { missing == 0 }

    /// Returns whether the bytes continue a valid text.
    mutating func accepts(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        var index = 0
        while index < bytes.count {
            if missing == 0 {
                index = Self.endOfASCII(bytes, from: index)
                guard index < bytes.count else { break }
            }
            guard accepts(bytes[index]) else { return false }
            index += 1
        }
        return true
    }

    private mutating func accepts(_ byte: UInt8) -> Bool {
        guard missing == 0 else {
            guard byte >= low, byte <= high else { return false }
            (low, high) = (0x80, 0xBF)
            missing -= 1
            return true
        }
        switch byte {
        case 0x00...0x7F: break
        case 0xC2...0xDF: missing = 1
        case 0xE0: (missing, low) = (2, 0xA0)
        case 0xE1...0xEC, 0xEE...0xEF: missing = 2
        case 0xED: (missing, high) = (2, 0x9F)
        case 0xF0: (missing, low) = (3, 0x90)
        case 0xF1...0xF3: missing = 3
        case 0xF4: (missing, high) = (3, 0x8F)
        default: return false
        }
        return true
    }

    /// Skips ASCII, eight bytes at a time.
    private static func endOfASCII(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        let raw = UnsafeRawBufferPointer(bytes)
        var index = start
        while index + 8 <= raw.count {
            let word = raw.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            guard word & 0x8080_8080_8080_8080 == 0 else { break }
            index += 8
        }
        while index < raw.count, raw[index] < 0x80 { index += 1 }
        return index
    }
}
