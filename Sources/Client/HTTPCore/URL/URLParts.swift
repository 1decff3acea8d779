/// The parts of a URL or of a reference (RFC 3986 §3), as views of its text.
///
/// Nothing is copied, decoded or checked: every text has parts, and libcurl decides what is sent. Of a URL that libcurl
/// accepts, host and port are those it connects to, as they are written. For that, one or three slashes after the scheme of
/// HTTP or WebSockets count as two, as they do in libcurl.
package struct URLParts: Sendable {
    /// The text of the URL.
    package let text: Substring
    /// Where the parts begin and end, in bytes from the start of the text.
    private let offsets: Offsets

    fileprivate struct Offsets {
        /// The colon after the scheme.
        var colon: Int?
        /// The first byte of the authority, when there is one.
        var authority: Int?
        /// The `@` after the user information.
        var at: Int?
        /// The colon before the port.
        var portColon: Int?
        /// The ends of the authority, the path and the query.
        var path = 0
        var query = 0
        var fragment = 0
    }

    package init(_ text: String) { self.init(text[...]) }

    package init(_ text: Substring) {
        self.text = text
        offsets =
            text.utf8.withContiguousStorageIfAvailable(Self.offsets)
            ?? Array(text.utf8).withUnsafeBufferPointer(Self.offsets)
    }

    // MARK: Parts

    /// Whether one or three slashes stand for the two before the authority.
    package var hasOddSlashes: Bool {
        guard let colon = offsets.colon, let authority = offsets.authority else { return false }
        return authority != colon + 3
    }

    /// The scheme as written; `nil` when the text does not begin with one.
    package var scheme: Substring? { offsets.colon.map { self[0..<$0] } }

    /// Whether the text begins with a scheme and `://`. A text such as `http:/h` does not: joined to a base URL, it is a path.
    package var isAbsolute: Bool {
        guard let colon = offsets.colon, let authority = offsets.authority else { return false }
        return authority >= colon + 3
    }

    /// User information, host and port; `nil` for a relative reference.
    package var authority: Substring? { offsets.authority.map { self[$0..<offsets.path] } }

    /// User and password as written, without the `@`. In an authority with several `@`, all before the last one.
    package var userInformation: Substring? {
        guard let start = offsets.authority, let at = offsets.at else { return nil }
        return self[start..<at]
    }

    /// The host as written, an IPv6 address in its brackets; empty in `file:///path`, `nil` for a relative reference.
    package var host: Substring? {
        offsets.hostStart.map { self[$0..<(offsets.portColon ?? offsets.path)] }
    }

    /// The port as written; `nil` when there is none or it is empty (RFC 3986 §3.2.3).
    package var port: Substring? {
        guard let colon = offsets.portColon, colon + 1 < offsets.path else { return nil }
        return self[colon + 1..<offsets.path]
    }

    /// Host and port as written.
    package var hostAndPort: Substring? { offsets.hostStart.map { self[$0..<offsets.path] } }

    /// The path as written; empty when there is none.
    package var path: Substring { self[offsets.path..<offsets.query] }

    /// The query without its `?`.
    package var query: Substring? {
        offsets.query < offsets.fragment ? self[offsets.query + 1..<offsets.fragment] : nil
    }

    /// The fragment without its `#`.
    package var fragment: Substring? {
        let end = text.utf8.count
        return offsets.fragment < end ? self[offsets.fragment + 1..<end] : nil
    }

    // MARK: Several parts

    /// Path and query as they are written.
    package var pathAndQuery: Substring { self[offsets.path..<offsets.fragment] }

    /// Path and query as a request line has them (RFC 9112 §3.2.1): an absent path is `/`.
    package var target: String { (path.isEmpty ? "/" : "") + pathAndQuery }

    /// The URL without its fragment.
    package var withoutFragment: Substring { self[0..<offsets.fragment] }

    /// Everything up to the path: scheme, slashes and authority.
    package var beforePath: Substring { self[0..<offsets.path] }

    /// Scheme, host and port in lower case (RFC 6454 §6.2), with the default port of the scheme; `nil` for a relative
    /// reference, and without a port for an unknown scheme. An origin that decides about credentials or connections is
    /// libcurl's, which also knows other spellings of a host: `URLReference.origin`.
    package var origin: String? {
        guard let scheme = scheme?.lowercased(), let host = host?.lowercased() else { return nil }
        let port = port ?? Self.standardPort(scheme)
        return scheme + "://" + host + (port.map { ":" + $0 } ?? "")
    }

    /// The default port of a scheme of HTTP or WebSockets, given in lower case.
    package static func standardPort(_ scheme: String) -> Substring? {
        switch scheme {
        case "http", "ws": "80"
        case "https", "wss": "443"
        default: nil
        }
    }

    // MARK: Without secrets

    /// The URL without user information, query and fragment.
    ///
    /// A password with an unescaped `/`, `?` or `#` ends the authority too early. Everything after the scheme is then left
    /// out, since nobody can tell where the password ends.
    package var stem: String {
        let start = offsets.authority ?? 0
        guard let shown else { return self[0..<start] + "…" }
        return String(self[0..<start] + self[shown..<offsets.query])
    }

    /// The query, unless it may belong to a password.
    package var shownQuery: Substring? { shown == nil ? nil : query }

    /// Whether what seems to be the path may belong to a password with an unescaped `/`, `?` or `#`.
    package var mayContinueUser: Bool { shown == nil }

    /// Where the text after the user information begins; `nil` when that is not known.
    private var shown: Int? {
        let start = offsets.authority ?? 0
        let bytes = text.utf8
        let authority = self[start..<authorityEnd].utf8
        let colon = authority.firstIndex(of: UInt8(ascii: ":"))
        // Without a scheme, `@ada/posts` is a path.
        if let at = authority.lastIndex(of: UInt8(ascii: "@")), offsets.authority != nil || (colon ?? at) < at {
            let end = bytes.distance(from: bytes.startIndex, to: at) + 1
            // What follows in a text without an authority, or without a host, may be a URL with user information of its own.
            let rest = self[end..<max(end, offsets.query)].utf8
            let hasHost = offsets.authority != nil && end < offsets.path
            let isUnclear = !hasHost && rest.contains(UInt8(ascii: "@"))
            return isUnclear ? nil : end
        }
        guard let colon, authority.first != UInt8(ascii: "["),
            case let rest = bytes[authority.endIndex...], rest.contains(UInt8(ascii: "@"))
        else { return start }
        let isPort = authority[colon...].dropFirst().allSatisfy { (0x30...0x39).contains($0) }
        let endsPath = rest.first == UInt8(ascii: "?") || rest.first == UInt8(ascii: "#")
        return isPort && !endsPath ? start : nil
    }

    /// The end of the authority; in a text without one, the end of what would be it.
    private var authorityEnd: Int {
        guard offsets.authority == nil else { return offsets.path }
        return self[0..<offsets.query].utf8.prefix { $0 != UInt8(ascii: "/") }.count
    }

    // MARK: Splitting

    private subscript(range: Range<Int>) -> Substring {
        let bytes = text.utf8
        let start = bytes.index(bytes.startIndex, offsetBy: range.lowerBound)
        return text[start..<bytes.index(start, offsetBy: range.count)]
    }

    private static func offsets(of bytes: UnsafeBufferPointer<UInt8>) -> Offsets {
        var offsets = Offsets()
        let count = bytes.count
        var next = 0
        if let colon = schemeEnd(bytes) {
            offsets.colon = colon
            next = colon + 1
        }
        var slashes = 0
        while next + slashes < count, slashes < 4, bytes[next + slashes] == UInt8(ascii: "/") { slashes += 1 }
        let isWeb = offsets.colon.map { hasWebScheme(bytes[..<$0]) } ?? false
        if isWeb, slashes == 1 || slashes == 3 {
            next += slashes
            offsets.authority = next
        } else if slashes >= 2 {
            next += 2
            offsets.authority = next
        }
        if offsets.authority != nil {
            // The last `@` ends the user information; a colon in brackets belongs to the address.
            var isInBrackets = false
            authority: while next < count {
                switch bytes[next] {
                case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"): break authority
                case UInt8(ascii: "@"):
                    offsets.at = next
                    offsets.portColon = nil
                    isInBrackets = false
                case UInt8(ascii: "["): isInBrackets = next == offsets.hostStart
                case UInt8(ascii: "]"): isInBrackets = false
                case UInt8(ascii: ":"):
                    if !isInBrackets, offsets.portColon == nil { offsets.portColon = next }
                default: break
                }
                next += 1
            }
        }
        offsets.path = next
        while next < count, bytes[next] != UInt8(ascii: "?"), bytes[next] != UInt8(ascii: "#") { next += 1 }
        offsets.query = next
        while next < count, bytes[next] != UInt8(ascii: "#") { next += 1 }
        offsets.fragment = next
        return offsets
    }

    /// The colon after a scheme: a letter, then letters, digits, `+`, `-` and `.` (RFC 3986 §3.1).
    private static func schemeEnd(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        for (offset, byte) in bytes.enumerated() {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): break
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
                if offset == 0 { return nil }
            case UInt8(ascii: ":"): return offset == 0 ? nil : offset
            default: return nil
            }
        }
        return nil
    }

    private static func hasWebScheme(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        guard bytes.count <= 5 else { return false }
        // Every URL is asked, so the letters are compared as one number.
        let letters = bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1 | 0x20) }
        switch letters {
        case 0x6874_7470, 0x68_7474_7073, 0x7773, 0x77_7373: return true  // http, https, ws, wss
        default: return false
        }
    }
}

extension URLParts.Offsets {
    /// The first byte of the host, when there is an authority.
    fileprivate var hostStart: Int? { at.map { $0 + 1 } ?? authority }
}
