package import HTTPCore

/// The directives of `Cache-Control` (RFC 9111 §5.2, RFC 5861, RFC 8246), of a request or a response.
///
/// Names are case-insensitive, values may be tokens or quoted strings, and unknown directives are ignored. The first of
/// duplicate directives counts (§4.2.1). Numbers are seconds, at most 2^53. An invalid one counts as 0, so that it makes no
/// response fresh.
package struct CacheControl: Hashable, Sendable {
    package var maxAge: Double?
    package var noStore = false
    /// `no-cache` without field names.
    package var noCache = false
    /// The fields that `no-cache="…"` names, in lower case.
    package var noCacheFields: [String] = []
    /// `private` without field names.
    package var isPrivate = false
    /// The fields that `private="…"` names, in lower case.
    package var privateFields: [String] = []
    package var isPublic = false
    /// `must-revalidate`; in a shared cache also `proxy-revalidate` and `s-maxage`, which have the same effect there.
    package var mustRevalidate = false
    /// `s-maxage` in a shared cache, where ``maxAge`` has the same value.
    package private(set) var sharedMaxAge: Double?
    /// Whether a shared cache may reuse the response to a request with `Authorization` (§3.5).
    package private(set) var allowsAuthorization = false
    package var mustUnderstand = false
    /// `immutable` (RFC 8246).
    package var immutable = false
    /// `stale-while-revalidate` (RFC 5861 §3).
    package var staleWhileRevalidate: Double?
    /// `stale-if-error` (RFC 5861 §4), of responses and requests.
    package var staleIfError: Double?
    /// `min-fresh` of a request.
    package var minFresh: Double?
    /// `max-stale` of a request; infinite without an argument.
    package var maxStale: Double?
    /// `only-if-cached` of a request.
    package var onlyIfCached = false

    private var proxyRevalidate = false

    package init() {}

    /// The directives of all `Cache-Control` lines, as a cache of this mode interprets them.
    package init(_ headers: HTTPHeaders, _ mode: CacheMode = .private) {
        for value in headers[values: "Cache-Control"] { add(value) }
        guard mode == .shared else {
            sharedMaxAge = nil
            return
        }
        allowsAuthorization = isPublic || mustRevalidate || sharedMaxAge != nil
        // §5.2.2.8 and §5.2.2.10.
        mustRevalidate = mustRevalidate || proxyRevalidate || sharedMaxAge != nil
        maxAge = sharedMaxAge ?? maxAge
    }

    /// The directives of a request. Without `Cache-Control`, `Pragma: no-cache` counts as `no-cache` (§5.4).
    package init(request headers: HTTPHeaders) {
        self.init(headers)
        guard !headers.contains("Cache-Control") else { return }
        noCache = headers[values: "Pragma"].contains { pragma in
            FieldList.elements(of: pragma).contains { $0.equalsIgnoringASCIICase("no-cache") }
        }
    }

    private mutating func add(_ line: String) {
        FieldList.forEachElement(of: line) { element in
            let sign = element.firstIndex(of: UInt8(ascii: "="))
            let first = element[..<(sign ?? element.endIndex)]
            let name = first.trimmingFieldWhitespace
            // White space around "=" is not allowed (§5.2): the directive counts, but its value is invalid.
            let rest = sign.map { element[($0 + 1)...] }
            let isSpaced =
                name.count < first.count || rest.map { $0.trimmingFieldWhitespace.count < $0.count } ?? false
            let value = rest.map { isSpaced ? " " : String(decoding: $0, as: UTF8.self) }
            add(String(decoding: name, as: UTF8.self).lowercased(), value)
        }
    }

    private mutating func add(_ name: String, _ value: String?) {
        switch name {
        case "max-age": if maxAge == nil { maxAge = Self.seconds(value) }
        case "no-store": noStore = true
        case "no-cache":
            let fields = FieldList.names(value.map(FieldList.unquoted) ?? "")
            if fields.isEmpty { noCache = true } else { noCacheFields += fields }
        case "private":
            let fields = FieldList.names(value.map(FieldList.unquoted) ?? "")
            if fields.isEmpty { isPrivate = true } else { privateFields += fields }
        case "s-maxage": if sharedMaxAge == nil { sharedMaxAge = Self.seconds(value) }
        case "proxy-revalidate": proxyRevalidate = true
        case "public": isPublic = true
        case "must-revalidate": mustRevalidate = true
        case "must-understand": mustUnderstand = true
        case "immutable": immutable = true
        case "stale-while-revalidate":
            if staleWhileRevalidate == nil { staleWhileRevalidate = Self.seconds(value) }
        case "stale-if-error": if staleIfError == nil { staleIfError = Self.seconds(value) }
        case "min-fresh": if minFresh == nil { minFresh = Self.seconds(value) }
        case "max-stale": if maxStale == nil { maxStale = value == nil ? .infinity : Self.seconds(value) }
        case "only-if-cached": onlyIfCached = true
        default: break
        }
    }

    /// Parses `delta-seconds` (§1.2.2), which may be quoted; 0 for anything else.
    static func seconds(_ text: String?) -> Double {
        let digits = FieldList.unquoted(text ?? "").utf8
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return 0 }
        return digits.reduce(0) { min($0 * 10 + Double($1 - 0x30), 0x1p53) }
    }
}
