import CLibcurl
internal import HTTPCore

/// Decides which proxy a request goes through. The environment is read once; libcurl would read it for each request.
struct ProxySettings: Sendable {
    struct Proxy: Hashable, Sendable {
        /// The value of `CURLOPT_PROXY`.
        let url: String
        let isSOCKS: Bool
        /// Whether the connection to the proxy uses TLS.
        let isSecure: Bool

        /// Compares the URLs, which determine the rest, byte by byte.
        static func == (lhs: Self, rhs: Self) -> Bool { lhs.url.hasSameBytes(as: rhs.url) }
    }

    private let http: Proxy?
    private let https: Proxy?
    private let exceptions: ProxyExceptions

    /// Whether no request goes through a proxy.
    var isEmpty: Bool { http == nil && https == nil }

    init(_ policy: ProxyPolicy, environment: [String: String]) throws(NetworkError) {
        switch policy {
        case .direct:
            (http, https, exceptions) = (nil, nil, ProxyExceptions(""))
        case .url(let url):
            let proxy = try Self.proxy(url, from: "the proxy")
            (http, https, exceptions) = (proxy, proxy, ProxyExceptions(""))
        case .environment:
            func proxy(_ names: String...) throws(NetworkError) -> Proxy? {
                for name in names {
                    guard let value = environment[name], !value.isEmpty else { continue }
                    return try Self.proxy(value, from: "the environment's \(name)")
                }
                return nil
            }
            let all = try proxy("all_proxy", "ALL_PROXY")
            http = try proxy("http_proxy") ?? all
            https = try proxy("https_proxy", "HTTPS_PROXY") ?? all
            let without = [environment["no_proxy"], environment["NO_PROXY"]]
            exceptions = ProxyExceptions(without.compactMap { $0 }.first { !$0.isEmpty } ?? "")
        }
    }

    func proxy(for target: Target) -> Proxy? {
        guard let proxy = target.isSecure ? https : http, !exceptions.contains(target.host), target.socketPath == nil
        else { return nil }
        return proxy
    }

    private static func proxy(_ text: String, from place: String) throws(NetworkError) -> Proxy {
        let known = ["http", "https", "socks", "socks4", "socks4a", "socks5", "socks5h"]
        var url = text
        var scheme = "http"  // curl, too, takes host:port for an HTTP proxy
        let parts = URLParts(text)
        if parts.isAbsolute, let written = parts.scheme {
            scheme = written.lowercased()
            guard known.contains(scheme) else {
                throw .invalidRequest(
                    "\(place)'s scheme \"\(scheme)\" is not known; use one of \(known.joined(separator: ", "))")
            }
            // Other tools use this name for SOCKS 5; libcurl would use SOCKS 4.
            if scheme == "socks" { scheme = "socks5h" }
            url = scheme + text[written.endIndex...]
        }
        if scheme == "https", !GlobalCurl.has(CURL_VERSION_HTTPS_PROXY) {
            throw NetworkError(
                .unsupported, message: "\(place) is an HTTPS proxy, but this libcurl supports none; use an http:// one")
        }
        guard isAddress(url) else {
            throw .invalidRequest(
                "\(place) is not a URL; write scheme://host:port, user and password "
                    + "percent-encoded")
        }
        guard hasPlainCredentials(url) else {
            throw .invalidRequest(
                "\(place) has a control character, such as %0A, in its user or password, so libcurl "
                    + "would ignore the proxy; remove the character")
        }
        return Proxy(url: url, isSOCKS: scheme.hasPrefix("socks"), isSecure: scheme == "https")
    }

    /// Whether user and password contain no control character after percent-decoding. libcurl 7.88 silently ignores a
    /// proxy whose credentials it cannot decode.
    private static func hasPlainCredentials(_ url: String) -> Bool {
        let parts = URLParts(url)
        let user = (parts.isAbsolute ? parts : URLParts("//" + url)).userInformation ?? ""
        return !user.percentDecoded().utf8.contains { $0 < 0x20 || $0 == 0x7F }
    }

    private static func isAddress(_ url: String) -> Bool {
        guard !url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }), let handle = curl_url() else { return false }
        defer { curl_url_cleanup(handle) }
        let flags = UInt32(CURLU_NON_SUPPORT_SCHEME) | UInt32(CURLU_GUESS_SCHEME)
        return curl_url_set(handle, CURLUPART_URL, url, flags) == CURLUE_OK
    }
}

/// The hosts that are reached without a proxy: `NO_PROXY`, in libcurl's notation (`CURLOPT_NOPROXY`).
///
/// The engine applies these exceptions itself instead of passing them to libcurl, because the guard against private
/// addresses must know whether an address is the server's or the proxy's, and libcurl before 8.7 does not say.
///
/// Names and addresses are separated by commas or spaces. A name also matches all names below it, with or without a
/// leading dot. An address may be a range (`10.0.0.0/8`). `*` alone matches everything.
struct ProxyExceptions: Sendable {
    private var matchesAll = false
    private var names: [String] = []
    private var ranges: [AddressRange] = []

    init(_ text: String) {
        if text.allSatisfy({ $0 == " " || $0 == "*" }), text.contains("*") { matchesAll = true }
        for entry in text.split(whereSeparator: { $0 == "," || $0 == " " || $0 == "\t" }) {
            let bare = entry.hasPrefix("[") && entry.hasSuffix("]") ? entry.dropFirst().dropLast() : entry
            if let range = AddressRange(String(bare)) {
                ranges.append(range)
            } else {
                let name = HostName.bare(String(entry.hasPrefix(".") ? entry.dropFirst() : entry))
                if !name.isEmpty { names.append(name) }
            }
        }
    }

    /// Whether a host is reached without a proxy.
    func contains(_ host: String) -> Bool {
        if matchesAll { return true }
        guard !(names.isEmpty && ranges.isEmpty) else { return false }
        if let address = IPAddress(host: host) { return ranges.contains { $0.contains(address) } }
        let name = HostName.bare(host)
        return names.contains { name == $0 || name.hasSuffix("." + $0) }
    }
}
