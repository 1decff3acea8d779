public import FoundationEssentials
internal import HTTPCore

/// A cookie in a manager's jar (RFC 6265 §5.3).
///
/// A manager sends no request on behalf of a page, so every request is same-site (RFC 6265bis §5.2) and ``sameSite``
/// has no effect on which requests carry the cookie. The attribute is stored for code that reads the jar or passes its cookies on.
public struct Cookie: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The name.
    public var name: String
    /// The value as it is sent.
    public var value: String
    /// The host it is for, without a leading dot.
    public var domain: String
    /// Whether hosts below ``domain`` get it too.
    public var includesSubdomains: Bool
    /// The path it is for, including all paths below it.
    public var path: String
    /// When it expires; `nil` for a session cookie, which ends with the manager unless
    /// ``EngineConfiguration/keepsSessionCookies`` is set.
    public var expires: Date?
    /// Whether it is sent over TLS only. `localhost`, `127.0.0.1` and `::1` get it without TLS too.
    public var isSecure: Bool
    /// Whether it was set with `HttpOnly`.
    public var isHTTPOnly: Bool
    /// The `SameSite` attribute; `nil` when it is missing or unknown.
    public var sameSite: SameSite?

    /// The requests with which a browser sends a cookie (RFC 6265bis §5.6.7).
    public enum SameSite: String, Hashable, Sendable {
        /// Requests from pages of the cookie's own site only.
        case strict = "Strict"
        /// The requests of `strict`, and those that follow a link to the site.
        case lax = "Lax"
        /// All requests (`None`). Refused unless the cookie is secure.
        case noRestriction = "None"

        init?(field: String) {
            switch field.lowercased() {
            case "strict": self = .strict
            case "lax": self = .lax
            case "none": self = .noRestriction
            default: return nil
            }
        }
    }

    /// Makes a cookie. By default it is a session cookie for exactly this host and every path.
    public init(
        _ name: String, _ value: String, domain: String, includesSubdomains: Bool = false, path: String = "/",
        expires: Date? = nil, isSecure: Bool = false, isHTTPOnly: Bool = false, sameSite: SameSite? = nil
    ) {
        self.name = name
        self.value = value
        self.domain = domain
        self.includesSubdomains = includesSubdomains
        self.path = path
        self.expires = expires
        self.isSecure = isSecure
        self.isHTTPOnly = isHTTPOnly
        self.sameSite = sameSite
    }

    /// Name, domain and path, without the value, which is a secret.
    public var description: String {
        "\(name) for \(includesSubdomains ? "*." : "")\(domain)\(path)\(isSecure ? ", secure" : "")"
    }

    /// Name, domain and path, without the value.
    public var customMirror: Mirror { Mirror(self, children: ["name": name, "domain": domain, "path": path]) }
}

/// Netscape's cookie file, which curl also uses: seven fields separated by tabs. A comment on the line before a cookie
/// holds its `SameSite`, for which the format has no field.
enum NetscapeCookie {
    private static let httpOnlyPrefix = "#HttpOnly_"
    private static let sameSitePrefix = "# SameSite="

    static func cookies(_ text: String) -> [Cookie] {
        var sameSite: Cookie.SameSite?
        // By bytes, because a value may hold other characters that break lines, such as U+2028.
        return text.utf8.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }.compactMap { line in
            let line = Substring(line)
            if line.hasPrefix(sameSitePrefix) {
                sameSite = Cookie.SameSite(field: String(line.dropFirst(sameSitePrefix.count)))
                return nil
            }
            defer { sameSite = nil }
            var cookie = cookie(line)
            cookie?.sameSite = sameSite
            return cookie
        }
    }

    /// Returns the text of a file with the cookies that have an expiry date, in a fixed order; `nil` if it has none.
    ///
    /// - Parameter withSessions: Whether cookies without an expiry date are written too.
    static func file(_ cookies: [Cookie], withSessions: Bool = false) -> String? {
        let entries = cookies.compactMap { cookie -> (line: String, comment: String)? in
            guard withSessions || cookie.expires != nil, let line = try? line(cookie) else { return nil }
            return (line, cookie.sameSite.map { "\(sameSitePrefix)\($0.rawValue)\n" } ?? "")
        }
        guard !entries.isEmpty else { return nil }
        return entries.sorted { $0.line < $1.line }.reduce(into: emptyFile) { $0 += "\($1.comment)\($1.line)\n" }
    }

    static let emptyFile = "# Netscape HTTP Cookie File\n"

    /// Whether a text is such a file: it is empty, has the first line of one (curl's is the same, without `Netscape` in old
    /// files), or has a cookie.
    static func isFile(_ text: String) -> Bool {
        text.allSatisfy(\.isWhitespace) || text.hasPrefix("# Netscape HTTP Cookie File")
            || text.hasPrefix("# HTTP Cookie File") || !cookies(text).isEmpty
    }

    /// Parses a line of the file; `nil` for a comment or a malformed line.
    static func cookie(_ line: some StringProtocol) -> Cookie? {
        var text = String(line)
        let isHTTPOnly = text.hasPrefix(httpOnlyPrefix)
        if isHTTPOnly { text.removeFirst(httpOnlyPrefix.count) }
        guard !text.hasPrefix("#") else { return nil }
        let fields = text.split(separator: "\t", omittingEmptySubsequences: false)
        guard fields.count == 7, let expires = Int64(fields[4]) else { return nil }
        let domain = fields[0].hasPrefix(".") ? fields[0].dropFirst() : fields[0]
        return Cookie(
            String(fields[5]), String(fields[6]), domain: String(domain), includesSubdomains: fields[1] == "TRUE",
            path: String(fields[2]), expires: expires == 0 ? nil : Date(timeIntervalSince1970: Double(expires)),
            isSecure: fields[3] == "TRUE", isHTTPOnly: isHTTPOnly)
    }

    /// Returns the line of a cookie.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` when the line would not be read back as the same cookie.
    static func line(_ cookie: Cookie) throws(NetworkError) -> String {
        for (what, text) in [
            ("name", cookie.name), ("value", cookie.value), ("domain", cookie.domain), ("path", cookie.path),
        ] where text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: ";") }) {
            throw .invalidRequest("the cookie's \(what) holds a control character or semicolon; remove it")
        }
        guard !cookie.name.isEmpty, !cookie.domain.isEmpty, cookie.path.hasPrefix("/") else {
            throw .invalidRequest("a cookie needs a name, a domain, and a path that begins with a slash")
        }
        // A line that begins with `#` would be a comment, and a leading dot would be lost when the line is read.
        guard !cookie.domain.hasPrefix("#"), !cookie.domain.hasPrefix(".") else {
            throw .invalidRequest("the cookie's domain begins with \"\(cookie.domain.prefix(1))\"; give a host's name")
        }
        // 0 means no expiry. Times before 1970 become 1, which has expired too. Times that are too large become `.max`.
        let expires = cookie.expires.map { date in
            let seconds = date.timeIntervalSince1970.rounded(.up)
            return max(1, Int64(exactly: seconds) ?? (seconds > 0 ? .max : 1))
        }
        let domain = (cookie.includesSubdomains ? "." : "") + cookie.domain
        let fields = [
            domain, cookie.includesSubdomains ? "TRUE" : "FALSE", cookie.path, cookie.isSecure ? "TRUE" : "FALSE",
            "\(expires ?? 0)", cookie.name, cookie.value,
        ]
        return (cookie.isHTTPOnly ? httpOnlyPrefix : "") + fields.joined(separator: "\t")
    }
}
