import HTTPCore

/// Decides which requests may start now and which wait, so that no host gets
/// more connections than its limit and the whole engine no more than its own.
///
/// A pure state machine: it holds identifiers, not requests, and tells the
/// engine what to start. Waiting here is outside of every timeout, which
/// waiting inside libcurl is not.
struct AdmissionQueue<ID: Hashable> {
    /// The most requests that run at once against one host while it speaks HTTP/1.
    let limitPerHost: Int
    /// The most requests that run at once.
    let totalLimit: Int
    /// How many requests share a connection where a host has shown to speak HTTP/2: the number of streams that
    /// RFC 9113 §6.5.2 asks servers not to go below.
    static var streamsPerConnection: Int { 100 }

    private struct Host {
        var running = 0
        var isMultiplexed = false
        /// One queue for each priority, the lowest first; none before somebody waits.
        var waiting: [FIFO] = []
        var waitingCount = 0

        var isForgettable: Bool { running == 0 && waitingCount == 0 }

        mutating func wait(_ id: ID, priority: RequestPriority, order: UInt64) {
            if waiting.isEmpty { waiting = [FIFO](repeating: FIFO(), count: RequestPriority.allCases.count) }
            waiting[priority.rawValue].append(id, order: order)
            waitingCount += 1
        }
    }

    /// A queue whose front moves, so that taking from it costs no shifting.
    private struct FIFO {
        private var elements: [(id: ID, order: UInt64)] = []
        private var front = 0

        var first: (id: ID, order: UInt64)? { front < elements.count ? elements[front] : nil }

        var all: [ID] { elements[front...].map(\.id) }

        mutating func append(_ id: ID, order: UInt64) { elements.append((id, order)) }

        mutating func removeFirst() {
            front += 1
            if front > 64, front * 2 > elements.count {
                elements.removeFirst(front)
                front = 0
            }
        }

        mutating func remove(_ id: ID) -> Bool {
            guard let index = elements[front...].firstIndex(where: { $0.id == id }) else { return false }
            elements.remove(at: index)
            return true
        }
    }

    private var hosts: [String: Host] = [:]
    private(set) var running = 0
    private(set) var waiting = 0
    private var order: UInt64 = 0
    /// Hosts that have somebody waiting, looked at when only the total limit was in the way.
    private var hostsWithWaiters: Set<String> = []

    init(limitPerHost: Int, totalLimit: Int) {
        self.limitPerHost = limitPerHost
        self.totalLimit = totalLimit
    }

    /// Takes in a request. Returns whether it may start now; otherwise it waits until ``finish(host:)`` or
    /// ``setMultiplexed(host:)`` names it.
    mutating func submit(_ id: ID, host name: String, priority: RequestPriority) -> Bool {
        let mayStart = running < totalLimit
        if start(host: name, if: mayStart) { return true }
        order += 1
        hosts[name, default: Host()].wait(id, priority: priority, order: order)
        hostsWithWaiters.insert(name)
        waiting += 1
        return false
    }

    private mutating func start(host name: String, if mayStart: Bool) -> Bool {
        guard mayStart else { return false }
        let limitPerHost = limitPerHost
        func start(_ host: inout Host) -> Bool {
            guard host.waitingCount == 0, host.running < Self.limit(of: host, limitPerHost) else { return false }
            host.running += 1
            return true
        }
        guard start(&hosts[name, default: Host()]) else { return false }
        running += 1
        return true
    }

    /// A running request of this host is over. Returns those that may start instead.
    mutating func finish(host name: String) -> [ID] {
        running -= 1
        hosts[name]?.running -= 1
        forgetIdleHosts(after: name)
        return waiting == 0 ? [] : startWaiting(preferring: name)
    }

    /// Takes a waiting request out. Returns whether it was there.
    mutating func remove(_ id: ID, host name: String, priority: RequestPriority) -> Bool {
        guard let host = hosts[name], host.waitingCount > 0,
            hosts[name]?.waiting[priority.rawValue].remove(id) == true
        else { return false }
        noteLeft(name)
        forgetIdleHosts(after: name)
        return true
    }

    /// Takes all waiting requests out, in no order.
    mutating func removeAll() -> [ID] {
        var all: [ID] = []
        for name in hostsWithWaiters {
            all += hosts[name]?.waiting.flatMap(\.all) ?? []
            hosts[name]?.waiting = []
            hosts[name]?.waitingCount = 0
            forgetIdleHosts(after: name)
        }
        hostsWithWaiters = []
        waiting = 0
        return all
    }

    /// The host answered in HTTP/2 (or does no longer): its requests share connections. Returns those that may start.
    mutating func setMultiplexed(_ isMultiplexed: Bool, host name: String) -> [ID] {
        guard hosts[name]?.isMultiplexed ?? false != isMultiplexed else { return [] }
        hosts[name, default: Host()].isMultiplexed = isMultiplexed
        return waiting == 0 ? [] : startWaiting(preferring: name)
    }

    private static func limit(of host: Host, _ limitPerHost: Int) -> Int {
        host.isMultiplexed ? limitPerHost * streamsPerConnection : limitPerHost
    }

    private mutating func startWaiting(preferring name: String) -> [ID] {
        var started: [ID] = []
        while running < totalLimit, let id = takeFirst(of: name) { started.append(id) }
        // The total limit may have held other hosts back: the request that waits longest goes first.
        while running < totalLimit, let next = hostOfOldestStartable(), let id = takeFirst(of: next) {
            started.append(id)
        }
        return started
    }

    private func hostOfOldestStartable() -> String? {
        guard !hostsWithWaiters.isEmpty else { return nil }
        var oldest: (name: String, order: UInt64)?
        for name in hostsWithWaiters {
            guard let host = hosts[name], host.running < Self.limit(of: host, limitPerHost),
                let first = host.waiting.reversed().lazy.compactMap(\.first).first
            else { continue }
            if first.order < oldest?.order ?? .max { oldest = (name, first.order) }
        }
        return oldest?.name
    }

    private mutating func takeFirst(of name: String) -> ID? {
        guard let host = hosts[name], host.waitingCount > 0, host.running < Self.limit(of: host, limitPerHost) else {
            return nil
        }
        for priority in host.waiting.indices.reversed() {
            guard let first = host.waiting[priority].first else { continue }
            hosts[name]?.waiting[priority].removeFirst()
            hosts[name]?.running += 1
            running += 1
            noteLeft(name)
            return first.id
        }
        return nil
    }

    private mutating func noteLeft(_ name: String) {
        waiting -= 1
        hosts[name]?.waitingCount -= 1
        if hosts[name]?.waitingCount == 0 { hostsWithWaiters.remove(name) }
    }

    /// A host is forgotten with its last request. One that speaks HTTP/2 is kept for what it taught us, as long
    /// as there are not too many of them.
    private mutating func forgetIdleHosts(after name: String) {
        guard let host = hosts[name], host.isForgettable else { return }
        if !host.isMultiplexed {
            hosts[name] = nil
        } else if hosts.count > Self.rememberedHosts {
            hosts = hosts.filter { !$0.value.isForgettable }
        }
    }

    private static var rememberedHosts: Int { 1024 }
}
