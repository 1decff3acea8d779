import CurlTransport
import HTTPCore
import Platform
import Synchronization

extension Waiter {
    /// Waits for the result on behalf of a call.
    ///
    /// - Parameters:
    ///   - call: the call whose cancellation ends the waiting too; `nil` for none.
    ///   - raised: told when the call's priority rises while it waits.
    /// - Throws: what the result holds; `CancellationError` when the task is cancelled, ``Call/cancellation`` when the
    ///   call is.
    func value(for call: Call?, raised: (@Sendable (RequestPriority) -> Void)? = nil) async throws -> Value {
        if let result { return try result.get() }
        let wait = call.map { call in
            CallWait(call) { standing in
                if standing.isCancelled {
                    self.end(.failure(call.cancellation))
                } else {
                    raised?(standing.priority)
                }
            }
        }
        defer { wait?.end() }
        return try await value()
    }
}

/// What a call waits for now, from its beginning to ``end()``.
final class CallWait: TransferListener {
    private let call: Call
    private let changed: @Sendable (TransferStanding) -> Void

    /// - Parameter changed: called when the call is cancelled, at once when it is already, and when its priority rises.
    init(_ call: Call, _ changed: @escaping @Sendable (TransferStanding) -> Void) {
        self.call = call
        self.changed = changed
        call.attach(self)
    }

    func standingDidChange() { changed(call.standing) }

    func end() { call.detach(self) }
}

/// A result that any number of tasks wait for.
final class Outcome<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, any Error>?
        var waiters: [ObjectIdentifier: Waiter<Value>] = [:]
    }

    private let state = Mutex(State())

    /// `nil` while there is none.
    var result: Result<Value, any Error>? { state.withLock(\.result) }

    /// Sets the result; a later one is dropped. `before` is done before anybody who waits hears of it.
    func settle(_ result: Result<Value, any Error>, before: () -> Void = {}) {
        let waiters = state.withLock { state -> [Waiter<Value>] in
            guard state.result == nil else { return [] }
            state.result = result
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        before()
        for waiter in waiters { waiter.end(result) }
    }

    /// Waits for the result. The cancellation of one who waits ends that waiting and nothing else.
    func value(for call: Call? = nil) async throws -> Value {
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
