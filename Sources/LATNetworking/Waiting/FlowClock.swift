import HTTPCore

/// Time as the rooms of the corridor see it; tests turn it themselves.
struct FlowClock: Sendable {
    /// What has gone by since some moment.
    let now: @Sendable () -> Duration
    let sleep: @Sendable (Duration) async throws -> Void

    /// The system's clock, which goes on while the machine sleeps.
    static let continuous = FlowClock(now: { elapsed() }, sleep: { try await Task.sleep(for: $0) })

    private static let beginning = ContinuousClock.now

    private static func elapsed() -> Duration { beginning.duration(to: .now) }

    /// Waits on behalf of a request.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, ``NetworkError/Kind/cancelled`` when the call is.
    func wait(_ duration: Duration, for request: HTTPRequest) async throws {
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
        try await waiter.value(for: request)
    }

    /// Runs an operation and gives what it gives, or stops waiting for it when the time is over: it is cancelled then,
    /// and its result dropped, also when it takes no notice of that.
    ///
    /// - Throws: what the operation throws, or `late` when the time is over; errors of a cancellation as
    ///   ``wait(_:for:)``.
    func run<Value: Sendable>(
        within limit: Duration?, for request: HTTPRequest, late: @escaping @Sendable () -> any Error,
        _ operation: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let waiter = Waiter<Value>()
        let work = Task {
            do {
                waiter.end(.success(try await operation()))
            } catch {
                waiter.end(.failure(error))
            }
        }
        let alarm = limit.map { limit in
            Task { [sleep] in
                try await sleep(limit)
                waiter.end(.failure(late()))
            }
        }
        defer {
            work.cancel()
            alarm?.cancel()
        }
        return try await waiter.value(for: request)
    }
}
