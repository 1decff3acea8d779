package import FoundationEssentials
package import HTTPCore
import Platform

/// How long an entry can be of use (``CacheEntry/retainUntil``): a hint for stores that expire entries by themselves.
package enum RetentionRule {
    /// How long a stale response with a validator is kept: a week, in seconds.
    static let revalidationTime: Double = 7 * 86_400

    /// The time after which an entry is of no use under a policy; `nil` when there is no such time.
    ///
    /// Under `CachePolicy.http` it is the end of freshness (RFC 9111 §4.2) plus the longest of
    /// `stale-while-revalidate`, `stale-if-error` (RFC 5861) and, with a validator, a week, in which a 304 can replace
    /// the transfer of the body.
    /// The other policies may use an entry at any age, except with a fixed time to live. With `servesStale`, a stale response
    /// of any age may replace a failure of the network.
    package static func end(
        of entry: CacheEntry, under policy: CachePolicy, servesStale: Bool = false, _ mode: CacheMode = .private
    ) -> Date? {
        switch policy {
        case .http:
            if servesStale { return nil }
            let control = CacheControl(entry.headers, mode)
            let freshness = Freshness(of: entry, control: control, at: entry.responseTime)
            let hasValidator = entry.headers.contains("ETag") || entry.headers.contains("Last-Modified")
            let windows = [
                control.staleWhileRevalidate ?? 0, control.staleIfError ?? 0, hasValidator ? revalidationTime : 0,
            ]
            let seconds = max(0, freshness.lifetime - freshness.age) + (windows.max() ?? 0)
            return entry.responseTime.addingTimeInterval(seconds)
        case .cacheElseNetwork(.fixed(let duration)):
            return entry.responseTime.addingTimeInterval(duration.inSeconds)
        case .networkOnly, .writeOnly, .cacheOnly, .cacheElseNetwork, .cacheThenNetwork, .networkElseCache:
            return nil
        }
    }
}
