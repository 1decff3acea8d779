/// The easy handles of an engine: those that carry a transfer, and those that wait for the next one.
struct HandlePool {
    /// All there are, each at its slot.
    private(set) var all: [EasyHandle] = []
    private var free: [EasyHandle] = []

    /// When no transfer runs, more handles than this are freed.
    private static var limit: Int { 256 }

    /// A handle for the next transfer; `nil` when there is no memory for one.
    mutating func take(for engine: Engine) -> EasyHandle? {
        if let handle = free.popLast() { return handle }
        guard let handle = EasyHandle(engine: engine, slot: all.count) else { return nil }
        all.append(handle)
        return handle
    }

    /// Takes a handle back that has left the multi handle.
    mutating func giveBack(_ handle: EasyHandle, isLast: Bool) {
        handle.finish()
        if handle.mayRememberRefusal, let other = EasyHandle(engine: handle.engine, slot: handle.slot) {
            all[handle.slot] = other
            free.append(other)
        } else {
            free.append(handle)
        }
        // A burst's handles are let go when no burst is on.
        guard isLast, all.count > Self.limit else { return }
        all.removeLast(all.count - Self.limit)
        free.removeAll { $0.slot >= Self.limit }
    }

    mutating func removeAll() {
        free = []
        all = []
    }
}
