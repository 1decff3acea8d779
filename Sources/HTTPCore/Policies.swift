/// How a response cache takes part in a request.
///
/// Where a look-up finds nothing, `.cacheOnly` fails with ``NetworkError/Kind/cache``
/// and the others go to the network.
public enum CachePolicy: Hashable, Sendable {
    /// Neither read nor written. The default of a manager.
    case networkOnly
    /// Goes to the network and stores the reply.
    case writeOnly
    /// Answers from the cache or fails; never goes to the network.
    case cacheOnly
    /// Answers from the cache while the entry is younger than the time to live, else from the network.
    case cacheElseNetwork(TimeToLive)
    /// Delivers what is cached first, then the network's reply.
    case cacheThenNetwork
    /// Goes to the network, and answers with what is cached, however old, when that fails.
    case networkElseCache
    /// A private cache by RFC 9111.
    case http

    /// How long a stored reply may be used.
    public enum TimeToLive: Hashable, Sendable {
        /// From the moment it was stored. At that age it is expired.
        case fixed(Duration)
        /// From the moment it was last used.
        case sliding(Duration)
        /// Without end.
        case forever
    }
}

/// Whether and how far redirects (RFC 9110 §15.4) are followed.
public enum RedirectPolicy: Hashable, Sendable {
    /// The manager's rule; of a manager, ``follow(limit:)`` with 20 hops. The default.
    case automatic
    /// A redirect is an answer like any other.
    case none
    /// At most this many hops; one more is ``NetworkError/Kind/redirect``.
    case follow(limit: Int)
}

/// Credentials of a request.
public enum Authentication: Hashable, Sendable {
    /// Basic (RFC 7617), sent at once.
    case basic(user: String, password: String)
    /// Digest (RFC 7616), in answer to the challenge of the server. Later requests of the same user to its origin bring
    /// their answer with them (MD5 and SHA-256; the variants `-sess` are challenged each time).
    case digest(user: String, password: String)
    /// A bearer token (RFC 6750).
    case bearer(token: String)
    /// The strongest of the schemes the server offers (`CURLAUTH_ANY`).
    case any(user: String, password: String)
}

/// The order in which requests that wait for a connection are started.
public enum RequestPriority: Int, Hashable, Sendable, Comparable, CaseIterable {
    /// After all others.
    case low
    /// The default.
    case normal
    /// Before all others.
    case high

    /// Lower waits longer.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// The HTTP version a request asks for.
public enum HTTPVersionPolicy: Hashable, Sendable {
    /// The manager's choice; of the manager, HTTP/2 over TLS when the server agrees (ALPN), else HTTP/1.1
    /// (`CURL_HTTP_VERSION_2TLS`). The default.
    case automatic
    /// HTTP/1.1 only.
    case http1
    /// HTTP/2 without asking first, also in clear text (`CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE`).
    case http2PriorKnowledge
    /// HTTP/3 over QUIC (RFC 9114), with HTTP/2 and HTTP/1.1 tried beside it when it does not answer at once
    /// (`CURL_HTTP_VERSION_3`); the first connection that stands is used, and one that is open already is used as it is.
    ///
    /// An origin that answered over TCP, or whose HTTP/3 connection broke off, is left to TCP for five minutes or until the
    /// network changes, so that a network without UDP costs the delay once. Through proxies, over Unix domain sockets and
    /// for `http` URLs it is as ``automatic``. Needs a libcurl with HTTP/3; without, the manager is not made, and a
    /// request fails with ``NetworkError/Kind/unsupported``. Nothing is sent before the handshake is over (no 0-RTT).
    case http3
    /// HTTP/3 and nothing else (`CURL_HTTP_VERSION_3ONLY`), for `https` URLs and without a proxy. As for ``http3``, libcurl
    /// has to have it.
    case http3Only
}

/// The version of a received response.
public enum HTTPVersion: String, Hashable, Sendable, CustomStringConvertible {
    /// HTTP/1.0.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case http1_0 = "HTTP/1.0"
    /// HTTP/1.1.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    case http1_1 = "HTTP/1.1"
    /// HTTP/2.
    case http2 = "HTTP/2"
    /// HTTP/3.
    case http3 = "HTTP/3"

    /// The name as in a status line.
    public var description: String { rawValue }
}

/// Which proxy requests go through.
public enum ProxyPolicy: Hashable, Sendable, ExpressibleByStringLiteral {
    /// What `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` say, read once. `HTTP_PROXY` in capitals is not looked
    /// at: a CGI request could set it.
    case environment
    /// None.
    case none
    /// A proxy's URL: `http://`, `https://`, `socks4://`, `socks4a://`, `socks5://`, `socks5h://`, user and password in it
    /// when needed.
    case url(String)

    /// A proxy's URL; the empty text stands for ``none``.
    public init(stringLiteral value: String) { self = value.isEmpty ? .none : .url(value) }
}

/// What happens when a request is made while the same one is under way.
///
/// The same are two requests of equal method, address, parameters, headers of their own, body and settings; to be shared,
/// of equal credentials, cache partition and row too. Requests
/// whose body is a stream are never the same; those that hand their response over as a stream are not shared.
public enum DuplicatePolicy: Hashable, Sendable {
    /// Both are sent. The default.
    case allow
    /// Both get the one answer. The shared request goes on until the last of its callers has left, and has the highest
    /// of their priorities. As a manager's setting it holds for safe methods (RFC 9110 §9.2.1) only, so that two orders
    /// stay two; set at the entity or the call it holds for all. Suspending one of the calls does not hold a shared
    /// transfer.
    case coalesce
    /// The second fails at once with ``NetworkError/Kind/duplicate``: a button that was pressed twice.
    case reject
}
