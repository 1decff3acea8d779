import Synchronization

/// Holds a transfer, lets it go on, cancels it and raises its priority, whether it has started or not.
///
/// The side of the caller switches; the transport that carries the request
/// attaches itself and is told of every switch. Those who hold the request up
/// on its way, a room that waits for one, are told of its cancellation.
package final class TransferControl: Sendable {
    private struct State {
        var isSuspended = false
        var isCancelled = false
        var isListed = false
        var priority: RequestPriority?
        var listener: (any TransferControlListener)?
        /// Who waits, by ticket; `nil` while nobody does, which is nearly always.
        var waiters: [Int: Handlers]?
        var tickets = 0
        var ending: (@Sendable () -> Void)?
    }

    private struct Handlers {
        var cancelled: @Sendable () -> Void
        var raised: (@Sendable (RequestPriority) -> Void)?
    }

    private let state = Mutex(State())

    /// Whether the caller learns of the end later than the call's work is over: it is then who runs ``takeEnding()``.
    package let deliversLater: Bool

    package init(deliversLater: Bool = false) { self.deliversLater = deliversLater }

    // MARK: The caller's side

    /// Whether the transfer is held.
    package var isSuspended: Bool { state.withLock(\.isSuspended) }

    /// Whether ``cancel()`` was called.
    package var isCancelled: Bool { state.withLock(\.isCancelled) }

    /// What ``raisePriority(to:)`` said last; `nil` for the request's own.
    package var priority: RequestPriority? { state.withLock(\.priority) }

    /// Holds the transfer, or lets it go on.
    package func setSuspended(_ isSuspended: Bool) {
        let listener = state.withLock { state -> (any TransferControlListener)? in
            guard state.isSuspended != isSuspended else { return nil }
            state.isSuspended = isSuspended
            return state.listener
        }
        listener?.transferControlDidChange()
    }

    /// Ends the call with ``NetworkError/Kind/cancelled``, wherever it is. Does nothing the second time.
    package func cancel() {
        let (listener, waiters) = state.withLock { state -> ((any TransferControlListener)?, [Int: Handlers]?) in
            guard !state.isCancelled else { return (nil, nil) }
            state.isCancelled = true
            defer { state.waiters = nil }
            return (state.listener, state.waiters)
        }
        listener?.transferControlDidChange()
        for waiter in waiters ?? [:] { waiter.value.cancelled() }
    }

    /// Lets the transfer start before those of a lower priority, from now on. Never lowers it.
    package func raisePriority(to priority: RequestPriority) {
        let (listener, waiters) = state.withLock { state -> ((any TransferControlListener)?, [Int: Handlers]?) in
            if let present = state.priority, present >= priority { return (nil, nil) }
            state.priority = priority
            return (state.listener, state.waiters)
        }
        listener?.transferControlDidChange()
        for waiter in waiters ?? [:] { waiter.value.raised?(priority) }
    }

    // MARK: The side of those who wait

    /// Tells of a cancellation, at once when there was one. The handlers run on the thread of whoever switches.
    ///
    /// - Returns: what ``stopWaiting(_:)`` takes; `nil` when the call is cancelled already.
    package func whileWaiting(
        cancelled: @escaping @Sendable () -> Void, raised: (@Sendable (RequestPriority) -> Void)? = nil
    ) -> Int? {
        let ticket = state.withLock { state -> Int? in
            guard !state.isCancelled else { return nil }
            state.tickets += 1
            state.waiters = state.waiters ?? [:]
            state.waiters?[state.tickets] = Handlers(cancelled: cancelled, raised: raised)
            return state.tickets
        }
        if ticket == nil { cancelled() }
        return ticket
    }

    /// Ends what ``whileWaiting(cancelled:raised:)`` began.
    package func stopWaiting(_ ticket: Int?) {
        guard let ticket else { return }
        state.withLock { _ = $0.waiters?.removeValue(forKey: ticket) }
    }

    // MARK: The transport's side

    /// Tells the transport of switches from now on. The listener reads the state: two switches in a row may reach it
    /// in any order, the last state counts. It is kept until ``detach()``.
    package func attach(_ listener: any TransferControlListener) {
        state.withLock { $0.listener = listener }
    }

    /// Ends what ``attach(_:)`` began.
    package func detach() { state.withLock { $0.listener = nil } }

    // MARK: The end

    /// Sets what is to be done when the caller has learnt of the end.
    package func setEnding(_ ending: (@Sendable () -> Void)?) { state.withLock { $0.ending = ending } }

    /// What is to be done now that the caller has learnt of the end.
    package func takeEnding() -> (@Sendable () -> Void)? {
        state.withLock { state in
            defer { state.ending = nil }
            return state.ending
        }
    }

    // MARK: The list of calls

    /// Notes that the call stands in a list of running calls. Returns whether it did not before.
    package func list() -> Bool {
        state.withLock { state in
            defer { state.isListed = true }
            return !state.isListed
        }
    }

    /// Notes that the call no longer stands in a list.
    package func unlist() { state.withLock { $0.isListed = false } }
}

/// A transport's side of a ``TransferControl``.
package protocol TransferControlListener: AnyObject, Sendable {
    /// Something was switched; called on the thread of whoever did.
    func transferControlDidChange()
}
