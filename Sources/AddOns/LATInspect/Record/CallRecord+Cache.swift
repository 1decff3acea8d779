public import ResponseCache

extension CallRecord.CacheDecision {
    init(_ verdict: CacheExplanation.Verdict, at time: Duration, hop: Int) {
        self.init(action: Action(verdict), reason: nil, section: verdict.section, time: time, hop: hop)
        switch verdict {
        case .answers, .answersFirst: break
        case .answersStale(let isRefreshed): reason = isRefreshed ? "it is refreshed in the background" : nil
        case .revalidates(let miss), .fetches(let miss), .fails(let miss): reason = miss.description
        case .bypasses(let refusal): reason = refusal.description
        }
    }
}

extension CallRecord.CacheDecision.Action {
    /// What a verdict of the cache amounts to.
    public init(_ verdict: CacheExplanation.Verdict) {
        self =
            switch verdict {
            case .answers: .hit
            case .answersStale: .stale
            case .answersFirst: .first
            case .revalidates: .revalidation
            case .fetches: .miss
            case .fails: .failure
            case .bypasses: .bypass
            }
    }
}

// The sections that decisions belong to. A policy of the app may decide otherwise than the section, for example with its own
// time to live.

extension CacheExplanation.Verdict {
    fileprivate var section: String? {
        switch self {
        case .answers: "RFC 9111 §4.2"
        case .answersStale(let isRefreshed): isRefreshed ? "RFC 5861 §3" : "RFC 9111 §4.2.4"
        case .answersFirst: nil
        case .revalidates(let miss): miss.section ?? "RFC 9111 §4.3"
        case .fetches(let miss), .fails(let miss): miss.section
        case .bypasses(let refusal): refusal.section
        }
    }
}

extension CacheMiss {
    fileprivate var section: String? {
        switch self {
        case .nothingStored, .older: "RFC 9111 §4"
        case .requestNoStore: "RFC 9111 §5.2.1.5"
        case .requestNoCache: "RFC 9111 §5.2.1.4"
        case .noCache: "RFC 9111 §5.2.2.4"
        case .otherVariant: "RFC 9111 §4.1"
        case .refused(let refusal): refusal.section
        case .expired: "RFC 9111 §4.2"
        case .olderThanWanted: "RFC 9111 §5.2.1.1"
        case .notFreshEnough: "RFC 9111 §5.2.1.3"
        case .markedExpired: "RFC 9111 §4.4"
        case .fromTheFuture: "RFC 9111 §4.2.3"
        case .condition: "RFC 9111 §4.3.2"
        case .range: "RFC 9110 §14.2"
        case .incomplete: "RFC 9111 §3.3"
        case .policy, .otherCredentials, .redirected, .bodyLost: nil
        }
    }
}

extension CacheRefusal {
    var section: String? {
        switch self {
        case .method: "RFC 9110 §9.2.3"
        case .requestNoStore: "RFC 9111 §5.2.1.5"
        case .noStore: "RFC 9111 §5.2.2.5"
        case .privateAnswer: "RFC 9111 §5.2.2.7"
        case .authorization: "RFC 9111 §3.5"
        case .status, .noFreshness: "RFC 9111 §3"
        case .notUnderstood: "RFC 9111 §5.2.2.3"
        case .variesOnEverything: "RFC 9111 §4.1"
        case .incomplete, .notReadToEnd: "RFC 9111 §3.3"
        case .invalidated: "RFC 9111 §4.4"
        case .policy, .requestBody, .noKey, .businessFailure, .unjudgedStream, .tooLarge, .queueFull, .storeFailed: nil
        }
    }
}
