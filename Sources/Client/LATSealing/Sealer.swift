import CurlTransport
public import FoundationEssentials
public import HTTPCore

/// Seals the content of requests and opens the content of replies, in addition to TLS.
///
/// ```swift
/// var configuration = CentralRequestManager.Configuration()
/// configuration.sealer = try AESGCMSealer(keys: ["k1": key], current: "k1")
/// ```
///
/// Prefer ``AEADSealer``. For a server with another format, write a sealer, which gets the bytes of each body and decides
/// what is sent instead.
///
/// An error that it throws fails the call; one that is not a ``NetworkError`` becomes ``NetworkError/Kind/integrity``.
public protocol Sealer: Sendable {
    /// Returns what is sent instead of a request's content.
    ///
    /// - Parameters:
    ///   - body: The content as it would be sent; `nil` for a request without content.
    ///   - request: The request, with its URL as it is sent.
    func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest

    /// Returns the content of a reply.
    ///
    /// - Parameters:
    ///   - body: The content as it was received.
    ///   - response: The reply without its body.
    ///   - sealed: What ``seal(_:of:)`` returned for the request.
    /// - Returns: `nil` for a reply that is not sealed and is delivered as it is.
    func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) async throws -> OpenedReply?
}

/// A sealed request.
public struct SealedRequest: Sendable {
    /// The method of the request.
    public var method: HTTPMethod
    /// Path and query of the request as on the wire, for a sealer that binds messages to them; empty for other sealers.
    public var target: String
    /// The content; `nil` for none.
    public var body: Data?
    /// Override the request's headers; `nil` values remove them.
    public var headers: HTTPHeaders
    /// What the sealer needs to recognise the reply.
    public var token: Data

    /// Creates a sealed request. Only the method and the body are needed.
    public init(
        method: HTTPMethod, target: String = "", body: Data?, headers: HTTPHeaders = HTTPHeaders(), token: Data = Data()
    ) {
        self.method = method
        self.target = target
        self.body = body
        self.headers = headers
        self.token = token
    }
}

/// The opened content of a reply.
public struct OpenedReply: Sendable {
    /// The content.
    public var body: Data
    /// Override the reply's headers; `nil` values remove them.
    public var headers: HTTPHeaders

    /// Creates an opened reply.
    public init(body: Data, headers: HTTPHeaders = HTTPHeaders()) {
        self.body = body
        self.headers = headers
    }
}

extension HTTPRequest {
    /// The path and query as they are sent.
    var wireTarget: String {
        let url = UnixAddress.seen(url)
        let target = URLParts(URLReference.resolve("", against: url) ?? url).target
        // libcurl drops an empty query when it resolves a reference, but sends it.
        return URLParts(url).query?.isEmpty == true && !target.contains("?") ? target + "?" : target
    }

    /// The Host field: the request's own, or host and port without the scheme's default port (RFC 9110 §7.2).
    var wireHost: String {
        if let host = headers["Host"] { return host }
        let origin = URLParts(URLReference.origin(of: UnixAddress.seen(url)) ?? "")
        guard var host = origin.host.map(String.init), let scheme = origin.scheme, let port = origin.port else {
            return ""
        }
        // The zone of an IPv6 address is not sent (RFC 6874 §4).
        if let percent = host.firstIndex(of: "%"), let bracket = host.firstIndex(of: "]") {
            host.removeSubrange(percent..<bracket)
        }
        return port == URLParts.standardPort(String(scheme)) ? host : host + ":" + port
    }
}
