import CLibcurl
import HTTPCore
import Platform
import Synchronization

/// Decides which versions of HTTP libcurl may speak for a request (`CURLOPT_HTTP_VERSION`), and remembers for which origins
/// HTTP/3 lost its race.
///
/// A race costs its delay whenever a new connection is made and the way is closed to UDP, which on many networks is always.
/// So an origin that answered over TCP is not raced for again for a while, nor one whose HTTP/3 connection broke off.
final class VersionChoice: Sendable {
    /// What a request is sent with.
    struct Choice: Equatable {
        /// For `CURLOPT_HTTP_VERSION`.
        var value: Int
        /// Whether HTTP/3 and HTTP/2 are tried beside each other.
        var isRace = false
    }

    /// The manager's choice for requests that have none.
    let standard: HTTPVersionPolicy
    private let losers = Mutex(LosingOrigins())

    /// - Throws: ``NetworkError/Kind/unsupported`` for a version that this libcurl lacks,
    ///   ``NetworkError/Kind/invalidRequest`` for settings that exclude each other.
    init(_ configuration: EngineConfiguration) throws(NetworkError) {
        standard = configuration.version
        try Self.check(standard)
        if standard == .http3Only {
            if configuration.unixSocketPath != nil { throw Self.excluded("unixSocketPath") }
            if let newest = configuration.tls.maximumVersion, newest < .v1_3 {
                throw .invalidRequest(
                    "version = .http3Only needs TLS 1.3, and tls.maximumVersion is \(newest.rawValue)")
            }
        }
    }

    /// The choice of a libcurl that is told nothing.
    static let automatic = Choice(value: Int(CURL_HTTP_VERSION_2TLS))

    /// HTTP/3 alone, at an address that is known to speak it.
    static let http3Only = Choice(value: CurlVersion.http3Only)

    /// HTTP/3 and HTTP/2 beside each other, unless HTTP/3 lost of late.
    func race(_ target: Target) -> Choice {
        let hasLost = losers.withLock { $0.contains(target.origin, .now) }
        return hasLost ? Self.automatic : Choice(value: CurlVersion.http3, isRace: true)
    }

    /// What a request is sent with.
    ///
    /// - Parameter proxy: the proxy on its way.
    /// - Throws: as ``init(_:)``, for the request's own settings.
    func choice(
        for request: HTTPRequest, _ target: Target, proxy: ProxySettings.Proxy?, unixSocket: Bool
    ) throws(NetworkError) -> Choice {
        let policy = request.version == .automatic ? standard : request.version
        switch policy {
        case .automatic: return Self.automatic
        case .http1: return Choice(value: Int(CURL_HTTP_VERSION_1_1))
        case .http2PriorKnowledge: return Choice(value: Int(CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE))
        case .http3:
            try Self.check(policy)
            // HTTP/3 is there over TLS only, and has no way through a proxy.
            guard target.isSecure, proxy == nil, !unixSocket else { return Self.automatic }
            return race(target)
        case .http3Only:
            try Self.check(policy)
            guard target.isSecure else {
                throw .invalidRequest("version = .http3Only needs an https URL; \(target.origin) is none")
            }
            if proxy != nil { throw Self.excluded("a proxy") }
            if unixSocket { throw Self.excluded("unixSocketPath") }
            return Self.http3Only
        }
    }

    /// Notes how a race went. An answer over a connection that was open before says nothing of it.
    func note(_ response: HTTPResponse, of target: Target) {
        guard !response.timings.connectionReused else { return }
        losers.withLock { losers in
            if response.version == .http3 { losers.remove(target.origin) } else { losers.insert(target.origin, .now) }
        }
    }

    /// Notes that no answer came. Whichever version it was, the next attempt is HTTP/2's.
    func note(_ error: NetworkError, of target: Target) {
        switch error.kind {
        case .connect, .connectionLost, .timeout, .protocolViolation:
            guard error.response == nil else { return }
            losers.withLock { $0.insert(target.origin, .now) }
        default: break
        }
    }

    /// Another network may let UDP through.
    func networkHasChanged() { losers.withLock { $0 = LosingOrigins() } }

    private static func check(_ policy: HTTPVersionPolicy) throws(NetworkError) {
        guard policy == .http3 || policy == .http3Only, !GlobalCurl.has(CURL_VERSION_HTTP3) else { return }
        throw NetworkError(
            .unsupported,
            message:
                "version = .\(policy) needs a libcurl that was built with HTTP/3 (ngtcp2 or quiche), and this one, "
                + "\(LibcurlFacts.current.version), was not; use .automatic, or load another libcurl")
    }

    private static func excluded(_ other: String) -> NetworkError {
        .invalidRequest(
            "version = .http3Only and \(other) exclude each other; HTTP/3 goes to the server itself, over UDP")
    }
}

/// The origins for which HTTP/3 lost of late. A value: it is told the time.
struct LosingOrigins: Sendable {
    /// The most that are kept.
    static let limit = 1000
    /// For so long an origin is not raced for, in milliseconds.
    static let pause: Int64 = 300_000

    private var until: [String: MonotonicTime] = [:]

    func contains(_ origin: String, _ now: MonotonicTime) -> Bool { until[origin].map { now < $0 } ?? false }

    mutating func insert(_ origin: String, _ now: MonotonicTime) {
        if until.count >= Self.limit, until[origin] == nil {
            until = until.filter { now < $0.value }
            if until.count >= Self.limit { until.removeAll() }
        }
        until[origin] = now + Self.pause
    }

    mutating func remove(_ origin: String) { until[origin] = nil }
}

/// `CURL_HTTP_VERSION_…`, with those that the headers of libcurl 7.88 lack or do not have as numbers.
enum CurlVersion {
    static let http3 = 30
    static let http3Only = 31
}
