import HTTPCore
import JSONText

/// An absolute http or https URL, or that of a server on a Unix domain socket, split into the parts that a table checks (RFC
/// 3986 §3). A ws or wss URL, of a WebSocket, counts as the http or https URL with the same parts.
package struct HTTPAddress: Hashable, Sendable {
    /// `http` or `https`, also for the schemes of WebSockets; `unix` for a socket.
    package var scheme: String
    /// The host in lower case, and the port unless it is the scheme's default; the path of a socket.
    package var authority: String
    /// The path as written, from the first slash, without trailing slashes.
    package var path: String
    package var hasQuery: Bool
    package var hasUserInformation: Bool

    /// A problem with a base URL, worded as the end of a sentence that begins with the URL.
    package struct Problem: Error {
        package var reason: String
        package var suggestion: String?
    }

    package static let expectation = "an absolute http or https URL"

    /// Parses a base URL.
    ///
    /// - Throws: ``Problem`` when the text is not a URL with a host, or has a part that a base URL must not have: a
    ///   fragment, spaces, a path parameter, a dot segment.
    package init(_ text: String) throws(Problem) {
        guard !text.isEmpty else { throw Problem(reason: "is empty") }
        if let odd = text.unicodeScalars.first(where: { $0.value <= 0x20 || $0.value == 0x7F }) {
            throw Problem(reason: odd == " " ? "contains a space" : "contains a control character")
        }
        if UnixAddress.isOne(text) {
            self = try Self.onSocket(text)
            return
        }
        let parts = URLParts(text)
        guard parts.isAbsolute, let written = parts.scheme?.lowercased() else {
            throw Problem(reason: "has no scheme", suggestion: Self.withScheme(text))
        }
        // A WebSocket begins as an HTTP request (RFC 6455 §3), so its URL counts as an HTTP URL.
        scheme = written == "wss" ? "https" : written == "ws" ? "http" : written
        guard scheme == "http" || scheme == "https" else {
            let meant = NearestName.of(scheme, among: ["https", "http"])
            throw Problem(
                reason: "has the scheme \(QuotedText.of(scheme))",
                suggestion: meant.map { $0 + text.dropFirst(written.count) })
        }
        guard parts.fragment == nil else { throw Problem(reason: "has a fragment (#), which is never sent") }
        guard !text.contains("{"), !text.contains("}") else {
            throw Problem(reason: "has a path parameter; those belong in the path of a server")
        }
        hasUserInformation = parts.userInformation != nil
        authority = try Self.checked(parts, scheme: scheme)
        var path = parts.path
        hasQuery = parts.query != nil
        while path.last == "/" { path.removeLast() }
        self.path = String(path)
        if PathTemplate.dotSegment(Array(path.utf8)) != nil {
            throw Problem(reason: "has the segment \"..\" or \".\" in its path")
        }
    }

    private static func onSocket(_ text: String) throws(Problem) -> HTTPAddress {
        let unix: UnixAddress
        do throws(UnixAddress.Problem) {
            unix = try UnixAddress(text)
        } catch {
            throw Problem(reason: error.reason, suggestion: error.suggestion)
        }
        // Its second part obeys the rules of every other URL.
        var address = try HTTPAddress(unix.url)
        (address.scheme, address.authority) = ("unix", unix.socketPath)
        return address
    }

    /// The URL without user information and query, equal for all spellings of a base URL.
    package var normalized: String { "\(scheme)://\(authority)\(path)" }

    /// The text with `***` instead of the password and of secret parameters in the query, if it is a URL or a path with
    /// them.
    package static func redacted(_ text: String) -> String {
        var text = text
        if let user = URLParts(text).userInformation, let colon = user.firstIndex(of: ":") {
            text = text[...colon] + "***" + text[user.endIndex...]
        }
        guard let mark = text.firstIndex(of: "?") else { return text }
        return text[...mark] + Secrets.standard.shown(form: String(text[text.index(after: mark)...]))
    }

    /// Whether a path would leave its base URL: a URL with a scheme, `//host`, or the same with backslashes, which browsers
    /// accept.
    package static func isAbsolute(_ path: String) -> Bool {
        let start = path.prefix(2)
        if start.count == 2, start.allSatisfy({ $0 == "/" || $0 == "\\" }) { return true }
        return URLParts(path).isAbsolute
    }

    private static func withScheme(_ text: String) -> String? {
        let bare = text.drop { $0 == "/" || $0 == ":" }
        for scheme in ["https", "http"] where text.hasPrefix(scheme + ":/") && !text.hasPrefix(scheme + "://") {
            return scheme + "://" + text.dropFirst(scheme.count + 2)
        }
        let host = bare.prefix { $0 != "/" && $0 != "?" }
        guard host.contains(".") || host.hasPrefix("localhost") else { return nil }
        return (host.hasPrefix("localhost") || host.hasPrefix("127.") ? "http://" : "https://") + bare
    }

    private static func checked(_ parts: URLParts, scheme: String) throws(Problem) -> String {
        let host = parts.hasOddSlashes ? "" : parts.host ?? ""
        if host.first == "[" {
            guard host.last == "]", host.dropFirst().dropLast().allSatisfy({ $0.isHexDigit || ":.".contains($0) })
            else {
                throw Problem(reason: "has a malformed IPv6 address")
            }
        } else {
            guard !host.isEmpty else { throw Problem(reason: "has no host") }
            guard !host.contains(where: { "<>\"\\^`|%,;!$&'()*+= ".contains($0) }) else {
                throw Problem(reason: "has the invalid host \(QuotedText.of(String(host)))")
            }
        }
        guard parts.hostAndPort != host else { return host.lowercased() }
        let port = parts.port ?? ""
        guard let number = UInt16(port), number > 0, port.utf8.allSatisfy(\.isDigit) else {
            // What seems to be the port may be the beginning of a password.
            guard !parts.path.contains("@"), parts.query?.contains("@") != true else {
                throw Problem(reason: "has a port that is no number; write / and ? of a password as %2F and %3F")
            }
            throw Problem(reason: "has the port \(QuotedText.of(String(port))); ports go from 1 to 65535")
        }
        let isOwn = URLParts.standardPort(scheme) == "\(number)"
        return isOwn ? host.lowercased() : "\(host.lowercased()):\(number)"
    }
}

extension HTTPAddress {
    /// Whether an authority names this machine by `localhost`, an address of 127.0.0.0/8, or ::1. Any other name, such as
    /// `127.example.org`, may lead elsewhere.
    package static func isThisMachine(_ authority: String) -> Bool {
        var host = Substring(authority)
        if !host.hasSuffix("]"), let colon = host.lastIndex(of: ":") { host = host[..<colon] }
        if host == "localhost" || host == "[::1]" { return true }
        guard let address = IPAddress(String(host)) else { return false }
        return address.isIPv4 && address.rule == .loopback
    }
}
