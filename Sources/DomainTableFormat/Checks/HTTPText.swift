/// Checks of a table's strings against the grammar of HTTP.
package enum HTTPText {
    /// Whether a text is a token (RFC 9110 §5.6.2), as methods and field names are.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                byte.isDigit || (0x61...0x7A).contains(byte | 0x20) || "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
    }

    /// Whether a text can be a field value (RFC 9110 §5.5): no control characters such as CR, LF and NUL, except tab.
    package static func isFieldValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }

    /// The methods of RFC 9110 and RFC 5789 that a request may have.
    package static let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"]

    /// Other methods in use, from the IANA registry and from caches. They cause no warning.
    package static let furtherMethods: Set<String> = [
        "ACL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR",
        "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "PURGE", "QUERY", "REBIND", "REPORT", "SEARCH", "UNBIND", "UNLINK",
        "UNLOCK", "UPDATE",
    ]

    /// Whether a text is the pin of a public key: `sha256//` and 32 bytes in Base64 (`CURLOPT_PINNEDPUBLICKEY`).
    package static func isPin(_ text: String) -> Bool {
        guard text.hasPrefix("sha256//") else { return false }
        let digits = Array(text.utf8.dropFirst(8))
        guard digits.count == 44, digits[43] == UInt8(ascii: "=") else { return false }
        let values: [UInt8] = digits.dropLast().compactMap(base64Value)
        // The last digit encodes four bits; its two low bits must be zero.
        guard values.count == 43, let last = values.last else { return false }
        return last & 0b11 == 0
    }

    private static func base64Value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
