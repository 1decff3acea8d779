import Synchronization

/// Ends what takes too long, for any number of operations with one sleeping task between them.
///
/// An operation that does not suspend costs no task switch. One that is late is cancelled and no longer waited for, even
/// when it ignores that.
final class DeadlineWatch: Sendable {
    /// The operation was not over in time.
    struct Exceeded: Error {}

    private struct State {
        var operations: [UInt64: (deadline: ContinuousClock.Instant, end: @Sendable () -> Void)] = [:]
        var count: UInt64 = 0
        /// When the sleeping task wakes; `nil` when there is none.
        var wakeUp: ContinuousClock.Instant?
    }

    private let clock = ContinuousClock()
    private let state = Mutex(State())

    /// Runs an operation and gives what it gives.
    ///
    /// - Throws: what the operation throws; ``Exceeded`` when it is not over in time; `CancellationError` when the
    ///   current task is cancelled.
    func limit<Value: Sendable>(
        _ time: Duration, _ operation: @escaping @Sendable () async throws -> Value
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
        let ticket = add(deadline: clock.now + time) {
            waiter.end(.failure(Exceeded()))
            work.cancel()
        }
        defer { remove(ticket) }
        return try await withTaskCancellationHandler {
            try await waiter.value()
        } onCancel: {
            work.cancel()
        }
    }

    private func add(deadline: ContinuousClock.Instant, _ end: @escaping @Sendable () -> Void) -> UInt64 {
        let (ticket, isFirst) = state.withLock { state in
            state.count += 1
            state.operations[state.count] = (deadline, end)
            let isFirst = state.wakeUp.map { deadline < $0 } ?? true
            if isFirst { state.wakeUp = deadline }
            return (state.count, isFirst)
        }
        if isFirst { sleep(until: deadline) }
        return ticket
    }

    private func remove(_ ticket: UInt64) { state.withLock { $0.operations[ticket] = nil } }

    private func sleep(until deadline: ContinuousClock.Instant) {
        Task { [weak self, clock] in
            try? await clock.sleep(until: deadline)
            self?.wakeUp(of: deadline)
        }
    }

    /// Ends what is late, and sleeps on while there is something left. A sleeper that an earlier one has overtaken does
    /// nothing.
    private func wakeUp(of sleeper: ContinuousClock.Instant) {
        let now = clock.now
        let (late, following) = state.withLock { state in
            guard state.wakeUp == sleeper else { return ([@Sendable () -> Void](), ContinuousClock.Instant?.none) }
            let late = state.operations.filter { $0.value.deadline <= now }
            for ticket in late.keys { state.operations[ticket] = nil }
            state.wakeUp = state.operations.values.map(\.deadline).min()
            return (late.values.map(\.end), state.wakeUp)
        }
        for end in late { end() }
        if let following { sleep(until: following) }
    }
}
