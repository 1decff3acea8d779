import HTTPCore

/// Why a response is not stored, or why a stored one is not used.
public enum CacheRefusal: Error, Hashable {
    /// The policy stores nothing.
    case policy
    /// Responses to this method are stored only if the request asks for it; partial ones never.
    case method(String)
    /// The body of the request is a file, a stream or multipart, so it cannot be part of the key.
    case requestBody
    /// The URL is not http or https, or libcrypto cannot compute the digest for its key.
    case noKey
    /// The request says `no-store`.
    case requestNoStore
    /// The response says `no-store`.
    case noStore
    /// The cache is shared, and the response is for one user: it says `private` (RFC 9111 §5.2.2.7), or sets a cookie and says
    /// neither `public` nor `s-maxage`.
    case privateAnswer
    /// The request has credentials, and the response does not let a shared cache store it (RFC 9111 §3.5).
    case authorization
    /// Responses with this status are not stored: partial content, responses to a condition, and errors.
    case status(Int)
    /// The response says `must-understand`, and this cache does not know its status (RFC 9111 §5.2.2.3).
    case notUnderstood(status: Int)
    /// The response says `Vary: *`, which no request matches.
    case variesOnEverything
    /// The response has no explicit freshness lifetime. Without one, the policy `http` never stores or uses a 500, 502, 503
    /// or 504. It stores or uses any other response only if it is `public` or `private`, or if its status is heuristically
    /// cacheable and it has a validator or `no-cache` (RFC 9111 §3).
    case noFreshness
    /// The envelope, the judge or the statuses that the request accepts reject the response.
    case businessFailure
    /// The envelope or the judge needs the whole response, but it arrives as a stream.
    case unjudgedStream
    /// The body does not have its announced length, nothing shows that it is whole (`HTTPResponse.mayBeCut`), or it is a part
    /// although the status says otherwise.
    case incomplete
    /// The stream was not read to its end.
    case notReadToEnd
    /// Since its request was sent, the stored responses of its URL were invalidated or removed (RFC 9111 §4.4).
    case invalidated
    /// The response is larger than the store allows; `limit` is in bytes.
    case tooLarge(limit: Int64)
    /// Too many responses wait to be written.
    case queueFull
    /// The store failed. The manager's `cacheObserver` receives its error.
    case storeFailed
}

extension CacheRefusal {
    /// The refusal for an error of a store's writer.
    package init(writing error: any Error) {
        if let error = (error as? NetworkError)?.underlying as? CacheEntryTooLarge {
            self = .tooLarge(limit: error.limit)
        } else {
            self = .storeFailed
        }
    }
}

extension CacheRefusal: CustomStringConvertible {
    /// The reason as a clause: `the response says no-store`.
    public var description: String {
        switch self {
        case .policy: "the policy stores nothing"
        case .method(let method): "responses to \(method) are stored only if the request asks for it"
        case .requestBody: "the body of the request is not in memory and cannot be part of the key"
        case .noKey: "the URL is not http or https, or libcrypto cannot compute its key"
        case .requestNoStore: "the request says no-store"
        case .noStore: "the response says no-store"
        case .privateAnswer: "the response says private or sets a cookie, and the cache is shared"
        case .authorization: "the request has credentials, and the response does not let a shared cache store it"
        case .status(let status): "responses with status \(status) are not stored"
        case .notUnderstood(let status):
            "the response says must-understand, and this cache does not know status \(status)"
        case .variesOnEverything: "the response says Vary: *"
        case .noFreshness: "the response has no freshness lifetime, and this cache does not store it without one"
        case .businessFailure: "the accepted statuses, the envelope or the judge reject the response"
        case .unjudgedStream: "the envelope or the judge needs the whole response, but it came as a stream"
        case .incomplete: "the body does not have its announced length, may have been cut, or is only a part"
        case .notReadToEnd: "the stream was not read to its end"
        case .invalidated: "the stored responses of its URL were invalidated or removed after its request was sent"
        case .tooLarge(let limit): "the response is larger than the store's limit of \(limit) bytes"
        case .queueFull: "too many responses wait to be written"
        case .storeFailed: "the store failed"
        }
    }
}
