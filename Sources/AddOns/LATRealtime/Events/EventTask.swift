public import LATNetworking
import Platform
import Synchronization

/// The handle of an event stream in closure form: cancels it, and shows its state. The stream continues when the handle is
/// released.
public final class EventTask: Sendable {
    private let session: EventSession
    private let call: LiveCall?
    private let work = Mutex<Task<Void, Never>?>(nil)

    fileprivate init(_ session: EventSession, _ call: LiveCall?) {
        self.session = session
        self.call = call
    }

    /// Identifies the stream within the process, for `cancelRequests(.key(_:))`.
    public var key: String { call?.key ?? "" }

    /// Cancels the stream: it ends with an error of kind `cancelled`, and no event is delivered after this. Has no effect once
    /// it has ended.
    public func cancel() {
        call?.cancel()
        work.withLock(\.self)?.cancel()
    }

    /// What the stream is doing now.
    public var state: LiveState { session.state.current }

    /// What the stream is doing, now and after every change, until it is closed.
    public var states: AsyncStream<LiveState> { session.state.values() }

    /// The id of the last event that a closure got; before the first one, ``EventOptions/lastEventID``. Empty when there is none.
    /// While an event waits for the callback executor, it is the id of that event.
    public var lastEventID: String { session.lastEventID }

    fileprivate func run(_ body: @escaping @Sendable () async -> Void) {
        work.withLock { $0 = Task { await body() } }
    }

    /// Whether events may still be delivered.
    fileprivate var delivers: Bool { call?.isCancelled == false && work.withLock(\.self)?.isCancelled != true }
}

extension EventStream {
    /// Reads the stream with closures, on the manager's callback executor.
    ///
    /// ```swift
    /// let task = central.events("GET", url).start { task, event in
    ///     print(event.data)
    /// } end: { task, error in
    ///     print("ended:", error?.message ?? "by the server")
    /// }
    /// ```
    ///
    /// The next event is read when the closure for the previous one has returned, so a slow closure makes the server wait.
    ///
    /// - Parameters:
    ///   - event: called for each event.
    ///   - end: called exactly once, after the last event, never synchronously: with `nil` when the server has ended
    ///     the stream, and with the error otherwise.
    @discardableResult
    public func start(
        event: @escaping @Sendable (_ task: EventTask, _ event: Element) -> Void,
        end: @escaping @Sendable (_ task: EventTask, _ error: NetworkError?) -> Void
    ) -> EventTask {
        // The call is registered before the task starts, so that a cancellation right after this method finds it.
        let (session, element) = (session, element)
        let call = session.isClosed ? nil : session.begin()
        let task = EventTask(session, try? call?.get())
        let callbacks = session.manager.callbacks
        task.run {
            var failure: NetworkError?
            let reader = EventReader(session)
            do {
                if let call { try await reader.begin(call, isolation: nil) }
                while case let lastID = session.lastEventID, let next = try await reader.next(isolation: nil) {
                    guard let next = try element(next) else { continue }
                    let isDelivered = Waiter<Bool>()
                    callbacks.run {
                        let delivers = task.delivers
                        if delivers { event(task, next) }
                        isDelivered.end(.success(delivers))
                    }
                    guard try await isDelivered.uncancelledValue() else {
                        reader.takeBack(to: lastID)
                        throw CancellationError()
                    }
                }
            } catch {
                reader.fail(error)
                failure = Self.failure(error, try? call?.get())
            }
            callbacks.run { [failure] in end(task, failure) }
        }
        return task
    }

    private static func failure(_ error: any Error, _ call: LiveCall?) -> NetworkError {
        if let error = error as? NetworkError { return error }
        return call?.failure(error)
            ?? NetworkError(.cancelled, message: "the event stream was cancelled", underlying: error)
    }
}
