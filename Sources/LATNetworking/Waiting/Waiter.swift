import HTTPCore
import Synchronization

/// One who waits for one value: the first result counts, and whoever brings a later one is told so.
///
/// Ends early when the task, or the call, is cancelled.
final class Waiter<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, any Error>?
        var continuation: CheckedContinuation<Value, any Error>?
    }

    private let state = Mutex(State())

    /// Brings the result.
    ///
    /// - Returns: whether it is the first; what a later one stood for is still the bringer's to give back.
    @discardableResult
    func end(_ result: Result<Value, any Error>) -> Bool {
        let (isFirst, continuation) = state.withLock { state in
            guard state.result == nil else { return (false, CheckedContinuation<Value, any Error>?.none) }
            state.result = result
            defer { state.continuation = nil }
            return (true, state.continuation)
        }
        continuation?.resume(with: result)
        return isFirst
    }

    /// The result, once there is one.
    var result: Result<Value, any Error>? { state.withLock(\.result) }

    /// Waits for the result.
    ///
    /// - Parameters:
    ///   - request: the call whose cancellation ends the waiting too; `nil`, the default, for none.
    ///   - raised: told when the call's priority rises while it waits.
    /// - Throws: what the result holds; `CancellationError` when the task is cancelled, ``NetworkError/Kind/cancelled``
    ///   when the call is.
    func value(
        for request: HTTPRequest? = nil, raised: (@Sendable (RequestPriority) -> Void)? = nil
    ) async throws -> Value {
        let ticket = request?.control?.whileWaiting(
            cancelled: { self.end(.failure(Cancellation.error(request))) }, raised: raised)
        defer { request?.control?.stopWaiting(ticket) }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state in
                    if state.result == nil { state.continuation = continuation }
                    return state.result
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            end(.failure(CancellationError()))
        }
    }
}

/// What a call ends with that was cancelled by one that is not its own task.
enum Cancellation {
    static func error(_ request: HTTPRequest?) -> NetworkError {
        NetworkError(.cancelled, message: "the request was cancelled", request: request)
    }
}
