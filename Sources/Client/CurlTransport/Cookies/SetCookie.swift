import FoundationEssentials
internal import HTTPCore
import Platform

/// A `Set-Cookie` field, parsed according to RFC 6265 §5.2.
struct SetCookie {
    private(set) var name: String
    private(set) var value: String
    /// In lower case, without a leading dot and dots at its end.
    private(set) var domain: String?
    /// `nil` when it is missing, does not begin with a slash, or contains a tab.
    private(set) var path: String?
    private(set) var expires: Date?
    private(set) var isSecure = false
    private(set) var isHTTPOnly = false
    private(set) var sameSite: Cookie.SameSite?

    /// The maximum size of name and value together, and of an attribute, in bytes (RFC 6265bis §5.6).
    private static let (pairLimit, attributeLimit) = (4096, 1024)

    /// Parses a field; `nil` for one that must be ignored.
    ///
    /// - Parameter now: The time in seconds since 1970, for `Max-Age`.
    init?(_ field: String, now: Int64) {
        // Tabs are allowed only as surrounding white space: the cookie file separates its fields with tabs.
        guard field.utf8.isFieldValue else { return nil }
        let parts = field.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        guard let (name, value) = parts.first.flatMap(Self.pair), let value, !name.isEmpty,
            name.utf8.count + value.utf8.count <= Self.pairLimit, !(name + value).utf8.contains(0x09)
        else { return nil }
        (self.name, self.value) = (name, value)
        var maxAge: Int64?
        for part in parts.dropFirst() {
            let (attribute, value) = Self.pair(part)
            let text = value ?? ""
            guard text.utf8.count <= Self.attributeLimit else { continue }
            switch attribute.lowercased() {
            case "expires":
                // A time before 1970 becomes 1, which has expired too; the cookie file writes 0 for no expiry.
                if let date = CookieDate.parse(text) { expires = max(date, Date(timeIntervalSince1970: 1)) }
            case "max-age": maxAge = Self.seconds(text) ?? maxAge
            case "domain":
                let bare = text.hasPrefix(".") ? text.dropFirst() : text[...]
                let name = CookieTable.bare(bare.lowercased())
                domain = name.isEmpty ? domain : name
            case "path": path = text.hasPrefix("/") && !text.utf8.contains(0x09) ? text : nil
            case "secure": isSecure = true
            case "httponly": isHTTPOnly = true
            case "samesite": sameSite = Cookie.SameSite(field: text)
            default: break
            }
        }
        // Max-Age takes precedence over Expires (§5.3).
        if let maxAge {
            let (end, overflows) = now.addingReportingOverflow(maxAge)
            expires = Date(timeIntervalSince1970: maxAge <= 0 ? 1 : Double(overflows ? .max : end))
        }
    }

    /// Splits at the equals sign and trims white space. Works on bytes, because the equals sign forms one `Character`
    /// with a combining accent that follows it.
    private static func pair(_ part: Substring.UTF8View) -> (name: String, value: String?) {
        guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { return (trimmed(part), nil) }
        return (trimmed(part[..<equals]), trimmed(part[equals...].dropFirst()))
    }

    private static func trimmed(_ text: Substring.UTF8View) -> String {
        String(Substring(text)).trimmingFieldWhitespace
    }

    /// Parses whole seconds, up to a limit; `nil` for anything else.
    private static func seconds(_ text: String) -> Int64? {
        let isNegative = text.hasPrefix("-")
        let digits = isNegative ? text.dropFirst() : text[...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // The limit is far in the future, and still exact as a `Date`.
        let value = min(Int64(digits) ?? .max, 1 << 50)
        return isNegative ? -value : value
    }
}

/// The public suffixes, such as `com` and `co.uk`, for which no cookie may be set: the list of publicsuffix.org, read
/// with libpsl.
///
/// libcurl's own jar uses the same library, so it is installed wherever Debian's libcurl is.
struct PublicSuffixList: Sendable {
    private typealias Latest = @convention(c) (UnsafePointer<CChar>?) -> OpaquePointer?
    private typealias Builtin = @convention(c) () -> OpaquePointer?
    private typealias IsSuffix = @convention(c) (OpaquePointer?, UnsafePointer<CChar>) -> CInt

    // Sendable: the list is never freed or changed.
    nonisolated(unsafe) private let list: OpaquePointer
    private let isSuffix: IsSuffix

    /// The list of this process, read at first use; `nil` where libpsl is missing.
    static let shared = PublicSuffixList()

    private init?() {
        guard let library = DynamicLibrary("libpsl.so.5"),
            let latest = library.function("psl_latest", as: Latest.self),
            let builtin = library.function("psl_builtin", as: Builtin.self),
            let isSuffix = library.function("psl_is_public_suffix", as: IsSuffix.self),
            // The system's file if it is newer than the list built into the library.
            let list = latest(nil) ?? builtin()
        else { return nil }
        self.list = list
        self.isSuffix = isSuffix
    }

    /// Whether a name in lower case is a public suffix. A name of one label that is not in the list counts as a suffix.
    func contains(_ domain: String) -> Bool { isSuffix(list, domain) != 0 }
}
