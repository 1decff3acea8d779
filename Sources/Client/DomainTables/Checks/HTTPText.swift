import JSONText

/// Checks of a table's strings against the grammar of HTTP.
package enum HTTPText {
    /// Whether a text is a token (RFC 9110 §5.6.2), as methods and field names are.
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { $0.isDigit || $0.isLetter || "!#$%&'*+-.^_`|~".utf8.contains($0) }
    }

    /// Whether a text can be a field value (RFC 9110 §5.5): no control characters such as CR, LF and NUL, except tab.
    package static func isFieldValue(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }

    /// The methods of RFC 9110, RFC 5789 and RFC 10008 that a request may have.
    package static let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "QUERY"]

    /// Other methods in use, from the IANA registry and from caches. They cause no warning.
    package static let furtherMethods: Set<String> = [
        "ACL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR",
        "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "PURGE", "REBIND", "REPORT", "SEARCH", "UNBIND", "UNLINK",
        "UNLOCK", "UPDATE",
    ]

    /// Whether a text is the pin of a public key: `sha256//` and 32 bytes in Base64 (`CURLOPT_PINNEDPUBLICKEY`).
    package static func isPin(_ text: String) -> Bool {
        guard text.hasPrefix("sha256//") else { return false }
        let digits = text.utf8.dropFirst(8).dropLast()
        guard digits.count == 43, text.utf8.last == UInt8(ascii: "="), let last = digits.last else { return false }
        // The last digit encodes four bits, so only those whose two low bits are zero are possible.
        return digits.allSatisfy { $0.isDigit || $0.isLetter || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }
            && "AEIMQUYcgkosw048".utf8.contains(last)
    }
}

extension UInt8 {
    var isLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }
}
