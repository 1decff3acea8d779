import HTTPCore
import Platform

extension RequestLimits.RateLimit {
    /// - Parameter old: The bucket of an earlier limit, whose used tokens stay used.
    func bucket(after old: TokenBucket? = nil, at now: Duration) -> TokenBucket {
        TokenBucket(perSecond: perSecond, capacity: Double(max(1, burst)), after: old, at: now)
    }
}

/// Decides which requests start and which wait. A pure state machine: its methods receive the time, and return which requests
/// start now and when to call ``advance(at:)``.
struct LimitQueue<ID: Hashable & Sendable>: Sendable {
    struct Turn: Sendable {
        /// The requests that may start now, in order.
        var started: [ID] = []
        /// When to call ``advance(at:)`` for the next token, unless another call comes first.
        var wakeAfter: Duration?
    }

    private struct Waiting {
        let id: ID
        let order: UInt64
        var priority: RequestPriority
    }

    private struct Host {
        let name: String
        var running = 0
        /// The waiting requests, the next one first.
        var waiting: [Waiting] = []
        var bucket: TokenBucket?
        /// What the host tells of its own limits, by policy.
        var quotas: [String: ToldQuota] = [:]
        /// How many requests the host takes at once.
        var adaptive: AdaptiveLimit?
        /// Until when the host asked for a pause.
        var pausedUntil: Duration?

        /// The time until the host takes another request.
        func wait(at now: Duration) -> Duration {
            var wait = bucket?.wait(at: now) ?? .zero
            if let pausedUntil { wait = max(wait, pausedUntil - now) }
            for quota in quotas.values { wait = max(wait, quota.wait(running, at: now)) }
            return wait
        }

        mutating func take(at now: Duration) {
            running += 1
            _ = bucket?.take(at: now)
            for name in quotas.keys { quotas[name]?.take(at: now) }
        }

        mutating func leave(isUnused: Bool, _ sample: AdaptiveLimit.Sample, at now: Duration) {
            adaptive?.note(sample, running: running, at: now)
            running -= 1
            guard isUnused else { return }
            bucket?.deposit(1, at: now)
            for name in quotas.keys { quotas[name]?.giveBack(at: now) }
        }

        /// Whether a new entry would say the same, or nearly so.
        func isForgettable(at now: Duration) -> Bool {
            running == 0 && waiting.isEmpty && adaptive?.isStale(at: now) != false && bucket?.isFull(at: now) != false
                && (pausedUntil ?? now) <= now
                && quotas.values.allSatisfy { $0.isOver(at: now) }
        }
    }

    private(set) var limits: RequestLimits
    private var bucket: TokenBucket?
    private var hosts: [Host] = []
    /// The places of the hosts in `hosts`, by their names.
    private var places: [String: Int] = [:]
    /// The host asked about last, which is usually the next one, too.
    private var last: Int?
    private var hostsWithWaiters: Set<Int> = []
    private(set) var running = 0
    private var order: UInt64 = 0
    /// Hosts that say nothing any more are forgotten when there are at least this many.
    private var roomFrom = 1_024

    init(_ limits: RequestLimits, at now: Duration) {
        self.limits = limits
        bucket = limits.rate?.bucket(at: now)
    }

    /// Adds a request. This turn or a later one starts it.
    mutating func enter(_ id: ID, host: String, priority: RequestPriority, at now: Duration) -> Turn {
        let host = place(of: host) ?? add(host, at: now)
        order += 1
        put(Waiting(id: id, order: order, priority: priority), into: host)
        return advance(at: now)
    }

    /// Starts a request at once if no other one waits and nothing speaks against it. Returns whether it did.
    mutating func start(host: String, at now: Duration) -> Bool {
        guard hostsWithWaiters.isEmpty, hasRoom else { return false }
        let host = place(of: host) ?? add(host, at: now)
        guard hasRoom(host), hosts[host].wait(at: now) <= .zero, bucket?.take(at: now) != false else {
            return false
        }
        hosts[host].take(at: now)
        running += 1
        return true
    }

    /// Records the end of a started request.
    ///
    /// - Parameter isUnused: Whether it was never sent, so that its token returns to the rate limit.
    mutating func leave(
        host: String, isUnused: Bool = false, _ sample: AdaptiveLimit.Sample = .nothing, at now: Duration
    ) -> Turn {
        running -= 1
        if let host = place(of: host) { hosts[host].leave(isUnused: isUnused, sample, at: now) }
        if isUnused { bucket?.deposit(1, at: now) }
        return advance(at: now)
    }

    /// Removes a waiting request. Returns whether it was waiting.
    mutating func cancel(_ id: ID, host: String) -> Bool { place(of: host).flatMap { remove(id, of: $0) } != nil }

    /// Raises the priority of a waiting request.
    mutating func raise(_ id: ID, host: String, to priority: RequestPriority) {
        guard let host = place(of: host), var waiting = remove(id, of: host) else { return }
        waiting.priority = max(waiting.priority, priority)
        put(waiting, into: host)
    }

    /// Adopts other limits. Running and waiting requests still count, and used tokens stay used.
    mutating func adopt(_ limits: RequestLimits, at now: Duration) -> Turn {
        if limits.rate != self.limits.rate { bucket = limits.rate?.bucket(after: bucket, at: now) }
        if limits.ratePerHost != self.limits.ratePerHost {
            for host in hosts.indices {
                hosts[host].bucket = limits.ratePerHost?.bucket(after: hosts[host].bucket, at: now)
            }
        }
        for host in hosts.indices where limits.adaptive != hosts[host].adaptive?.bounds {
            guard let bounds = limits.adaptive else {
                hosts[host].adaptive = nil
                continue
            }
            if hosts[host].adaptive == nil { hosts[host].adaptive = AdaptiveLimit(bounds, at: now) }
            hosts[host].adaptive?.bounds = bounds
        }
        if !limits.followsServer {
            for host in hosts.indices {
                hosts[host].quotas = [:]
                hosts[host].pausedUntil = nil
            }
        }
        self.limits = limits
        return advance(at: now)
    }

    /// Records what a host tells of its limits, before the response that tells it leaves.
    mutating func learn(_ reports: [QuotaReport], pause: Duration?, of host: String, at now: Duration) -> Turn {
        guard limits.followsServer, let host = place(of: host) else { return advance(at: now) }
        let running = hosts[host].running
        for report in reports {
            hosts[host].quotas[report.name, default: ToldQuota()].learn(report, running: running, at: now)
        }
        // A server that names its policies anew each time does not fill the memory.
        if hosts[host].quotas.count > 16 {
            hosts[host].quotas = hosts[host].quotas.filter { name, _ in reports.contains { $0.name == name } }
        }
        if let pause { hosts[host].pausedUntil = max(hosts[host].pausedUntil ?? .zero, now + pause) }
        return advance(at: now)
    }

    /// The time for which a host takes no request at all.
    mutating func pause(of host: String, at now: Duration) -> Duration {
        guard limits.followsServer, let host = place(of: host) else { return .zero }
        let pause = max(.zero, (hosts[host].pausedUntil ?? now) - now)
        return hosts[host].quotas.values.reduce(pause) { max($0, $1.pause(at: now)) }
    }

    /// The numbers of requests that hosts take at once, by host; empty without ``RequestLimits/adaptive``.
    var adaptiveLimits: [String: Int] { places.compactMapValues { hosts[$0].adaptive?.limit } }

    /// The strictest of the host's policies that say how many requests a whole window allows. The rate and a burst together
    /// stay below the quota of a window.
    func toldRate(of host: String) -> RequestLimits.RateLimit? {
        places[host].map { host in
            hosts[host].quotas.values.compactMap { quota -> RequestLimits.RateLimit? in
                guard let limit = quota.limit, limit > 0, let window = quota.window, window > .zero else { return nil }
                let rate = 0.95 * Double(limit) / window.inSeconds
                return RequestLimits.RateLimit(perSecond: rate, burst: max(1, limit / 20))
            }.min { $0.perSecond < $1.perSecond }
        } ?? nil
    }

    /// Starts all requests that may start.
    mutating func advance(at now: Duration) -> Turn {
        var turn = Turn()
        while let (host, first) = next(at: now) {
            if bucket?.take(at: now) == false { break }
            _ = remove(first.id, of: host)
            hosts[host].take(at: now)
            running += 1
            turn.started.append(first.id)
        }
        turn.wakeAfter = wakeUp(at: now)
        return turn
    }

    // MARK: Internal

    private var hasRoom: Bool { limits.maxConcurrentRequests.map { running < max(1, $0) } ?? true }

    private func hasRoom(_ host: Int) -> Bool {
        if let limit = hosts[host].adaptive?.limit, hosts[host].running >= limit { return false }
        return limits.maxConcurrentRequestsPerHost.map { hosts[host].running < max(1, $0) } ?? true
    }

    /// The waiting request of the highest priority, among equals the oldest, whose host has a free slot and a token.
    private func next(at now: Duration) -> (host: Int, first: Waiting)? {
        guard !hostsWithWaiters.isEmpty, hasRoom else { return nil }
        var best: (host: Int, first: Waiting)?
        for host in hostsWithWaiters {
            guard let first = hosts[host].waiting.first, hasRoom(host) else { continue }
            if hosts[host].wait(at: now) > .zero { continue }
            if let best, !Self.isBefore(first, best.first) { continue }
            best = (host, first)
        }
        return best
    }

    /// The time until a request that waits only for a token may start. A request that waits for a slot may start when
    /// another one ends.
    private func wakeUp(at now: Duration) -> Duration? {
        guard !hostsWithWaiters.isEmpty, hasRoom else { return nil }
        let commonWait = bucket?.wait(at: now) ?? .zero
        var first: Duration?
        for host in hostsWithWaiters where hasRoom(host) {
            let wait = max(commonWait, hosts[host].wait(at: now))
            first = min(first ?? wait, wait)
        }
        return first
    }

    private static func isBefore(_ one: Waiting, _ other: Waiting) -> Bool {
        one.priority == other.priority ? one.order < other.order : one.priority > other.priority
    }

    private mutating func put(_ waiting: Waiting, into host: Int) {
        // From the end, because a new request is usually the last one.
        var index = hosts[host].waiting.count
        while index > 0, Self.isBefore(waiting, hosts[host].waiting[index - 1]) { index -= 1 }
        hosts[host].waiting.insert(waiting, at: index)
        hostsWithWaiters.insert(host)
    }

    private mutating func remove(_ id: ID, of host: Int) -> Waiting? {
        guard let index = hosts[host].waiting.firstIndex(where: { $0.id == id }) else { return nil }
        let waiting = hosts[host].waiting.remove(at: index)
        if hosts[host].waiting.isEmpty { hostsWithWaiters.remove(host) }
        return waiting
    }

    private mutating func place(of name: String) -> Int? {
        if let last, hosts[last].name == name { return last }
        guard let place = places[name] else { return nil }
        last = place
        return place
    }

    /// Adds a host, and returns its place.
    private mutating func add(_ name: String, at now: Duration) -> Int {
        if hosts.count >= roomFrom {
            hosts.removeAll { $0.isForgettable(at: now) }
            // What idle hosts told is worth less than the memory of very many.
            if hosts.count >= 16_384 { hosts.removeAll { $0.running == 0 && $0.waiting.isEmpty } }
            places = Dictionary(uniqueKeysWithValues: hosts.enumerated().map { ($1.name, $0) })
            hostsWithWaiters = Set(hosts.indices.filter { !hosts[$0].waiting.isEmpty })
            roomFrom = max(1_024, 2 * hosts.count)
        }
        hosts.append(
            Host(
                name: name, bucket: limits.ratePerHost?.bucket(at: now),
                adaptive: limits.adaptive.map { AdaptiveLimit($0, at: now) }))
        places[name] = hosts.count - 1
        last = hosts.count - 1
        return hosts.count - 1
    }
}

/// A token bucket: a rate per second with bursts. A pure value: its methods receive the time.
struct TokenBucket: Sendable {
    /// In seconds. At a very low rate, the whole wait in nanoseconds would not fit in an `Int64`.
    private static let longestWait = 86_400.0

    let perSecond: Double
    let capacity: Double
    private var tokens: Double
    private var filledAt: Duration

    /// Creates a bucket that is full, or that has no more tokens than the one it replaces.
    init(perSecond: Double, capacity: Double, after old: TokenBucket? = nil, at now: Duration) {
        self.perSecond = max(0, perSecond)
        self.capacity = max(1, capacity)
        tokens = min(self.capacity, old?.available(at: now) ?? .infinity)
        filledAt = now
    }

    /// Takes a token if there is one. Returns whether there was.
    mutating func take(at now: Duration) -> Bool {
        fill(until: now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// Adds tokens, or a fraction of one.
    mutating func deposit(_ count: Double, at now: Duration) {
        fill(until: now)
        tokens = min(capacity, tokens + count)
    }

    /// The time until a token is available, at most a day: zero if there is one now, `nil` if there will never be one.
    func wait(at now: Duration) -> Duration? {
        let tokens = available(at: now)
        guard tokens < 1 else { return .zero }
        guard perSecond > 0 else { return nil }
        // Rounded up, so that a token is available when the wait ends.
        return .nanoseconds(Int64((min((1 - tokens) / perSecond, Self.longestWait) * 1e9).rounded(.up)) + 1)
    }

    func isFull(at now: Duration) -> Bool { available(at: now) >= capacity }

    /// The tokens at a time. A clock that was set back changes nothing.
    private func available(at now: Duration) -> Double {
        guard now > filledAt else { return tokens }
        return min(capacity, tokens + (now - filledAt).inSeconds * perSecond)
    }

    private mutating func fill(until now: Duration) {
        tokens = available(at: now)
        filledAt = max(filledAt, now)
    }
}
