import Synchronization

/// Waits for one value. The first result counts; ``end(_:)`` returns `false` for later ones.
///
/// It is `public` only for speed: a `package` type is not specialized for the types of other modules, and each wait then
/// takes several times as long.
public final class Waiter<Value: Sendable>: Sendable {
    @usableFromInline struct State {
        @usableFromInline var result: Result<Value, any Error>?
        @usableFromInline var continuation: UnsafeContinuation<Value, any Error>?

        @inlinable init() { (result, continuation) = (nil, nil) }
    }

    @usableFromInline let state: Mutex<State>

    /// A waiter without a result.
    @inlinable public init() { state = Mutex(State()) }

    @inlinable deinit {}

    /// Delivers the result.
    ///
    /// - Returns: whether it is the first. If not, the caller keeps ownership of what the result represents.
    @discardableResult @inlinable
    public func end(_ result: Result<Value, any Error>) -> Bool {
        let (isFirst, continuation) = state.withLock { state in
            guard state.result == nil else { return (false, UnsafeContinuation<Value, any Error>?.none) }
            state.result = result
            defer { state.continuation = nil }
            return (true, state.continuation)
        }
        continuation?.resume(with: result)
        return isFirst
    }

    /// The result, `nil` until there is one.
    @inlinable public var result: Result<Value, any Error>? { state.withLock(\.result) }

    /// Waits for the result, or until the task is cancelled.
    ///
    /// - Throws: the error of the result; `CancellationError` when the task is cancelled.
    @inlinable public func value() async throws -> Value {
        try await withTaskCancellationHandler {
            try await uncancelledValue()
        } onCancel: {
            end(.failure(CancellationError()))
        }
    }

    /// Waits for the result, even if the task is cancelled.
    ///
    /// - Throws: the error of the result.
    @inlinable public func uncancelledValue() async throws -> Value {
        try await withUnsafeThrowingContinuation { continuation in
            let result = state.withLock { state in
                if state.result == nil { state.continuation = continuation }
                return state.result
            }
            if let result { continuation.resume(with: result) }
        }
    }
}

/// A closure that is kept until it is taken, behind a lock.
///
/// A `Mutex` must not hold a closure itself, alone, as an optional or in a tuple. Generic code keeps closures in another
/// calling convention than other code, so each access of such a `Mutex` wraps the stored closure once more. The stack
/// and the time of a call then grow with the number of accesses before it. A property of a struct stays as it is.
package struct HeldClosure<Closure: Sendable>: ~Copyable, Sendable {
    // Not private: the compiler (Swift 6.3) crashes in other modules, which need its layout.
    package struct Held: Sendable { var closure: Closure? }

    private let held: Mutex<Held>

    package init(_ closure: Closure? = nil) { held = Mutex(Held(closure: closure)) }

    /// The closure; `nil` when there is none or it was taken.
    package var closure: Closure? { held.withLock { $0.closure } }

    package func set(_ closure: Closure) { held.withLock { $0.closure = closure } }

    /// Returns the closure and releases it, so that it is called at most once.
    @discardableResult
    package func take() -> Closure? { held.withLock { $0.closure.take() } }
}

/// Lets one task after the other do its work, in the order in which they come.
package final class Turns: Sendable {
    private struct State {
        var isTaken = false
        var waiting: [Waiter<Void>] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Does work when it has its turn. A task that is cancelled gives up its place.
    package func run(_ work: () async throws -> Void) async throws {
        let place = state.withLock { state -> Waiter<Void>? in
            defer { state.isTaken = true }
            guard state.isTaken else { return nil }
            let place = Waiter<Void>()
            state.waiting.append(place)
            return place
        }
        try await place?.value()
        defer { passOn() }
        try await work()
    }

    private func passOn() {
        state.withLock { state in
            // A waiter that has ended is one of a cancelled task.
            while !state.waiting.isEmpty { if state.waiting.removeFirst().end(.success(())) { return } }
            state.isTaken = false
        }
    }
}
