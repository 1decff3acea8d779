internal import HTTPCore

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

        mutating func wait(_ id: ID, priority: RequestPriority, order: UInt64) {
            if waiting.isEmpty { waiting = [FIFO](repeating: FIFO(), count: RequestPriority.allCases.count) }
            waiting[priority.rawValue].append(id, order: order)
            waitingCount += 1
        }
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
    private var order: UInt64 = 0
    private(set) var running = 0
    private(set) var waiting = 0
    /// How many elements the queues have moved so far: the cost of removals.
    private(set) var movedCount = 0

    init(totalLimit: Int) { self.totalLimit = totalLimit }

    /// How many hosts are remembered. Idle hosts are kept, with their HTTP version, up to ``rememberedHosts``.
    var hostCount: Int { places.count }

    /// Adds a request and sets the limit of its host. The request may start now, or waits until ``startWaiting(at:)``,
    /// ``finish(_:)`` or ``setMultiplexed(_:at:)`` returns it.
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

    /// Returns the requests that a higher limit of a host lets start now.
    mutating func startWaiting(at place: Place) -> [ID] { startWaiting(at: place.index) }

    /// Records that a running request has ended. Returns the requests to start now.
    mutating func finish(_ place: Place) -> [ID] {
        running -= 1
        hosts[place.index]?.running -= 1
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
        }
        hostsWithWaiters = []
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
        while running < totalLimit,
            // Without a total limit hosts are independent: only this one has new capacity.
            let next = totalLimit == .max ? index : hostOfNext(), let id = takeFirst(of: next)
        {
            started.append(id)
        }
        return started
    }

    /// Returns the host with capacity whose first request comes next: the one with the highest priority, and among
    /// equal priorities the one that has waited longest.
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
            guard let host = hosts[index], host.running == 0, host.waitingCount == 0 else { continue }
            places[host.name] = nil
            hosts[index] = nil
            holes.append(index)
        }
    }

    static var rememberedHosts: Int { 1024 }
}
