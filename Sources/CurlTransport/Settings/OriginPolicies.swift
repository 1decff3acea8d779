extension EngineConfiguration {
    /// Whether hosts can require TLS for their URLs (HSTS, RFC 6797).
    ///
    /// ```swift
    /// configuration.hsts = .file("hsts.txt")
    /// configuration.hstsPreload = ["api.example.org", ".example.com"]
    /// ```
    ///
    /// A host requires TLS by `Strict-Transport-Security` in a response over verified TLS. Until the field expires, an `http`
    /// URL of that host is replaced by its `https` URL; port 80 becomes 443, other ports stay. The request is sent to that
    /// URL, the response's `url` shows it, and it determines cookies, credentials and redirects.
    public enum HSTSPolicy: Hashable, Sendable {
        /// The field is ignored. The default.
        case off
        /// The hosts are remembered as long as the manager lives.
        case memory
        /// The hosts are also kept in this file, in libcurl's format (`CURLOPT_HSTS`). It is read when the manager is made.
        /// It is replaced (temporary file, `rename`) soon after a response has changed the hosts, and is up to date when
        /// `shutdown()` returns. The file belongs to one manager.
        case file(String)
    }

    /// Whether requests use the alternative services that servers announce with `Alt-Svc` (RFC 7838).
    ///
    /// Requests to an `https` origin connect to an alternative that it announced over verified TLS. They keep the `Host` of
    /// the origin, require its certificate, and carry `Alt-Used`. When no connection can be made, or the alternative
    /// answers 421, the request goes to the origin, and the alternative is not used for five minutes. Requests always go to
    /// the origin if they use a proxy or a Unix domain socket, have a body that can be read only once, or their manager has
    /// ``EngineConfiguration/connectTo``.
    public enum AltSvcPolicy: Hashable, Sendable {
        /// The field is ignored. The default.
        case off
        /// The alternatives are remembered as long as the manager lives.
        case memory
        /// The alternatives are also kept in this file, in libcurl's format (`CURLOPT_ALTSVC`). It is read and written like
        /// that of ``EngineConfiguration/HSTSPolicy/file(_:)``.
        case file(String)
    }
}
