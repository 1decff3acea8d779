import HTTPCore

/// How many requests a manager has under way, and how many it starts, at most.
///
/// ```swift
/// configuration.limits.maxConcurrentRequestsPerHost = 4
/// configuration.limits.rate = RateLimit(perSecond: 20, burst: 5)
/// ```
///
/// Waiting here is outside of every timeout but the deadline. Those of a higher priority go first, among equals those
/// who came first. A request that waits for its repetition or for a new token holds no place; one whose body is
/// streamed holds it until its head is there.
public struct RequestLimits: Hashable, Sendable {
    /// The most requests under way at once. Default `nil`: what the engine's connections allow.
    public var maxConcurrentRequests: Int?
    /// The most requests under way at once to one host and port. Default `nil`: what the engine's connections allow.
    public var maxConcurrentRequestsPerHost: Int?
    /// How many requests are started in a time. Default `nil`: any number.
    public var rate: RateLimit?
    /// How many requests to one host and port are started in a time. Default `nil`: any number.
    public var ratePerHost: RateLimit?

    /// No limits.
    public init() {}

    var isUnlimited: Bool {
        maxConcurrentRequests == nil && maxConcurrentRequestsPerHost == nil && rate == nil && ratePerHost == nil
    }
}

/// So many requests per second, and a burst of them at once (a token bucket).
public struct RateLimit: Hashable, Sendable {
    /// The requests per second, more than zero.
    public var perSecond: Double
    /// The requests that may start at once after a pause, at least one.
    public var burst: Int

    /// Makes a limit.
    public init(perSecond: Double, burst: Int = 1) {
        self.perSecond = perSecond
        self.burst = burst
    }

    func bucket(at now: Duration) -> TokenBucket {
        TokenBucket(perSecond: perSecond, capacity: Double(max(1, burst)), at: now)
    }
}

/// Decides which requests start and which wait. A pure state machine: it is given the time and says who starts, and
/// when to ask again.
struct LimitQueue<ID: Hashable & Sendable>: Sendable {
    struct Turn: Sendable {
        /// Those that may start now, in order.
        var started: [ID] = []
        /// When to call ``advance(at:)``, if nothing else happens before: a token is there then.
        var wakeAfter: Duration?
    }

    private struct Waiting {
        let id: ID
        let order: UInt64
        var priority: RequestPriority
    }

    private struct Host {
        var running = 0
        /// Those who wait, the next one first.
        var waiting: [Waiting] = []
        var bucket: TokenBucket?
    }

    let limits: RequestLimits
    private var bucket: TokenBucket?
    private var hosts: [String: Host] = [:]
    private var hostsWithWaiters: Set<String> = []
    private(set) var running = 0
    private var order: UInt64 = 0

    init(_ limits: RequestLimits, at now: Duration) {
        self.limits = limits
        bucket = limits.rate?.bucket(at: now)
    }

    /// How many wait.
    var waiting: Int { hostsWithWaiters.reduce(0) { $0 + (hosts[$1]?.waiting.count ?? 0) } }

    /// A request comes. It is among those started, now or by a later turn.
    mutating func enter(_ id: ID, host: String, priority: RequestPriority, at now: Duration) -> Turn {
        if hosts[host] == nil { remember(host, at: now) }
        order += 1
        put(Waiting(id: id, order: order, priority: priority), into: host)
        return advance(at: now)
    }

    /// A request that was started is over.
    ///
    /// - Parameter isUnused: it was never sent, so that the rate gets its token back.
    mutating func leave(host: String, isUnused: Bool = false, at now: Duration) -> Turn {
        running -= 1
        hosts[host]?.running -= 1
        if isUnused {
            bucket?.giveBack()
            hosts[host]?.bucket?.giveBack()
        }
        return advance(at: now)
    }

    /// A request that waits goes away. Returns whether it was waiting.
    mutating func cancel(_ id: ID, host: String) -> Bool {
        guard let index = hosts[host]?.waiting.firstIndex(where: { $0.id == id }) else { return false }
        hosts[host]?.waiting.remove(at: index)
        if hosts[host]?.waiting.isEmpty == true { hostsWithWaiters.remove(host) }
        return true
    }

    /// A request that waits goes before those of a lower priority.
    mutating func raise(_ id: ID, host: String, to priority: RequestPriority) {
        guard let index = hosts[host]?.waiting.firstIndex(where: { $0.id == id }),
            var waiting = hosts[host]?.waiting.remove(at: index)
        else { return }
        waiting.priority = max(waiting.priority, priority)
        put(waiting, into: host)
    }

    /// Starts whoever may start.
    mutating func advance(at now: Duration) -> Turn {
        var turn = Turn()
        while let host = nextHost(at: now) {
            if bucket != nil, bucket?.take(at: now) != true { break }
            if hosts[host]?.bucket != nil { _ = hosts[host]?.bucket?.take(at: now) }
            guard let first = hosts[host]?.waiting.removeFirst() else { break }
            if hosts[host]?.waiting.isEmpty == true { hostsWithWaiters.remove(host) }
            hosts[host]?.running += 1
            running += 1
            turn.started.append(first.id)
        }
        turn.wakeAfter = wakeUp(at: now)
        return turn
    }

    // MARK: Inside

    private var hasRoom: Bool { limits.maxConcurrentRequests.map { running < max(1, $0) } ?? true }

    private func hasRoom(_ host: Host) -> Bool {
        limits.maxConcurrentRequestsPerHost.map { host.running < max(1, $0) } ?? true
    }

    /// Of the hosts with room and a token, the one whose first in line has the highest priority and waits longest.
    private mutating func nextHost(at now: Duration) -> String? {
        guard hasRoom else { return nil }
        var best: (host: String, first: Waiting)?
        for name in hostsWithWaiters {
            guard let host = hosts[name], let first = host.waiting.first, hasRoom(host) else { continue }
            if host.bucket != nil, hosts[name]?.bucket?.wait(at: now) != .zero { continue }
            if let best, !Self.isBefore(first, best.first) { continue }
            best = (name, first)
        }
        return best?.host
    }

    /// When the first token comes that somebody waits for; those who wait for room are started by
    /// ``leave(host:isUnused:at:)``.
    private mutating func wakeUp(at now: Duration) -> Duration? {
        guard !hostsWithWaiters.isEmpty, hasRoom else { return nil }
        var first: Duration?
        for name in hostsWithWaiters {
            guard let host = hosts[name], hasRoom(host) else { continue }
            var wait = Duration.zero
            if host.bucket != nil { wait = hosts[name]?.bucket?.wait(at: now) ?? .zero }
            if bucket != nil { wait = max(wait, bucket?.wait(at: now) ?? .zero) }
            first = min(first ?? wait, wait)
        }
        return first
    }

    private static func isBefore(_ one: Waiting, _ other: Waiting) -> Bool {
        one.priority == other.priority ? one.order < other.order : one.priority > other.priority
    }

    private mutating func put(_ waiting: Waiting, into host: String) {
        // From the end: mostly the new one is the last.
        var index = hosts[host]?.waiting.count ?? 0
        while index > 0, let before = hosts[host]?.waiting[index - 1], Self.isBefore(waiting, before) { index -= 1 }
        hosts[host]?.waiting.insert(waiting, at: index)
        hostsWithWaiters.insert(host)
    }

    private mutating func remember(_ name: String, at now: Duration) {
        if hosts.count >= 1_024 {
            // A host whose tokens are being counted is not forgotten, or it would have all of them again.
            hosts = hosts.filter { $0.value.running > 0 || !$0.value.waiting.isEmpty || isCounting($0.value, now) }
        }
        hosts[name] = Host(bucket: limits.ratePerHost?.bucket(at: now))
    }

    private func isCounting(_ host: Host, _ now: Duration) -> Bool {
        guard var bucket = host.bucket else { return false }
        return !bucket.isFull(at: now)
    }
}

/// Lets so many through per second, and a burst of them at once. A pure value: the time is given to it.
struct TokenBucket: Sendable {
    let perSecond: Double
    let capacity: Double
    private var tokens: Double
    private var filledAt: Duration

    /// Starts full.
    init(perSecond: Double, capacity: Double, at now: Duration) {
        self.perSecond = max(0, perSecond)
        self.capacity = max(1, capacity)
        tokens = self.capacity
        filledAt = now
    }

    /// Whether one may pass now; takes its token then.
    mutating func take(at now: Duration) -> Bool {
        fill(until: now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// Puts back what was taken and not used.
    mutating func giveBack() { tokens = min(capacity, tokens + 1) }

    /// How long until one may pass; zero when one may, `nil` when none ever will.
    mutating func wait(at now: Duration) -> Duration? {
        fill(until: now)
        guard tokens < 1 else { return .zero }
        guard perSecond > 0 else { return nil }
        // Rounded up, so that at the end of the wait there is one.
        return .nanoseconds(Int64(((1 - tokens) / perSecond * 1e9).rounded(.up)) + 1)
    }

    /// Whether nothing was taken that has not come back.
    mutating func isFull(at now: Duration) -> Bool {
        fill(until: now)
        return tokens >= capacity
    }

    /// Puts in a share of a token.
    mutating func deposit(_ share: Double, at now: Duration) {
        fill(until: now)
        tokens = min(capacity, tokens + share)
    }

    /// A clock that was turned back gives nothing and takes nothing.
    private mutating func fill(until now: Duration) {
        guard now > filledAt else { return }
        tokens = min(capacity, tokens + (now - filledAt).fractionalSeconds * perSecond)
        filledAt = now
    }
}

extension Duration {
    var fractionalSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
