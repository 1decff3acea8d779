package import FoundationEssentials
import HTTPCore

/// How old a stored response is, and for how long it is fresh: the arithmetic of RFC 9111 §4.2, in seconds.
package struct Freshness: Hashable, Sendable {
    /// `current_age` (§4.2.3), not negative.
    package let age: Double
    /// `freshness_lifetime` (§4.2.1), not negative.
    package let lifetime: Double
    /// Whether the lifetime was guessed from `Last-Modified` (§4.2.2).
    package let isHeuristic: Bool
    /// Set when the clock stands before the time of the answer, or the entry was found expired once: then nothing that
    /// its age says can be relied on.
    package let suspicion: CacheMiss?

    /// Whether it may be used without asking. At `age == lifetime` it no longer is.
    package var isFresh: Bool { suspicion == nil && age < lifetime }
    /// How long it has been stale.
    package var staleness: Double { max(0, age - lifetime) }

    /// The freshness of a stored response at a time.
    package init(of entry: CacheEntry, control: CacheControl, at now: Date) {
        let date = entry.headers["Date"].flatMap(HTTPDate.parse)
        let response = entry.responseTime.timeIntervalSince1970
        // Date counts whole seconds; so does the time it is compared with.
        let apparent = date.map { max(0, response.rounded(.down) - $0.timeIntervalSince1970) } ?? 0
        let delay = max(0, entry.responseTime.timeIntervalSince(entry.requestTime))
        let corrected = Self.ageField(of: entry.headers) + delay
        let resident = now.timeIntervalSince(entry.responseTime)
        age = max(apparent, corrected) + max(0, resident)
        suspicion = resident < 0 ? .fromTheFuture : entry.isExpired ? .markedExpired : nil
        (lifetime, isHeuristic) = Self.lifetime(of: entry, control: control, date: date ?? entry.responseTime)
    }

    /// The first member of `Age`, 0 when it is no number (§5.1).
    static func ageField(of headers: HTTPHeaders) -> Double {
        guard let line = headers["Age"], let first = FieldList.elements(of: line).first else { return 0 }
        return CacheControl.seconds(first).value
    }

    /// §4.2.1: `max-age`, in whose place `s-maxage` stands in a shared cache, else `Expires`, else a guess.
    private static func lifetime(
        of entry: CacheEntry, control: CacheControl, date: Date
    ) -> (lifetime: Double, isHeuristic: Bool) {
        if let maxAge = control.maxAge { return (maxAge.value, false) }
        if let expires = entry.headers["Expires"] {
            // A date that is none means the past (§5.3).
            guard let expires = HTTPDate.parse(expires) else { return (0, false) }
            return (max(0, expires.timeIntervalSince(date)), false)
        }
        guard StatusRule.isHeuristicallyCacheable(entry.status) || control.isPublic,
            let modified = entry.headers["Last-Modified"].flatMap(HTTPDate.parse)
        else { return (0, false) }
        return (max(0, date.timeIntervalSince(modified)) / 10, true)
    }
}

/// What status codes mean to a cache.
enum StatusRule {
    /// RFC 9110 §15.1: those that may be kept without being told for how long.
    static func isHeuristicallyCacheable(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// Those whose meaning for a cache this one knows (§3, `must-understand`): all final ones that RFC 9110 defines.
    static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200...206, 300...304, 307, 308, 400...417, 421, 422, 426, 500...505: true
        default: false
        }
    }

    /// What `stale-if-error` means by an error (RFC 5861 §4).
    static func isServerError(_ status: Int) -> Bool {
        switch status {
        case 500, 502, 503, 504: true
        default: false
        }
    }
}
