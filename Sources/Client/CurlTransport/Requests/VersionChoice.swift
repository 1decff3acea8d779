import CLibcurl
internal import HTTPCore
import Platform
import Synchronization

/// Chooses the HTTP versions that libcurl may use for a request (`CURLOPT_HTTP_VERSION`), and remembers the origins
/// where HTTP/3 lost the race against TCP.
///
/// Where UDP is blocked, as in many networks, a race delays every new connection. An origin that answered over TCP, or
/// whose HTTP/3 connection failed, is therefore not raced for a while.
final class VersionChoice: Sendable {
    /// The version settings of a request.
    struct Choice: Equatable {
        /// The value of `CURLOPT_HTTP_VERSION`.
        var value: Int
        /// Whether HTTP/3 and HTTP/2 are tried in parallel.
        var isRace = false

        /// Whether HTTP/3 may be spoken.
        var includesHTTP3: Bool { value >= Int(CURL_HTTP_VERSION_3) }

        /// Whether HTTP/2 is spoken in clear text too.
        var hasPriorKnowledge: Bool { value == Int(CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE) }
    }

    /// The manager's policy for requests without one.
    let standard: HTTPVersionPolicy
    private let failedOrigins = Mutex(FailedHTTP3Origins())
    /// Whether any race was ever lost.
    private let hasLost = Atomic(false)

    init(_ configuration: EngineConfiguration) throws(NetworkError) {
        standard = configuration.version
        try Self.check(standard)
        if standard == .http3Only {
            if configuration.unixSocketPath != nil { throw Self.excluded("unixSocketPath") }
            if let newest = configuration.tls.maximumVersion, newest < .v1_3 {
                throw .invalidRequest(
                    "version = .http3Only needs TLS 1.3, and tls.maximumVersion is \(newest.rawValue); raise it, or use .automatic"
                )
            }
        }
    }

    static let automatic = automatic(hasHTTP2: GlobalCurl.has(CURL_VERSION_HTTP2))

    /// libcurl's default. A libcurl without HTTP/2 refuses `CURL_HTTP_VERSION_2TLS`.
    static func automatic(hasHTTP2: Bool) -> Choice {
        Choice(value: Int(hasHTTP2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1))
    }

    static let http1 = Choice(value: Int(CURL_HTTP_VERSION_1_1))
    /// HTTP/3 alone: for a request that sets it, or an alternative service that announced it.
    static let http3Only = Choice(value: Int(CURL_HTTP_VERSION_3ONLY))

    /// Tries HTTP/3 and HTTP/2 in parallel, unless HTTP/3 lost the race recently.
    func race(_ target: Target) -> Choice {
        let hasLost = failedOrigins.withLock { $0.contains(target.origin, .now) }
        return hasLost ? Self.automatic : Choice(value: Int(CURL_HTTP_VERSION_3), isRace: true)
    }

    func choice(
        for request: HTTPRequest, _ target: Target, proxy: ProxySettings.Proxy?, unixSocket: Bool
    ) throws(NetworkError) -> Choice {
        let policy = request.version == .automatic ? standard : request.version
        switch policy {
        case .automatic: return Self.automatic
        case .http1: return Self.http1
        case .http2PriorKnowledge: return Choice(value: Int(CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE))
        case .http3:
            try Self.check(policy)
            // HTTP/3 requires TLS, and libcurl cannot send it through a proxy.
            guard target.isSecure, proxy == nil, !unixSocket else { return Self.automatic }
            return race(target)
        case .http3Only:
            try Self.check(policy)
            guard target.isSecure else {
                throw .invalidRequest(
                    "version = .http3Only needs an https URL, and \(target.origin) is not one; use .automatic for it")
            }
            if proxy != nil { throw Self.excluded("a proxy") }
            if unixSocket { throw Self.excluded("unixSocketPath") }
            return Self.http3Only
        }
    }

    /// Records the result of a race. A response over a reused connection says nothing about it.
    ///
    /// - Returns: Whether this is the first lost race, so that a changed network has to be noticed from now on.
    func note(_ response: HTTPResponse, of target: Target) -> Bool {
        guard !response.timings.connectionReused else { return false }
        guard response.version == .http3 else { return noteLoss(of: target) }
        failedOrigins.withLock { $0.remove(target.origin) }
        return false
    }

    /// Records a failed connection. The next attempt uses HTTP/2, even if it was HTTP/2 that failed.
    ///
    /// - Returns: As for a response.
    func note(_ error: NetworkError, of target: Target) -> Bool {
        switch error.kind {
        case .connect, .connectionLost, .timeout, .protocolViolation:
            error.response == nil && noteLoss(of: target)
        default: false
        }
    }

    private func noteLoss(of target: Target) -> Bool {
        failedOrigins.withLock { $0.insert(target.origin, .now) }
        return !hasLost.exchange(true, ordering: .relaxed)
    }

    /// Forgets the lost races, since another network may allow UDP.
    func networkHasChanged() { failedOrigins.withLock { $0 = FailedHTTP3Origins() } }

    private static func check(_ policy: HTTPVersionPolicy) throws(NetworkError) {
        guard policy == .http3 || policy == .http3Only, !GlobalCurl.has(CURL_VERSION_HTTP3) else { return }
        throw NetworkError(
            .unsupported,
            message:
                "version = .\(policy) needs a libcurl that was built with HTTP/3 (ngtcp2 or quiche), and this one, "
                + "\(LibcurlInfo.current.version), was not; leave it out, or load another libcurl")
    }

    private static func excluded(_ other: String) -> NetworkError {
        .invalidRequest(
            "version = .http3Only and \(other) exclude each other; HTTP/3 connects to the server directly, over UDP")
    }
}

/// The origins where HTTP/3 lost the race recently. A pure value: the caller passes the time.
struct FailedHTTP3Origins: Sendable {
    static let limit = 1000
    /// How long an origin is not raced, in milliseconds.
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
