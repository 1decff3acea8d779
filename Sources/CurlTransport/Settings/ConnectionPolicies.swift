/// Who is asked for the addresses of hosts.
public enum NameResolver: Hashable, Sendable {
    /// The machine's resolver, with its `/etc/hosts`. The default.
    case system
    /// DNS servers by address, the first that answers counts: `9.9.9.9`, `192.0.2.1:5353`, `[2620:fe::fe]`
    /// (`CURLOPT_DNS_SERVERS`). Only a libcurl that was built with c-ares can do this; with others the manager is refused.
    case servers([String])
    /// A server of DNS over HTTPS (RFC 8484) by URL: `https://dns.example.org/dns-query` (`CURLOPT_DOH_URL`).
    ///
    /// `localhost` and addresses are not asked for. `/etc/hosts` does not count; ``EngineConfiguration/resolve`` does, for
    /// the server's own name too, which the machine's resolver is asked for otherwise. The server is trusted by the
    /// authorities of ``EngineConfiguration/tls``, without its pins and client certificate. The connect timeout of a
    /// request includes the look-up; ``EngineConfiguration/blocksPrivateAddresses`` judges the addresses that it gives,
    /// and not the server's own.
    case https(String)
}

/// Where connections come from on this machine (`CURLOPT_INTERFACE`).
public enum ConnectionSource: Hashable, Sendable {
    /// A network interface by name: `eth0`. Packets leave by it, whatever the routes say, where the system lets a program
    /// bind to a device; else connections have its address.
    case interface(String)
    /// An address of this machine: `192.0.2.7`. Servers of the other family cannot be connected to.
    case address(String)
}

/// Where user names and passwords of hosts are read from, in the format of `.netrc` (`CURLOPT_NETRC`,
/// `CURLOPT_NETRC_FILE`).
///
/// The file is read once, when the manager is made. What it says of a host goes to that host alone, as Basic, and not to
/// where a redirect leads. A request with ``HTTPRequest/authentication``, an `Authorization` field or a user in its URL
/// keeps its own.
public enum NetrcPolicy: Hashable, Sendable {
    /// No file. The default.
    case off
    /// `.netrc` in the home directory, if there is one.
    case home
    /// This file.
    case file(String)
}
