import HTTPCore
import Platform

/// Decides which requests start and which wait. A pure state machine: its methods receive the time, and return which requests
/// start now and when to call ``advance(at:)``.
struct LimitQueue<ID: Hashable & Sendable>: Sendable {
    struct Turn: Sendable {
        /// The requests that may start now, in order.
        var started: [ID] = []
        /// When to call ``advance(at:)`` for the next token, unless another call comes first.
        var wakeAfter: Duration?
    }

    /// The rank of a waiting request: the highest priority comes first, and among equals the oldest.
    private struct Rank: Comparable {
        var priority: RequestPriority
        let order: UInt64

        static func < (lhs: Rank, rhs: Rank) -> Bool { (rhs.priority, lhs.order) < (lhs.priority, rhs.order) }
    }

    private struct Host {
        let name: String
        var running = 0
        /// The ranks of the waiting requests.
        private var waiting: [ID: Rank] = [:]
        /// The waiting requests in their order. Those that have another rank now, or none, are out of date.
        private var line = TimerHeap<Rank, (id: ID, rank: Rank)>()
        /// The rank under which it is in ``LimitQueue/ready``, and the time under which it is in ``LimitQueue/later``.
        var offered: Rank?
        var due: Duration?
        var bucket: TokenBucket?
        /// What the host tells of its own limits, by policy.
        var quotas: [String: ToldQuota] = [:]
        /// How many requests the host takes at once.
        var adaptive: AdaptiveLimit?
        /// Until when the host asked for a pause.
        var pausedUntil: Duration?

        init(name: String, bucket: TokenBucket?, adaptive: AdaptiveLimit?) {
            (self.name, self.bucket, self.adaptive) = (name, bucket, adaptive)
        }

        var hasWaiters: Bool { !waiting.isEmpty }

        mutating func wait(_ id: ID, _ rank: Rank) {
            waiting[id] = rank
            line.insert((id, rank), at: rank)
        }

        /// The request that comes next.
        mutating func first() -> (id: ID, rank: Rank)? {
            while let (rank, entry) = line.first {
                if waiting[entry.id] == rank { return entry }
                _ = line.popDue(at: rank)
            }
            return nil
        }

        /// Returns the new rank; `nil` for a request that does not wait, or has such a priority already.
        mutating func raise(_ id: ID, to priority: RequestPriority) -> Rank? {
            guard var rank = waiting[id], rank.priority < priority else { return nil }
            rank.priority = priority
            wait(id, rank)
            return rank
        }

        mutating func remove(_ id: ID) -> Rank? {
            let rank = waiting.removeValue(forKey: id)
            if line.count > 2 * waiting.count + 64 { line.keep { waiting[$0.id] == $0.rank } }
            return rank
        }

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
            running == 0 && !hasWaiters && adaptive?.isStale(at: now) != false && bucket?.isFull(at: now) != false
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
    /// The hosts whose first waiting request may start, by its rank, and those that have to wait for a time. What is not the
    /// host's ``Host/offered`` or ``Host/due`` is out of date. A host without a free slot is in neither.
    private var ready = TimerHeap<Rank, (host: Int, rank: Rank)>()
    private var later = TimerHeap<Duration, (host: Int, due: Duration)>()
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
        hosts[host].wait(id, Rank(priority: priority, order: order))
        hostsWithWaiters.insert(host)
        offer(host, at: now)
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
        if let host = place(of: host) {
            hosts[host].leave(isUnused: isUnused, sample, at: now)
            offer(host, at: now)
        }
        if isUnused { bucket?.deposit(1, at: now) }
        return advance(at: now)
    }

    /// Removes a waiting request. Returns whether it was waiting.
    mutating func cancel(_ id: ID, host: String) -> Bool { place(of: host).map { remove(id, of: $0) } ?? false }

    /// Raises the priority of a waiting request.
    mutating func raise(_ id: ID, host: String, to priority: RequestPriority) {
        guard let host = place(of: host), let rank = hosts[host].raise(id, to: priority) else { return }
        // A host that is not offered now is offered later, with what is then its first request.
        guard let offered = hosts[host].offered, rank < offered else { return }
        hosts[host].offered = rank
        ready.insert((host, rank), at: rank)
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
        for host in hostsWithWaiters { offer(host, at: now) }
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
        offer(host, at: now)
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
        guard !hostsWithWaiters.isEmpty else { return turn }
        while let (time, (host, _)) = later.popDue(at: now) {
            guard hosts[host].due == time else { continue }
            hosts[host].due = nil
            offer(host, at: now)
        }
        while hasRoom, bucket.map({ $0.wait(at: now) == .zero }) ?? true, let (host, id) = next(at: now) {
            _ = bucket?.take(at: now)
            _ = remove(id, of: host)
            hosts[host].take(at: now)
            running += 1
            offer(host, at: now)
            turn.started.append(id)
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

    /// Notes that the first waiting request of a host may start, or when, if the host has a free slot.
    private mutating func offer(_ host: Int, at now: Duration) {
        guard hosts[host].hasWaiters, hasRoom(host), let rank = hosts[host].first()?.rank else { return }
        let due = now + hosts[host].wait(at: now)
        if due > now {
            if let known = hosts[host].due, known <= due { return }
            hosts[host].due = due
            later.insert((host, due), at: due)
        } else if hosts[host].offered != rank {
            hosts[host].offered = rank
            ready.insert((host, rank), at: rank)
        }
    }

    /// The waiting request of the highest priority, among equals the oldest, whose host has a free slot and a token.
    private mutating func next(at now: Duration) -> (host: Int, id: ID)? {
        while let (rank, (host, _)) = ready.first {
            _ = ready.popDue(at: rank)
            guard hosts[host].offered == rank else { continue }
            hosts[host].offered = nil
            if let first = hosts[host].first(), first.rank == rank, hasRoom(host), hosts[host].wait(at: now) <= .zero {
                return (host, first.id)
            }
            offer(host, at: now)
        }
        return nil
    }

    /// The time until a request that waits only for a token may start. A request that waits for a slot may start when
    /// another one ends.
    private mutating func wakeUp(at now: Duration) -> Duration? {
        guard !hostsWithWaiters.isEmpty, hasRoom else { return nil }
        let commonWait = bucket?.wait(at: now) ?? .zero
        while let (rank, (host, _)) = ready.first {
            if hosts[host].offered == rank { return commonWait }
            _ = ready.popDue(at: rank)
        }
        while let (due, (host, _)) = later.first {
            if hosts[host].due == due { return max(commonWait, due - now) }
            _ = later.popDue(at: due)
        }
        return nil
    }

    private mutating func remove(_ id: ID, of host: Int) -> Bool {
        guard hosts[host].remove(id) != nil else { return false }
        if !hosts[host].hasWaiters {
            hostsWithWaiters.remove(host)
            (hosts[host].offered, hosts[host].due) = (nil, nil)
        }
        // What is out of date is dropped when it is the larger part.
        let most = 2 * hostsWithWaiters.count + 64
        if ready.count > most { ready.keep { hosts[$0.host].offered == $0.rank } }
        if later.count > most { later.keep { hosts[$0.host].due == $0.due } }
        return true
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
            if hosts.count >= 16_384 { hosts.removeAll { $0.running == 0 && !$0.hasWaiters } }
            places = Dictionary(uniqueKeysWithValues: hosts.enumerated().map { ($1.name, $0) })
            hostsWithWaiters = Set(hosts.indices.filter { hosts[$0].hasWaiters })
            (ready, later) = (TimerHeap(), TimerHeap())
            for host in hostsWithWaiters {
                (hosts[host].offered, hosts[host].due) = (nil, nil)
                offer(host, at: now)
            }
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
