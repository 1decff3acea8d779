import Synchronization

/// Runs closures at given times, with one sleeping task for any number of them.
package final class TimeLimits: Sendable {
    /// Identifies a scheduled closure.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    private struct State {
        var timers: [UInt64: (time: Duration, action: @Sendable () -> Void)] = [:]
        var count: UInt64 = 0
        /// The time at which the sleeping task wakes; `nil` when there is no such task.
        var wakeUp: Duration?
    }

    package let clock: CallClock
    private let state = Mutex(State())

    package init(_ clock: CallClock = .continuous) { self.clock = clock }

    /// Runs a closure at the given time, on any thread, unless it is cancelled before.
    package func schedule(at time: Duration, _ action: @escaping @Sendable () -> Void) -> Ticket {
        let (number, isFirst) = state.withLock { state in
            state.count += 1
            state.timers[state.count] = (time, action)
            let isFirst = state.wakeUp.map { time < $0 } ?? true
            if isFirst { state.wakeUp = time }
            return (state.count, isFirst)
        }
        if isFirst { sleep(until: time) }
        return Ticket(number: number)
    }

    /// Cancels a closure of ``schedule(at:_:)``.
    package func cancel(_ ticket: Ticket) {
        let timer = state.withLock { $0.timers.removeValue(forKey: ticket.number) }
        _ = timer  // Is released outside the lock.
    }

    /// Waits for the value of a waiter. When the time is over, the waiter ends with the `late` result.
    ///
    /// - Throws: the error of the result; `CancellationError` when the task is cancelled.
    package func value<Value>(
        of waiter: Waiter<Value>, within limit: Duration,
        late: @autoclosure @escaping @Sendable () -> Result<Value, any Error>
    ) async throws -> Value {
        let ticket = schedule(at: clock.now() + limit) { waiter.end(late()) }
        defer { cancel(ticket) }
        return try await waiter.value()
    }

    private func sleep(until time: Duration) {
        // The task also runs closures of other callers, which may be more urgent than the caller that starts it.
        Task(priority: .userInitiated) { [weak self, clock] in
            try? await clock.sleep(time - clock.now())
            self?.wakeUp(at: time)
        }
    }

    /// Runs the closures whose time has come and sleeps again if others are left. Does nothing if a later call has
    /// scheduled an earlier wake-up.
    private func wakeUp(at time: Duration) {
        let now = max(clock.now(), time)
        let (due, following) = state.withLock { state in
            guard state.wakeUp == time else { return ([@Sendable () -> Void](), Duration?.none) }
            let due = state.timers.filter { $0.value.time <= now }
            for number in due.keys { state.timers[number] = nil }
            state.wakeUp = state.timers.values.map(\.time).min()
            return (due.values.map(\.action), state.wakeUp)
        }
        for action in due { action() }
        if let following { sleep(until: following) }
    }
}
