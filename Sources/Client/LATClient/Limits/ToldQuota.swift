import DomainTables
import FoundationEssentials
import HTTPCore
import Platform

/// What a response says about a quota of requests.
struct QuotaReport: Hashable, Sendable {
    /// The policy that it belongs to; a server may have several.
    var name = ""
    /// The number of requests in a whole window.
    var limit: Int?
    var remaining: Int
    /// The time until the window ends.
    var reset: Duration
    var window: Duration?
}

/// Reads the fields in which servers tell their quotas. Values that make no sense are as if they were absent.
enum QuotaFields {
    /// Longer windows, and more policies, are not believed.
    private static let (longest, most) = (Duration.seconds(86_400), 8)
    private static let counts = 0...1_000_000_000

    /// The quotas that the fields of a response tell, in any of these forms:
    ///
    /// - `RateLimit: "default";r=50;t=30` with `RateLimit-Policy: "default";q=100;w=60` (draft-ietf-httpapi-ratelimit-headers-10),
    ///   and `RateLimit: limit=100, remaining=50, reset=30` of its earlier versions;
    /// - `RateLimit-Limit`, `-Remaining`, `-Reset`, also with `X-` before and `-Requests` behind, and `X-Rate-Limit-…`. The reset
    ///   is in seconds, a time since 1970 in seconds or milliseconds, or a text such as `1m30s`.
    ///
    /// - Parameter date: the time in seconds since 1970, where the response has no `Date`.
    static func reports(_ headers: HTTPHeaders, date: @autoclosure () -> Int64) -> [QuotaReport] {
        // Most responses have none of them.
        guard headers.containsName(beginningWith: beginnings) else { return [] }
        if headers.contains("RateLimit") {
            let value = headers[values: "RateLimit"].joined(separator: ", ")
            let reports = items(value, policies(headers[values: "RateLimit-Policy"].joined(separator: ", ")))
            if !reports.isEmpty { return reports }
            if let report = members(value) { return [report] }
        }
        guard let form = forms.first(where: { headers.contains($0.remaining) && headers.contains($0.reset) }) else {
            return []
        }
        let now = headers.date.map { Int64($0.timeIntervalSince1970) } ?? date()
        guard let remaining = headers[form.remaining].flatMap(count),
            let reset = headers[form.reset].flatMap({ wait($0, now) })
        else { return [] }
        return [QuotaReport(limit: headers[form.limit].flatMap(count), remaining: remaining, reset: reset)]
    }

    private static let beginnings = ["ratelimit", "x-rate"].map { Array($0.utf8) }

    private static let forms: [(limit: String, remaining: String, reset: String)] = [
        ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
        ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"),
        ("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
        ("X-RateLimit-Limit-Requests", "X-RateLimit-Remaining-Requests", "X-RateLimit-Reset-Requests"),
    ]

    // MARK: The draft

    /// A quota may count bytes or connections, too.
    private typealias Policy = (limit: Int?, window: Duration?, countsRequests: Bool)

    private static func policies(_ value: String) -> [String: Policy] {
        var policies: [String: Policy] = [:]
        for item in (StructuredField.list(value) ?? []).prefix(most) {
            guard case .string(let name)? = item.value else { continue }
            var limit: Int?
            if case .integer(let number)? = item.parameters["q"] { limit = Int(exactly: number) }
            let unit = item.parameters["qu"] ?? .string("requests")
            policies[name] = (
                limit.flatMap { counts.contains($0) ? $0 : nil }, duration(item.parameters["w"]),
                unit == .string("requests")
            )
        }
        return policies
    }

    private static func items(_ value: String, _ policies: [String: Policy]) -> [QuotaReport] {
        (StructuredField.list(value) ?? []).prefix(most).compactMap { item in
            guard case .string(let name)? = item.value, case .integer(let left)? = item.parameters["r"],
                let remaining = Int(exactly: left), counts.contains(remaining)
            else { return nil }
            let policy = policies[name]
            guard policy?.countsRequests != false, let reset = duration(item.parameters["t"]) ?? policy?.window else {
                return nil
            }
            return QuotaReport(
                name: name, limit: policy?.limit, remaining: remaining, reset: reset, window: policy?.window)
        }
    }

    private static func members(_ value: String) -> QuotaReport? {
        let members = StructuredField.dictionary(value)
        guard case .integer(let left)? = members?["remaining"]?.value, let remaining = Int(exactly: left),
            counts.contains(remaining), let reset = duration(members?["reset"]?.value)
        else { return nil }
        guard case .integer(let limit)? = members?["limit"]?.value, let limit = Int(exactly: limit),
            counts.contains(limit)
        else { return QuotaReport(remaining: remaining, reset: reset) }
        return QuotaReport(limit: limit, remaining: remaining, reset: reset)
    }

    private static func duration(_ value: StructuredField.Value?) -> Duration? {
        guard case .integer(let seconds)? = value else { return nil }
        return bounded(.seconds(seconds))
    }

    // MARK: The older fields

    /// A number, or the first of a list: `100, 100;w=60`.
    private static func count(_ value: String) -> Int? {
        let first = value.prefix { $0 != "," && $0 != ";" }
        return Int(first.filter { $0 != " " }).flatMap { counts.contains($0) ? $0 : nil }
    }

    private static func wait(_ value: String, _ now: Int64) -> Duration? {
        guard let number = Double(value), number.isFinite else { return DurationText.parse(value).flatMap(bounded) }
        switch number {
        case 0...longest.inSeconds: return .milliseconds(Int64((number * 1_000).rounded(.up)))
        // A time in whole seconds may be up to one second too early.
        case 1e9..<1e11: return bounded(max(.zero, .seconds(Int64(number) - now) + .seconds(1)))
        case 1e12..<1e14: return bounded(max(.zero, .milliseconds(Int64(number) - now * 1_000)))
        default: return nil
        }
    }

    private static func bounded(_ time: Duration) -> Duration? { .zero <= time && time <= longest ? time : nil }
}

/// The quota of a host as its responses tell it. A pure value: its methods receive the time.
///
/// The server has counted at least the requests that the lowest report tells of; those without an answer may come on top. So the
/// lowest report less the requests in flight is never more than what is left. It is spread over the rest of the window, with
/// small bursts, and hardly slower than the whole quota over the whole window: a sliding window has what is left again all the
/// time.
struct ToldQuota: Sendable {
    private(set) var limit: Int?
    private(set) var window: Duration?
    /// The lowest report of this window; `nil` if nothing is known of it.
    private var lowest: Int?
    private var end: Duration = .zero
    private var bucket: TokenBucket?

    /// The time until a request may be sent. With requests in flight, an answer may come first.
    ///
    /// - Parameter running: the number of requests without an answer.
    func wait(_ running: Int, at now: Duration) -> Duration {
        guard let lowest, now < end else { return .zero }
        return lowest > running ? min(bucket?.wait(at: now) ?? .zero, end - now) : end - now
    }

    /// The time for which nothing is left.
    func pause(at now: Duration) -> Duration { now < end && lowest == 0 ? end - now : .zero }

    /// Whether it says nothing any more.
    func isOver(at now: Duration) -> Bool { now >= end }

    /// Records a request that is sent.
    mutating func take(at now: Duration) {
        if now >= end, let limit, let window, window > .zero { begin(limit, running: 0, for: window, at: now) }
        _ = bucket?.take(at: now)
    }

    mutating func giveBack(at now: Duration) { bucket?.deposit(1, at: now) }

    /// Records what an answer tells.
    ///
    /// - Parameter running: the number of requests without an answer, with the one whose answer this is.
    mutating func learn(_ report: QuotaReport, running: Int, at now: Duration) {
        limit = report.limit ?? limit
        window = report.window ?? max(window ?? .zero, report.reset)
        // A sliding window always has its whole length before it. Servers round to whole seconds. The answers of one window
        // may arrive in another order; alone, an answer is exact.
        let slack = min(.seconds(1), (window ?? .zero) / 4)
        let isSliding = report.window.map { report.reset >= $0 } ?? false
        if now < end, now + report.reset <= end + slack, running > 1, !isSliding, let lowest {
            begin(min(lowest, report.remaining), running: running, for: end - now, at: now)
        } else {
            begin(report.remaining, running: running, for: report.reset, at: now)
        }
    }

    private mutating func begin(_ count: Int, running: Int, for time: Duration, at now: Duration) {
        lowest = count
        end = now + time
        let left = Double(max(0, count - running))
        var rate = left / max(0.001, time.inSeconds)
        var burst = left / 10
        if let limit, let window, window > .zero {
            let even = Double(limit) / window.inSeconds
            // A burst and the rate together stay below the quota of a sliding window.
            rate = min(max(rate, 0.9 * even), 4 * even)
            burst = min(burst, Double(limit) / 20)
        }
        bucket = TokenBucket(perSecond: rate, capacity: max(1, burst), after: bucket, at: now)
    }
}
