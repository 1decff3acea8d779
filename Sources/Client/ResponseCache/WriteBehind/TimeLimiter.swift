import Platform
import Synchronization

/// Runs work with a time limit. Work that takes longer continues, but its result is dropped. A store that hangs occupies
/// only a few tasks: while ``lateLimit`` of them are late, no new work begins.
final class TimeLimiter: Sendable {
    private static let lateLimit = 8

    private let limits = TimeLimits()
    private let lateCount = Atomic<Int>(0)

    /// Runs work in a task and returns its result; `nil` when the work is late or did not begin.
    func run<Value: Sendable>(
        within limit: Duration, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        try await run(within: limit) { done in
            Task {
                do { done(.success(try await work())) } catch { done(.failure(error)) }
            }
        }
    }

    /// Runs work without a task: `begin` begins it, and it calls `done` with its result, once and on any thread.
    func run<Value: Sendable>(
        within limit: Duration, begin: (_ done: @escaping @Sendable (Result<Value, any Error>) -> Void) -> Void
    ) async throws -> Value? {
        guard lateCount.load(ordering: .relaxed) < Self.lateLimit else { return nil }
        let waiter = Waiter<Value?>()
        let ticket = limits.schedule(at: limits.clock.now() + limit) { [weak self] in
            // The task counts as late before the waiter continues, so that the limit holds for the next work of the waiter.
            self?.lateCount.wrappingAdd(1, ordering: .relaxed)
            if !waiter.end(.success(nil)) { self?.lateCount.wrappingSubtract(1, ordering: .relaxed) }
        }
        begin { [self] result in
            if waiter.end(result.map { $0 }) {
                limits.cancel(ticket)
            } else {
                lateCount.wrappingSubtract(1, ordering: .relaxed)
            }
        }
        return try await waiter.uncancelledValue()
    }
}
