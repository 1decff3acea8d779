public import FoundationEssentials
import HTTPCore

/// A cookie as a jar keeps it (RFC 6265 §5.3).
///
/// libcurl's jar, which this is a view of, does not keep `SameSite`: the attribute is for browsers, which load one site's
/// pages from another's. The field as it came is in the response's `Set-Cookie`.
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

    /// Makes a cookie. Defaults: for exactly this host, every path, the session.
    public init(
        _ name: String, _ value: String, domain: String, includesSubdomains: Bool = false, path: String = "/",
        expires: Date? = nil, isSecure: Bool = false, isHTTPOnly: Bool = false
    ) {
        self.name = name
        self.value = value
        self.domain = domain
        self.includesSubdomains = includesSubdomains
        self.path = path
        self.expires = expires
        self.isSecure = isSecure
        self.isHTTPOnly = isHTTPOnly
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

/// Netscape's cookie file, the form in which libcurl takes and gives cookies: seven fields with tabs between.
enum NetscapeCookie {
    private static let httpOnlyMark = "#HttpOnly_"

    /// A line as libcurl gives it; `nil` for a comment and for what is no cookie.
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
        // 0 stands for none; a time before 1970 is over as much as 1 s after it.
        let expires = cookie.expires.map { max(1, Int64($0.timeIntervalSince1970.rounded(.up))) } ?? 0
        let domain = (cookie.includesSubdomains ? "." : "") + cookie.domain
        let fields = [
            domain, cookie.includesSubdomains ? "TRUE" : "FALSE", cookie.path, cookie.isSecure ? "TRUE" : "FALSE",
            "\(expires)", cookie.name, cookie.value,
        ]
        return (cookie.isHTTPOnly ? httpOnlyMark : "") + fields.joined(separator: "\t")
    }
}
