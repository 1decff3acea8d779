import CLibcurl
import Platform

/// Decides when to look for transfers that have been silent for too long.
///
/// A transfer records only its first deadline. Whether it has moved since is
/// checked at the next look, which sets the time of the one after. So thousands
/// of waiting transfers cost one pass now and then.
struct IdleWatch {
    /// The time of the next look.
    private(set) var next = MonotonicTime.distantFuture
    private var earliest = MonotonicTime.distantFuture
    private var soonest = MonotonicTime(nanoseconds: 0)
    private var isLooking = false

    /// Records a deadline by which a transfer may have been silent for too long.
    mutating func note(_ deadline: MonotonicTime) {
        if isLooking {
            earliest = min(earliest, deadline)
        } else {
            next = min(next, deadline)
        }
    }

    /// Whether a look is due.
    func isDue(_ now: MonotonicTime) -> Bool { now >= next }

    /// Begins a look, in which every transfer that goes on records its next deadline. Looks are at least 1 ms apart for
    /// every 50 transfers, so that they stay cheap.
    mutating func begin(_ now: MonotonicTime, runningCount: Int) {
        isLooking = true
        earliest = .distantFuture
        soonest = now + Int64(max(1, runningCount / 50))
    }

    /// Ends a look.
    mutating func commit() {
        isLooking = false
        next = earliest == .distantFuture ? .distantFuture : max(earliest, soonest)
    }
}

extension Engine {
    /// Looks at all running transfers, and ends those that have been silent for too long.
    func checkIdleTransfers() {
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
