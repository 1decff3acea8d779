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

/// The state of the managers, as it was last read. They are not kept alive.
final class ManagerLoads: Sendable {
    private struct Known {
        weak var manager: CentralRequestManager?
        let load: CentralRequestManager.Load
    }

    private struct State {
        var all: [Known] = []
        var sum: CentralRequestManager.Load?
    }

    private let state = Mutex(State())

    /// Replaces the state of one manager.
    ///
    /// - Parameter use: gets the sum of all, and the one before. It runs under the lock, so that no older sum comes last.
    func replace(
        _ load: CentralRequestManager.Load, of manager: CentralRequestManager,
        _ use: (_ sum: CentralRequestManager.Load, _ earlier: CentralRequestManager.Load?) -> Void
    ) {
        state.withLock { state in
            state.all.removeAll { $0.manager == nil || $0.manager === manager }
            let sum = state.all.reduce(into: load) { $0.add($1.load) }
            state.all.append(Known(manager: manager, load: load))
            use(sum, state.sum)
            state.sum = sum
        }
    }
}

extension CentralRequestManager.Load {
    fileprivate mutating func add(_ other: Self) {
        calls += other.calls
        transfers += other.transfers
        queued += other.queued
        origins.merge(other.origins) { one, other in
            var sum = one
            sum.active += other.active
            sum.idle += other.idle
            return sum
        }
        circuits.merge(other.circuits) { $0 || $1 }
        adaptiveLimits.merge(other.adaptiveLimits, uniquingKeysWith: +)
        reachability.merge(other.reachability) { one, _ in one }
    }
}
