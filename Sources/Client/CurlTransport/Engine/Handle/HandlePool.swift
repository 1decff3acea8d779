/// The easy handles of an engine: those that carry a transfer, and the free ones.
struct HandlePool {
    /// All handles, each at the index of its slot.
    private(set) var all: [EasyHandle] = []
    private var free: [EasyHandle] = []
    /// The free handles with a large buffer, kept apart because libcurl 7.88 may refuse to change a buffer's size.
    private var freeLarge: [EasyHandle] = []

    /// The maximum number of handles that are kept when no transfer runs.
    private static var limit: Int { 256 }

    mutating func take(for transfer: Transfer, _ engine: Engine) -> EasyHandle? {
        let hasLargeBuffer = EasyHandle.hasLargeBuffer(for: transfer)
        if let handle = hasLargeBuffer ? freeLarge.popLast() : free.popLast() { return handle }
        guard let handle = EasyHandle(engine: engine, slot: all.count, hasLargeBuffer: hasLargeBuffer) else {
            return nil
        }
        all.append(handle)
        return handle
    }

    /// Returns a handle to the pool after it has left the multi handle.
    mutating func giveBack(_ handle: EasyHandle, isLast: Bool) {
        handle.finish()
        var handle = handle
        if handle.isSpent,
            let other = EasyHandle(engine: handle.engine, slot: handle.slot, hasLargeBuffer: handle.hasLargeBuffer)
        {
            all[handle.slot] = other
            handle = other
        }
        if handle.hasLargeBuffer { freeLarge.append(handle) } else { free.append(handle) }
        // Frees the extra handles of a burst once no transfer runs.
        guard isLast, all.count > Self.limit else { return }
        all.removeLast(all.count - Self.limit)
        free.removeAll { $0.slot >= Self.limit }
        freeLarge.removeAll { $0.slot >= Self.limit }
    }
}
