package import FoundationEssentials
package import HTTPCore

/// What the policies of the SDK itself do with a stored response: the app says how long it is good, the server's fields
/// do not.
package enum TimeToLiveRule {
    /// What is found for a request.
    package enum Finding: Sendable {
        /// An entry that may be used.
        case usable(CacheEntry)
        /// Why there is none, and the entry whose time is over.
        case unusable(CacheMiss, CacheEntry?)
    }

    /// Looks for an entry that belongs to a request and whose time to live is not over.
    ///
    /// - Parameter timeToLive: for how long the app takes an answer for good; `.forever` for however old.
    package static func find(
        _ request: HTTPRequest, _ identity: RequestIdentity = .everybody, among entries: [CacheEntry],
        within timeToLive: CachePolicy.TimeToLive, at now: Date
    ) -> Finding {
        guard let entry = candidate(request, identity, among: entries) else {
            return .unusable(VaryRule.miss(request, identity, among: entries, isStorable: isMeant), nil)
        }
        return miss(entry, timeToLive, at: now).map { .unusable($0, entry) } ?? .usable(entry)
    }

    /// Whether an entry may be used at a time. At the last moment it is expired; so is what was found expired once, and
    /// what was stored at a time that is still to come.
    package static func isAlive(_ entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive, at now: Date) -> Bool {
        miss(entry, timeToLive, at: now) == nil
    }

    /// Why an entry may not be used at a time; `nil` when it may.
    private static func miss(
        _ entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive, at now: Date
    ) -> CacheMiss? {
        guard let (start, length) = life(of: entry, timeToLive) else { return nil }
        guard start <= now else { return .fromTheFuture }
        let over = now.timeIntervalSince(start) - length
        if over >= 0 { return .expired(seconds: over) }
        return entry.isExpired ? .markedExpired : nil
    }

    /// Since when a time to live counts, and for how many seconds; `nil` for one without end.
    package static func life(
        of entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive
    ) -> (start: Date, seconds: Double)? {
        switch timeToLive {
        case .forever: nil
        case .fixed(let duration): (entry.responseTime, duration.seconds)
        case .sliding(let duration): (max(entry.lastUse, entry.responseTime), duration.seconds)
        }
    }

    /// How many seconds old the use that is known on disk may be: writing down each costs more than it tells. A tenth of
    /// what an entry lives from its last use, at most ten minutes.
    package static func touchInterval(_ timeToLive: CachePolicy.TimeToLive?) -> Double {
        if case .sliding(let duration)? = timeToLive { min(600, duration.seconds / 10) } else { 600 }
    }

    /// The last stored success that belongs to a request, however old; entries that are no success or no whole do not
    /// count, whoever stored them.
    package static func candidate(
        _ request: HTTPRequest, _ identity: RequestIdentity = .everybody, among entries: [CacheEntry]
    ) -> CacheEntry? {
        entries.first { isMeant($0) && VaryRule.selects($0, for: request, identity) }
    }

    /// Whether an entry is a whole success.
    private static func isMeant(_ entry: CacheEntry) -> Bool { isStorable(status: entry.status) }

    /// Whether an answer is a success that is stored: 2xx, and whole.
    package static func isStorable(status: Int) -> Bool { (200...299).contains(status) && status != 206 }

    /// Why an answer is not stored; `nil` when it is.
    package static func refusal(status: Int) -> CacheRefusal? { isStorable(status: status) ? nil : .status(status) }

    /// The fields that tell variants apart. `Vary: *` does not: the app has said that the answer may be used again.
    package static func varyFields(of headers: HTTPHeaders) -> [String] {
        let fields = VaryRule.fields(of: headers)
        return VaryRule.matchesNothing(fields) ? [] : fields
    }
}

extension Duration {
    package var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
