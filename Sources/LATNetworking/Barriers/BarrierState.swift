/// Who waits for a barrier. A pure state machine: a barrier lets those go on that have begun, and holds those that come
/// after it until it is over; a barrier that comes meanwhile waits like them.
struct BarrierState<ID: Hashable & Sendable>: Sendable {
    private var active: ID?
    private var waiting: [(id: ID, isBarrier: Bool)] = []

    /// Whether somebody has to wait.
    var isClosed: Bool { active != nil }

    /// How many wait.
    var waitingCount: Int { waiting.count }

    /// A request comes. Returns whether it may go on; else ``leave(_:)`` names it later.
    mutating func enter(_ id: ID, isBarrier: Bool) -> Bool {
        guard active == nil else {
            waiting.append((id, isBarrier))
            return false
        }
        if isBarrier { active = id }
        return true
    }

    /// A barrier is over, or a request that waits goes away. Returns those that may go on.
    mutating func leave(_ id: ID) -> [ID] {
        guard active == id else {
            waiting.removeAll { $0.id == id }
            return []
        }
        active = nil
        var started: [ID] = []
        var taken = 0
        for next in waiting {
            taken += 1
            started.append(next.id)
            if next.isBarrier {
                active = next.id
                break
            }
        }
        waiting.removeFirst(taken)
        return started
    }
}
