/// Why the stored responses cannot answer a request without the network.
public enum CacheMiss: Error, Hashable {
    /// Nothing is stored under the key of the request.
    case nothingStored
    /// The policy goes to the network first.
    case policy
    /// The request says `no-store`.
    case requestNoStore
    /// The request says `no-cache`, or `max-age=0`.
    case requestNoCache
    /// The stored response says `no-cache`: it must be validated before every use.
    case noCache
    /// The stored responses are for other values of at least one of these request fields. The names are in lower case;
    /// `credentials` stands for all credentials.
    case otherVariant(fields: [String])
    /// The stored responses are for other credentials, or the request has none.
    case otherCredentials
    /// A newer response to the same request is stored.
    case older
    /// The stored response is the last of a chain of redirects and does not answer the first hop, or the call does not follow so
    /// many.
    case redirected
    /// The rules of this policy would not have stored the response.
    case refused(CacheRefusal)
    /// The freshness or the time to live of the stored response ended this many seconds ago; 0 at the exact end.
    case expired(seconds: Double)
    /// The stored response is this many seconds older than the request's `max-age` allows.
    case olderThanWanted(seconds: Double)
    /// The stored response does not stay fresh for as long as the request's `min-fresh` demands.
    case notFreshEnough
    /// The stored response was marked as expired. Setting the clock back does not make it usable again.
    case markedExpired
    /// The stored response was received at a time that lies in the future: the clock was set back.
    case fromTheFuture
    /// Only the server can evaluate the request's own conditions.
    case condition
    /// Only the server can answer the request's `Range`.
    case range
    /// Only parts of the response are stored, and the request asks for more than they cover.
    case incomplete
    /// The body of the stored response is missing from the store.
    case bodyLost
}

extension CacheMiss: CustomStringConvertible {
    /// The reason as a clause: `it expired 12 seconds ago`.
    public var description: String {
        switch self {
        case .nothingStored: "nothing is stored for this request"
        case .policy: "the policy goes to the network first"
        case .requestNoStore: "the request says no-store"
        case .requestNoCache: "the request demands a response from the server (no-cache or max-age=0)"
        case .noCache: "the stored response says no-cache"
        case .otherVariant(let fields):
            fields.count == 1
                ? "Vary: the request differs in \(fields[0])"
                : "Vary: the request differs in at least one of \(fields.joined(separator: ", "))"
        case .otherCredentials: "the stored response is for other credentials"
        case .older: "a newer response is stored"
        case .redirected: "the stored response is the last of a chain of redirects"
        case .refused(let refusal): refusal.description
        case .expired(let seconds): "it expired \(Self.text(seconds)) ago"
        case .olderThanWanted(let seconds): "it is \(Self.text(seconds)) older than the request's max-age allows"
        case .notFreshEnough: "it does not stay fresh for as long as the request's min-fresh demands"
        case .markedExpired: "it was marked as expired"
        case .fromTheFuture: "its response time lies in the future: the clock was set back"
        case .condition: "only the server can evaluate the request's conditions"
        case .range: "only the server can answer the request's Range"
        case .incomplete: "only parts of it are stored, and the request asks for more"
        case .bodyLost: "its body is missing from the store"
        }
    }

    /// `0 seconds`, `1 second`, `12 seconds`, `5 minutes`, `3 hours`, `2 days`: whole numbers, rounded down.
    static func text(_ seconds: Double) -> String {
        let units = [(86_400.0, "day"), (3_600, "hour"), (60, "minute"), (1, "second")]
        let (size, name) = units.first { seconds >= $0.0 * 2 } ?? (1, "second")
        let count = Int64(min(max(0, seconds / size), 0x1p53))
        return "\(count) \(name)\(count == 1 ? "" : "s")"
    }
}
