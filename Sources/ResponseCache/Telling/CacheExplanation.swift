public import FoundationEssentials
public import HTTPCore

/// What a cache would do with a request now, and why: what `manager.cache.explain` tells.
///
/// ```swift
/// let explanation = try await manager.cache.explain("https://api.example.org/cities")
/// print(explanation)                                   // for a person
/// if case .fetches(.expired(let seconds)) = explanation.verdict { … }
/// ```
///
/// The same rules give it that decide when the request is sent. Bodies are not read for it: one that turns out to be
/// damaged is a miss when it is.
public struct CacheExplanation: Sendable {
    /// What the cache would do.
    public enum Verdict: Hashable, Sendable {
        /// The answer is what is stored; nothing is sent.
        case answers
        /// The same, stale, as request or server allow; `isRefreshed`: it is fetched anew meanwhile.
        case answersStale(isRefreshed: Bool)
        /// What is stored is delivered first, and the network is asked all the same (`.cacheThenNetwork`).
        case answersFirst
        /// The server is asked whether what is stored is still right.
        case revalidates(CacheMiss)
        /// The request is sent.
        case fetches(CacheMiss)
        /// There is no answer: the network may not be asked (`.cacheOnly`: an error; `only-if-cached`: 504).
        case fails(CacheMiss)
        /// The request is sent, and its answer is not stored whatever it says.
        case bypasses(CacheRefusal)
    }

    /// Who has set the policy in force.
    public enum PolicySource: String, Hashable, Sendable {
        /// The call, its request or its entity.
        case call
        /// The row of a domain or server.
        case row
        /// The manager's configuration.
        case manager
    }

    /// A stored answer.
    public struct Stored: Sendable {
        /// The answer, its fields and where it lies, without its body.
        public var entry: CacheEntry
        /// Why it is not the answer; `nil` for the one that is, or stands in.
        public var miss: CacheMiss?
        /// Its age in seconds, by RFC 9111 §4.2.3 where the policy is `.http`, else since it came or, for a sliding time
        /// to live, was used last.
        public var age: Double
        /// For how many seconds it is good: by the server's fields where the policy is `.http`, else by the policy's time
        /// to live; `nil` for no end.
        public var lifetime: Double?

        /// When its time is over; `nil` for no end. In the past for one that has expired.
        public func expiry(at now: Date) -> Date? { lifetime.map { now.addingTimeInterval($0 - age) } }
    }

    /// Why and when an answer was not stored.
    public struct Refusal: Hashable, Sendable {
        /// Why.
        public var reason: CacheRefusal
        /// When, by the clock of the cache.
        public var time: Date
    }

    /// The method of the request.
    public var method: HTTPMethod
    /// The URL of the request, canonical, without user information.
    public var url: String
    /// The policy in force.
    public var policy: CachePolicy
    /// Who has set it.
    public var policySource: PolicySource
    /// The partition that is searched; `nil` for everybody's.
    public var partition: String?
    /// Whether the request has credentials that count: its answers are found again by the same ones only.
    public var hasCredentials: Bool
    /// When this was, by the clock of the cache.
    public var time: Date
    /// What would happen.
    public var verdict: Verdict
    /// Whether what is stored would stand in if the network failed.
    public var standsIn = false
    /// What is stored under the key of the request: one for each variant, the one stored last first.
    public var stored: [Stored] = []
    /// What is stored of the same URL under other keys: for other partitions, methods, bodies, versions.
    public var others: [CacheEntry] = []
    /// Why the last answer was not stored; `nil` when a later one was, when none was refused since the manager was made, and
    /// when so many others were since that it is forgotten.
    public var lastRefusal: Refusal?
}

extension CacheExplanation {
    /// The request that is explained, as it comes to the cache.
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

    /// An explanation without what is stored: the request goes by the cache.
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

    /// An explanation of what the rules make of what is stored.
    ///
    /// - Parameters:
    ///   - entries: what is stored under the key of the request, the one stored last first.
    ///   - others: what is stored of its URL under other keys.
    package init(
        _ question: Question, entries: [CacheEntry], others: [CacheEntry] = [], lastRefusal: RefusalLog.Note? = nil,
        at now: Date
    ) {
        self.init(question, bypasses: .policy, at: now)
        self.others = others
        // Where a later answer was stored, the refusal is history.
        if let note = lastRefusal, !entries.contains(where: { $0.responseTime > note.time }) {
            self.lastRefusal = Refusal(reason: note.refusal, time: note.time)
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
                    VaryRule.miss(request, question.identity, among: [entry]) {
                        TimeToLiveRule.isStorable(status: $0.status)
                    }
                }
            let life = TimeToLiveRule.life(of: entry, timeToLive)
            let start = life?.start ?? entry.responseTime
            return Stored(
                entry: entry, miss: miss, age: max(0, time.timeIntervalSince(start)), lifetime: life?.seconds)
        }
    }
}
