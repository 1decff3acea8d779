import HTTPCore
import Platform

extension RequestLimits.RateLimit {
    /// - Parameter old: The bucket of an earlier limit, whose used tokens stay used.
    func bucket(after old: TokenBucket? = nil, at now: Duration) -> TokenBucket {
        var bucket = TokenBucket(perSecond: perSecond, capacity: Double(max(1, burst)), at: now)
        if let old { bucket.limit(toTokensOf: old, at: now) }
        return bucket
    }
}

/// Decides which requests start and which wait. A pure state machine: the caller passes the time; it returns what to start and
/// when to call it again.
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
        var running = 0
        /// The waiting requests, the next one first.
        var waiting: [Waiting] = []
        var bucket: TokenBucket?
    }

    private(set) var limits: RequestLimits
    private var bucket: TokenBucket?
    private var hosts: [String: Host] = [:]
    private var hostsWithWaiters: Set<String> = []
    private(set) var running = 0
    private var order: UInt64 = 0

    init(_ limits: RequestLimits, at now: Duration) {
        self.limits = limits
        bucket = limits.rate?.bucket(at: now)
    }

    /// The number of waiting requests.
    var waiting: Int { hostsWithWaiters.reduce(0) { $0 + (hosts[$1]?.waiting.count ?? 0) } }

    /// Adds a request. This turn or a later one starts it.
    mutating func enter(_ id: ID, host: String, priority: RequestPriority, at now: Duration) -> Turn {
        if hosts[host] == nil { remember(host, at: now) }
        order += 1
        put(Waiting(id: id, order: order, priority: priority), into: host)
        return advance(at: now)
    }

    /// Records the end of a started request.
    ///
    /// - Parameter isUnused: Whether it was never sent, so that its token returns to the rate limit.
    mutating func leave(host: String, isUnused: Bool = false, at now: Duration) -> Turn {
        running -= 1
        hosts[host]?.running -= 1
        if isUnused {
            bucket?.giveBack()
            hosts[host]?.bucket?.giveBack()
        }
        return advance(at: now)
    }

    /// Removes a waiting request. Returns whether it was waiting.
    mutating func cancel(_ id: ID, host: String) -> Bool {
        guard let index = hosts[host]?.waiting.firstIndex(where: { $0.id == id }) else { return false }
        hosts[host]?.waiting.remove(at: index)
        if hosts[host]?.waiting.isEmpty == true { hostsWithWaiters.remove(host) }
        return true
    }

    /// Raises the priority of a waiting request.
    mutating func raise(_ id: ID, host: String, to priority: RequestPriority) {
        guard let index = hosts[host]?.waiting.firstIndex(where: { $0.id == id }),
            var waiting = hosts[host]?.waiting.remove(at: index)
        else { return }
        waiting.priority = max(waiting.priority, priority)
        put(waiting, into: host)
    }

    /// Adopts other limits. Running, waiting and started requests still count.
    mutating func adopt(_ limits: RequestLimits, at now: Duration) -> Turn {
        if limits.rate != self.limits.rate { bucket = limits.rate?.bucket(after: bucket, at: now) }
        if limits.ratePerHost != self.limits.ratePerHost {
            for (name, host) in hosts { hosts[name]?.bucket = limits.ratePerHost?.bucket(after: host.bucket, at: now) }
        }
        self.limits = limits
        return advance(at: now)
    }

    /// Starts all requests that may start.
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

    // MARK: Internal

    private var hasRoom: Bool { limits.maxConcurrentRequests.map { running < max(1, $0) } ?? true }

    private func hasRoom(_ host: Host) -> Bool {
        limits.maxConcurrentRequestsPerHost.map { host.running < max(1, $0) } ?? true
    }

    /// The host with a free slot, a token, and the request of the highest priority; among equals, the oldest request.
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

    /// When the first needed token is available. Requests that wait for a slot are started by
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
        // From the end, because a new request is usually the last one.
        var index = hosts[host]?.waiting.count ?? 0
        while index > 0, let before = hosts[host]?.waiting[index - 1], Self.isBefore(waiting, before) { index -= 1 }
        hosts[host]?.waiting.insert(waiting, at: index)
        hostsWithWaiters.insert(host)
    }

    private mutating func remember(_ name: String, at now: Duration) {
        if hosts.count >= 1_024 {
            // A host with a partly used bucket is kept, because a new entry would start with a full one.
            hosts = hosts.filter { $0.value.running > 0 || !$0.value.waiting.isEmpty || isCounting($0.value, now) }
        }
        hosts[name] = Host(bucket: limits.ratePerHost?.bucket(at: now))
    }

    private func isCounting(_ host: Host, _ now: Duration) -> Bool {
        guard var bucket = host.bucket else { return false }
        return !bucket.isFull(at: now)
    }
}

/// A token bucket: a rate per second with bursts. A pure value that gets the time.
struct TokenBucket: Sendable {
    /// In seconds. A rate may be so low that the whole wait fits no number.
    private static let longestWait = 86_400.0

    let perSecond: Double
    let capacity: Double
    private var tokens: Double
    private var filledAt: Duration

    /// Creates a full bucket.
    init(perSecond: Double, capacity: Double, at now: Duration) {
        self.perSecond = max(0, perSecond)
        self.capacity = max(1, capacity)
        tokens = self.capacity
        filledAt = now
    }

    /// Takes a token if there is one. Returns whether there was.
    mutating func take(at now: Duration) -> Bool {
        fill(until: now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// Removes tokens, down to as many as another bucket has.
    mutating func limit(toTokensOf other: TokenBucket, at now: Duration) {
        var other = other
        other.fill(until: now)
        tokens = min(tokens, other.tokens)
    }

    /// Returns an unused token.
    mutating func giveBack() { tokens = min(capacity, tokens + 1) }

    /// The time until a token is available, or a day if that is sooner: zero if there is one now, `nil` if there will never
    /// be one.
    mutating func wait(at now: Duration) -> Duration? {
        fill(until: now)
        guard tokens < 1 else { return .zero }
        guard perSecond > 0 else { return nil }
        // Rounded up, so that a token is available when the wait ends.
        return .nanoseconds(Int64((min((1 - tokens) / perSecond, Self.longestWait) * 1e9).rounded(.up)) + 1)
    }

    /// Whether all tokens are available.
    mutating func isFull(at now: Duration) -> Bool {
        fill(until: now)
        return tokens >= capacity
    }

    /// Adds a fraction of a token.
    mutating func deposit(_ share: Double, at now: Duration) {
        fill(until: now)
        tokens = min(capacity, tokens + share)
    }

    /// Adds the tokens for the time since the last call. A clock that was set back changes nothing.
    private mutating func fill(until now: Duration) {
        guard now > filledAt else { return }
        tokens = min(capacity, tokens + (now - filledAt).inSeconds * perSecond)
        filledAt = now
    }
}
