import HTTPCore
import Platform

/// Decides which target is probed when, and how long a result is valid. A pure state machine.
///
/// Concurrent requests for the same target share one probe. A result is valid for a while. A change of the network
/// invalidates it and repeats a running probe, whose result may be from before the change.
struct ProbeLedger<Target: Hashable, Answer> {
    typealias Instant = ContinuousClock.Instant

    enum Action {
        case take(Answer)
        case join
        /// Probe the target, and pass the result to ``finish(_:_:isReachable:at:)``.
        case start
    }

    private struct Entry {
        var answer: Answer?
        var validUntil: Instant?
        var isRunning = false
        /// Whether the running probe is the repetition of one that a change of the network made useless.
        var isRepeated = false
        /// Whether the network has changed since the probe began.
        var isOutdated = false
        var failures = 0
    }

    let ttl: Duration
    let failureTTL: Duration
    /// The maximum number of targets kept besides those that are observed. Those without a valid result are removed first.
    let capacity: Int
    /// Targets are forgotten when there are at least this many.
    private var roomFrom: Int
    private var entries: [Target: Entry] = [:]

    init(ttl: Duration, failureTTL: Duration, capacity: Int = 256) {
        self.ttl = min(ttl, CallClock.longestSleep)
        self.failureTTL = min(failureTTL, CallClock.longestSleep)
        self.capacity = capacity
        roomFrom = capacity
    }

    /// The last result, valid or not.
    func answer(of target: Target) -> Answer? { entries[target]?.answer }

    var answers: [(Target, Answer)] { entries.compactMap { target, entry in entry.answer.map { (target, $0) } } }

    /// Requests the result for a target.
    ///
    /// - Parameters:
    ///   - isFresh: Whether an earlier result must not be used.
    ///   - observed: The targets that are observed, whose results are kept.
    mutating func ask(
        _ target: Target, isFresh: Bool = false, at now: Instant, observed: () -> Set<Target> = { [] }
    ) -> Action {
        if entries[target] == nil, entries.count >= roomFrom { forget(besides: observed(), at: now) }
        var entry = entries[target] ?? Entry()
        defer { entries[target] = entry }
        if entry.isRunning { return .join }
        if !isFresh, let answer = entry.answer, let validUntil = entry.validUntil, now < validUntil {
            return .take(answer)
        }
        entry.isRunning = true
        entry.isRepeated = false
        entry.isOutdated = false
        return .start
    }

    /// Records the result of a probe.
    ///
    /// - Returns: Whether to probe again, because the network has changed. The waiters keep waiting.
    mutating func finish(_ target: Target, _ answer: Answer, isReachable: Bool, at now: Instant) -> Bool {
        var entry = entries[target] ?? Entry()
        defer { entries[target] = entry }
        if entry.isOutdated, !entry.isRepeated {
            // Repeated only once, so that a network that keeps changing delays no caller forever.
            entry.isRepeated = true
            entry.isOutdated = false
            entry.validUntil = nil
            return true
        }
        entry.isRunning = false
        entry.answer = answer
        entry.failures = isReachable ? 0 : min(entry.failures + 1, 16)
        entry.validUntil = entry.isOutdated ? nil : now + (isReachable ? ttl : failureTTL)
        return false
    }

    /// Invalidates all results after a change of the network. ``answer(of:)`` still returns them.
    mutating func networkChanged() {
        for target in entries.keys {
            entries[target]?.validUntil = nil
            entries[target]?.failures = 0
            if entries[target]?.isRunning == true { entries[target]?.isOutdated = true }
        }
    }

    /// When to probe an observed target again: when its result expires. While the target stays unreachable, the interval
    /// grows up to that of reachable targets.
    func nextTry(of target: Target, at now: Instant) -> Instant {
        guard let entry = entries[target], let validUntil = entry.validUntil else { return now }
        // A result that is not kept is no reason to connect all the time.
        guard (entry.failures > 0 ? failureTTL : ttl) > .zero else { return validUntil + .seconds(1) }
        guard entry.failures > 1 else { return validUntil }
        let backoff = Backoff(first: failureTTL, longest: max(ttl, failureTTL))
        return validUntil + (backoff.pause(afterFailures: entry.failures) - failureTTL)
    }

    private mutating func forget(besides observed: Set<Target>, at now: Instant) {
        entries = entries.filter { target, entry in
            entry.isRunning || entry.validUntil.map { $0 > now } ?? false || observed.contains(target)
        }
        if entries.count >= capacity + observed.count {
            entries = entries.filter { $1.isRunning || observed.contains($0) }
        }
        // So that few of very many targets do it.
        roomFrom = capacity + 2 * observed.count
    }
}

/// Lets a request that could not connect wait for the network, and sends it again when its server can be connected to.
struct ConnectivityStage: Stage {
    let limit: Duration
    let limits: TimeLimits
    /// - Parameter target: A URL, or the name of a domain, whose pins and `tls` then apply.
    let waitUntilReachable: @Sendable (_ target: String, _ limit: Duration) async -> Bool

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let clock = limits.clock
        var end: Duration?
        var backoff = Backoff(first: .milliseconds(100), longest: .seconds(5))
        while true {
            do {
                return try await chain.proceed(request)
            } catch let error as NetworkError
                where call.isReplayable && call.sent.allows(.connectivity, after: .failure(error))
            {
                let deadline = end ?? clock.now() + limit
                end = deadline
                let left = deadline - clock.now()
                // The failed connection may have been to a mirror, or to the target of a redirect.
                let url = call.sent.last?.url ?? request.url
                let origin = URLReference.origin(of: url)
                let isOfDomain = call.details.addresses.contains { URLReference.origin(of: $0) == origin }
                let target = isOfDomain ? call.details.row?.domain ?? url : url
                call.watch?.record(.waiting(.connectivity))
                guard left > .zero,
                    try await limits.run(for: call, { [waitUntilReachable] in await waitUntilReachable(target, left) })
                else {
                    try Task.checkCancellation()
                    throw error
                }
                // The wait before each try grows, because a request may keep failing although every probe succeeds.
                try await clock.wait(min(backoff.next(), deadline - clock.now()), for: call)
                call.watch?.record(.waited(.connectivity))
            }
        }
    }
}
