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
    static func reports(_ headers: HTTPHeaders, date: Int64) -> [QuotaReport] {
        if headers.contains("RateLimit") {
            let value = headers[values: "RateLimit"].joined(separator: ", ")
            let policies = policies(headers[values: "RateLimit-Policy"].joined(separator: ", "))
            let reports = items(value, policies)
            if !reports.isEmpty { return reports }
            if let report = members(value) { return [report] }
        }
        let now = headers["Date"].flatMap { HTTPDate.parse($0) }.map { Int64($0.timeIntervalSince1970) } ?? date
        for (prefix, suffix) in [
            ("RateLimit", ""), ("X-RateLimit", ""), ("X-Rate-Limit", ""), ("X-RateLimit", "-Requests"),
        ] {
            guard let remaining = headers["\(prefix)-Remaining\(suffix)"].flatMap(count),
                let reset = headers["\(prefix)-Reset\(suffix)"].flatMap({ wait($0, now) })
            else { continue }
            return [
                QuotaReport(
                    limit: headers["\(prefix)-Limit\(suffix)"].flatMap(count), remaining: remaining, reset: reset)
            ]
        }
        return []
    }

    // MARK: The draft

    private typealias Policy = (limit: Int, window: Duration?)

    private static func policies(_ value: String) -> [String: Policy] {
        var policies: [String: Policy] = [:]
        for item in (StructuredField.list(value) ?? []).prefix(most) {
            guard case .string(let name)? = item.value, case .integer(let limit)? = item.parameters["q"],
                isOfRequests(item), let limit = Int(exactly: limit), counts.contains(limit)
            else { continue }
            policies[name] = (limit, duration(item.parameters["w"]))
        }
        return policies
    }

    /// A quota may count bytes or connections.
    private static func isOfRequests(_ item: StructuredField.Member) -> Bool {
        (item.parameters["qu"] ?? .string("requests")) == .string("requests")
    }

    private static func items(_ value: String, _ policies: [String: Policy]) -> [QuotaReport] {
        (StructuredField.list(value) ?? []).prefix(most).compactMap { item in
            guard case .string(let name)? = item.value, case .integer(let left)? = item.parameters["r"],
                let remaining = Int(exactly: left), counts.contains(remaining)
            else { return nil }
            let policy = policies[name]
            guard let reset = duration(item.parameters["t"]) ?? policy?.window else { return nil }
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

/// The quota of a host as its responses tell it. What remains is spread over the rest of the window, with bursts of a tenth of
/// it. A pure value: its methods receive the time.
struct ToldQuota: Sendable {
    private var remaining = Int.max
    private(set) var limit: Int?
    private(set) var window: Duration?
    private var end: Duration = .zero
    private var bucket: TokenBucket?

    /// The time until a request may be sent.
    func wait(at now: Duration) -> Duration {
        guard now < end else { return .zero }
        return remaining > 0 ? bucket?.wait(at: now) ?? .zero : end - now
    }

    /// Whether it says nothing any more.
    func isOver(at now: Duration) -> Bool { now >= end }

    mutating func take(at now: Duration) {
        if now >= end {
            guard let limit, let window, window > .zero else { return }
            begin(limit, for: window, at: now)
        }
        if remaining < .max { remaining -= 1 }
        _ = bucket?.take(at: now)
    }

    mutating func giveBack(at now: Duration) {
        if remaining < .max { remaining += 1 }
        bucket?.deposit(1, at: now)
    }

    /// - Parameter running: the number of other requests that the server may not have counted yet.
    mutating func learn(_ report: QuotaReport, running: Int, at now: Duration) {
        let left = max(0, report.remaining - running)
        let isSameWindow = now < end && now + report.reset <= end + .seconds(1)
        limit = report.limit ?? limit
        window = report.window ?? max(window ?? .zero, report.reset)
        // The responses of one window may arrive in another order.
        begin(isSameWindow ? min(remaining, left) : left, for: report.reset, at: now)
    }

    private mutating func begin(_ count: Int, for time: Duration, at now: Duration) {
        remaining = count
        end = now + time
        bucket = TokenBucket(
            perSecond: Double(count) / max(0.001, time.inSeconds), capacity: Double(max(1, count / 10)), after: bucket,
            at: now)
    }
}
