import CLibcurl

/// When to look for transfers that have been silent too long.
///
/// A transfer costs nothing here but the note of its first deadline: what has
/// moved in between is only seen at the next look, which sets the time of the
/// one after. So thousands of waiting transfers cost one pass now and then.
struct IdleWatch {
    /// When to look next.
    private(set) var next = MonotonicTime.distantFuture
    private var earliest = MonotonicTime.distantFuture
    private var soonest = MonotonicTime(nanoseconds: 0)
    private var isLooking = false

    /// There is a transfer whose time may be over then.
    mutating func note(_ deadline: MonotonicTime) {
        if isLooking {
            earliest = min(earliest, deadline)
        } else {
            next = min(next, deadline)
        }
    }

    /// Whether it is time to look.
    func isDue(_ now: MonotonicTime) -> Bool { now >= next }

    /// A look begins; each transfer that goes on is noted again during it. Among many transfers the looks are kept
    /// apart, 1 ms for each 50, so that they never become the work.
    mutating func begin(_ now: MonotonicTime, runningCount: Int) {
        isLooking = true
        earliest = .distantFuture
        soonest = now + Int64(max(1, runningCount / 50))
    }

    /// The look is over.
    mutating func commit() {
        isLooking = false
        next = earliest == .distantFuture ? .distantFuture : max(earliest, soonest)
    }
}

extension Engine {
    /// Ends the transfers that have been silent too long.
    func endSilentTransfers() {
        idleWatch.begin(now, runningCount: runningCount)
        for handle in handles.all {
            guard let transfer = handle.transfer, transfer.plan.idleTimeout > 0 else { continue }
            // Before the connection stands its own timeout rules; while somebody here holds the transfer, none does.
            guard let lastActivity = transfer.lastActivity, !transfer.isSuspended, !transfer.isPaused,
                !transfer.isThrottled
            else {
                idleWatch.note(now + transfer.plan.idleTimeout)
                continue
            }
            let deadline = lastActivity + transfer.plan.idleTimeout
            if deadline <= now, isStillSending(transfer, handle) {
                transfer.lastActivity = now
                idleWatch.note(now + transfer.plan.idleTimeout)
            } else if deadline <= now {
                end(transfer, EngineFailure.idle(transfer, timings: handle.timings(of: transfer, isOver: true)))
            } else {
                idleWatch.note(deadline)
            }
        }
        idleWatch.commit()
    }

    /// Whether the end of a body is still on its way out of the kernel's buffer, where libcurl cannot see it move.
    func isStillSending(_ transfer: Transfer, _ handle: EasyHandle) -> Bool {
        guard transfer.plan.body != nil, !transfer.head.hasBegun, let socket = handle.activeSocket else { return false }
        let unsent = Int(lat_unsent_bytes(socket))
        defer { transfer.unsentBytes = unsent }
        return unsent > 0 && unsent != transfer.unsentBytes
    }
}
