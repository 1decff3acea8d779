import CLibcurl
import Glibc
internal import HTTPCore
import Synchronization

/// A URL as libcurl parsed it. The checks before sending and libcurl itself use this one parsed form.
///
/// Parsing costs up to a fifth of a small request, so targets are cached and handed to libcurl whole (`CURLOPT_CURLU`).
final class Target: @unchecked Sendable {
    // Sendable: only init writes the URL handle. libcurl reads it, and makes its changes to copies.
    let handle: OpaquePointer
    /// The URL, percent-encoded.
    let url: String
    /// `http` or `https`.
    let scheme: String
    /// The host as libcurl looks it up: an IPv4 address in dotted decimal, an IPv6 address in brackets, or a name in ASCII.
    let host: String
    /// The zone of a link-local IPv6 address (RFC 6874): the name or number of an interface; `nil` without one.
    let zone: String?
    /// The path of the Unix domain socket that the server listens on; `nil` for a server on the network.
    let socketPath: String?
    /// Scheme, host with its zone, and port; the socket in place of all of them. Connections are limited per origin.
    let origin: String
    private let lastBodySize = Atomic<Int>(0)

    var isSecure: Bool { scheme == "https" }

    /// The URL over TLS: port 80 becomes 443, other ports stay (RFC 6797 §8.3). `nil` when memory is short.
    var secureURL: String? {
        guard socketPath == nil, let copy = curl_url_dup(handle) else { return nil }
        defer { curl_url_cleanup(copy) }
        guard curl_url_set(copy, CURLUPART_SCHEME, "https", 0) == CURLUE_OK else { return nil }
        if Target.part(CURLUPART_PORT, of: handle) == "80" { _ = curl_url_set(copy, CURLUPART_PORT, nil, 0) }
        return Target.part(CURLUPART_URL, of: copy)
    }

    /// Whether the host is an address and not a name.
    var isAddress: Bool {
        let last = host.utf8.last ?? 0
        return host.hasPrefix("[")
            || last >= UInt8(ascii: "0") && last <= UInt8(ascii: "9") && IPAddress(host: host) != nil
    }

    var hasUser: Bool { user != nil }
    var user: String? { Target.part(CURLUPART_USER, of: handle, flags: UInt32(CURLU_URLDECODE)) }
    var hasPassword: Bool { Target.part(CURLUPART_PASSWORD, of: handle) != nil }

    /// The expected size of the next response body: the size of the last one, or 0 when that is unknown or large.
    var bodySizeHint: Int { lastBodySize.load(ordering: .relaxed) }

    func noteBodySize(_ size: Int) {
        let hint = size <= Self.hintLimit ? size : 0
        if hint != bodySizeHint { lastBodySize.store(hint, ordering: .relaxed) }
    }

    private static let hintLimit = 64 << 10

    /// Parses a URL.
    init(_ text: String) throws(NetworkError) {
        guard !text.isEmpty else {
            throw .invalidRequest("the URL is empty; give an absolute one, such as https://example.org/")
        }
        if let control = text.unicodeScalars.first(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            throw .invalidRequest(
                "the URL holds the control character U+\(Self.hex(control.value)) (control characters "
                    + "are never sent); percent-encode or remove it")
        }
        let unix = try Self.unixAddress(text)
        let encoded = (unix?.url ?? text).idempotentlyPercentEncoded
        guard let handle = curl_url() else { throw NetworkError(.other, message: "out of memory") }
        var isValid = false
        defer { if !isValid { curl_url_cleanup(handle) } }
        let code = curl_url_set(handle, CURLUPART_URL, encoded, UInt32(CURLU_NON_SUPPORT_SCHEME))
        guard code == CURLUE_OK else { throw Target.failure(code, text) }
        let scheme = Target.part(CURLUPART_SCHEME, of: handle) ?? ""
        guard scheme == "http" || scheme == "https" else {
            throw .invalidRequest("the scheme \"\(scheme)\" is not supported; use http or https")
        }
        guard let written = Target.part(CURLUPART_HOST, of: handle), !written.isEmpty else {
            throw .invalidRequest("the URL \"\(URLParts.redacted(text))\" has no host; write scheme://host/path")
        }
        try HostName.write(in: handle, host: written)
        isValid = true
        self.handle = handle
        self.scheme = scheme
        let host = Target.part(CURLUPART_HOST, of: handle) ?? written
        let port = Target.part(CURLUPART_PORT, of: handle, flags: UInt32(CURLU_DEFAULT_PORT)) ?? ""
        zone = host.hasPrefix("[") ? Target.part(CURLUPART_ZONEID, of: handle) : nil
        // The same address in another zone is another server.
        let place = zone.map { "\(host.dropLast())%25\($0)]" } ?? host
        origin = unix?.origin ?? "\(scheme)://\(place):\(port)"
        socketPath = unix?.socketPath
        let isPlain = host.utf8.allSatisfy { $0 < 0x80 && $0 != UInt8(ascii: "%") }
        self.host = isPlain ? host : Target.asciiHost(of: handle) ?? host
        // The fragment is never sent (RFC 9110 §7.1).
        _ = curl_url_set(handle, CURLUPART_FRAGMENT, nil, 0)
        let url = Target.part(CURLUPART_URL, of: handle) ?? encoded
        self.url = unix?.at(URLParts(url).target) ?? url
    }

    private static func unixAddress(_ text: String) throws(NetworkError) -> UnixAddress? {
        guard UnixAddress.isOne(text) else { return nil }
        do throws(UnixAddress.Problem) {
            return try UnixAddress(text)
        } catch {
            let advice = error.suggestion.map { "did you mean \(URLText.visible($0))?" }
            throw .invalidRequest(
                "the URL \(URLText.visible(URLParts.redacted(text))) \(error.reason); \(advice ?? "write unix:///path/of.sock:/path")"
            )
        }
    }

    /// Makes a target from the scheme and authority of a base, which are not parsed again, and a new path and query.
    ///
    /// - Parameter rest: Path and query that passed `isUnchangedByParsing`.
    init?(_ base: TargetBase, rest: UnsafeBufferPointer<UInt8>) {
        guard let handle = curl_url_dup(base.target.handle) else { return nil }
        let pathEnd = rest.firstIndex(of: UInt8(ascii: "?")) ?? rest.count
        let path = String(decoding: rest[..<pathEnd], as: UTF8.self)
        let query = pathEnd < rest.count ? String(decoding: rest[(pathEnd + 1)...], as: UTF8.self) : nil
        guard curl_url_set(handle, CURLUPART_PATH, path, 0) == CURLUE_OK,
            curl_url_set(handle, CURLUPART_QUERY, query, 0) == CURLUE_OK
        else {
            curl_url_cleanup(handle)
            return nil
        }
        self.handle = handle
        scheme = base.target.scheme
        host = base.target.host
        zone = base.target.zone
        socketPath = nil
        origin = base.target.origin
        url = base.prefix + String(decoding: rest, as: UTF8.self)
    }

    deinit { curl_url_cleanup(handle) }

    static func part(_ part: CURLUPart, of handle: OpaquePointer, flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    static func asciiHost(of handle: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard lat_url_ascii_host(handle, &text) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    private static func failure(_ code: CURLUcode, _ text: String) -> NetworkError {
        let reason: String
        switch code {
        case CURLUE_BAD_SCHEME, CURLUE_UNSUPPORTED_SCHEME, CURLUE_NO_SCHEME, CURLUE_BAD_SLASHES:
            reason = "it does not begin with http:// or https://; give an absolute URL, or set the manager's baseURL"
        case CURLUE_BAD_PORT_NUMBER: reason = "its port is not a number from 0 to 65535; write scheme://host:port/path"
        case CURLUE_NO_HOST, CURLUE_BAD_HOSTNAME:
            reason = "its host name is missing or malformed; write scheme://host/path"
        case CURLUE_BAD_IPV6: reason = "its IPv6 address is malformed; write one such as http://[::1]:8080/"
        default: reason = "\(String(cString: curl_url_strerror(code))); write scheme://host/path"
        }
        return .invalidRequest("the URL \"\(URLParts.redacted(text))\" cannot be used: \(reason)")
    }

    private static func hex(_ value: UInt32) -> String {
        let digits = String(value, radix: 16, uppercase: true)
        return String(repeating: "0", count: 4 - digits.count) + digits
    }
}

/// Resolves a reference against a URL (RFC 3986 §5), by libcurl.
package enum URLReference {
    /// Returns the absolute URL of a `reference` found at `base`; `nil` when it is malformed. The result keeps the
    /// fragment of the reference, or else that of the base (RFC 9110 §10.2.2).
    package static func resolve(_ reference: String, against base: String) -> String? {
        // A server must not lead a client to the sockets of its machine.
        guard !UnixAddress.isOne(reference) else { return nil }
        if UnixAddress.isOne(base) {
            guard let unix = try? UnixAddress(base), let url = resolve(reference, against: unix.url) else { return nil }
            // The host of an absolute URL is the one that the server was asked for in the field Host.
            let parts = URLParts(url)
            return parts.origin == "http://localhost:80"
                ? unix.at(parts.target + (parts.fragment.map { "#" + $0 } ?? "")) : url
        }
        if let url = sameServer(reference, base) { return url }
        let (base, baseFragment) = split(base.idempotentlyPercentEncoded)
        let (reference, ownFragment) = split(reference.idempotentlyPercentEncoded)
        guard let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        let flags = UInt32(CURLU_NON_SUPPORT_SCHEME)
        guard curl_url_set(handle, CURLUPART_URL, base, flags) == CURLUE_OK,
            // An empty reference means the base itself, but libcurl resolves it to the folder of the base.
            reference.isEmpty || curl_url_set(handle, CURLUPART_URL, reference, flags) == CURLUE_OK
        else { return nil }
        return Target.part(CURLUPART_URL, of: handle).map { $0 + (ownFragment ?? baseFragment ?? "") }
    }

    /// The URL of a path, or of an absolute URL at the same server, that parsing leaves as it is; `nil` for any other reference.
    private static func sameServer(_ reference: String, _ base: String) -> String? {
        var (reference, base) = (reference, base)
        return base.withUTF8 { base in
            guard let length = serverLength(base), !base.contains(UInt8(ascii: "#")) else { return nil }
            let server = UnsafeBufferPointer(rebasing: base[..<length])
            return reference.withUTF8 { reference in
                let isPath = reference.first == UInt8(ascii: "/")
                guard isPath || reference.starts(with: server) else { return nil }
                let rest = isPath ? reference[...] : reference[length...]
                guard TargetBase.isUnchangedByParsing(UnsafeBufferPointer(rebasing: rest)) else { return nil }
                return String(unsafeUninitializedCapacity: length + rest.count) { url in
                    _ = url.initialize(fromContentsOf: server)
                    return url[length...].initialize(fromContentsOf: rest)
                }
            }
        }
    }

    /// The number of bytes before the path of an absolute URL of HTTP on the network; `nil` also for one that has no path, and for
    /// one with more or fewer slashes before the host.
    private static func serverLength(_ url: UnsafeBufferPointer<UInt8>) -> Int? {
        guard let colon = url.firstIndex(of: UInt8(ascii: ":")), colon + 3 < url.count,
            url[0] | 0x20 == UInt8(ascii: "h"),
            url[colon + 1] == UInt8(ascii: "/"), url[colon + 2] == UInt8(ascii: "/"),
            url[colon + 3] != UInt8(ascii: "/")
        else { return nil }
        let end = url[(colon + 3)...].firstIndex {
            $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#")
        }
        return end.flatMap { url[$0] == UInt8(ascii: "/") ? $0 : nil }
    }

    /// Whether both URLs surely have the same origin, because they are written in the same way up to their paths.
    package static func hasSameServer(_ url: String, as other: String) -> Bool {
        var (url, other) = (url, other)
        return url.withUTF8 { url in
            guard let length = serverLength(url) else { return false }
            return other.withUTF8 { $0.starts(with: url[...length]) }
        }
    }

    /// Returns the absolute URL of a link that was found at `base`; `nil` when it is malformed. libcurl connects `http:///x` to
    /// the host `x`, which may be what a person meant who typed it, but in a link there is no host (RFC 9110 §4.2.1).
    package static func link(_ reference: String, at base: String) -> String? {
        sameServer(reference, base)
            ?? (URLParts(reference).hasOddSlashes ? nil : resolve(reference, against: base))
    }

    /// Splits a URL and its fragment, `#` included.
    private static func split(_ url: String) -> (url: String, fragment: String?) {
        guard let hash = url.utf8.firstIndex(of: UInt8(ascii: "#")) else { return (url, nil) }
        return (String(url[..<hash]), String(url[hash...]))
    }

    /// Returns a `ws` or `wss` URL with the scheme of its connection, `http` or `https` (RFC 6455 §3), and any other URL
    /// unchanged.
    package static func httpForm(of url: String) -> String {
        let scheme = url.prefix(6).lowercased()
        guard scheme.hasPrefix("wss://") || scheme.hasPrefix("ws://") else { return url }
        return (scheme.hasPrefix("wss") ? "https" : "http") + url[(url.firstIndex(of: ":") ?? url.startIndex)...]
    }

    /// Returns the host of an absolute URL as it is looked up; `nil` when the URL is malformed.
    package static func host(of url: String) -> String? { (try? Target(url))?.host }

    /// Returns the origin (RFC 6454) of an absolute URL: scheme, host and port in lower case, the default port filled
    /// in. The zone of an IPv6 address keeps its case, as names of interfaces do. `nil` when the URL is malformed.
    package static func origin(of url: String) -> String? {
        if let known = origins.withLock({ $0.first { TargetBase.begins(url, with: $0.beginning) }?.origin }) {
            return known
        }
        guard let target = try? Target(url) else { return nil }
        let origin = normalized(target.origin, of: target)
        // A password stays in no memory of the process but the app's.
        if !target.hasUser, let base = TargetBase(target, text: url) {
            origins.withLock { origins in
                guard !origins.contains(where: { $0.beginning == base.text }) else { return }
                if origins.count == TargetBase.limit { origins.removeFirst() }
                origins.append((base.text, origin))
            }
        }
        return origin
    }

    /// Those asked for last, by the beginnings of their URLs. Stages ask for that of each request, and parsing a URL costs a fifth of
    /// a small one.
    private static let origins = Mutex<[(beginning: [UInt8], origin: String)]>([])

    private static func normalized(_ origin: String, of target: Target) -> String {
        if target.socketPath != nil { return origin }
        guard target.zone != nil, let zone = origin.utf8.firstIndex(of: UInt8(ascii: "%")) else {
            return origin.lowercased()
        }
        return origin[..<zone].lowercased() + origin[zone...]
    }
}
