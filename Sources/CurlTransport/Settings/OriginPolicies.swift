/// Whether hosts that ask for it are only spoken to over TLS (RFC 6797).
///
/// ```swift
/// configuration.hsts = .file("hsts.txt")
/// configuration.hstsPreload = ["api.example.org", ".example.com"]
/// ```
///
/// A host says so with `Strict-Transport-Security` in an answer over verified TLS. From then on, for as long as it said,
/// an `http` URL of it is taken for the `https` one: the port 80 becomes 443, others stay. The request goes out so, the
/// response's `url` shows it, and all that depends on the origin (cookies, credentials, redirects) sees the `https` URL.
public enum HSTSPolicy: Hashable, Sendable {
    /// What hosts say is not heeded. The default.
    case off
    /// It is kept for as long as the manager lives.
    case memory
    /// It is kept in this file too, in libcurl's format (`CURLOPT_HSTS`): read when the manager is made, written soon after
    /// a response that changed it, aside and then renamed, and when the manager is shut down. The file is one manager's.
    case file(String)
}

/// Whether requests go to the other addresses that servers name with `Alt-Svc` (RFC 7838).
///
/// What an `https` origin names over verified TLS is connected to in its place, by certificate and `Host` of the origin and
/// with the field `Alt-Used`. Without a connection there, and after 421, the request goes to the origin itself, and the
/// other address is left alone for five minutes. Requests through proxies, to Unix domain sockets, with bodies that can be
/// read only once, and those of a manager with ``EngineConfiguration/connectTo`` go to the origin.
public enum AltSvcPolicy: Hashable, Sendable {
    /// What servers say is not heeded. The default.
    case off
    /// It is kept for as long as the manager lives.
    case memory
    /// It is kept in this file too, in libcurl's format (`CURLOPT_ALTSVC`): read and written like that of
    /// ``HSTSPolicy/file(_:)``.
    case file(String)
}
