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
    /// Runs an operation that may take too long, such as the app's code, and returns its value. When the time is over
    /// or the call is cancelled, it stops waiting, cancels the operation and drops its result, even if the operation
    /// ignores the cancellation.
    ///
    /// The operation begins on the caller's stack. If it does not suspend, its result is returned without any waiting.
    ///
    /// - Parameters:
    ///   - limit: the maximum time; `nil` for no limit.
    ///   - call: the call that the operation belongs to; `nil` for none.
    ///   - late: makes the error for the case that the time is over.
    /// - Throws: what the operation throws, or `late`; `CancellationError` if the task is cancelled,
    ///   ``Call/cancellation`` if the call is.
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
