import HTTPCore
import LATClient
import Platform

/// Decides which downloads run and which wait. A pure state machine that returns what to start and stop.
///
/// The work for a change grows with the logarithm of the number of waiting downloads. Those that are paused, failed or
/// finished cost nothing.
struct DownloadQueue: Sendable {
    typealias Item = DownloadManager.Item
    typealias ID = Item.ID

    /// What the manager has to do, in this order.
    struct Actions: Hashable {
        var stop: [ID] = []
        var start: [ID] = []
    }

    /// The place of an item in the order in which downloads start.
    private struct Place: Comparable, Sendable {
        let priority: RequestPriority
        let id: ID

        init(_ item: Item) {
            priority = item.priority
            id = item.id
        }

        static func < (one: Place, other: Place) -> Bool {
            (other.priority, one.id.number) < (one.priority, other.id.number)
        }

        /// Whether its item waits there.
        func isCurrent(in items: [ID: Item]) -> Bool {
            guard let item = items[id] else { return false }
            return item.state == .waiting && item.priority == priority
        }
    }

    private(set) var limit: Int
    private(set) var items: [ID: Item] = [:]
    private var runningIDs: Set<ID> = []
    private var waitingCount = 0
    /// The places of the waiting items, and outdated ones, whose item no longer waits there.
    private var places = TimerHeap<Place, Place>()
    /// How many items and places the queue has looked at so far, as the measure of its work.
    private(set) var examinedCount = 0

    init(limit: Int) { self.limit = max(1, limit) }

    var ordered: [Item] { items.values.sorted { Place($0) < Place($1) } }

    var running: Int { runningIDs.count }

    // MARK: Changes

    mutating func setLimit(_ limit: Int) -> Actions {
        self.limit = max(1, limit)
        return settle()
    }

    mutating func add(_ item: Item) -> Actions {
        replace(item.id, by: item)
        return settle()
    }

    mutating func setPriority(_ priority: RequestPriority, of id: ID) -> Actions {
        change(id) { $0.priority = priority }
        return settle()
    }

    mutating func pause(_ id: ID) -> Actions {
        guard let state = items[id]?.state, state == .waiting || state == .running else { return Actions() }
        change(id) { $0.state = .paused }
        var actions = settle()
        if state == .running { actions.stop.insert(id, at: 0) }
        return actions
    }

    mutating func resume(_ id: ID) -> Actions {
        switch items[id]?.state {
        case .paused, .failed:
            change(id) { $0.state = .waiting }
            return settle()
        default: return Actions()
        }
    }

    /// Records the end of a download, even if it was being paused at that moment.
    mutating func end(_ id: ID, _ state: Item.State) -> Actions {
        change(id) { $0.state = state }
        return settle()
    }

    mutating func remove(_ id: ID) -> Actions {
        let wasRunning = runningIDs.contains(id)
        replace(id, by: nil)
        var actions = settle()
        if wasRunning { actions.stop.insert(id, at: 0) }
        return actions
    }

    private mutating func change(_ id: ID, _ change: (inout Item) -> Void) {
        guard var item = items[id] else { return }
        change(&item)
        replace(id, by: item)
    }

    /// Sets or removes an item. Every change goes through here, so the sets of running and waiting items agree with it.
    private mutating func replace(_ id: ID, by item: Item?) {
        examinedCount += 1
        if items[id]?.state == .waiting { waitingCount -= 1 }
        items[id] = item
        if item?.state == .running { runningIDs.insert(id) } else { runningIDs.remove(id) }
        guard let item, item.state == .waiting else { return }
        waitingCount += 1
        places.insert(Place(item), at: Place(item))
        guard places.count > 2 * waitingCount + 32 else { return }
        // So many outdated places were added since the last time that this costs little for each of them.
        examinedCount += places.count
        var kept: Set<ID> = []
        let items = items
        places.keep { $0.isCurrent(in: items) && kept.insert($0.id).inserted }
    }

    /// Applies the limit. Running downloads are stopped only when it was lowered, never for a higher priority. The last
    /// ones in the order are stopped, and wait again.
    private mutating func settle() -> Actions {
        var actions = Actions()
        if running > limit {
            examinedCount += running
            let ordered = runningIDs.compactMap { items[$0].map(Place.init) }.sorted()
            for place in ordered.dropFirst(limit).reversed() {
                change(place.id) { $0.state = .waiting }
                actions.stop.append(place.id)
            }
        }
        while running < limit, let first = places.first?.time, let place = places.popDue(at: first)?.value {
            examinedCount += 1
            guard place.isCurrent(in: items) else { continue }
            change(place.id) { $0.state = .running }
            actions.start.append(place.id)
        }
        return actions
    }
}

extension DownloadManager {
    struct State {
        var queue: DownloadQueue
        var entries: [Item.ID: Entry] = [:]
        var downloads: [Item.ID: Download] = [:]
        var lastNumber: UInt64 = 0
        /// The work of ``close()``. Every call of ``close()`` waits for it.
        var closing: Task<Void, Never>?
        var isClosed: Bool { closing != nil }
        /// The downloads that are being started, and whether to keep their progress if they are removed meanwhile.
        var starting: [Item.ID: Bool] = [:]
        /// The downloads that were being started when ``close()`` was called.
        var late: [Download] = []
        /// ``close()`` waits for it. It ends when no download is being started any more.
        var allStarted: Waiter<Void>?

        func withProgress(_ item: Item) -> Item {
            var item = item
            if let progress = entries[item.id]?.progress.current { item.progress = progress }
            return item
        }
    }
}
