internal import HTTPCore
import Platform

/// Decides which requests start now and which wait, to enforce the limits of
/// each host and of the whole engine.
///
/// A pure state machine: it knows requests only by identifiers, and returns which
/// of them to start. The time that a request waits here counts towards no
/// timeout; inside libcurl it would.
struct AdmissionQueue<ID: Hashable> {
    /// The maximum number of running requests.
    let totalLimit: Int
    /// How many requests share a connection once a host has answered in HTTP/2 or HTTP/3: the least number of streams
    /// that servers should allow (RFC 9113 §6.5.2, RFC 9114 §6.1).
    static var streamsPerConnection: Int { 100 }

    /// The index of a request's host, kept from ``submit(_:host:priority:limit:)`` to ``finish(_:)`` to save look-ups by name.
    struct Place: Hashable {
        fileprivate let index: Int
        /// The request's number in the order of arrival, if it waits.
        fileprivate var order: UInt64 = 0
    }

    private struct Host {
        let name: String
        /// The maximum number of running requests while the host speaks HTTP/1, as given with its last request.
        var limit = 1
        var running = 0
        var isMultiplexed = false
        /// One queue for each priority, lowest first; empty until a request waits.
        var waiting: [FIFO] = []
        var waitingCount = 0
        /// The turn under which it is in ``ready``; `nil` for none.
        var offered: Turn?

        var isIdle: Bool { running == 0 && waitingCount == 0 }

        /// The turn of its first waiting request.
        var turn: Turn? {
            for priority in waiting.indices.reversed() {
                if let first = waiting[priority].first { return Turn(priority: priority, order: first.order) }
            }
            return nil
        }

        mutating func wait(_ id: ID, priority: RequestPriority, order: UInt64) {
            if waiting.isEmpty { waiting = [FIFO](repeating: FIFO(), count: RequestPriority.allCases.count) }
            waiting[priority.rawValue].append(id, order: order)
            waitingCount += 1
        }
    }

    /// The turn of a request under the total limit: the highest priority comes first, and among equal priorities the request that
    /// has waited longest.
    private struct Turn: Comparable {
        let priority: Int
        let order: UInt64

        static var last: Turn { Turn(priority: -1, order: .max) }

        static func < (lhs: Turn, rhs: Turn) -> Bool { (rhs.priority, lhs.order) < (lhs.priority, rhs.order) }
    }

    /// A queue in which the removal of any element leaves a gap instead of shifting the others.
    private struct FIFO {
        private struct Element {
            /// `nil` once removed, so that the transfer is released.
            var id: ID?
            /// Increases from first to last.
            let order: UInt64
        }

        private var elements: [Element] = []
        /// The index of the first element that is not a gap, or the end.
        private var front = 0
        /// The number of gaps after the front.
        private var gaps = 0

        var first: (id: ID, order: UInt64)? {
            guard front < elements.count, let id = elements[front].id else { return nil }
            return (id, elements[front].order)
        }

        var all: [ID] { elements[front...].compactMap(\.id) }

        mutating func append(_ id: ID, order: UInt64) { elements.append(Element(id: id, order: order)) }

        /// Removes the first element. Returns how many elements were moved.
        mutating func removeFirst() -> Int { remove(at: front) }

        /// Removes an element. Returns how many elements were moved; `nil` when it was not found.
        mutating func remove(_ id: ID, order: UInt64) -> Int? {
            var (low, high) = (front, elements.count)
            while low < high {
                let middle = (low + high) / 2
                if elements[middle].order < order { low = middle + 1 } else { high = middle }
            }
            guard low < elements.count, elements[low].order == order, elements[low].id == id else { return nil }
            return remove(at: low)
        }

        /// Leaves a gap, or advances the front over gaps. Compacts when more than half of the elements are gaps, so that
        /// on average a removal moves at most one element.
        private mutating func remove(at index: Int) -> Int {
            elements[index].id = nil
            gaps += 1
            while front < elements.count, elements[front].id == nil {
                front += 1
                gaps -= 1
            }
            guard front + gaps > 64, (front + gaps) * 2 > elements.count else { return 0 }
            elements = elements[front...].filter { $0.id != nil }
            (front, gaps) = (0, 0)
            return elements.count
        }
    }

    /// The hosts by index. A forgotten host leaves a hole, which the next new host fills.
    private var hosts: [Host?] = []
    private var holes: [Int] = []
    private var places: [String: Int] = [:]
    private var hostsWithWaiters: Set<Int> = []
    /// The hosts whose first waiting request could start, by its turn; empty without a total limit. What is not the host's
    /// ``Host/offered`` is out of date.
    private var ready = TimerHeap<Turn, (index: Int, turn: Turn)>()
    /// How many remembered hosts have no request.
    private var idleCount = 0
    private var order: UInt64 = 0
    private(set) var running = 0
    private(set) var waiting = 0
    /// How many elements the queues have moved so far: the cost of removals.
    private(set) var movedCount = 0

    init(totalLimit: Int) { self.totalLimit = totalLimit }

    /// How many hosts are remembered. Idle hosts are kept, with their HTTP version, up to ``rememberedHosts`` in all.
    var hostCount: Int { places.count }

    /// Adds a request and sets the limit of its host. The request may start now, or waits until ``startWaiting(at:)``,
    /// ``finish(_:)`` or ``setMultiplexed(_:at:)`` returns it.
    mutating func submit(
        _ id: ID, host name: String, priority: RequestPriority, limit: Int
    ) -> (place: Place, mayStart: Bool) {
        let index: Int
        if let known = places[name] {
            index = known
            if hosts[index]?.isIdle == true { idleCount -= 1 }
        } else {
            index = remember(name)
        }
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
        offer(index)
        return (Place(index: index, order: order), false)
    }

    /// Returns the requests that a higher limit of a host lets start now.
    mutating func startWaiting(at place: Place) -> [ID] { startWaiting(at: place.index) }

    /// Records that a running request has ended. Returns the requests to start now.
    mutating func finish(_ place: Place) -> [ID] {
        running -= 1
        hosts[place.index]?.running -= 1
        if hosts[place.index]?.isIdle == true { idleCount += 1 }
        return waiting == 0 ? [] : startWaiting(at: place.index)
    }

    /// Removes a waiting request. Returns whether it was there.
    @discardableResult
    mutating func remove(_ id: ID, at place: Place, priority: RequestPriority) -> Bool {
        guard waitingCount(place.index) > 0,
            let moved = hosts[place.index]?.waiting[priority.rawValue].remove(id, order: place.order)
        else { return false }
        movedCount += moved
        noteLeft(place.index)
        if hosts[place.index]?.isIdle == true { idleCount += 1 }
        // The turns of requests that were removed are dropped when they are the larger part.
        if ready.count > 2 * hostsWithWaiters.count + 64 { ready.keep { hosts[$0.index]?.offered == $0.turn } }
        return true
    }

    /// Records whether a host's requests share connections, by the HTTP version of its last response. Returns the
    /// requests to start now.
    mutating func setMultiplexed(_ isMultiplexed: Bool, at place: Place) -> [ID] {
        guard let host = hosts[place.index], host.isMultiplexed != isMultiplexed else { return [] }
        hosts[place.index]?.isMultiplexed = isMultiplexed
        return waiting == 0 ? [] : startWaiting(at: place.index)
    }

    /// Whether the host's last response was in HTTP/2 or HTTP/3.
    func isMultiplexed(_ place: Place) -> Bool { hosts[place.index]?.isMultiplexed ?? false }

    /// Removes all waiting requests, in no particular order.
    mutating func removeAll() -> [ID] {
        var all: [ID] = []
        for index in hostsWithWaiters {
            all += hosts[index]?.waiting.flatMap(\.all) ?? []
            hosts[index]?.waiting = []
            hosts[index]?.waitingCount = 0
            hosts[index]?.offered = nil
            if hosts[index]?.isIdle == true { idleCount += 1 }
        }
        hostsWithWaiters = []
        ready = TimerHeap()
        waiting = 0
        return all
    }

    // MARK: Private

    private func waitingCount(_ index: Int) -> Int { hosts[index]?.waitingCount ?? 0 }

    private func hasRoom(_ index: Int) -> Bool {
        guard let host = hosts[index] else { return false }
        // Divided rather than multiplied, since a limit may be as large as `Int.max`.
        return (host.isMultiplexed ? host.running / Self.streamsPerConnection : host.running) < host.limit
    }

    private mutating func startWaiting(at index: Int) -> [ID] {
        var started: [ID] = []
        offer(index)
        while running < totalLimit,
            // Without a total limit hosts are independent: only this one has new capacity.
            let next = totalLimit == .max ? index : hostOfNext(), let id = takeFirst(of: next)
        {
            started.append(id)
        }
        return started
    }

    /// Notes that the first waiting request of a host is ready, if the host has room for it.
    private mutating func offer(_ index: Int) {
        guard totalLimit != .max, hasRoom(index), let turn = hosts[index]?.turn, hosts[index]?.offered != turn else {
            return
        }
        hosts[index]?.offered = turn
        ready.insert((index, turn), at: turn)
    }

    /// Returns the host with capacity whose first request comes next.
    private mutating func hostOfNext() -> Int? {
        while let (turn, (index, _)) = ready.popDue(at: .last) {
            guard hosts[index]?.offered == turn else { continue }
            hosts[index]?.offered = nil
            if hosts[index]?.turn == turn, hasRoom(index) { return index }
            offer(index)
        }
        return nil
    }

    private mutating func takeFirst(of index: Int) -> ID? {
        guard waitingCount(index) > 0, hasRoom(index) else { return nil }
        for priority in RequestPriority.allCases.indices.reversed() {
            guard let first = hosts[index]?.waiting[priority].first else { continue }
            movedCount += hosts[index]?.waiting[priority].removeFirst() ?? 0
            hosts[index]?.running += 1
            running += 1
            noteLeft(index)
            offer(index)
            return first.id
        }
        return nil
    }

    private mutating func noteLeft(_ index: Int) {
        waiting -= 1
        hosts[index]?.waitingCount -= 1
        guard waitingCount(index) == 0 else { return }
        hostsWithWaiters.remove(index)
        hosts[index]?.offered = nil
    }

    private mutating func remember(_ name: String) -> Int {
        // All are looked at only when half of them can go.
        if places.count >= Self.rememberedHosts, idleCount * 2 >= places.count { forgetIdleHosts() }
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
        idleCount = 0
    }

    static var rememberedHosts: Int { 1024 }
}
