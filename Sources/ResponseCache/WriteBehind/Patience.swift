import Dispatch
import Synchronization

/// Waits for work for a limited time only. What takes longer goes on by itself, and its result is dropped.
///
/// A store that hangs costs a few tasks and no more: while ``lateLimit`` of them are late, nothing new is begun.
final class Patience: Sendable {
    /// So many may be late before nothing is begun any more.
    private static let lateLimit = 8

    private struct Wait {
        let end: ContinuousClock.Instant
        let giveUp: @Sendable () -> Void
    }

    private struct State {
        var waits: [UInt64: Wait] = [:]
        var next: UInt64 = 0
        /// Whether the timer is set.
        var isTimed = false
    }

    private let state = Mutex(State())
    private let lateCount = Atomic<Int>(0)
    private let queue = DispatchQueue(label: "LATNetworking.cache.patience", qos: .userInitiated)

    /// Does work, and waits for it.
    ///
    /// - Returns: its result; `nil` when it did not come in time.
    func run<Value: Sendable>(
        within limit: Duration, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        guard lateCount.load(ordering: .relaxed) < Self.lateLimit else { return nil }
        return try await withUnsafeThrowingContinuation { continuation in
            let race = Race<Value?>(continuation)
            let number = add(
                Wait(end: .now + limit) { [weak self] in
                    if race.end(.success(nil)) { self?.lateCount.wrappingAdd(1, ordering: .relaxed) }
                })
            Task {
                let result: Result<Value?, any Error>
                do { result = .success(try await work()) } catch { result = .failure(error) }
                if race.end(result) {
                    self.state.withLock { $0.waits[number] = nil }
                } else {
                    self.lateCount.wrappingSubtract(1, ordering: .relaxed)
                }
            }
        }
    }

    private func add(_ wait: Wait) -> UInt64 {
        let (number, isFirst) = state.withLock { state in
            state.next += 1
            state.waits[state.next] = wait
            defer { state.isTimed = true }
            return (state.next, !state.isTimed)
        }
        // One timer for all: most waits are over long before it fires.
        if isFirst { look(at: wait.end) }
        return number
    }

    private func look(at time: ContinuousClock.Instant) {
        let delay = max(.zero, ContinuousClock.now.duration(to: time)) + .milliseconds(1)
        queue.asyncAfter(deadline: .now() + .milliseconds(Int(delay / .milliseconds(1)))) { [weak self] in
            self?.giveUpLateOnes()
        }
    }

    private func giveUpLateOnes() {
        let now = ContinuousClock.now
        let (late, next) = state.withLock { state in
            let late = state.waits.filter { $0.value.end <= now }
            for number in late.keys { state.waits[number] = nil }
            let next = state.waits.values.map(\.end).min()
            state.isTimed = next != nil
            return (late.values.map(\.giveUp), next)
        }
        for giveUp in late { giveUp() }
        if let next { look(at: next) }
    }
}

/// A continuation that the first result resumes.
private final class Race<Value: Sendable>: Sendable {
    private let continuation: Mutex<UnsafeContinuation<Value, any Error>?>

    init(_ continuation: UnsafeContinuation<Value, any Error>) { self.continuation = Mutex(continuation) }

    /// - Returns: whether it was the first.
    func end(_ result: Result<Value, any Error>) -> Bool {
        let first = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        first?.resume(with: result)
        return first != nil
    }
}
