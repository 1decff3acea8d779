internal import LATNetworking
internal import Synchronization

/// What is already counted of the totals that managers and outboxes keep, because counters of swift-metrics take increments.
final class KnownTotals: Sendable {
    private struct Known {
        weak var owner: (any AnyObject & Sendable)?
        var values: [String: Int] = [:]
    }

    private let all = Mutex<[Known]>([])

    /// How much a total has grown since it was asked for the last time.
    func growth(of name: String, to value: Int, in owner: any AnyObject & Sendable) -> Int {
        all.withLock { all in
            all.removeAll { $0.owner == nil }
            let index = all.firstIndex { $0.owner === owner } ?? all.endIndex
            if index == all.endIndex { all.append(Known(owner: owner)) }
            let known = all[index].values[name] ?? 0
            all[index].values[name] = max(known, value)
            return max(0, value - known)
        }
    }
}

/// The outboxes that `CallMetrics` observes. They are not kept alive.
final class ObservedOutboxes: Sendable {
    private struct Observed {
        weak var outbox: Outbox?
    }

    private let list = Mutex<[Observed]>([])

    /// Those that live; `nil` if there never was one.
    var living: [Outbox]? { list.withLock { $0.isEmpty ? nil : $0.compactMap(\.outbox) } }

    func add(_ outbox: Outbox) {
        list.withLock { list in
            list.removeAll { $0.outbox == nil || $0.outbox === outbox }
            list.append(Observed(outbox: outbox))
        }
    }
}
