import HTTPCore
import LATClient
import Platform

/// What the end of an attempt means for its entry and for the others with the same target. A pure value.
enum OutboxVerdict: Hashable, Sendable {
    /// The server has accepted the request.
    case succeeded
    /// The server, or this machine, will never accept it.
    case refused
    /// It was attempted as often as it may be.
    case givenUp
    /// It waits for this long. `pausesTarget`: requests of others would fail, too.
    case wait(Duration, pausesTarget: Bool)
    /// Its target cannot be connected to.
    case unreachable
    /// Its row is not in the table.
    case rowMissing
    /// The call was ended from outside, and does not count.
    case interrupted
}

/// Decides what becomes of an entry after an attempt.
struct OutboxRule: Hashable, Sendable {
    var backoff = Backoff(first: .seconds(1), longest: .seconds(300))
    /// The largest number of attempts; `nil` for no limit.
    var maxAttempts: Int?

    /// The longest `Retry-After` that is obeyed.
    static let longestRetryAfter = Duration.seconds(86_400)
    /// How often a 409 that may be the answer to the entry's own earlier attempt is repeated.
    static let conflictLimit = 10

    /// What an attempt has shown of the entry.
    struct Attempt: Hashable, Sendable {
        /// The number of attempts, this one included.
        var count: Int
        /// As in ``OutboxRow/unseen``: 0, or 1 and 1 more for each 409 since an attempt whose answer was not seen.
        var unseen = 0
        /// Whether the retry policy of the call or its rows counts the failure as one that may pass.
        var isTransient = false
        /// What the server asks for.
        var retryAfter: Duration?
        /// A random number from 0 to 1.
        var chance = 1.0
    }

    func verdict(after failure: NetworkError?, _ attempt: Attempt) -> OutboxVerdict {
        guard let failure else { return .succeeded }
        switch failure.kind {
        case .cancelled, .shutDown: return .interrupted
        case .unknownName: return .rowMissing
        // Nothing was sent, so it is no attempt, unless a server had the request and redirected it.
        case .dns, .connect, .timeout(.connect): guard failure.hasArrivedBefore else { return .unreachable }
        default: break
        }
        guard attempt.isTransient || mayPass(failure, attempt) else { return .refused }
        guard attempt.count < maxAttempts ?? .max else { return .givenUp }
        // At least half of the pause, so that a repetition is never immediate.
        let pause = backoff.pause(afterFailures: attempt.count) * (0.5 + attempt.chance / 2)
        let asked = attempt.retryAfter.map { min($0, Self.longestRetryAfter) } ?? .zero
        return .wait(max(pause, asked), pausesTarget: concernsTarget(failure))
    }

    /// Whether a failure may pass, whatever the retry policy says.
    private func mayPass(_ failure: NetworkError, _ attempt: Attempt) -> Bool {
        if let status = failure.response?.status, status >= 400 {
            switch status {
            case 408, 425, 429: return true
            // The token, not the entry, is what is wrong.
            case 401, 407: return true
            // A server that still processes the earlier attempt says so
            // (draft-ietf-httpapi-idempotency-key-header-07 §2.6).
            case 409: return (1...Self.conflictLimit).contains(attempt.unseen)
            case 501, 505: return false
            default: return status >= 500
            }
        }
        return switch failure.kind {
        // A body that is not that of the server: a portal answers in its place.
        case .decoding, .redirect: true
        case .dns, .connect, .connectionLost, .timeout, .tls, .proxy, .protocolViolation, .circuitOpen, .authentication,
            .provider, .other:
            true
        default: false
        }
    }

    /// Whether the server may have got the request although its answer was not seen.
    static func mayHaveArrived(_ failure: NetworkError) -> Bool {
        if failure.hasArrivedBefore || failure.response?.hasArrivedBefore == true { return true }
        // A gateway says that it got no answer from the server.
        if let status = failure.response?.status { return status == 502 || status == 504 }
        return switch failure.kind {
        case .dns, .connect, .timeout(.connect), .tls, .proxy, .circuitOpen, .authentication, .provider, .unknownName:
            false
        default: true
        }
    }

    /// The failure of a response that another server, or another request, got: a portal or a page for signing in answers so.
    /// A 303 of the server itself says that it has processed the request (RFC 9110 §15.4.4).
    static func redirectFailure(_ response: HTTPResponse) -> NetworkError? {
        guard !response.redirects.isEmpty else { return nil }
        let origins = Set((response.redirects.map(\.url) + [response.url]).map { URLReference.origin(of: $0) })
        let changesMethod =
            response.requestMethod == .post && response.redirects.contains { [301, 302].contains($0.status) }
        guard origins.count > 1 || changesMethod else { return nil }
        return NetworkError(
            .redirect,
            message:
                "the request was redirected to \(URLParts.redacted(response.url)), so nothing shows that its server "
                + "has it; correct the address, or sign in to the network",
            response: response)
    }

    /// Whether requests of other entries to the same target would fail for the same reason.
    private func concernsTarget(_ failure: NetworkError) -> Bool {
        switch failure.kind {
        case .tls, .proxy, .circuitOpen, .authentication, .provider, .redirect: true
        default: [401, 407, 429, 502, 503, 504, 511].contains(failure.response?.status ?? 0)
        }
    }
}

/// The targets to which nothing is sent now, and those that are tried with one request at a time. A pure value; times are those
/// of the outbox in milliseconds.
struct OutboxTargets: Sendable {
    private struct Target {
        /// The failures in a row.
        var failures = 0
        /// When it is tried again; `nil` while it cannot be connected to.
        var opensAt: Int64?
        var inFlight = 0
    }

    private var targets: [String: Target] = [:]
    /// The number of requests in flight for targets without failures.
    private var healthy: [String: Int] = [:]
    /// The number of requests that wait for a limit of their row.
    private var waiting: [String: Int] = [:]

    /// Whether a request may be sent to a target. More requests would only wait where others wait for a limit already.
    func isOpen(_ target: String, at time: Int64) -> Bool {
        guard waiting[target] == nil else { return false }
        guard let known = targets[target] else { return true }
        guard let opensAt = known.opensAt else { return false }
        // After a failure one request shows whether the target works.
        return opensAt <= time && known.inFlight == 0
    }

    /// Whether no target has failed since its last success, and none has requests that wait for a limit.
    var areAllOpen: Bool { targets.isEmpty && waiting.isEmpty }

    /// The targets to which nothing may be sent.
    func closed(at time: Int64) -> [String] {
        targets.keys.filter { waiting[$0] == nil && !isOpen($0, at: time) } + waiting.keys
    }

    /// The earliest time at which a paused target opens.
    func nextOpening(after time: Int64) -> Int64? {
        targets.values.compactMap(\.opensAt).filter { $0 > time }.min()
    }

    mutating func begins(_ target: String) {
        if targets[target] != nil { targets[target]?.inFlight += 1 } else { healthy[target, default: 0] += 1 }
    }

    mutating func ends(_ target: String) {
        if targets[target] != nil {
            targets[target]?.inFlight -= 1
        } else if let count = healthy[target] {
            healthy[target] = count > 1 ? count - 1 : nil
        }
    }

    /// A request has begun to wait for a limit of its row, or waits no more.
    mutating func waits(_ target: String, _ isWaiting: Bool) {
        let count = waiting[target, default: 0] + (isWaiting ? 1 : -1)
        waiting[target] = count > 0 ? count : nil
    }

    mutating func succeeded(_ target: String) {
        guard let known = targets.removeValue(forKey: target) else { return }
        healthy[target] = known.inFlight > 0 ? known.inFlight : nil
    }

    /// Pauses a target. The failures of requests that were sent together count as one.
    ///
    /// - Parameter opening: when it is tried again after so many failures in a row; `nil`: when ``open(_:at:)`` says so.
    /// - Returns: the number of failures in a row.
    @discardableResult
    mutating func failed(_ target: String, at now: Int64, _ opening: (_ failures: Int) -> Int64?) -> Int {
        var known = targets[target] ?? Target(opensAt: now, inFlight: healthy.removeValue(forKey: target) ?? 0)
        let isPaused = known.failures > 0 && (known.opensAt.map { $0 > now } ?? true)
        if !isPaused { known.failures += 1 }
        let opensAt = opening(known.failures)
        known.opensAt = isPaused ? later(known.opensAt, opensAt) : opensAt
        targets[target] = known
        return known.failures
    }

    private func later(_ one: Int64?, _ other: Int64?) -> Int64? {
        guard let one, let other else { return nil }
        return max(one, other)
    }

    /// Lets one request try whether the target works.
    mutating func open(_ target: String, at time: Int64) {
        guard targets[target]?.opensAt == nil else { return }
        targets[target]?.opensAt = time
    }

    mutating func openAll(at time: Int64) {
        for target in targets.keys { targets[target]?.opensAt = time }
    }
}

/// The time of an outbox: milliseconds that never go back, and that a change of the system's clock does not move. A pure value.
struct OutboxClock: Hashable, Sendable {
    /// What the clocks of the machine show.
    struct Reading: Hashable, Sendable {
        /// The identity of the machine's start; uptimes of different starts cannot be compared.
        var boot: String
        /// Milliseconds since the start, sleep included.
        var uptime: Int64
        /// Milliseconds since 1970 by the system's clock, which may be wrong.
        var wall: Int64
    }

    /// A reading and the time of the outbox then. The folder keeps it for the next process.
    struct Mark: Hashable, Sendable {
        var reading: Reading
        var time: Int64
    }

    private(set) var mark: Mark

    /// - Parameter kept: the mark of an earlier process; `nil` for a new folder.
    init(after kept: Mark?, _ now: Reading) {
        mark = kept ?? Mark(reading: now, time: now.wall)
        mark = Mark(reading: now, time: time(at: now))
    }

    /// The time now. After a new start of the machine only the system's clock shows how long it was off; if it was set back
    /// meanwhile, no time has passed.
    func time(at now: Reading) -> Int64 {
        let isSameStart = now.boot == mark.reading.boot && now.uptime >= mark.reading.uptime
        let passed = isSameStart ? now.uptime - mark.reading.uptime : now.wall - mark.reading.wall
        return mark.time + max(0, passed)
    }

    mutating func advance(to now: Reading) { mark = Mark(reading: now, time: time(at: now)) }
}
