import Synchronization

/// Runs closures at given times, with few sleeping tasks for any number of them.
package final class TimeLimits: Sendable {
    /// Identifies a scheduled closure.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    fileprivate struct State {
        /// The closures that have neither run nor been cancelled, by number. The heap may still have cancelled numbers.
        var actions: [UInt64: @Sendable () -> Void] = [:]
        var times = TimerHeap<Duration, UInt64>()
        var count: UInt64 = 0
        /// The times at which the sleeping tasks wake, the earliest last.
        var wakeUps: [Duration] = []
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
            return (state.count, state.mustSleep(until: time))
        }
        if isFirst { sleep(until: time) }
        return Ticket(number: number)
    }

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
        // The task also runs closures of other callers: these may be more urgent than the caller that starts it, and it must
        // not keep that caller's task-local values.
        Task.detached(priority: .userInitiated) { [weak self, clock] in
            try? await clock.sleep(time - clock.now())
            self?.wakeUp(at: time)
        }
    }

    /// Runs the closures whose time has come. Sleeps again before that, so that a closure that blocks delays no later one.
    private func wakeUp(at time: Duration) {
        let now = max(clock.now(), time)
        let (due, following) = state.withLock { state in
            if let index = state.wakeUps.lastIndex(of: time) { state.wakeUps.remove(at: index) }
            let due = state.takeDue(at: now)
            return (due, state.times.first.map(\.time).flatMap { state.mustSleep(until: $0) ? $0 : nil })
        }
        if let following { sleep(until: following) }
        for action in due { action() }
    }
}

extension TimeLimits.State {
    /// Returns whether a new task must sleep until this time, because none wakes by then, and if so, records the time.
    mutating func mustSleep(until time: Duration) -> Bool {
        guard wakeUps.last.map({ time < $0 }) ?? true else { return false }
        wakeUps.append(time)
        return true
    }

    /// Takes out the closures whose time has come, and drops the cancelled numbers up to the next closure that is left.
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

/// The clock that calls use. Tests replace it.
package struct CallClock: Sendable {
    /// The time since an arbitrary start.
    package let now: @Sendable () -> Duration
    package let sleep: @Sendable (Duration) async throws -> Void

    /// The longest sleep: 31 years. `Task.sleep` traps when the end of the sleep is beyond `Int64.max` seconds.
    package static let longestSleep = Duration.seconds(1_000_000_000)

    /// The system's clock, which advances while the machine sleeps.
    package static let continuous = CallClock(
        now: { .nanoseconds(MonotonicTime.withSleep.nanoseconds) },
        sleep: { try await Task.sleep(for: min($0, longestSleep)) })

    package init(now: @escaping @Sendable () -> Duration, sleep: @escaping @Sendable (Duration) async throws -> Void) {
        self.now = now
        self.sleep = sleep
    }
}

/// Values with times, of which the earliest can be taken out. A value that is no longer wanted stays until ``keep(where:)``
/// removes it, or until it is taken out and the caller ignores it.
package struct TimerHeap<Time: Comparable, Value> {
    package typealias Entry = (time: Time, value: Value)

    private var entries: [Entry] = []

    package init() {}

    package var first: Entry? { entries.first }
    package var count: Int { entries.count }

    package mutating func insert(_ value: Value, at time: Time) {
        entries.append((time, value))
        var index = entries.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard entries[index].time < entries[parent].time else { return }
            entries.swapAt(index, parent)
            index = parent
        }
    }

    /// Takes out the earliest value if its time has come.
    package mutating func popDue(at now: Time) -> Entry? {
        guard let top = entries.first, top.time <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var index = 0
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2] where child < entries.count {
                if entries[child].time < entries[smallest].time { smallest = child }
            }
            guard smallest != index else { return top }
            entries.swapAt(index, smallest)
            index = smallest
        }
    }

    package mutating func keep(where isWanted: (Value) -> Bool) {
        let kept = entries.filter { isWanted($0.value) }
        entries.removeAll(keepingCapacity: true)
        for entry in kept { insert(entry.value, at: entry.time) }
    }
}

extension TimerHeap: Sendable where Time: Sendable, Value: Sendable {}
