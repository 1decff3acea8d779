/// How a request uses the response cache.
///
/// When the cache has no usable response, `.cacheOnly` fails with
/// ``NetworkError/Kind/cache`` and the other policies use the network.
public enum CachePolicy: Hashable, Sendable {
    /// Neither reads nor writes the cache. The default of a manager.
    case networkOnly
    /// Uses the network and stores the response.
    case writeOnly
    /// Returns the stored response or fails; never uses the network.
    case cacheOnly
    /// Returns a stored response that is younger than the time to live, else uses the network.
    case cacheElseNetwork(TimeToLive)
    /// Delivers the stored response first, then the network's response.
    case cacheThenNetwork
    /// Uses the network. If that fails, returns the stored response of any age.
    case networkElseCache
    /// A cache by RFC 9111: private, unless the manager's `cacheMode` is shared.
    case http

    /// How long a stored response may be used.
    public enum TimeToLive: Hashable, Sendable {
        /// The time since it was stored. A response of exactly this age is expired.
        case fixed(Duration)
        /// The time since it was last used.
        case sliding(Duration)
        /// No limit.
        case forever
    }
}

/// Whether redirects (RFC 9110 §15.4) are followed, and how many.
public enum RedirectPolicy: Hashable, Sendable {
    /// The manager's rule. For a manager, ``follow(limit:)`` with 20 hops. The default.
    case automatic
    /// Redirects are not followed; the call returns the redirect response.
    case none
    /// Follows at most this many hops. One more fails with ``NetworkError/Kind/redirect``.
    case follow(limit: Int)
}

/// Credentials of a request.
public enum Authentication: Hashable, Sendable {
    /// Basic (RFC 7617), sent without a challenge.
    case basic(user: String, password: String)
    /// Digest (RFC 7616), sent after a challenge of the server. Later requests of the same user to the same origin need
    /// no challenge, except with the `-sess` variants. Of several challenges, the first with MD5, SHA-256, SHA-512-256 or
    /// SHA-512 and `qop=auth` is answered (§3.7).
    case digest(user: String, password: String)
    /// A bearer token (RFC 6750).
    case bearer(token: String)
    /// The strongest of the schemes the server offers (`CURLAUTH_ANY`).
    case any(user: String, password: String)

    /// Whether the schemes are the same and the credentials have the same bytes.
    public static func == (lhs: Authentication, rhs: Authentication) -> Bool {
        switch (lhs, rhs) {
        case (.basic(let user, let password), .basic(let otherUser, let otherPassword)),
            (.digest(let user, let password), .digest(let otherUser, let otherPassword)),
            (.any(let user, let password), .any(let otherUser, let otherPassword)):
            user.hasSameBytes(as: otherUser) && password.hasSameBytes(as: otherPassword)
        case (.bearer(let token), .bearer(let otherToken)): token.hasSameBytes(as: otherToken)
        case (.basic, _), (.digest, _), (.any, _), (.bearer, _): false
        }
    }
}

/// The order in which requests that wait for a connection are started.
public enum RequestPriority: Int, Hashable, Sendable, Comparable, CaseIterable {
    /// Started after all others.
    case low
    /// The default.
    case normal
    /// Started before all others.
    case high

    /// Orders priorities from ``low`` to ``high``.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// The HTTP version a request asks for.
public enum HTTPVersionPolicy: Hashable, Sendable {
    /// The manager's choice. For a manager, HTTP/2 over TLS when the server agrees (ALPN), else HTTP/1.1
    /// (`CURL_HTTP_VERSION_2TLS`). The default.
    case automatic
    /// HTTP/1.1 only.
    case http1
    /// HTTP/2 without negotiation, also in clear text (`CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE`).
    case http2PriorKnowledge
    /// HTTP/3 over QUIC (RFC 9114). When it does not connect at once, HTTP/2 and HTTP/1.1 are tried in parallel
    /// (`CURL_HTTP_VERSION_3`). The first established connection is used; an open one is reused, whatever its version.
    ///
    /// An origin that responded over TCP, or whose HTTP/3 connection was lost, is reached over TCP for five minutes or
    /// until the network changes, so that a network without UDP causes the delay only once. With a proxy, a Unix domain
    /// socket or an `http` URL this is the same as ``automatic``. Without HTTP/3 in libcurl, making a manager or a request
    /// with it fails with ``NetworkError/Kind/unsupported``. Nothing is sent before the handshake has ended (no 0-RTT).
    case http3
    /// HTTP/3 only (`CURL_HTTP_VERSION_3ONLY`), for `https` URLs and without a proxy. Needs HTTP/3 in libcurl, as
    /// ``http3`` does.
    case http3Only
}

extension HTTPResponse {
    /// The version of a received response.
    public enum Version: String, Hashable, Sendable, CustomStringConvertible {
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
}

/// Which proxy requests go through.
public enum ProxyPolicy: Hashable, Sendable, ExpressibleByStringLiteral {
    /// The proxies of `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, read once. `HTTP_PROXY` in capitals is
    /// ignored, because a CGI request can set it.
    case environment
    /// No proxy.
    case direct
    /// The URL of a proxy: `http://`, `https://`, `socks4://`, `socks4a://`, `socks5://`, `socks5h://`, with user and
    /// password if needed.
    case url(String)

    /// The URL of a proxy; an empty string means ``direct``.
    public init(stringLiteral value: String) { self = value.isEmpty ? .direct : .url(value) }

    /// Whether the policies are the same; URLs are compared byte by byte.
    public static func == (lhs: ProxyPolicy, rhs: ProxyPolicy) -> Bool {
        switch (lhs, rhs) {
        case (.environment, .environment), (.direct, .direct): true
        case (.url(let one), .url(let other)): one.hasSameBytes(as: other)
        case (.environment, _), (.direct, _), (.url, _): false
        }
    }
}

/// What happens to a request while an equal one is in flight.
///
/// Requests are equal when their method, address, parameters, own headers, body and settings are. To be shared, they also
/// need equal credentials, cache partition and row. Requests with a stream as body are never equal. Requests that stream
/// their response are never shared.
public enum DuplicatePolicy: Hashable, Sendable {
    /// Both are sent. The default.
    case allow
    /// Both calls get the same response. The shared request is cancelled only when all its callers are, and has the
    /// highest of their priorities. As a manager's setting this applies to safe methods (RFC 9110 §9.2.1) only, so that
    /// two orders are both sent. Set on the entity or the call it applies to every method. Suspending one of the calls
    /// does not pause the shared transfer.
    case coalesce
    /// The second call fails at once with ``NetworkError/Kind/duplicate``, for example when a button is pressed twice.
    case reject
}

extension RequestOptions {
    /// Whether a request is sealed, and by which of the manager's sealers.
    public enum Sealing: Hashable, Sendable {
        /// The choice of the table's row, else that of the manager. The default.
        case automatic
        /// Neither the request nor its response is sealed, whatever the rows and the manager say.
        case unsealed
        /// Sealed by the manager's sealer of this name.
        case sealed(by: String)
    }

    /// Which authenticator adds its token to a request.
    public enum AuthenticatorChoice: Hashable, Sendable {
        /// The row's, else the manager's. The default.
        case automatic
        /// No authenticator.
        case off
        /// The manager's authenticator of this name.
        case named(String)
    }

    /// Which signer signs a request.
    public enum SignerChoice: Hashable, Sendable {
        /// The row's, else the manager's. The default.
        case automatic
        /// No signer.
        case off
        /// The manager's signer of this name.
        case named(String)
    }
}

/// The name of ``RequestOptions/Sealing`` in 1.0.
public typealias SealingPolicy = RequestOptions.Sealing

/// The name of ``RequestOptions/AuthenticatorChoice`` in 1.0.
public typealias AuthenticatorPolicy = RequestOptions.AuthenticatorChoice
