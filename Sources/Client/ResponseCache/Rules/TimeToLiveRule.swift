package import FoundationEssentials
package import HTTPCore
import Platform

/// The rules of all policies except `CachePolicy.http`: the app, not the server, says how long a response is usable.
package enum TimeToLiveRule {
    package enum Finding: Sendable {
        case usable(CacheEntry)
        /// Why no entry may be used, and the matching entry if there is one.
        case unusable(CacheMiss, CacheEntry?)
    }

    /// Looks for an entry that matches a request and whose time to live has not ended.
    package static func find(
        _ request: HTTPRequest, _ identity: RequestIdentity = .everybody, among entries: [CacheEntry],
        within timeToLive: CachePolicy.TimeToLive, at now: Date
    ) -> Finding {
        guard let entry = candidate(request, identity, among: entries) else {
            return .unusable(VaryRule.miss(request, identity, among: entries), nil)
        }
        return miss(entry, timeToLive, at: now).map { .unusable($0, entry) } ?? .usable(entry)
    }

    /// Why an entry may not be used; `nil` when it may.
    ///
    /// With `.forever`, every entry may be used. Otherwise an entry may not be used when its time to live begins in the
    /// future or has ended, or when it is marked as expired. It expires exactly at the end.
    package static func miss(
        _ entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive, at now: Date
    ) -> CacheMiss? {
        guard let (start, length) = life(of: entry, timeToLive) else { return nil }
        guard start <= now else { return .fromTheFuture }
        let over = now.timeIntervalSince(start) - length
        if over >= 0 { return .expired(seconds: over) }
        return ExpiryMark.holds(on: entry, since: start, length) ? .markedExpired : nil
    }

    /// The entry with a mark that its time to live has ended, so that it stays expired when the clock is set back; `nil` if it
    /// has not ended, or has such a mark.
    package static func marked(
        _ entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive, at now: Date
    ) -> CacheEntry? {
        guard case .expired? = miss(entry, timeToLive, at: now), let (start, length) = life(of: entry, timeToLive),
            !ExpiryMark.holds(on: entry, since: start, length)
        else { return nil }
        return ExpiryMark.set(on: entry, at: now)
    }

    /// The start of an entry's time to live and its length in seconds; `nil` when the time to live has no end.
    package static func life(
        of entry: CacheEntry, _ timeToLive: CachePolicy.TimeToLive
    ) -> (start: Date, seconds: Double)? {
        switch timeToLive {
        case .forever: nil
        case .fixed(let duration): (entry.responseTime, duration.inSeconds)
        case .sliding(let duration): (max(entry.lastUse, entry.responseTime), duration.inSeconds)
        }
    }

    /// The minimum number of seconds between two writes of an entry's last use, since writing each use costs too much: ten
    /// minutes, or a tenth of a sliding time to live if that is less.
    package static func touchInterval(_ timeToLive: CachePolicy.TimeToLive?) -> Double {
        if case .sliding(let duration)? = timeToLive { min(600, duration.inSeconds / 10) } else { 600 }
    }

    /// The newest complete success that matches a request, at any age. `CachePolicy.http` may have stored other entries.
    package static func candidate(
        _ request: HTTPRequest, _ identity: RequestIdentity = .everybody, among entries: [CacheEntry]
    ) -> CacheEntry? {
        entries.first {
            isStorable(status: $0.status) && VaryRule.selects($0, for: request, identity) && follows(request, $0)
        }
    }

    /// Whether a response is a complete success: 2xx, but not 206.
    package static func isStorable(status: Int) -> Bool { (200...299).contains(status) && status != 206 }

    package static func refusal(of response: HTTPResponse) -> CacheRefusal? {
        guard isStorable(status: response.status) else { return .status(response.status) }
        return ContentRange.isPart(status: response.status, response.headers) ? .incomplete : nil
    }

    /// The fields that distinguish variants, also those of the redirects that led to the response. `Vary: *` is ignored, since the
    /// app has said that responses may be reused.
    package static func varyFields(of response: HTTPResponse) -> [String] {
        let fields = VaryRule.fields(of: response.headers)
        let redirects = response.redirectsVary.flatMap { FieldList.names($0) }
        return Set(fields + redirects).subtracting([VaryRule.any]).sorted()
    }

    /// Whether a call follows the redirects that led to an entry.
    private static func follows(_ request: HTTPRequest, _ entry: CacheEntry) -> Bool {
        switch request.redirects {
        case .automatic: true
        case .none: StoredResponseCoding.isSingleHop(entry)
        case .follow(let limit): StoredResponseCoding.redirectCount(of: entry) <= limit
        }
    }
}

/// The mark of an entry that was found expired (``CacheEntry/isExpired``), and when that was: a call that accepts older responses
/// than the one that found it may still use it.
package enum ExpiryMark {
    /// A field with the time, which no field on the wire can be.
    private static let field = ":expired"

    /// Whether a lifetime that began at a time had ended when the entry was marked. Without a time the mark holds for all.
    static func holds(on entry: CacheEntry, since start: Date, _ length: Double) -> Bool {
        guard entry.isExpired else { return false }
        guard let time = entry.headers[field].flatMap(Double.init) else { return true }
        return Date(timeIntervalSinceReferenceDate: time).timeIntervalSince(start) >= length
    }

    package static func set(on entry: CacheEntry, at time: Date? = nil) -> CacheEntry {
        var entry = entry
        entry.isExpired = true
        entry.headers.removeAll { $0 == field }
        if let time { entry.headers.append(field, "\(time.timeIntervalSinceReferenceDate)") }
        return entry
    }

    static func clear(on entry: inout CacheEntry) {
        entry.isExpired = false
        entry.headers.removeAll { $0 == field }
    }
}

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
    /// of any age may replace one of the network that fails or is slow.
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
