import Platform
import Synchronization

/// Waits for work for a limited time only. What takes longer goes on by itself, and its result is dropped.
///
/// A store that hangs costs a few tasks and no more: while ``lateLimit`` of them are late, nothing new is begun.
final class Patience: Sendable {
    /// So many may be late before nothing is begun any more.
    private static let lateLimit = 8

    private let limits = TimeLimits()
    private let lateCount = Atomic<Int>(0)

    /// Does work, and waits for it.
    ///
    /// - Returns: its result; `nil` when it did not come in time.
    func run<Value: Sendable>(
        within limit: Duration, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        try await run(within: limit) { done in
            Task {
                do { done(.success(try await work())) } catch { done(.failure(error)) }
            }
        }
    }

    /// Begins work that needs no task, and waits for it.
    ///
    /// - Parameter begin: is given what is to be called with the result, once and on any thread.
    /// - Returns: its result; `nil` when it did not come in time.
    func run<Value: Sendable>(
        within limit: Duration, begin: (_ done: @escaping @Sendable (Result<Value, any Error>) -> Void) -> Void
    ) async throws -> Value? {
        guard lateCount.load(ordering: .relaxed) < Self.lateLimit else { return nil }
        let waiter = Waiter<Value?>()
        let ticket = limits.schedule(at: limits.clock.now() + limit) { [weak self] in
            if waiter.end(.success(nil)) { self?.lateCount.wrappingAdd(1, ordering: .relaxed) }
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
