import CLibcurl
import Platform

/// When to look at transfers that may have been silent too long.
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
    /// Looks at all transfers, and ends those that have been silent too long.
    func lookAtTransfers() {
        idleWatch.begin(now, runningCount: runningCount)
        for handle in handles.all {
            guard let transfer = handle.transfer else { continue }
            switch transfer.machine.look(now, isThrottled: transfer.isThrottled) {
            case .never: break
            case .again(let time): idleWatch.note(time)
            case .answer:
                answerWithStream(transfer, handle)
                if case .again(let time) = transfer.machine.look(now) { idleWatch.note(time) }
            case .silent(let mayBeInKernel):
                let unsent = mayBeInKernel ? sockets.unsentBytes(port: handle.localPort) : 0
                if let time = transfer.machine.looked(unsent: unsent, now) {
                    idleWatch.note(time)
                } else {
                    end(transfer, EngineFailure.idle(transfer, timings: handle.timings(of: transfer, isOver: true)))
                }
            }
        }
        idleWatch.commit()
    }
}
