import HTTPCore

/// Decides which requests may start now and which wait, so that no host gets
/// more connections than its limit and the whole engine no more than its own.
///
/// A pure state machine: it holds identifiers, not requests, and tells the
/// engine what to start. Waiting here is outside of every timeout, which
/// waiting inside libcurl is not.
struct AdmissionQueue<ID: Hashable> {
    /// The most requests that run at once.
    let totalLimit: Int
    /// How many requests share a connection where a host has shown to speak HTTP/2: the number of streams that
    /// RFC 9113 §6.5.2 asks servers not to go below.
    static var streamsPerConnection: Int { 100 }

    /// Stands for a host from ``submit(_:host:priority:limit:)`` to ``finish(_:)``, so that its name is looked up once.
    struct Place: Hashable {
        fileprivate let index: Int
        /// When the request came, among all that wait.
        fileprivate var order: UInt64 = 0
    }

    private struct Host {
        let name: String
        /// The most requests that run at once while the host speaks HTTP/1: what the last request said.
        var limit = 1
        var running = 0
        var isMultiplexed = false
        /// One queue for each priority, the lowest first; none before somebody waits.
        var waiting: [FIFO] = []
        var waitingCount = 0

        var isIdle: Bool { running == 0 && waitingCount == 0 }

        mutating func wait(_ id: ID, priority: RequestPriority, order: UInt64) {
            if waiting.isEmpty { waiting = [FIFO](repeating: FIFO(), count: RequestPriority.allCases.count) }
            waiting[priority.rawValue].append(id, order: order)
            waitingCount += 1
        }
    }

    /// A queue whose front moves, so that taking from it costs no shifting; and nor does taking out of its middle, which
    /// leaves a gap.
    private struct FIFO {
        private struct Element {
            /// `nil` when it has left, so that nothing is held.
            var id: ID?
            /// Rises from the first to the last.
            let order: UInt64
        }

        private var elements: [Element] = []
        /// The first that is no gap, or the end.
        private var front = 0
        /// Behind the front.
        private var gaps = 0

        var first: (id: ID, order: UInt64)? {
            guard front < elements.count, let id = elements[front].id else { return nil }
            return (id, elements[front].order)
        }

        var all: [ID] { elements[front...].compactMap(\.id) }

        mutating func append(_ id: ID, order: UInt64) { elements.append(Element(id: id, order: order)) }

        /// Returns how many elements had to be moved.
        mutating func removeFirst() -> Int {
            elements[front].id = nil
            front += 1
            return tidy()
        }

        /// Returns how many elements had to be moved; `nil` when it is not there.
        mutating func remove(_ id: ID, order: UInt64) -> Int? {
            var (low, high) = (front, elements.count)
            while low < high {
                let middle = (low + high) / 2
                if elements[middle].order < order { low = middle + 1 } else { high = middle }
            }
            guard low < elements.count, elements[low].order == order, elements[low].id == id else { return nil }
            elements[low].id = nil
            gaps += 1
            return tidy()
        }

        /// Moves the front over gaps. Closes the gaps when they are the greater part: so each element is moved as often as
        /// one was taken out, at most.
        private mutating func tidy() -> Int {
            while front < elements.count, elements[front].id == nil, gaps > 0 {
                front += 1
                gaps -= 1
            }
            guard front + gaps > 64, (front + gaps) * 2 > elements.count else { return 0 }
            elements = elements[front...].filter { $0.id != nil }
            (front, gaps) = (0, 0)
            return elements.count
        }
    }

    /// A host that was forgotten leaves a hole that the next one fills.
    private var hosts: [Host?] = []
    private var holes: [Int] = []
    private var places: [String: Int] = [:]
    /// Hosts that have somebody waiting, looked at when only the total limit was in the way.
    private var hostsWithWaiters: Set<Int> = []
    private var order: UInt64 = 0
    /// How many requests run.
    private(set) var running = 0
    /// How many requests wait.
    private(set) var waiting = 0
    /// How many elements were moved within the queues so far: what taking out costs.
    private(set) var movedCount = 0

    init(totalLimit: Int) { self.totalLimit = totalLimit }

    /// How many hosts are remembered. Idle ones stay, for what they taught, until there are many.
    var hostCount: Int { places.count }

    /// Takes in a request; `limit` is that of its host from now on. It either may start now, or waits until ``finish(_:)`` or
    /// ``setMultiplexed(_:at:)`` names it.
    mutating func submit(
        _ id: ID, host name: String, priority: RequestPriority, limit: Int
    ) -> (place: Place, mayStart: Bool) {
        let index = places[name] ?? remember(name)
        hosts[index]?.limit = limit
        if running < totalLimit, waitingCount(index) == 0, hasRoom(index) {
            hosts[index]?.running += 1
            running += 1
            return (Place(index: index), true)
        }
        order += 1
        hosts[index]?.wait(id, priority: priority, order: order)
        hostsWithWaiters.insert(index)
        waiting += 1
        return (Place(index: index, order: order), false)
    }

    /// A running request is over. Returns those that may start instead.
    mutating func finish(_ place: Place) -> [ID] {
        running -= 1
        hosts[place.index]?.running -= 1
        return waiting == 0 ? [] : startWaiting(at: place.index)
    }

    /// Takes a waiting request out. Returns whether it was there.
    @discardableResult
    mutating func remove(_ id: ID, at place: Place, priority: RequestPriority) -> Bool {
        guard waitingCount(place.index) > 0,
            let moved = hosts[place.index]?.waiting[priority.rawValue].remove(id, order: place.order)
        else { return false }
        movedCount += moved
        noteLeft(place.index)
        return true
    }

    /// The host answered in HTTP/2, or no longer does: its requests share connections, or not. Returns those that may
    /// start.
    mutating func setMultiplexed(_ isMultiplexed: Bool, at place: Place) -> [ID] {
        guard let host = hosts[place.index], host.isMultiplexed != isMultiplexed else { return [] }
        hosts[place.index]?.isMultiplexed = isMultiplexed
        return waiting == 0 ? [] : startWaiting(at: place.index)
    }

    /// Whether the host has shown to speak HTTP/2.
    func isMultiplexed(_ place: Place) -> Bool { hosts[place.index]?.isMultiplexed ?? false }

    /// Takes all waiting requests out, in no order.
    mutating func removeAll() -> [ID] {
        var all: [ID] = []
        for index in hostsWithWaiters {
            all += hosts[index]?.waiting.flatMap(\.all) ?? []
            hosts[index]?.waiting = []
            hosts[index]?.waitingCount = 0
        }
        hostsWithWaiters = []
        waiting = 0
        return all
    }

    // MARK: Inside

    private func waitingCount(_ index: Int) -> Int { hosts[index]?.waitingCount ?? 0 }

    private func hasRoom(_ index: Int) -> Bool {
        guard let host = hosts[index] else { return false }
        return host.running < (host.isMultiplexed ? host.limit * Self.streamsPerConnection : host.limit)
    }

    private mutating func startWaiting(at index: Int) -> [ID] {
        var started: [ID] = []
        if totalLimit == .max {
            // Hosts do not stand in each other's way: only this one has new room.
            while let id = takeFirst(of: index) { started.append(id) }
        } else {
            while running < totalLimit, let next = hostOfNext(), let id = takeFirst(of: next) { started.append(id) }
        }
        return started
    }

    /// Of all hosts with room, the one whose first in line has the highest priority, and waits longest.
    private func hostOfNext() -> Int? {
        var best: (index: Int, priority: Int, order: UInt64)?
        for index in hostsWithWaiters where hasRoom(index) {
            guard let queues = hosts[index]?.waiting,
                let priority = queues.indices.reversed().first(where: { queues[$0].first != nil }),
                let order = queues[priority].first?.order
            else { continue }
            if let best, (best.priority, order) > (priority, best.order) { continue }
            best = (index, priority, order)
        }
        return best?.index
    }

    private mutating func takeFirst(of index: Int) -> ID? {
        guard waitingCount(index) > 0, hasRoom(index) else { return nil }
        for priority in RequestPriority.allCases.indices.reversed() {
            guard let first = hosts[index]?.waiting[priority].first else { continue }
            movedCount += hosts[index]?.waiting[priority].removeFirst() ?? 0
            hosts[index]?.running += 1
            running += 1
            noteLeft(index)
            return first.id
        }
        return nil
    }

    private mutating func noteLeft(_ index: Int) {
        waiting -= 1
        hosts[index]?.waitingCount -= 1
        if waitingCount(index) == 0 { hostsWithWaiters.remove(index) }
    }

    private mutating func remember(_ name: String) -> Int {
        if places.count >= Self.rememberedHosts { forgetIdleHosts() }
        let index = holes.popLast() ?? hosts.count
        if index == hosts.count { hosts.append(nil) }
        hosts[index] = Host(name: name)
        places[name] = index
        return index
    }

    private mutating func forgetIdleHosts() {
        for index in hosts.indices {
            guard let host = hosts[index], host.isIdle else { continue }
            places[host.name] = nil
            hosts[index] = nil
            holes.append(index)
        }
    }

    static var rememberedHosts: Int { 1024 }
}
