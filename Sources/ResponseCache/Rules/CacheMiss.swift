/// Why what is stored does not answer a request by itself.
public enum CacheMiss: Error, Hashable {
    /// Nothing is stored under the key of the request.
    case nothingStored
    /// The policy in force asks the network first.
    case policy
    /// The request says `no-store`.
    case requestNoStore
    /// The request says `no-cache`, or `max-age=0`.
    case requestNoCache
    /// The stored answer says `no-cache`: the server is asked each time.
    case noCache
    /// What is stored is for other values of one of these request fields, which `Vary` names; in lower case.
    case otherVariant(fields: [String])
    /// What is stored is for a sender with other credentials, or for one with some where this one has none.
    case otherCredentials
    /// Another stored answer to the same request came later.
    case older
    /// What is stored is the end of a way with redirects, and no answer to the first hop.
    case redirected
    /// By these rules the answer would not have been stored.
    case refused(CacheRefusal)
    /// It has been stale for so many seconds, or its time to live has been over for so long; 0 at the last moment.
    case expired(seconds: Double)
    /// It is older than the `max-age` of the request allows, by so many seconds.
    case olderThanWanted(seconds: Double)
    /// It does not stay fresh for as long as the `min-fresh` of the request wants.
    case notFreshEnough
    /// It was found expired or outdated before; that the clock was put back since does not make it good again.
    case markedExpired
    /// It was stored at a time that is still to come: the clock was put back.
    case fromTheFuture
    /// Only the server can answer the request's own conditions.
    case condition
    /// Only the server can answer the request's `Range`.
    case range
    /// Only parts of it are stored, and the request asks for more than lies within them.
    case incomplete
    /// Its body is gone from the store.
    case bodyLost
}

extension CacheMiss: CustomStringConvertible {
    /// The reason as a clause: `it expired 12 seconds ago`.
    public var description: String {
        switch self {
        case .nothingStored: "nothing is stored for this request"
        case .policy: "the policy asks the network first"
        case .requestNoStore: "the request says no-store"
        case .requestNoCache: "the request asks for an answer of the server (no-cache or max-age=0)"
        case .noCache: "the stored answer says no-cache"
        case .otherVariant(let fields):
            fields.count == 1
                ? "Vary: the request differs in \(fields[0])"
                : "Vary: the request differs in one of \(fields.joined(separator: ", "))"
        case .otherCredentials: "what is stored is for other credentials"
        case .older: "another one came later"
        case .redirected: "what is stored is the end of a way with redirects"
        case .refused(let refusal): refusal.description
        case .expired(let seconds): "it expired \(Self.text(seconds)) ago"
        case .olderThanWanted(let seconds): "it is \(Self.text(seconds)) older than the max-age of the request"
        case .notFreshEnough: "it does not stay fresh for the min-fresh of the request"
        case .markedExpired: "it was found expired or outdated before"
        case .fromTheFuture: "it was stored at a time that is still to come: the clock was put back"
        case .condition: "only the server can answer the conditions of the request"
        case .range: "only the server can answer the Range of the request"
        case .incomplete: "only parts of it are stored, and the request asks for more"
        case .bodyLost: "its body is gone from the store"
        }
    }

    /// `0 seconds`, `1 second`, `12 seconds`, `5 minutes`, `3 hours`, `2 days`: whole numbers, cut.
    static func text(_ seconds: Double) -> String {
        let units = [(86_400.0, "day"), (3_600, "hour"), (60, "minute"), (1, "second")]
        let (size, name) = units.first { seconds >= $0.0 * 2 } ?? (1, "second")
        let count = Int64(min(max(0, seconds / size), 0x1p53))
        return "\(count) \(name)\(count == 1 ? "" : "s")"
    }
}
