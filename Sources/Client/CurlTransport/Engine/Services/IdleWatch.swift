import CLibcurl
import Platform

/// Decides when to check for transfers that have been silent for too long.
///
/// Each transfer records only its first deadline. At that time one check goes
/// through all running transfers and sets the time of the next check. So
/// thousands of waiting transfers cost only an occasional check.
struct IdleWatch {
    /// The time of the next check.
    private(set) var next = MonotonicTime.distantFuture
    private var soonest = MonotonicTime(nanoseconds: 0)

    /// Records a time at which a transfer may have been silent for too long.
    mutating func note(_ deadline: MonotonicTime) { next = min(next, deadline) }

    func isDue(_ now: MonotonicTime) -> Bool { now >= next }

    /// Begins a check, in which every transfer that continues records its next deadline. To stay cheap, checks are at
    /// least 1 ms apart for every 50 running transfers.
    mutating func begin(_ now: MonotonicTime, runningCount: Int) {
        next = .distantFuture
        soonest = now + Int64(max(1, runningCount / 50))
    }

    mutating func commit() { next = max(next, soonest) }
}

extension Engine {
    /// Checks all running transfers, and ends those that have been silent for too long.
    func checkIdleTransfers() {
        idleWatch.begin(now, runningCount: runningCount)
        for handle in handles.all {
            guard let transfer = handle.transfer else { continue }
            switch transfer.machine.checkSilence(now, isThrottled: transfer.isThrottled) {
            case .never: break
            case .again(let time): idleWatch.note(time)
            case .answer:
                answerWithStream(transfer, handle)
                switch transfer.machine.checkSilence(now) {
                case .never: break
                case .again(let time): idleWatch.note(time)
                // A stream may have been silent for long already; the next check ends it.
                case .answer, .silent: idleWatch.note(now)
                }
            case .silent(let mayBeInKernel):
                let unsent = mayBeInKernel ? sockets.unsentBytes(port: handle.localPort) : nil
                if let time = transfer.machine.checkedBuffer(unsent: unsent, now) {
                    idleWatch.note(time)
                } else {
                    end(transfer, EngineFailure.idle(transfer, timings: handle.timings(of: transfer, isOver: true)))
                }
            }
        }
        idleWatch.commit()
    }
}
