package import FoundationEssentials
package import HTTPCore

/// Until when somebody may have a use for an entry (``CacheEntry/retainUntil``): a hint for stores that let entries expire by
/// themselves.
package enum RetentionRule {
    /// For how long a stale answer is kept that the server can confirm, in seconds: a week.
    static let confirmableTime: Double = 7 * 86_400

    /// The time after which an entry is of no use any more under a policy; `nil` when there is no such time.
    ///
    /// Under ``CachePolicy/http`` that is the end of its freshness (RFC 9111 §4.2), later by `stale-while-revalidate` or
    /// `stale-if-error` (RFC 5861), and by a week where it has a validator: a 304 then saves the body. The other policies may
    /// ask for it at any age, but for a fixed time to live.
    ///
    /// - Parameter servesStale: whether a stale answer of any age stands in for a network that fails.
    package static func end(of entry: CacheEntry, under policy: CachePolicy, servesStale: Bool = false) -> Date? {
        switch policy {
        case .http:
            if servesStale { return nil }
            let control = CacheControl(entry.headers)
            let freshness = Freshness(of: entry, control: control, at: entry.responseTime)
            let isConfirmable = entry.headers.contains("ETag") || entry.headers.contains("Last-Modified")
            let windows = [
                control.staleWhileRevalidate ?? 0, control.staleIfError ?? 0, isConfirmable ? confirmableTime : 0,
            ]
            let seconds = max(0, freshness.lifetime - freshness.age) + (windows.max() ?? 0)
            return entry.responseTime.addingTimeInterval(seconds)
        case .cacheElseNetwork(.fixed(let duration)):
            let parts = duration.components
            return entry.responseTime.addingTimeInterval(Double(parts.seconds) + Double(parts.attoseconds) / 1e18)
        case .networkOnly, .writeOnly, .cacheOnly, .cacheElseNetwork, .cacheThenNetwork, .networkElseCache:
            return nil
        }
    }
}
