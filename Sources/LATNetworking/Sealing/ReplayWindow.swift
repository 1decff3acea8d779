/// Remembers what was received, so that nothing is taken twice: a value, no clock of its own.
///
/// Messages whose time is too far from now are refused, so that only those of the last while have to be remembered.
/// When there are more of these than there is room for, the oldest are forgotten and everything as old as they is
/// refused.
struct ReplayWindow: Sendable {
    /// How far a message's time may be from now, in milliseconds.
    let maxAge: Int64
    let capacity: Int

    private var nonces: Set<[UInt8]> = []
    /// By time, oldest first, from ``start`` on.
    private var entries: [(time: Int64, nonce: [UInt8])] = []
    private var start = 0
    /// Messages of this time and before are refused.
    private var floor = Int64.min

    init(maxAge: Int64, capacity: Int) {
        self.maxAge = maxAge
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.count - start }

    /// Whether a message of a time is young enough to be looked at.
    func checkAge(_ time: Int64, now: Int64) throws(SealingFault) {
        let (difference, overflow) = now.subtractingReportingOverflow(time)
        guard !overflow, difference.magnitude <= UInt64(maxAge) else {
            throw .age(seconds: overflow ? .max : difference / 1000)
        }
        guard time > floor else { throw .replayed }
    }

    /// Takes in a message whose tag was right.
    mutating func accept(_ nonce: [UInt8], time: Int64, now: Int64) throws(SealingFault) {
        try checkAge(time, now: now)
        guard nonces.insert(nonce).inserted else { throw .replayed }
        // Messages come nearly in the order of their times, so that the place is near the end.
        var index = entries.count
        while index > start, entries[index - 1].time > time { index -= 1 }
        entries.insert((time, nonce), at: index)
        forget(now: now)
    }

    private mutating func forget(now: Int64) {
        while start < entries.count, entries[start].time < now - maxAge { removeOldest() }
        while count > capacity {
            floor = max(floor, entries[start].time)
            removeOldest()
        }
        // All of the floor's time are refused, so that they need not be remembered.
        while start < entries.count, entries[start].time <= floor { removeOldest() }
        if start > 1024, start > entries.count / 2 {
            entries.removeFirst(start)
            start = 0
        }
    }

    private mutating func removeOldest() {
        nonces.remove(entries[start].nonce)
        start += 1
    }
}
