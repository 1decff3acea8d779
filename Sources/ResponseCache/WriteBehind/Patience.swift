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
        guard lateCount.load(ordering: .relaxed) < Self.lateLimit else { return nil }
        let waiter = Waiter<Value?>()
        let ticket = limits.schedule(at: limits.clock.now() + limit) { [weak self] in
            if waiter.end(.success(nil)) { self?.lateCount.wrappingAdd(1, ordering: .relaxed) }
        }
        Task {
            let result: Result<Value?, any Error>
            do { result = .success(try await work()) } catch { result = .failure(error) }
            if waiter.end(result) {
                limits.cancel(ticket)
            } else {
                lateCount.wrappingSubtract(1, ordering: .relaxed)
            }
        }
        return try await waiter.uncancelledValue()
    }
}
