package import FoundationEssentials
package import HTTPCore

/// What a cache does with a request under RFC 9111. It depends only on the request, the stored responses and the time.
package enum CacheStrategy: Sendable {
    /// A stored response answers the request.
    case answer(Answer)
    /// The request goes to the network.
    case forward(Forward)
    /// The request says `only-if-cached`, and no stored response can be used: 504 (§5.2.1.7).
    case gatewayTimeout(CacheMiss)

    package struct Answer: Sendable {
        package var entry: CacheEntry
        /// The directives of the stored response.
        package let control: CacheControl
        package var form = Form.whole
        /// Whether it is stale and may be used nevertheless.
        package var isStale = false
        /// Whether to revalidate it in the background (RFC 5861 §3).
        package var refreshes = false
        /// Its age in seconds, for the `Age` field.
        package var age: Double
        /// The seconds of freshness left; 0 when it is stale.
        package var remaining: Double = 0

        package init(entry: CacheEntry, _ control: CacheControl, age: Double) {
            self.entry = entry
            self.control = control
            self.age = age
        }

        package enum Form: Hashable, Sendable {
            case whole
            /// Without its body, for a HEAD.
            case head
            /// 304: by the request's own conditions, the caller's copy is current.
            case notModified
            /// 206: a range, the complete length, and where the range lies in the stored body.
            case part(Range<Int64>, of: Int64, at: Range<Int64>)
        }
    }

    /// The request to send, and what the cache has for it.
    package struct Forward: Sendable {
        /// The request, with the cache's own conditions when it validates `candidate`.
        package var request: HTTPRequest
        /// Whether the conditions are the cache's own, so that the cache handles a 304.
        package var isConditional = false
        /// The stored response to validate, which may also stand in for an error.
        package var candidate: CacheEntry?
        /// Why no stored response answers the request.
        package var miss: CacheMiss
        /// The stored parts, if `request` asks only for the part that is missing.
        package var completion: Completion?

        package init(request: HTTPRequest, _ miss: CacheMiss = .nothingStored) {
            self.request = request
            self.miss = miss
        }
    }

    /// Decides what to do with a request, which has its final URL and fields. The entries are those under its primary key,
    /// newest first. With `isRevalidating`, the request itself is a background revalidation.
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

    /// The stored response that matches a request and may be used under RFC 9111, possibly after validation.
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

    /// The entry that the response to this request replaces, whichever policy stored it.
    package static func stored(
        _ request: HTTPRequest, _ identity: RequestIdentity, among entries: [CacheEntry]
    ) -> CacheEntry? {
        entries.first { VaryRule.selects($0, for: request, identity) }
    }

    /// Why a stored response does not match a request, or may not be used; `nil` when it matches and may be used.
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

    /// Why a stored response may not be used, regardless of its variant; `nil` when it may.
    private static func refusal(
        of entry: CacheEntry, _ control: CacheControl, _ request: HTTPRequest, _ mode: CacheMode
    ) -> CacheMiss? {
        guard !VaryRule.matchesNothing(entry.varyFields) else { return .refused(.variesOnEverything) }
        // An entry that another policy stored after redirects does not answer a single hop.
        guard StoredResponseCoding.isSingleHop(entry) else { return .redirected }
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
        // A request with the app's own conditions, with a `Range` or with a method other than GET is sent unchanged.
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
        // A background revalidation is always sent, even if the response is still fresh (``EarlyRefresh``).
        if isRevalidating { return .failure(.expired(seconds: freshness.staleness)) }
        let parts = StoredParts(entry)
        var answer = Answer(entry: entry, stored, age: freshness.age)
        if freshness.isFresh { answer.remaining = freshness.lifetime - freshness.age }
        switch use(control, stored, freshness) {
        case .fresh: break
        case .staleWhileRevalidate: (answer.isStale, answer.refreshes) = (true, true)
        case .acceptedStale: answer.isStale = true
        case .none(let miss): return .failure(miss)
        }
        // An incomplete response answers only ranges that it covers (§3.3). It is not revalidated in the background.
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

    /// Whether and how a response may be used without validation (§4).
    private static func use(_ control: CacheControl, _ stored: CacheControl, _ freshness: Freshness) -> Use {
        if control.noCache { return .none(.requestNoCache) }
        if stored.noCache { return .none(.noCache) }
        // A reload does not validate a fresh immutable response (RFC 8246).
        let isReload = control.maxAge == 0
        if freshness.isFresh, stored.immutable, isReload { return .fresh }
        if isReload { return .none(.requestNoCache) }
        if let limit = control.maxAge, freshness.age > limit {
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
        if let limit = control.maxStale, freshness.staleness <= limit { return .acceptedStale }
        if control.maxAge == nil, let window = stored.staleWhileRevalidate, freshness.staleness < window {
            return .staleWhileRevalidate
        }
        return expired
    }

    /// Whether a stored response could answer a request that asks for nothing special.
    static func isUsable(_ stored: CacheControl, _ freshness: Freshness) -> Bool {
        if case .none = use(CacheControl(), stored, freshness) { false } else { true }
    }

    /// Whether a stale response may stand in for an error (RFC 5861 §4): the response or the request allows it for a
    /// time that has not ended, and nothing forbids it. With `atAnyAge` it may do so at any age, because the cache is
    /// disconnected and the app allows it (RFC 9111 §4.2.4).
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
        // With a clock that was set back, the age is unknown.
        guard now >= entry.responseTime else { return false }
        return freshness.staleness <= window
    }

    /// Whether a status is an error that a stale response may stand in for (RFC 5861 §4).
    package static func isError(status: Int) -> Bool { status == 500 || (502...504).contains(status) }
}

/// Whether a cache is private to one user or shared by several (RFC 9111 §1.1). Only `CachePolicy.http` uses it.
public enum CacheMode: String, Hashable, Sendable, CaseIterable {
    /// For one user: `private` responses are stored, `s-maxage` and `proxy-revalidate` are ignored.
    case `private`
    /// For several users: `private` responses and the fields that `private="…"` names are not stored, `s-maxage` overrides
    /// `max-age`, and the response to a request with `Authorization` is stored only when it says `public`, `s-maxage` or
    /// `must-revalidate` (RFC 9111 §3.5).
    case shared
}
