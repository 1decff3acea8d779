import Platform

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

extension TimeLimits {
    /// Runs an operation, the app's code or whatever else may take too long, and gives what it gives, or stops waiting for
    /// it when its time is over or its call is cancelled: it is cancelled then, and its result dropped, also when it takes
    /// no notice.
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
}
