import CurlTransport
import HTTPCore
import Platform
import Synchronization

extension Waiter {
    /// Waits for the result on behalf of a call.
    ///
    /// - Parameters:
    ///   - call: the call whose cancellation also ends the waiting; `nil` for none.
    ///   - whole: whether the call waits for its whole result, and not for one of its requests, which may be abandoned.
    ///   - changed: receives the call's state at the beginning of the wait, and after each change except a cancellation.
    /// - Throws: the error of the result; `CancellationError` if the task is cancelled, ``Call/cancellation`` if the call is.
    func value(
        for call: Call?, whole: Bool = false, changed: (@Sendable (TransferState) -> Void)? = nil
    ) async throws -> Value {
        if let result { return try result.get() }
        guard let call else { return try await value() }
        let wait = CallWait(call) { state in
            if (whole ? state : call.transferState).isCancelled {
                self.end(.failure(call.cancellation))
            } else {
                changed?(state)
            }
        }
        defer { wait.end() }
        // A change before the registration is not notified.
        changed?(call.transferState)
        return try await value()
    }
}

/// Observes the state of a call until ``end()``.
package final class CallWait: TransferListener {
    private let call: Call
    private let changed: @Sendable (TransferState) -> Void

    /// - Parameter changed: called for every change of the state, and at once if the call is already cancelled.
    package init(_ call: Call, _ changed: @escaping @Sendable (TransferState) -> Void) {
        self.call = call
        self.changed = changed
        call.attach(self)
    }

    package func stateDidChange() { changed(call.callState) }

    package func end() { call.detach(self) }
}

/// A result that any number of tasks wait for.
package final class SharedResult<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, any Error>?
        var waiters: [ObjectIdentifier: Waiter<Value>] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// The result; `nil` until it is set.
    package var result: Result<Value, any Error>? { state.withLock(\.result) }

    /// Sets the result unless one is set already. `before` runs before any waiter gets the result.
    package func settle(_ result: Result<Value, any Error>, before: () -> Void = {}) {
        let waiters = state.withLock { state -> [Waiter<Value>] in
            guard state.result == nil else { return [] }
            state.result = result
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        before()
        for waiter in waiters { waiter.end(result) }
    }

    /// Waits for the result. Cancelling one waiter ends only its own waiting.
    package func value(for call: Call? = nil) async throws -> Value {
        let waiter = Waiter<Value>()
        let result = state.withLock { state in
            if state.result == nil { state.waiters[ObjectIdentifier(waiter)] = waiter }
            return state.result
        }
        if let result { return try result.get() }
        defer { state.withLock { $0.waiters[ObjectIdentifier(waiter)] = nil } }
        return try await waiter.value(for: call)
    }
}

extension CallClock {
    /// Waits on behalf of a call.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, ``Call/cancellation`` when the call is.
    func wait(_ duration: Duration, for call: Call) async throws {
        guard duration > .zero else { return try Task.checkCancellation() }
        try await TimeLimits(self).run(for: call) { [sleep] in try await sleep(duration) }
    }
}

extension TimeLimits {
    /// Runs an operation that may take too long, such as the app's code, and returns its value. When the time is over or the
    /// call is cancelled, it cancels the operation and stops waiting, even if the operation ignores the cancellation.
    ///
    /// The operation begins on the caller's stack. If it never suspends, there is no wait.
    ///
    /// - Parameters:
    ///   - limit: the maximum time; `nil` for no limit.
    ///   - call: the call that the operation belongs to; `nil` for none.
    ///   - whole: whether the operation is that of the whole call, and not of one of its requests.
    ///   - late: makes the error that is thrown when the time is over.
    /// - Throws: what the operation throws, or `late`; `CancellationError` if the task is cancelled,
    ///   ``Call/cancellation`` if the call is.
    func run<Value: Sendable>(
        within limit: Duration? = nil, for call: Call?, whole: Bool = false,
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
        return try await waiter.value(for: call, whole: whole)
    }
}

/// Learns when a transfer of a call starts, without waits for limits and connections.
protocol TransferClock: Sendable {
    func start(of call: Call)
}
