import HTTPCore

/// Which proxy a request goes through, decided once and not by libcurl's look
/// at the environment for each request.
struct ProxySettings: Sendable {
    private let http: String?
    private let https: String?
    /// Hosts that are reached directly, in the notation of `CURLOPT_NOPROXY`.
    let exceptions: String

    /// Whether no request goes through a proxy.
    var isEmpty: Bool { http == nil && https == nil }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a URL that names no proxy.
    init(_ policy: ProxyPolicy, environment: [String: String]) throws(NetworkError) {
        switch policy {
        case .none:
            (http, https, exceptions) = (nil, nil, "")
        case .url(let url):
            try Self.check(url)
            (http, https, exceptions) = (url, url, "")
        case .environment:
            func value(_ names: String...) -> String? {
                names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
            }
            let all = value("all_proxy", "ALL_PROXY")
            http = value("http_proxy") ?? all
            https = value("https_proxy", "HTTPS_PROXY") ?? all
            exceptions = value("no_proxy", "NO_PROXY") ?? ""
        }
    }

    /// The value for `CURLOPT_PROXY`; empty for none.
    func proxy(for target: Target) -> String { (target.isSecure ? https : http) ?? "" }

    private static func check(_ url: String) throws(NetworkError) {
        let known = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]
        guard let end = url.firstRange(of: "://") else { return }  // host:port, an HTTP proxy as for curl
        let scheme = url[..<end.lowerBound].lowercased()
        guard known.contains(scheme) else {
            throw .invalidRequest(
                "the proxy's scheme \"\(scheme)\" is not known; use one of \(known.joined(separator: ", "))")
        }
    }
}
