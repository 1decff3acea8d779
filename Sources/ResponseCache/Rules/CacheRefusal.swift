import HTTPCore

/// Why an answer is not stored, or not used though it was.
public enum CacheRefusal: Error, Hashable {
    /// The policy in force stores nothing.
    case policy
    /// Answers to this method are not stored, or nobody asked for it.
    case method(String)
    /// The body of the request can be read only by sending it, so that two requests cannot be told apart.
    case requestBody
    /// The URL is none of http or https; or the system has no digest for its key.
    case noKey
    /// The request says `no-store`.
    case requestNoStore
    /// The answer says `no-store`.
    case noStore
    /// The answer says `private`, and the cache is shared (RFC 9111 §5.2.2.7).
    case privateAnswer
    /// The request has credentials, the cache is shared, and the answer does not allow it (RFC 9111 §3.5).
    case authorization
    /// Answers of this status are not stored: parts, answers to a condition, and errors.
    case status(Int)
    /// The answer says `must-understand`, and its status is unknown here (RFC 9111 §5.2.2.3).
    case notUnderstood(status: Int)
    /// The answer says `Vary: *`: no request is like another.
    case variesOnEverything
    /// The answer says neither for how long it is fresh nor how to ask for changes.
    case noFreshness
    /// The envelope or the judge takes the answer for a failure.
    case businessFailure
    /// The envelope or the judge has to see all of the answer, which comes as a stream.
    case unjudgedStream
    /// The body ended before its announced length.
    case incomplete
    /// The stream was not read to its end.
    case notReadToEnd
    /// The answer is larger than the store takes; the most bytes that it takes.
    case tooLarge(limit: Int64)
    /// Too much waited to be written.
    case queueFull
    /// The store failed; its error went to the manager's `cacheObserver`.
    case storeFailed
}

extension CacheRefusal {
    /// The reason that an error of a store's writer is.
    package init(writing error: any Error) {
        if let error = (error as? NetworkError)?.underlying as? CacheEntryTooLarge {
            self = .tooLarge(limit: error.limit)
        } else {
            self = .storeFailed
        }
    }
}

extension CacheRefusal: CustomStringConvertible {
    /// The reason as the end of a sentence: `the answer says no-store`.
    public var description: String {
        switch self {
        case .policy: "the policy stores nothing"
        case .method(let method): "answers to \(method) are not stored unless the request asks for it"
        case .requestBody: "the body of the request can be read only by sending it"
        case .noKey: "its URL is none of http or https, or the system has no digest for its key"
        case .requestNoStore: "the request says no-store"
        case .noStore: "the answer says no-store"
        case .privateAnswer: "the answer says private, and the cache is shared"
        case .authorization: "the request has credentials, and the answer does not say that a shared cache may keep it"
        case .status(let status): "answers of status \(status) are not stored"
        case .notUnderstood(let status):
            "the answer says must-understand, and status \(status) is unknown to this cache"
        case .variesOnEverything: "the answer says Vary: *"
        case .noFreshness: "the answer has neither a freshness lifetime nor a validator"
        case .businessFailure: "the envelope or the judge takes the answer for a failure"
        case .unjudgedStream: "the envelope or the judge has to see all of an answer, and this one came as a stream"
        case .incomplete: "the body ended before its announced length"
        case .notReadToEnd: "the stream was not read to its end"
        case .tooLarge(let limit): "the answer is larger than the \(limit) bytes that the store takes"
        case .queueFull: "too much waited to be written"
        case .storeFailed: "the store failed"
        }
    }
}
