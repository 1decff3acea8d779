import Synchronization

/// Has things done at a time: for any number of them there is one sleeping task.
package final class TimeLimits: Sendable {
    /// Names something that was scheduled.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    private struct State {
        var alarms: [UInt64: (time: Duration, ring: @Sendable () -> Void)] = [:]
        var count: UInt64 = 0
        /// When the sleeping task wakes; `nil` when there is none.
        var wakeUp: Duration?
    }

    package let clock: CallClock
    private let state = Mutex(State())

    package init(_ clock: CallClock = .continuous) { self.clock = clock }

    /// Has something done at a time, on any thread, unless it is cancelled before.
    package func schedule(at time: Duration, _ ring: @escaping @Sendable () -> Void) -> Ticket {
        let (number, isFirst) = state.withLock { state in
            state.count += 1
            state.alarms[state.count] = (time, ring)
            let isFirst = state.wakeUp.map { time < $0 } ?? true
            if isFirst { state.wakeUp = time }
            return (state.count, isFirst)
        }
        if isFirst { sleep(until: time) }
        return Ticket(number: number)
    }

    /// Ends what ``schedule(at:_:)`` began.
    package func cancel(_ ticket: Ticket) {
        let alarm = state.withLock { $0.alarms.removeValue(forKey: ticket.number) }
        _ = alarm  // let go of outside the lock
    }

    private func sleep(until time: Duration) {
        // The task may serve what is more urgent than its maker.
        Task(priority: .userInitiated) { [weak self, clock] in
            try? await clock.sleep(time - clock.now())
            self?.wakeUp(at: time)
        }
    }

    /// Rings what is due, and sleeps on while there is something left. A sleeper that an earlier one has overtaken does
    /// nothing.
    private func wakeUp(at time: Duration) {
        let now = max(clock.now(), time)
        let (due, following) = state.withLock { state in
            guard state.wakeUp == time else { return ([@Sendable () -> Void](), Duration?.none) }
            let due = state.alarms.filter { $0.value.time <= now }
            for number in due.keys { state.alarms[number] = nil }
            state.wakeUp = state.alarms.values.map(\.time).min()
            return (due.values.map(\.ring), state.wakeUp)
        }
        for ring in due { ring() }
        if let following { sleep(until: following) }
    }
}
