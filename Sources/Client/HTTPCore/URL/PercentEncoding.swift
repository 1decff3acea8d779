import JSONText

extension String {
    /// This text escaped as one component of a URL: a name or value of a query or form, or a path segment.
    ///
    /// All but the unreserved characters of RFC 3986 §2.3 (letters, digits, `-._~`) become the `%XX` of their UTF-8, also
    /// `%`, because the text contains no escapes yet. This is the simple expansion of RFC 6570 §3.2.2, so a value can
    /// never end its segment (`/`), its query (`#`) or its pair (`&`).
    ///
    /// Escaping has no effect on a dot segment (`.` or `..`), which still changes the path.
    package var percentEncodedComponent: String {
        utf8.allSatisfy { $0.isUnreserved } ? self : utf8.percentEncodedComponent
    }

    /// This absolute or relative URL with all illegal characters escaped, and none escaped twice.
    ///
    /// In path, query and fragment these become the `%XX` of their UTF-8: spaces, control characters, everything outside
    /// ASCII, `"<>\^`{|}`, a second `#`, and a `%` that does not begin an escape. Existing escapes stay unchanged. So do
    /// scheme and authority: libcurl applies the rules for hosts (IDNA).
    ///
    /// A second application changes nothing: `a b%20c` → `a%20b%20c` → `a%20b%20c`.
    package var idempotentlyPercentEncoded: String {
        // Most URLs are legal already.
        if utf8.allSatisfy({ $0.isUnreserved || $0.isDelimiter }) { return self }
        let bytes = Array(utf8)
        let start = bytes.authorityEnd
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
    /// The names and values of a query or a form, decoded. A name without a value has an empty one.
    package var formItems: [(name: String, value: String)] {
        split(separator: "&").map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return (
                pair[0].percentDecoded(plusIsSpace: true),
                pair.count > 1 ? pair[1].percentDecoded(plusIsSpace: true) : ""
            )
        }
    }

    /// The decoded bytes of this part of a URL (RFC 3986 §2.1); `nil` when a `%` does not begin an escape.
    package var percentDecodedBytes: [UInt8]? { decodedBytes(plusIsSpace: false, isStrict: true) }

    /// The decoded text of this part of a URL. A `%` that does not begin an escape stays; invalid UTF-8 is replaced.
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

extension [UInt8] {
    /// The end of a URL's scheme and authority (RFC 3986 §3); 0 for a path.
    fileprivate var authorityEnd: Int {
        var slashes = 0
        if let colon = firstIndex(of: UInt8(ascii: ":")), colon > 0, self[0].isLetter,
            self[..<colon].allSatisfy({ $0.isSchemeCharacter })
        {
            slashes = colon + 1
        }
        guard self[slashes...].starts(with: "//".utf8) else { return 0 }
        let isEnd: (UInt8) -> Bool = { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        return self[(slashes + 2)...].firstIndex(where: isEnd) ?? count
    }
    mutating func appendEscaped(_ byte: UInt8) {
        append(UInt8(ascii: "%"))
        append(UInt8.hexadecimalDigit(byte >> 4, isUppercase: true))
        append(UInt8.hexadecimalDigit(byte & 0x0F, isUppercase: true))
    }

    fileprivate func isEscape(at index: Int) -> Bool {
        index + 2 < count && self[index + 1].hexadecimalValue != nil && self[index + 2].hexadecimalValue != nil
    }
}

extension UInt8 {
    /// The ASCII digit of the low four bits. RFC 3986 §2.1 recommends uppercase in URLs.
    static func hexadecimalDigit(_ value: UInt8, isUppercase: Bool = false) -> UInt8 {
        let digit = value & 0x0F
        if digit < 10 { return UInt8(ascii: "0") + digit }
        return (isUppercase ? UInt8(ascii: "A") : UInt8(ascii: "a")) + (digit - 10)
    }

    fileprivate var isLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }

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

    /// `gen-delims` without `#`, and `sub-delims`, of RFC 3986 §2.2. `[` and `]` are legal in hosts only, but queries like
    /// `k[]=1` are common and accepted everywhere.
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
        case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."): true
        default: isLetter || isDigit
        }
    }
}

extension Collection<UInt8> {
    /// These bytes escaped as one component of a URL, like the text in `String.percentEncodedComponent`.
    package var percentEncodedComponent: String { percentEncoded { !$0.isUnreserved } }

    /// These bytes, of which those that satisfy the condition are escaped.
    func percentEncoded(where isIllegal: (UInt8) -> Bool) -> String {
        var encoded: [UInt8] = []
        encoded.reserveCapacity(count * 2)
        for byte in self {
            if isIllegal(byte) { encoded.appendEscaped(byte) } else { encoded.append(byte) }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
