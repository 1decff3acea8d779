package import FoundationEssentials
import Glibc
import HTTPCore

/// The age and the freshness lifetime of a stored response, in seconds (RFC 9111 §4.2).
package struct Freshness: Hashable, Sendable {
    /// `current_age` (§4.2.3), not negative.
    package let age: Double
    /// `freshness_lifetime` (§4.2.1), not negative.
    package let lifetime: Double
    /// Why the age cannot be trusted, if so: the response time lies in the future, or the entry was marked as expired.
    package let suspicion: CacheMiss?

    /// Whether the response is fresh. At `age == lifetime` it is stale.
    package var isFresh: Bool { suspicion == nil && age < lifetime }
    package var staleness: Double { max(0, age - lifetime) }

    package init(of entry: CacheEntry, control: CacheControl, at now: Date) {
        let date = entry.headers.date
        let response = entry.responseTime.timeIntervalSince1970
        // Date has whole seconds, so the response time is rounded down before the comparison.
        let apparent = date.map { max(0, response.rounded(.down) - $0.timeIntervalSince1970) } ?? 0
        let delay = max(0, entry.responseTime.timeIntervalSince(entry.requestTime))
        let corrected = Self.ageField(of: entry.headers) + delay
        let resident = now.timeIntervalSince(entry.responseTime)
        let initial = max(apparent, corrected)
        age = initial + max(0, resident)
        lifetime = Self.lifetime(of: entry, control: control, date: date ?? entry.responseTime)
        let isMarked = ExpiryMark.holds(on: entry, since: entry.responseTime.addingTimeInterval(-initial), lifetime)
        suspicion = resident < 0 ? .fromTheFuture : isMarked ? .markedExpired : nil
    }

    /// The first member of `Age` in seconds, 0 when it is missing or not a number (§5.1).
    static func ageField(of headers: HTTPHeaders) -> Double {
        guard let line = headers["Age"], let first = FieldList.elements(of: line).first else { return 0 }
        return CacheControl.seconds(first)
    }

    /// The freshness lifetime (§4.2.1): `max-age`, replaced by `s-maxage` in a shared cache, else `Expires`, else a
    /// heuristic from `Last-Modified` (§4.2.2).
    private static func lifetime(of entry: CacheEntry, control: CacheControl, date: Date) -> Double {
        if let maxAge = control.maxAge { return maxAge }
        if let expires = entry.headers["Expires"] {
            // An invalid date means the past (§5.3).
            return HTTPDate.parse(expires).map { max(0, $0.timeIntervalSince(date)) } ?? 0
        }
        guard StatusRule.isHeuristicallyCacheable(entry.status) || control.isPublic,
            let modified = entry.headers["Last-Modified"].flatMap(HTTPDate.parse)
        else { return 0 }
        return max(0, date.timeIntervalSince(modified)) / 10
    }
}

enum StatusRule {
    /// Whether a response with this status may be stored without explicit freshness (RFC 9110 §15.1).
    static func isHeuristicallyCacheable(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// Whether this cache understands a status (RFC 9111 §3, `must-understand`): every final one that RFC 9110 defines.
    static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200...206, 300...304, 307, 308, 400...417, 421, 422, 426, 500...505: true
        default: false
        }
    }
}

/// Refreshes a response at random shortly before it expires, so that the many processes that use it do not all miss it at once:
/// XFetch, the optimal probabilistic early expiration of Vattani, Chierichetti and Lowenstein (VLDB 2015).
package enum EarlyRefresh {
    /// Whether one use of a fresh response refreshes it: `now − Δ·β·ln(u) ≥ expiry`, so with the probability
    /// `exp(−remaining / (β·Δ))`.
    ///
    /// - Parameters:
    ///   - fetchDuration: How long the last fetch took, in seconds (Δ).
    ///   - factor: How eager it is (β); 0 never refreshes early, 1 is the usual value.
    ///   - random: A random number above 0, at most 1 (u).
    package static func isDue(
        remaining: Double, fetchDuration: Double, factor: Double, random: @autoclosure () -> Double
    ) -> Bool {
        let scale = fetchDuration * factor
        // Beyond 40 times the scale, the probability is below 10^-17.
        guard scale > 0, remaining > 0, remaining <= 40 * scale else { return false }
        return -scale * log(random()) >= remaining
    }
}
