package import FoundationEssentials
package import HTTPCore

/// What the policies of the SDK itself do with a stored response: the app says how long it is good, the server's fields
/// do not.
package enum TimeToLiveRule {
    /// Whether an entry may be used at a time. At the last moment it is expired; so is what was found expired once, and
    /// what was stored at a time that is still to come.
    package static func isAlive(_ entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive, at now: Date) -> Bool {
        let start: Date
        let length: Duration
        switch timeToLive {
        case .forever: return true
        case .fixed(let duration): (start, length) = (entry.responseTime, duration)
        case .sliding(let duration): (start, length) = (max(entry.lastUse, entry.responseTime), duration)
        }
        guard !entry.isExpired, start <= now else { return false }
        return now.timeIntervalSince(start) < length.seconds
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
        entries.first { entry in
            isStorable(status: entry.status)
                && VaryRule.variant(entry.varyFields, of: request, identity) == entry.key.variant
        }
    }

    /// Whether an answer is a success that is stored: 2xx, and whole.
    package static func isStorable(status: Int) -> Bool { (200...299).contains(status) && status != 206 }

    /// The fields that tell variants apart. `Vary: *` does not: the app has said that the answer may be used again.
    package static func varyFields(of headers: HTTPHeaders) -> [String] {
        let fields = VaryRule.fields(of: headers)
        return VaryRule.matchesNothing(fields) ? [] : fields
    }
}

extension Duration {
    fileprivate var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
