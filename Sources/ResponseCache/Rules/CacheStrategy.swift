package import FoundationEssentials
package import HTTPCore

/// What a cache by RFC 9111 does with a request: a value that is made of the request, of what is stored for it, and of the
/// time. Somebody else acts.
package enum CacheStrategy: Sendable {
    /// The stored response is the answer.
    case answer(Answer)
    /// The request goes to the network.
    case forward(Forward)
    /// `only-if-cached`, and nothing can be used: 504 (§5.2.1.7).
    case gatewayTimeout(CacheMiss)

    /// An answer from what is stored.
    package struct Answer: Sendable {
        /// The stored response.
        package var entry: CacheEntry
        /// What it says of its use.
        package let control: CacheControl
        /// In which form it is given.
        package var form = Form.whole
        /// Whether it is stale, and that is allowed.
        package var isStale = false
        /// Whether it is to be refreshed meanwhile (RFC 5861 §3).
        package var refreshes = false
        /// Its age, for the field of that name.
        package var age: Double

        /// An answer as it is.
        package init(entry: CacheEntry, _ control: CacheControl, age: Double) {
            self.entry = entry
            self.control = control
            self.age = age
        }

        /// In which form a stored response is given.
        package enum Form: Hashable, Sendable {
            /// As it is.
            case whole
            /// Without its body: to a HEAD.
            case head
            /// 304: the caller's own condition says that it has it.
            case notModified
            /// 206: a part of the whole, and where it lies in the stored body.
            case part(Range<Int64>, of: Int64, at: Range<Int64>)
        }
    }

    /// A way to the network.
    package struct Forward: Sendable {
        /// The request, with the conditions of the cache when it asks whether `candidate` is still right.
        package var request: HTTPRequest
        /// Whether the conditions are the cache's own, so that a 304 is for it.
        package var isConditional = false
        /// The stale response that may stand in, or is asked about.
        package var candidate: CacheEntry?
        /// Why what is stored is no answer.
        package var miss: CacheMiss
        /// What is kept of the answer when the request asks for the rest of it only.
        package var completion: Completion?

        /// A request as it is.
        package init(request: HTTPRequest, _ miss: CacheMiss = .nothingStored) {
            self.request = request
            self.miss = miss
        }
    }

    /// Decides.
    ///
    /// - Parameters:
    ///   - request: the request, its URL and fields final.
    ///   - identity: who asks.
    ///   - entries: what is stored under its primary key, the last one first.
    ///   - mode: whether the cache is one user's own.
    ///   - isRevalidating: whether this is the request that refreshes a response in the background.
    package init(
        _ request: HTTPRequest, _ identity: RequestIdentity = .everybody, entries: [CacheEntry], at now: Date,
        _ mode: CacheMode = .private, isRevalidating: Bool = false
    ) {
        let control = CacheControl(request: request.headers)
        var miss = CacheMiss.requestNoStore
        if !control.noStore {
            switch Self.candidate(request, identity, among: entries, mode) {
            case .failure(let reason): miss = reason
            case .success(let (entry, stored)):
                let freshness = Freshness(of: entry, control: stored, at: now)
                switch Self.answer(request, control, entry, stored, freshness, isRevalidating) {
                case .success(let answer): self = .answer(answer)
                case .failure(let reason):
                    self =
                        control.onlyIfCached
                        ? .gatewayTimeout(reason) : .forward(Self.forward(request, entry, reason))
                }
                return
            }
        }
        self = control.onlyIfCached ? .gatewayTimeout(miss) : .forward(Forward(request: request, miss))
    }

    /// The stored response that belongs to a request and may be used by these rules at all.
    private static func candidate(
        _ request: HTTPRequest, _ identity: RequestIdentity, among entries: [CacheEntry], _ mode: CacheMode
    ) -> Result<(CacheEntry, CacheControl), CacheMiss> {
        var first: CacheMiss?
        for entry in entries {
            let control = CacheControl(entry.headers, mode)
            guard let miss = mismatch(entry, control, request, identity, mode) else {
                return .success((entry, control))
            }
            first = first ?? miss
        }
        for entry in entries where VaryRule.selectsByLanguage(entry, for: request, identity) {
            let control = CacheControl(entry.headers, mode)
            if refusal(of: entry, control, request, mode) == nil { return .success((entry, control)) }
        }
        return .failure(first ?? .nothingStored)
    }

    /// What is stored for exactly such a request, by whatever rule, and is replaced by the answer to it.
    package static func stored(
        _ request: HTTPRequest, _ identity: RequestIdentity, among entries: [CacheEntry]
    ) -> CacheEntry? {
        entries.first { VaryRule.selects($0, for: request, identity) }
    }

    /// Why a stored response does not belong to a request, or may not be used by these rules; `nil` when it does and may.
    static func mismatch(
        _ entry: CacheEntry, _ control: CacheControl, _ request: HTTPRequest, _ identity: RequestIdentity,
        _ mode: CacheMode
    ) -> CacheMiss? {
        guard !VaryRule.matchesNothing(entry.varyFields) else { return .refused(.variesOnEverything) }
        guard VaryRule.selects(entry, for: request, identity) else {
            return VaryRule.difference(of: request, identity, from: entry)
        }
        return refusal(of: entry, control, request, mode)
    }

    /// Why a stored response may not be used by these rules, whatever `Vary` selects; `nil` when it may.
    private static func refusal(
        of entry: CacheEntry, _ control: CacheControl, _ request: HTTPRequest, _ mode: CacheMode
    ) -> CacheMiss? {
        guard !VaryRule.matchesNothing(entry.varyFields) else { return .refused(.variesOnEverything) }
        // What stands for a whole way with its redirects is no answer to one hop.
        guard StoredAnswer.isSingleHop(entry) else { return .redirected }
        return StorageRule.refusal(status: entry.status, entry.headers, control, to: request, mode).map { .refused($0) }
    }

    private static func forward(_ request: HTTPRequest, _ entry: CacheEntry, _ miss: CacheMiss) -> Forward {
        var forward = Forward(request: request, miss)
        if request.method != .head { forward.candidate = entry }
        if entry.status == 206 {
            guard let completion = Completion(of: entry, for: request) else { return forward }
            forward.completion = completion
            forward.request = completion.request(request)
            return forward
        }
        // Conditions of the app's own, parts and methods with effects go as they are.
        guard request.method == .get, !ValidationRule.hasConditions(request), !request.headers.contains("Range"),
            let conditional = ValidationRule.conditional(request, on: entry)
        else { return forward }
        forward.request = conditional
        forward.isConditional = true
        return forward
    }

    // MARK: Answering

    private static func answer(
        _ request: HTTPRequest, _ control: CacheControl, _ entry: CacheEntry, _ stored: CacheControl,
        _ freshness: Freshness, _ isRevalidating: Bool
    ) -> Result<Answer, CacheMiss> {
        // What is refreshed in the background was stale when that began.
        if isRevalidating { return .failure(.expired(seconds: freshness.staleness)) }
        let parts = StoredParts(entry)
        var answer = Answer(entry: entry, stored, age: freshness.age)
        switch use(control, stored, freshness) {
        case .fresh: break
        case .staleWhileRevalidate: (answer.isStale, answer.refreshes) = (true, true)
        case .acceptedStale: answer.isStale = true
        case .none(let miss): return .failure(miss)
        }
        // An incomplete response answers nothing but what lies wholly within it (§3.3); the rest of it is not fetched
        // in the background.
        if entry.status == 206 {
            guard parts != nil, request.method == .get, request.headers.contains("Range"), !answer.refreshes,
                !ValidationRule.hasConditions(request)
            else { return .failure(.incomplete) }
        }
        if ValidationRule.hasConditions(request) {
            switch ValidationRule.verdict(on: request, by: entry) {
            case .notModified: answer.form = .notModified
            case .modified: break
            case .unknown: return .failure(.condition)
            }
        }
        if request.method == .head {
            if answer.form == .whole { answer.form = .head }
        } else if request.headers.contains("Range"), answer.form == .whole {
            guard RangeRule.hasParts(entry),
                let part = RangeRule.part(request, of: parts?.completeLength ?? entry.bodyByteCount),
                let place = parts.map({ $0.place(of: part) }) ?? part
            else { return .failure(.range) }
            answer.form = .part(part, of: parts?.completeLength ?? entry.bodyByteCount, at: place)
        }
        return .success(answer)
    }

    private enum Use {
        case fresh, staleWhileRevalidate, acceptedStale
        case none(CacheMiss)
    }

    /// Whether a response may be used without asking the server, and as what (§4).
    private static func use(_ control: CacheControl, _ stored: CacheControl, _ freshness: Freshness) -> Use {
        if control.noCache { return .none(.requestNoCache) }
        if stored.noCache { return .none(.noCache) }
        // A reload need not ask for what never changes while it is fresh (RFC 8246).
        let isReload = control.maxAge?.value == 0
        if freshness.isFresh, stored.immutable, isReload { return .fresh }
        if isReload { return .none(.requestNoCache) }
        if let limit = control.maxAge?.value, freshness.age > limit {
            return .none(.olderThanWanted(seconds: freshness.age - limit))
        }
        if freshness.isFresh {
            if let wanted = control.minFresh, freshness.lifetime - freshness.age < wanted {
                return .none(.notFreshEnough)
            }
            return .fresh
        }
        let expired = Use.none(.expired(seconds: freshness.staleness))
        switch freshness.suspicion {
        case nil: break
        case .markedExpired? where freshness.age >= freshness.lifetime: return expired
        case let suspicion?: return .none(suspicion)
        }
        guard !stored.mustRevalidate, control.minFresh == nil else { return expired }
        switch control.maxStale {
        case .any: return .acceptedStale
        case .seconds(let limit) where freshness.staleness <= limit: return .acceptedStale
        case .seconds, nil: break
        }
        if control.maxAge == nil, let window = stored.staleWhileRevalidate, freshness.staleness < window {
            return .staleWhileRevalidate
        }
        return expired
    }

    /// Whether a stale response may stand in for an error (RFC 5861 §4): the response or the request says for how
    /// long, and nothing forbids it.
    ///
    /// - Parameter atAnyAge: whether nobody has to say for how long: the cache is disconnected, and the app has chosen so
    ///   (RFC 9111 §4.2.4).
    package static func mayStandIn(
        _ entry: CacheEntry, for request: HTTPRequest, at now: Date, atAnyAge: Bool = false,
        _ mode: CacheMode = .private
    ) -> Bool {
        let control = CacheControl(request: request.headers)
        let stored = CacheControl(entry.headers, mode)
        guard entry.status != 206, !stored.mustRevalidate, !stored.noCache, !control.noCache,
            !ValidationRule.hasConditions(request),
            !request.headers.contains("Range"),
            let window = atAnyAge ? .infinity : [stored.staleIfError, control.staleIfError].compactMap({ $0 }).max()
        else { return false }
        let freshness = Freshness(of: entry, control: stored, at: now)
        // A clock that was put back says nothing of the age.
        guard now >= entry.responseTime else { return false }
        return freshness.staleness <= window
    }

    /// Whether an answer of the server counts as an error that a stale response may stand in for.
    package static func isError(status: Int) -> Bool { StatusRule.isServerError(status) }
}
