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
        /// `localhost` and IP addresses are not looked up there. `/etc/hosts` is ignored, but ``EngineConfiguration/resolve``
        /// applies. The server's own name is looked up in ``EngineConfiguration/resolve``, or else by the system. Its
        /// certificate must be signed by an authority of ``EngineConfiguration/tls``; pins and client certificate do not apply.
        /// The connect timeout of a request includes the look-up. ``EngineConfiguration/blocksPrivateAddresses`` applies to the
        /// addresses that the server returns, not to its own.
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
    /// receives those of an entry that names its host, but not the `default` ones. A request with ``HTTPRequest/authentication``, an `Authorization` field or a user in its URL keeps its own.
    public enum NetrcPolicy: Hashable, Sendable {
        /// No file. The default.
        case off
        /// `.netrc` in the home directory, if there is one.
        case home
        /// The file at this path.
        case file(String)
    }
}
