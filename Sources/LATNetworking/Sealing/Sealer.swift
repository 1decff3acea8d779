import CurlTransport
public import FoundationEssentials
public import HTTPCore

/// Seals the content of requests and opens that of replies, beside and within TLS.
///
/// ```swift
/// var configuration = CentralRequestManager.Configuration()
/// configuration.sealer = try AESGCMSealer(keys: ["k1": key], current: "k1")
/// ```
///
/// ``AESGCMSealer`` and ``ChaChaPolySealer`` are the ones to use. A server that has its own way gets a sealer of its
/// own: it sees the bytes of each body and decides what is sent in their place.
///
/// What it throws fails the call; anything but a ``NetworkError`` as ``NetworkError/Kind/integrity``.
public protocol Sealer: Sendable {
    /// What is sent in a request's place.
    ///
    /// - Parameters:
    ///   - body: the content, as it would be sent; `nil` for a request without any.
    ///   - request: the request, its address as it goes on the wire.
    func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest

    /// What a reply holds.
    ///
    /// - Parameters:
    ///   - body: the content as it came.
    ///   - response: the reply it came with.
    ///   - sealed: what ``seal(_:of:)`` made of the request that was sent.
    /// - Returns: `nil` for a reply that is not sealed and may be told as it is.
    func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) async throws -> OpenedReply?
}

/// What is sent in a request's place.
public struct SealedRequest: Sendable {
    /// The method of the request.
    public var method: HTTPMethod
    /// Path and query of the request, as on the wire.
    public var target: String
    /// The content; `nil` for none.
    public var body: Data?
    /// Laid over the request's headers; `nil` values remove.
    public var headers: HTTPHeaders
    /// What the sealer needs to know the reply by.
    public var token: Data

    /// Makes one.
    public init(
        method: HTTPMethod, target: String, body: Data?, headers: HTTPHeaders = HTTPHeaders(), token: Data = Data()
    ) {
        self.method = method
        self.target = target
        self.body = body
        self.headers = headers
        self.token = token
    }
}

/// What a reply held.
public struct OpenedReply: Sendable {
    /// The content.
    public var body: Data
    /// Laid over the reply's headers; `nil` values remove.
    public var headers: HTTPHeaders

    /// Makes one.
    public init(body: Data, headers: HTTPHeaders = HTTPHeaders()) {
        self.body = body
        self.headers = headers
    }
}

extension HTTPRequest {
    /// Path and query as they go on the wire.
    var wireTarget: String {
        let address = (URLReference.resolve("", against: url) ?? url).prefix { $0 != "#" }
        let rest = address.firstRange(of: "://").map { address[$0.upperBound...] } ?? address
        let target = rest.drop { $0 != "/" && $0 != "?" }
        return target.hasPrefix("/") ? String(target) : "/" + target
    }

    /// The Host field: the request's own, else host and port, without a port that is the scheme's own (RFC 9110 §7.2).
    var wireHost: String {
        if let host = headers["Host"] { return host }
        guard let origin = URLReference.origin(of: url), let slashes = origin.firstRange(of: "://") else { return "" }
        let host = String(origin[slashes.upperBound...])
        let standard = origin.hasPrefix("https:") ? ":443" : ":80"
        return host.hasSuffix(standard) ? String(host.dropLast(standard.count)) : host
    }
}
