public import FoundationEssentials
import HTTPCore

/// A cookie as a jar keeps it (RFC 6265 §5.3).
///
/// A manager sends no request on behalf of a page, so every request is a first-party one (RFC 6265bis §5.2: no client) and
/// ``sameSite`` keeps nothing back. It is kept all the same, for whoever reads the jar or hands its cookies on.
public struct Cookie: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The name.
    public var name: String
    /// The value, as it is sent.
    public var value: String
    /// The host it is for, without a dot before it.
    public var domain: String
    /// Whether hosts below ``domain`` get it too.
    public var includesSubdomains: Bool
    /// The path it is for, with all below it.
    public var path: String
    /// When it ends; `nil` for a cookie of the session, which ends with the manager.
    public var expires: Date?
    /// Whether it is sent over TLS only (and to this machine).
    public var isSecure: Bool
    /// Whether it came with `HttpOnly`.
    public var isHTTPOnly: Bool
    /// What it came with as `SameSite`; `nil` for none, or a word that is not known.
    public var sameSite: SameSite?

    /// From where a browser sends a cookie (RFC 6265bis §5.6.7).
    public enum SameSite: String, Hashable, Sendable {
        /// With requests from pages of the cookie's own site only.
        case strict = "Strict"
        /// As `strict`, and when a person follows a link there.
        case lax = "Lax"
        /// With all: `None`. Only a secure cookie may be so; others are refused.
        case noRestriction = "None"

        init?(field: String) {
            let name = field.lowercased()
            guard let known = [Self.strict, .lax, .noRestriction].first(where: { $0.rawValue.lowercased() == name })
            else {
                return nil
            }
            self = known
        }
    }

    /// Makes a cookie. Defaults: for exactly this host, every path, the session.
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

    /// Name and place, without the value, which is a secret.
    public var description: String {
        "\(name) for \(includesSubdomains ? "*." : "")\(domain)\(path)\(isSecure ? ", secure" : "")"
    }
}

extension Cookie {
    /// Name and place, without the value.
    public var customMirror: Mirror { Mirror(self, children: ["name": name, "domain": domain, "path": path]) }
}

/// Netscape's cookie file, which curl and others read and write too: seven fields with tabs between. It has no place for
/// `SameSite`, which is said in a comment on the line before.
enum NetscapeCookie {
    private static let httpOnlyMark = "#HttpOnly_"
    private static let sameSiteMark = "# SameSite="

    /// What a file holds.
    static func cookies(_ text: String) -> [Cookie] {
        var sameSite: Cookie.SameSite?
        return text.split(whereSeparator: \.isNewline).compactMap { line in
            if line.hasPrefix(sameSiteMark) {
                sameSite = Cookie.SameSite(field: String(line.dropFirst(sameSiteMark.count)))
                return nil
            }
            defer { sameSite = nil }
            var cookie = cookie(line)
            cookie?.sameSite = sameSite
            return cookie
        }
    }

    /// The file for those of some cookies that have a date of expiry, in a fixed order; `nil` when there are none.
    static func file(_ cookies: [Cookie]) -> String? {
        let entries = cookies.filter { $0.expires != nil }.compactMap { cookie -> (line: String, mark: String)? in
            guard let line = try? line(cookie) else { return nil }
            return (line, cookie.sameSite.map { "\(sameSiteMark)\($0.rawValue)\n" } ?? "")
        }
        guard !entries.isEmpty else { return nil }
        return entries.sorted { $0.line < $1.line }.reduce(into: emptyFile) { $0 += "\($1.mark)\($1.line)\n" }
    }

    /// The file of a jar that holds none.
    static let emptyFile = "# Netscape HTTP Cookie File\n"

    /// A line of the file; `nil` for a comment and for what is no cookie.
    static func cookie(_ line: some StringProtocol) -> Cookie? {
        var text = String(line)
        let isHTTPOnly = text.hasPrefix(httpOnlyMark)
        if isHTTPOnly { text.removeFirst(httpOnlyMark.count) }
        guard !text.hasPrefix("#") else { return nil }
        let fields = text.split(separator: "\t", omittingEmptySubsequences: false)
        guard fields.count == 7, let expires = Int64(fields[4]) else { return nil }
        let domain = fields[0].hasPrefix(".") ? fields[0].dropFirst() : fields[0]
        return Cookie(
            String(fields[5]), String(fields[6]), domain: String(domain), includesSubdomains: fields[1] == "TRUE",
            path: String(fields[2]), expires: expires > 0 ? Date(timeIntervalSince1970: Double(expires)) : nil,
            isSecure: fields[3] == "TRUE", isHTTPOnly: isHTTPOnly)
    }

    /// The line for a cookie.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for what would not come back as it is.
    static func line(_ cookie: Cookie) throws(NetworkError) -> String {
        for (what, text) in [
            ("name", cookie.name), ("value", cookie.value), ("domain", cookie.domain), ("path", cookie.path),
        ] where text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: ";") }) {
            throw .invalidRequest("the cookie's \(what) holds a control character or semicolon; remove it")
        }
        guard !cookie.name.isEmpty, !cookie.domain.isEmpty, cookie.path.hasPrefix("/") else {
            throw .invalidRequest("a cookie needs a name, a domain, and a path that begins with a slash")
        }
        // 0 stands for none; a time before 1970 is over as much as 1 s after it, and one that no number holds never is.
        let expires = cookie.expires.map { date in
            let seconds = date.timeIntervalSince1970.rounded(.up)
            return max(1, Int64(exactly: seconds) ?? (seconds > 0 ? .max : 1))
        }
        let domain = (cookie.includesSubdomains ? "." : "") + cookie.domain
        let fields = [
            domain, cookie.includesSubdomains ? "TRUE" : "FALSE", cookie.path, cookie.isSecure ? "TRUE" : "FALSE",
            "\(expires ?? 0)", cookie.name, cookie.value,
        ]
        return (cookie.isHTTPOnly ? httpOnlyMark : "") + fields.joined(separator: "\t")
    }
}
