extension String {
    /// This text as one part of a URL: a name or value of a query or a form, or one segment of a path.
    ///
    /// Everything but the unreserved characters of RFC 3986 §2.3 (letters, digits, `-._~`) becomes `%XX` of its UTF-8,
    /// the space `%20`, and a `%` too: the text is data and holds no escapes yet. This is the simple expansion of
    /// RFC 6570 §3.2.2, so a value can never end its segment (`/`), its query (`#`) or its pair (`&`).
    ///
    /// A segment that ``isDotSegment`` still walks up the path; no escape helps against that.
    package var percentEncodedComponent: String {
        if utf8.allSatisfy({ $0.isUnreserved }) { return self }
        var encoded: [UInt8] = []
        encoded.reserveCapacity(utf8.count * 2)
        for byte in utf8 {
            if byte.isUnreserved { encoded.append(byte) } else { encoded.appendEscaped(byte) }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Whether this text is `.` or `..`, which as a segment of a path is resolved and not sent (RFC 3986 §5.2.4), even
    /// if written `%2E`. A value put into a path must not be one.
    package var isDotSegment: Bool { self == "." || self == ".." }

    /// This URL, whole or relative, with everything escaped that may not stand in one, and nothing escaped twice.
    ///
    /// In path, query and fragment these become `%XX` of their UTF-8: spaces, control characters, everything outside
    /// ASCII, `"<>\^`{|}`, a second `#`, and a `%` that begins no escape. Escapes that are there stay as they are.
    /// Scheme and authority are left untouched: a host has its own rules (IDNA), which libcurl knows.
    ///
    /// Applied twice it changes nothing: `a b%20c` → `a%20b%20c` → `a%20b%20c`.
    package var idempotentlyPercentEncoded: String {
        // Most URLs are as they should be.
        if utf8.allSatisfy({ $0.isUnreserved || $0.isDelimiter }) { return self }
        let bytes = Array(utf8)
        let start = URLPrefix.end(in: bytes)
        var encoded: [UInt8] = []
        encoded.reserveCapacity(bytes.count + 16)
        encoded.append(contentsOf: bytes[..<start])
        var isPastHash = false
        for index in start..<bytes.count {
            let byte = bytes[index]
            let isLegal: Bool
            switch byte {
            case UInt8(ascii: "%"): isLegal = bytes.isEscape(at: index)
            case UInt8(ascii: "#"):
                isLegal = !isPastHash
                isPastHash = true
            default: isLegal = byte.isUnreserved || byte.isDelimiter
            }
            if isLegal { encoded.append(byte) } else { encoded.appendEscaped(byte) }
        }
        return encoded.count == bytes.count ? self : String(decoding: encoded, as: UTF8.self)
    }
}

extension Substring {
    /// The bytes that this part of a URL stands for (RFC 3986 §2.1); `nil` when a `%` begins no escape.
    package var percentDecodedBytes: [UInt8]? { decodedBytes(plusIsSpace: false, isStrict: true) }

    /// The text that this part of a URL stands for. A `%` that begins no escape stays, what is no UTF-8 is replaced.
    ///
    /// - Parameter plusIsSpace: whether `+` is a space, as in forms. Default `false`.
    package func percentDecoded(plusIsSpace: Bool = false) -> String {
        String(decoding: decodedBytes(plusIsSpace: plusIsSpace, isStrict: false) ?? [], as: UTF8.self)
    }

    private func decodedBytes(plusIsSpace: Bool, isStrict: Bool) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(utf8.count)
        var rest = utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                if let high = rest.first?.hexadecimalValue, let low = rest.dropFirst().first?.hexadecimalValue {
                    bytes.append(high << 4 | low)
                    rest = rest.dropFirst(2)
                    continue
                }
                guard !isStrict else { return nil }
            }
            bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? 0x20 : byte)
        }
        return bytes
    }
}

/// Where the scheme and the authority of a URL end (RFC 3986 §3).
private enum URLPrefix {
    static func end(in bytes: [UInt8]) -> Int {
        guard let authority = authorityStart(in: bytes) else { return 0 }
        let isEnd: (UInt8) -> Bool = { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        return bytes[authority...].firstIndex(where: isEnd) ?? bytes.count
    }

    /// The index after `scheme://` or a leading `//`; `nil` for a path.
    private static func authorityStart(in bytes: [UInt8]) -> Int? {
        var slashes = 0
        if let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon > 0, bytes[0].isLetter,
            bytes[..<colon].allSatisfy({ $0.isSchemeCharacter })
        {
            slashes = colon + 1
        }
        let hasAuthority = bytes[slashes...].starts(with: "//".utf8)
        return hasAuthority ? slashes + 2 : nil
    }
}

extension [UInt8] {
    fileprivate mutating func appendEscaped(_ byte: UInt8) {
        append(UInt8(ascii: "%"))
        append(UInt8.hexadecimalDigit(byte >> 4, isUppercase: true))
        append(UInt8.hexadecimalDigit(byte & 0x0F, isUppercase: true))
    }

    fileprivate func isEscape(at index: Int) -> Bool {
        index + 2 < count && self[index + 1].hexadecimalValue != nil && self[index + 2].hexadecimalValue != nil
    }
}

extension UInt8 {
    /// The value of a hexadecimal digit in ASCII, `nil` for every other byte.
    package var hexadecimalValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// The digit of the low four bits in ASCII. RFC 3986 §2.1 asks for capitals in URLs.
    static func hexadecimalDigit(_ value: UInt8, isUppercase: Bool = false) -> UInt8 {
        let digit = value & 0x0F
        if digit < 10 { return UInt8(ascii: "0") + digit }
        return (isUppercase ? UInt8(ascii: "A") : UInt8(ascii: "a")) + (digit - 10)
    }

    fileprivate var isLetter: Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20)
    }

    /// `unreserved` of RFC 3986 §2.3.
    fileprivate var isUnreserved: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// `gen-delims` without `#`, and `sub-delims`, of RFC 3986 §2.2. `[` and `]` belong to hosts only, but queries
    /// like `k[]=1` are everywhere and everybody takes them.
    fileprivate var isDelimiter: Bool {
        switch self {
        case UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "["), UInt8(ascii: "]"),
            UInt8(ascii: "@"), UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "&"), UInt8(ascii: "'"),
            UInt8(ascii: "("), UInt8(ascii: ")"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: ","),
            UInt8(ascii: ";"), UInt8(ascii: "="):
            true
        default: false
        }
    }

    fileprivate var isSchemeCharacter: Bool {
        switch self {
        case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: isLetter
        }
    }
}
