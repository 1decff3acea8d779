import HTTPCore

/// Decides which downloads run and which wait. A pure state machine that returns what to start and stop.
struct DownloadQueue: Sendable {
    typealias ID = DownloadManager.Item.ID

    /// What the manager has to do, in this order.
    struct Actions: Hashable {
        var stop: [ID] = []
        var start: [ID] = []
    }

    private(set) var limit: Int
    private(set) var items: [ID: DownloadManager.Item] = [:]

    init(limit: Int) { self.limit = max(1, limit) }

    var ordered: [DownloadManager.Item] {
        items.values.sorted { ($1.priority, $0.id.number) < ($0.priority, $1.id.number) }
    }

    var running: Int { items.values.count { $0.state == .running } }

    // MARK: Changes

    mutating func setLimit(_ limit: Int) -> Actions {
        self.limit = max(1, limit)
        return settle()
    }

    mutating func add(_ item: DownloadManager.Item) -> Actions {
        items[item.id] = item
        return settle()
    }

    mutating func setPriority(_ priority: RequestPriority, of id: ID) -> Actions {
        items[id]?.priority = priority
        return settle()
    }

    mutating func pause(_ id: ID) -> Actions {
        guard let state = items[id]?.state, state == .waiting || state == .running else { return Actions() }
        items[id]?.state = .paused
        var actions = settle()
        if state == .running { actions.stop.insert(id, at: 0) }
        return actions
    }

    mutating func resume(_ id: ID) -> Actions {
        switch items[id]?.state {
        case .paused, .failed:
            items[id]?.state = .waiting
            return settle()
        default: return Actions()
        }
    }

    /// Records the end of a download, even if it was being paused at that moment.
    mutating func end(_ id: ID, _ state: DownloadManager.Item.State) -> Actions {
        items[id]?.state = state
        return settle()
    }

    mutating func remove(_ id: ID) -> Actions {
        let item = items.removeValue(forKey: id)
        var actions = settle()
        if item?.state == .running { actions.stop.insert(id, at: 0) }
        return actions
    }

    /// Applies the limit. Running downloads are stopped only when it was lowered, never for a higher priority. The last
    /// ones in the order are stopped, and wait again.
    private mutating func settle() -> Actions {
        var actions = Actions()
        for item in ordered.reversed() where running > limit && item.state == .running {
            items[item.id]?.state = .waiting
            actions.stop.append(item.id)
        }
        for item in ordered where running < limit && item.state == .waiting {
            items[item.id]?.state = .running
            actions.start.append(item.id)
        }
        return actions
    }
}
