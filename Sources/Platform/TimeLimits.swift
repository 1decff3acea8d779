import Synchronization

/// Runs closures at given times, with one sleeping task for any number of them.
package final class TimeLimits: Sendable {
    /// Identifies a scheduled closure.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    fileprivate struct State {
        /// The closures that have not run. Cancelled ones are only in the heap.
        var actions: [UInt64: @Sendable () -> Void] = [:]
        var times = TimerHeap<Duration, UInt64>()
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
            state.actions[state.count] = action
            state.times.insert(state.count, at: time)
            let isFirst = state.wakeUp.map { time < $0 } ?? true
            if isFirst { state.wakeUp = time }
            return (state.count, isFirst)
        }
        if isFirst { sleep(until: time) }
        return Ticket(number: number)
    }

    /// Cancels a closure of ``schedule(at:_:)``.
    package func cancel(_ ticket: Ticket) {
        let action = state.withLock { state in
            let action = state.actions.removeValue(forKey: ticket.number)
            state.dropCancelled()
            return action
        }
        _ = action  // Is released outside the lock.
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
            let due = state.takeDue(at: now)
            state.wakeUp = state.times.first?.time
            return (due, state.wakeUp)
        }
        for action in due { action() }
        if let following { sleep(until: following) }
    }
}

extension TimeLimits.State {
    /// Takes out the closures whose time has come, and the cancelled ones before the next that is left.
    mutating func takeDue(at now: Duration) -> [@Sendable () -> Void] {
        var due: [@Sendable () -> Void] = []
        while let first = times.first {
            let action = actions[first.value]
            guard action == nil || first.time <= now else { break }
            _ = times.popDue(at: first.time)
            actions[first.value] = nil
            action.map { due.append($0) }
        }
        return due
    }

    /// Most calls end long before their limit, so cancelled times are removed when they are the larger part.
    mutating func dropCancelled() {
        guard times.count > 2 * actions.count + 64 else { return }
        times.keep { actions[$0] != nil }
    }
}
