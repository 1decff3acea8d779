public import Dispatch
public import HTTPCore

/// What a call, an upload and a download have in common: an app can keep the handles of all of them in one list.
///
/// ```swift
/// var running: [any CallHandle] = [central.upload(url, files: photos), central.download(url, to: path)]
/// for handle in running { handle.pause() }
/// ```
public protocol CallHandle<Value>: Sendable {
    /// What the call gives in the end.
    associatedtype Value: Sendable

    /// Identifies the call within the process, as for ``RequestSelection/key(_:)``.
    var key: String { get }
    /// The state now.
    var state: RequestTask.State { get }
    /// The result. Any number of tasks may wait for it.
    var value: Value { get async throws }
    /// Whether the call has ended, in whatever way.
    var isFinished: Bool { get }
    /// Whether the call was cancelled.
    var isCancelled: Bool { get }
    /// Ends the call with ``NetworkError/Kind/cancelled``. No effect once it has ended.
    func cancel()
    /// Pauses the transfer until it is resumed.
    func pause()
    /// Resumes a paused transfer.
    func resume()
}

extension CallHandle {
    /// The same as ``pause()``, under the name that `URLSessionTask` has for it.
    public func suspend() { pause() }

    /// Whether the call has ended, in whatever way.
    public var isFinished: Bool { state != .running && state != .paused }

    /// Whether the call was cancelled.
    public var isCancelled: Bool { state == .cancelled }
}

/// The handle of a call in closure form: pauses, resumes and cancels it, and has its state, progress and result.
///
/// ```swift
/// let task = manager.startRequest("GET", url, success: { _, response in }, failure: { _, error in })
/// task.pause()     // a running transfer pauses, a waiting one does not start
/// task.resume()
/// task.cancel()    // the failure closure gets .cancelled, unless the call had ended before
/// ```
///
/// The call continues when the task is released.
public final class RequestTask: CallHandle, Hashable {
    let call: Call

    package init(_ call: Call) { self.call = call }

    /// The state of a call, an upload or a download.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// It is running, or waits to run.
        case running
        /// It is paused until it is resumed.
        case paused
        /// It ended with success.
        case finished
        /// It failed.
        case failed
        /// It was cancelled.
        case cancelled

        /// - Parameter result: of the call; `nil` while it runs.
        package init(_ result: Result<some Any, any Error>?, isPaused: Bool) {
            switch result {
            case .success: self = .finished
            case .failure(let error): self = (error as? NetworkError)?.kind == .cancelled ? .cancelled : .failed
            case nil: self = isPaused ? .paused : .running
            }
        }
    }

    /// Identifies the call within the process.
    public var key: String { call.key }

    /// Ends the call with ``NetworkError/Kind/cancelled``, whatever it waits for. No effect once ``isFinished``.
    public func cancel() { call.cancel() }

    /// Pauses the transfer. A running one keeps its connection; a waiting one does not start. The total timeout keeps running,
    /// the idle timeout does not.
    public func pause() { call.setSuspended(true) }

    /// Resumes a paused transfer.
    public func resume() { call.setSuspended(false) }

    /// The state now.
    public var state: State { State(call.outcome.result, isPaused: call.transferState.isSuspended) }

    /// The progress from now on, for any number of readers: the current value, then changes, and at the end the final value.
    public var progress: some AsyncSequence<TransferProgress, Never> & Sendable { call.progress }

    /// The response, also that of an entity's call. Any number of tasks may wait for it; cancelling one of them ends only
    /// its waiting. It is set on the callback executor, just before the call's closure is called. The handle keeps it.
    ///
    /// - Throws: the ``NetworkError`` that the failure closure gets; `CancellationError` if the current task is cancelled.
    public var value: HTTPResponse {
        get async throws { try await call.outcome.value() }
    }

    /// Whether the call was cancelled, here or by ``CentralRequestManager/cancelRequests(_:)``, or missed its deadline.
    public var isCancelled: Bool { call.isCancelled }

    /// Whether the terminal event has been delivered or is being delivered.
    public var isFinished: Bool { call.isFinished }

    /// Whether a cached response was delivered before the terminal event, as by ``CachePolicy/cacheThenNetwork``. After a
    /// failure it says whether there is a response to use.
    public var hasDeliveredCachedReply: Bool { call.hasDeliveredCachedReply }

    /// Whether both are handles of the same call.
    public static func == (lhs: RequestTask, rhs: RequestTask) -> Bool { lhs.call === rhs.call }

    /// Hashes the identity of the call.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(call)) }
}

/// Where the closures of calls run: never on the caller's stack or the engine's thread, so that a closure may block or start
/// further calls.
public struct CallbackExecutor: Sendable {
    private let enqueue: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// Creates an executor that passes closures to a function. The function has to return at once and keep their order.
    public init(_ enqueue: @escaping @Sendable (_ closure: @escaping @Sendable () -> Void) -> Void) {
        self.enqueue = enqueue
    }

    /// Runs closures on a queue, which should be a serial one.
    public static func queue(_ queue: DispatchQueue) -> CallbackExecutor {
        CallbackExecutor { closure in queue.async(execute: closure) }
    }

    /// Runs closures on the main queue. Most Linux programs do not process that queue, so closures never run there.
    public static var main: CallbackExecutor { .queue(.main) }

    /// Runs closures at once, on the thread where the call ended.
    package static let immediate = CallbackExecutor { closure in closure() }

    package func run(_ closure: @escaping @Sendable () -> Void) { enqueue(closure) }
}
