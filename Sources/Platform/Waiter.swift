import Synchronization

/// One who waits for one value: the first result counts, and whoever brings a later one is told so.
package final class Waiter<Value: Sendable>: Sendable {
    @usableFromInline struct State {
        @usableFromInline var result: Result<Value, any Error>?
        @usableFromInline var continuation: UnsafeContinuation<Value, any Error>?

        @inlinable init() {}
    }

    @usableFromInline let state = Mutex(State())

    @inlinable package init() {}

    /// Brings the result.
    ///
    /// - Returns: whether it is the first. The bringer of a later one keeps what it stands for.
    @discardableResult @inlinable
    package func end(_ result: Result<Value, any Error>) -> Bool {
        let (isFirst, continuation) = state.withLock { state in
            guard state.result == nil else { return (false, UnsafeContinuation<Value, any Error>?.none) }
            state.result = result
            defer { state.continuation = nil }
            return (true, state.continuation)
        }
        continuation?.resume(with: result)
        return isFirst
    }

    /// The result, once there is one.
    @inlinable package var result: Result<Value, any Error>? { state.withLock(\.result) }

    /// Waits for the result, or until the task is cancelled.
    ///
    /// - Throws: what the result holds; `CancellationError` when the task is cancelled.
    @inlinable package func value() async throws -> Value {
        try await withTaskCancellationHandler {
            try await uncancelledValue()
        } onCancel: {
            end(.failure(CancellationError()))
        }
    }

    /// Waits for the result, also when the task is cancelled.
    ///
    /// - Throws: what the result holds.
    @inlinable package func uncancelledValue() async throws -> Value {
        try await withUnsafeThrowingContinuation { continuation in
            let result = state.withLock { state in
                if state.result == nil { state.continuation = continuation }
                return state.result
            }
            if let result { continuation.resume(with: result) }
        }
    }
}
