extension EngineConfiguration {
    /// The resolver that looks up the addresses of hosts.
    public enum NameResolver: Hashable, Sendable {
        /// The system's resolver, including `/etc/hosts`. The default.
        case system
        /// DNS servers by address; the first that answers is used: `9.9.9.9`, `192.0.2.1:5353`, `[2620:fe::fe]`
        /// (`CURLOPT_DNS_SERVERS`). Without c-ares in libcurl, making the manager fails with ``NetworkError/Kind/unsupported``.
        case servers([String])
        /// A DNS-over-HTTPS server (RFC 8484) by URL: `https://dns.example.org/dns-query` (`CURLOPT_DOH_URL`).
        ///
        /// `localhost` and IP addresses are not looked up there. `/etc/hosts` is ignored, but
        /// ``EngineConfiguration/resolve`` applies. The server's own name is looked up in
        /// ``EngineConfiguration/resolve``, or else by the system. Its certificate must be signed by an authority of
        /// ``EngineConfiguration/tls``. The client certificate is not sent to it. With pins for its host, making the
        /// manager fails with ``NetworkError/Kind/unsupported``. The connect timeout of a request includes the look-up.
        /// ``EngineConfiguration/blocksPrivateAddresses`` applies to the addresses that the server returns, not to its
        /// own.
        case https(String)
    }

    /// The local end of connections (`CURLOPT_INTERFACE`).
    public enum ConnectionSource: Hashable, Sendable {
        /// A network interface by name: `eth0`. Packets leave through it regardless of the routes if the system lets the
        /// process bind to a device. Otherwise connections only use its address.
        case interface(String)
        /// A local address: `192.0.2.7`. Servers of the other address family cannot be connected to.
        case address(String)
    }

    /// The `.netrc` file that provides user names and passwords of hosts (`CURLOPT_NETRC`, `CURLOPT_NETRC_FILE`).
    ///
    /// The file is read once, when the manager is made, which fails with ``NetworkError/Kind/invalidRequest`` if the file is
    /// unreadable or malformed. Credentials are sent as Basic to the host they are listed for. A redirect to another origin
    /// receives those of an entry that names its host, but not the `default` ones. A request with
    /// ``RequestOptions/Values/authentication``, an `Authorization` field or a password in its URL keeps its own; a user in its
    /// URL selects the entry of the host that names this user.
    public enum NetrcPolicy: Hashable, Sendable {
        /// No file. The default.
        case off
        /// `.netrc` in the home directory, if there is one.
        case home
        /// The file at this path.
        case file(String)
    }

    /// The authentication scheme for an HTTP proxy.
    public enum ProxyAuthentication: Hashable, Sendable {
        /// Basic (RFC 7617), sent with the first request.
        case basic
        /// Digest (RFC 7616), in answer to the proxy's challenge.
        case digest
        /// The strongest of the schemes that the proxy offers.
        case any
    }

    /// Whether a manager stores cookies and sends them back (RFC 6265).
    ///
    /// A jar holds at most 180 cookies of one domain and 3,300 in all. Beyond that, expired cookies are dropped first, then
    /// the oldest. Of a response, the first 180 cookies are taken. A request carries at most 150 of them, in a field of at most 8,190 bytes. Making a manager with a jar fails
    /// with ``NetworkError/Kind/unsupported`` when libpsl is missing.
    public enum CookiePolicy: Hashable, Sendable {
        /// Cookies are ordinary header fields and are not stored. The default.
        case off
        /// Cookies are kept as long as the manager lives.
        case memory
        /// Cookies are kept in memory; those with an expiry date are also kept in this file, in Netscape's format. Session
        /// cookies, which have no expiry date, end with the manager (RFC 6265 §5.3), unless
        /// ``EngineConfiguration/keepsSessionCookies`` is set.
        ///
        /// The file is read on the caller's thread when the manager is made. Changes are written on a separate thread, and no
        /// response waits for them. The first change is written at once, later ones together, at most once a second. Each
        /// write replaces the whole file (temporary file, `fdatasync`, `rename`), so the file is never incomplete. It is up to
        /// date when ``CookieJar/flush()`` or `shutdown()` returns, and when the process ends by `exit` or by returning from
        /// `main`. If the process is killed, the changes of the last second may be lost.
        ///
        /// Only the owner may read the file (0600). Managers and processes may share it: each write puts the changes of its own
        /// jar into what the file has then, under a lock on it. A jar does not see what others have written since it was made.
        case file(String)
    }

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
        /// `shutdown()` returns. Managers and processes may share it: each write puts the own changes into what the file has
        /// then.
        case file(String)
    }

    /// Whether requests use the alternative services that servers announce with `Alt-Svc` (RFC 7838).
    ///
    /// Requests to an `https` origin connect to an alternative that it announced over verified TLS. They keep the `Host` of
    /// the origin, require its certificate, and carry `Alt-Used`. When no connection can be made, or the alternative
    /// answers 421, it is not used for five minutes, and the request goes to the next alternative, or else to the origin,
    /// within its timeout. One that fails after that and before its response is not used for five minutes either; the call
    /// fails then, as it would at the origin, and a retry goes elsewhere.
    /// Requests always go to the origin if they use a proxy or a Unix domain socket, have a body that can be read only once,
    /// or their manager has ``EngineConfiguration/connectTo``.
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
