import Synchronization
import Testing

/// An error for something that did not happen in time.
package struct Overdue: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// Awaits an operation for a limited time. Unlike a task group, it does not wait for an operation that hangs, so that a
/// hang fails one test and not the whole run.
///
/// The time is counted in steps on the threads that the operation needs too: where other tests keep those busy, it is longer.
@discardableResult
package func within<Result: Sendable>(
    _ limit: Duration = .seconds(20), _ what: String = "the end", sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    let race = Race<Result>()
    let work = Task {
        do {
            race.finish(.success(try await body()))
        } catch {
            race.finish(.failure(error))
        }
    }
    let clock = Task {
        let step = Duration.milliseconds(50)
        for _ in 0..<max(1, Int(limit / step)) { try await Task.sleep(for: step) }
        race.finish(.failure(Overdue(description: "waited \(limit) for \(what)")))
    }
    defer { clock.cancel() }
    return try await withTaskCancellationHandler {
        try await race.value
    } onCancel: {
        work.cancel()
    }
}

/// The first of several results.
private final class Race<Value: Sendable>: Sendable {
    private enum State {
        case running
        case awaited(CheckedContinuation<Value, any Error>)
        case over(Result<Value, any Error>)
    }

    private let state = Mutex(State.running)

    func finish(_ result: Result<Value, any Error>) {
        let continuation = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            switch state {
            case .running:
                state = .over(result)
                return nil
            case .awaited(let continuation):
                state = .over(result)
                return continuation
            case .over:
                return nil
            }
        }
        continuation?.resume(with: result)
    }

    var value: Value {
        get async throws {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Value, any Error>? in
                    if case .over(let result) = state { return result }
                    state = .awaited(continuation)
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        }
    }
}
