import HTTPCore
import Platform
import Synchronization

extension CallClock {
    /// Waits on behalf of a call.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, ``Call/cancellation`` when the call is.
    func wait(_ duration: Duration, for call: Call) async throws {
        guard duration > .zero else { return try Task.checkCancellation() }
        let waiter = Waiter<Void>()
        let sleeper = Task { [sleep] in
            do {
                try await sleep(duration)
                waiter.end(.success(()))
            } catch {
                waiter.end(.failure(error))
            }
        }
        defer { sleeper.cancel() }
        try await waiter.value(for: call)
    }
}

/// Runs the app's code, and whatever else may take too long, within a time: for any number of operations there is one
/// sleeping task.
final class TimeLimits: Sendable {
    /// Names something that was scheduled.
    struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    private struct State {
        var alarms: [UInt64: (time: Duration, ring: @Sendable () -> Void)] = [:]
        var count: UInt64 = 0
        /// When the sleeping task wakes; `nil` when there is none.
        var wakeUp: Duration?
    }

    let clock: CallClock
    private let state = Mutex(State())

    init(_ clock: CallClock = .continuous) { self.clock = clock }

    /// Runs an operation and gives what it gives, or stops waiting for it when its time is over or its call is cancelled:
    /// it is cancelled then, and its result dropped, also when it takes no notice.
    ///
    /// It begins on the caller's stack. One that does not suspend is not waited for.
    ///
    /// - Parameters:
    ///   - limit: the longest time; `nil` for any.
    ///   - call: the call it belongs to; `nil` for none.
    ///   - late: the error when the time is over.
    /// - Throws: what the operation throws, or `late`; `CancellationError` when the task is cancelled,
    ///   ``Call/cancellation`` when the call is.
    func run<Value: Sendable>(
        within limit: Duration? = nil, for call: Call?,
        late: @escaping @Sendable () -> any Error = { CancellationError() },
        _ operation: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let waiter = Waiter<Value>()
        let work = Task.immediate {
            do {
                waiter.end(.success(try await operation()))
            } catch {
                waiter.end(.failure(error))
            }
        }
        if let result = waiter.result { return try result.get() }
        let ticket = limit.map { limit in schedule(at: clock.now() + limit) { waiter.end(.failure(late())) } }
        defer {
            ticket.map(cancel)
            work.cancel()
        }
        return try await waiter.value(for: call)
    }

    /// Has something done at a time, on any thread, unless it is cancelled before.
    func schedule(at time: Duration, _ ring: @escaping @Sendable () -> Void) -> Ticket {
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
    func cancel(_ ticket: Ticket) {
        let alarm = state.withLock { $0.alarms.removeValue(forKey: ticket.number) }
        _ = alarm  // let go of outside the lock
    }

    private func sleep(until time: Duration) {
        Task { [weak self, clock] in
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
