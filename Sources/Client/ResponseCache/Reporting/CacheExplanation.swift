public import FoundationEssentials
public import HTTPCore

/// What a cache would do with a request now, and why: the result of `manager.cache.explain`.
///
/// ```swift
/// let explanation = try await manager.cache.explain("https://api.example.org/cities")
/// print(explanation)                                   // as readable text
/// if case .fetches(.expired(let seconds)) = explanation.verdict { print(seconds) }
/// ```
///
/// The rules are the same as for a request that is sent. Bodies are not read, so a damaged one goes unnoticed here but is a
/// miss when the request is sent.
public struct CacheExplanation: Sendable {
    /// What the cache would do.
    public enum Verdict: Hashable, Sendable {
        /// A stored response is used, and nothing is sent.
        case answers
        /// A stale stored response is used, as the request or the server allows. With `isRefreshed` it is revalidated in the
        /// background.
        case answersStale(isRefreshed: Bool)
        /// A stored response is delivered first, and the request is sent too (`.cacheThenNetwork`).
        case answersFirst
        /// A conditional request revalidates the stored response.
        case revalidates(CacheMiss)
        /// The request is sent.
        case fetches(CacheMiss)
        /// Nothing can answer without the network, which may not be used: an error with `.cacheOnly`, a 504 with
        /// `only-if-cached`.
        case fails(CacheMiss)
        /// The request is sent, and its response is never stored.
        case bypasses(CacheRefusal)
    }

    /// Where the policy was set.
    public enum PolicySource: String, Hashable, Sendable {
        /// The call, its request or its entity.
        case call
        /// The row of a domain or server.
        case row
        /// The manager's configuration.
        case manager
    }

    /// A stored response.
    public struct Stored: Sendable {
        /// The entry, without its body.
        public var entry: CacheEntry
        /// Why the response is not used. `nil` for the one that is used, and with `.networkElseCache` for the one that stands
        /// in.
        public var miss: CacheMiss?
        /// The age in seconds: by RFC 9111 §4.2.3 with `.http`, else the time since the response or, with a sliding time to
        /// live, since its last use.
        public var age: Double
        /// How long the response is usable, in seconds: the freshness lifetime with `.http`, else the policy's time to live;
        /// `nil` when it has no end.
        public var lifetime: Double?

        /// When the lifetime ends or ended; `nil` when it has no end.
        public func expiry(at now: Date) -> Date? { lifetime.map { now.addingTimeInterval($0 - age) } }
    }

    /// Why and when a response was not stored.
    public struct Refusal: Hashable, Sendable {
        /// The reason.
        public var reason: CacheRefusal
        /// The time, by the clock of the cache.
        public var time: Date
    }

    /// The method of the request.
    public var method: HTTPMethod
    /// The normalized URL of the request, without user information.
    public var url: String
    /// The policy of the request.
    public var policy: CachePolicy
    /// Where the policy was set.
    public var policySource: PolicySource
    /// The partition of the look-up; `nil` for none.
    public var partition: String?
    /// Whether the request has credentials without a partition, so that its responses match only the same credentials.
    public var hasCredentials: Bool
    /// The time of the explanation, by the clock of the cache.
    public var time: Date
    /// What the cache would do.
    public var verdict: Verdict
    /// Whether a stored response would stand in if the network failed.
    public var standsIn = false
    /// The responses under the key of the request: one for each variant, newest first.
    public var stored: [Stored] = []
    /// The responses of the same URL under other keys: for other partitions, methods, bodies or versions.
    public var others: [CacheEntry] = []
    /// The stored response that the request would offer as its compression dictionary (RFC 9842); `nil` for none.
    public var dictionary: CacheEntry?
    /// Why the last response was not stored. `nil` when it was stored, when no response was refused since the manager was
    /// made, and when the refusal is forgotten: the manager remembers the refusals of 256 keys.
    public var lastRefusal: Refusal?
}

extension CacheExplanation {
    /// The request to explain, as the cache receives it.
    package struct Question: Sendable {
        package var request: HTTPRequest
        package var identity: RequestIdentity
        package var policy: CachePolicy
        package var policySource: PolicySource
        package var servesStaleWhenDisconnected = false
        package var mode = CacheMode.private

        package init(
            _ request: HTTPRequest, _ identity: RequestIdentity, _ policy: CachePolicy, from source: PolicySource,
            servesStaleWhenDisconnected: Bool = false, _ mode: CacheMode = .private
        ) {
            self.mode = mode
            self.request = request
            self.identity = identity
            self.policy = policy
            policySource = source
            self.servesStaleWhenDisconnected = servesStaleWhenDisconnected
        }
    }

    package init(_ question: Question, bypasses refusal: CacheRefusal, at now: Date) {
        method = question.request.method
        url = CanonicalURL(question.request.url)?.text ?? question.request.url
        policy = question.policy
        policySource = question.policySource
        partition = question.identity.partition
        hasCredentials = question.identity.credentials != nil
        time = now
        verdict = policy == .cacheOnly ? .fails(.refused(refusal)) : .bypasses(refusal)
    }

    /// Explains what the rules decide for the entries under the key of the request, newest first.
    package init(
        _ question: Question, entries: [CacheEntry], others: [CacheEntry] = [], lastRefusal: Refusal? = nil,
        at now: Date
    ) {
        self.init(question, bypasses: .policy, at: now)
        self.others = others
        // A refusal is outdated once a later response is stored.
        if let lastRefusal, !entries.contains(where: { $0.responseTime > lastRefusal.time }) {
            self.lastRefusal = lastRefusal
        }
        if policy == .http {
            explainRules(question, entries)
        } else {
            explainPolicy(question, entries)
        }
    }

    private mutating func explainRules(_ question: Question, _ entries: [CacheEntry]) {
        let request = question.request
        var chosen: CacheKey?
        var found: CacheMiss?
        switch CacheStrategy(request, question.identity, entries: entries, at: time, question.mode) {
        case .answer(let answer):
            verdict = answer.isStale ? .answersStale(isRefreshed: answer.refreshes) : .answers
            chosen = answer.entry.key
        case .gatewayTimeout(let miss):
            (verdict, found) = (.fails(miss), miss)
        case .forward(let forward):
            (chosen, found) = (forward.candidate?.key, forward.miss)
            verdict = forward.isConditional ? .revalidates(forward.miss) : .fetches(forward.miss)
            standsIn =
                forward.candidate.map {
                    CacheStrategy.mayStandIn(
                        $0, for: request, at: time, atAnyAge: question.servesStaleWhenDisconnected, question.mode)
                } ?? false
        }
        let candidates = entries.map { entry in
            let control = CacheControl(entry.headers, question.mode)
            return (entry, control, CacheStrategy.mismatch(entry, control, request, question.identity, question.mode))
        }
        chosen = chosen ?? candidates.first { $0.2 == nil }?.0.key
        stored = candidates.map { entry, control, mismatch in
            let freshness = Freshness(of: entry, control: control, at: time)
            return Stored(
                entry: entry, miss: entry.key == chosen ? found : mismatch ?? .older, age: freshness.age,
                lifetime: freshness.lifetime)
        }
    }

    private mutating func explainPolicy(_ question: Question, _ entries: [CacheEntry]) {
        let request = question.request
        var timeToLive = CachePolicy.TimeToLive.forever
        if case .cacheElseNetwork(let own) = policy { timeToLive = own }
        let finding = TimeToLiveRule.find(request, question.identity, among: entries, within: timeToLive, at: time)
        let chosen: CacheKey?
        var found: CacheMiss?
        switch finding {
        case .usable(let entry): chosen = entry.key
        case .unusable(let miss, let entry): (chosen, found) = (entry?.key, miss)
        }
        switch policy {
        case .networkOnly: verdict = .bypasses(.policy)
        case .writeOnly: verdict = .fetches(.policy)
        case .cacheOnly: verdict = found.map { .fails($0) } ?? .answers
        case .cacheElseNetwork: verdict = found.map { .fetches($0) } ?? .answers
        case .cacheThenNetwork: verdict = found.map { .fetches($0) } ?? .answersFirst
        case .networkElseCache:
            verdict = .fetches(.policy)
            standsIn = found == nil
        case .http: break
        }
        let isRead = policy != .networkOnly && policy != .writeOnly
        stored = entries.map { entry in
            let miss: CacheMiss? =
                if entry.key == chosen {
                    isRead ? found : .policy
                } else {
                    VaryRule.miss(request, question.identity, among: [entry])
                }
            let life = TimeToLiveRule.life(of: entry, timeToLive)
            let start = life?.start ?? entry.responseTime
            return Stored(
                entry: entry, miss: miss, age: max(0, time.timeIntervalSince(start)), lifetime: life?.seconds)
        }
    }
}
