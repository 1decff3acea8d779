import FoundationEssentials
import HTTPCore
import Synchronization

/// A call in closure form, under way: cancels it, holds it, lets it go on.
///
/// ```swift
/// let task = manager.startRequest("GET", url, success: { _, response in … }, failure: { _, error in … })
/// task.suspend()   // a running transfer stands still, one that has not begun does not begin
/// task.resume()
/// task.cancel()    // the failure closure gets .cancelled, unless the call was over before
/// ```
///
/// The call goes on when the task is let go of.
public final class RequestTask: Sendable, Hashable {
    /// Names the call among all of the process.
    public let key: String

    private struct State {
        var work: Task<Void, Never>?
        var isCancelled = false
        var isFinished = false
        var hasDeliveredCachedReply = false
        var request: HTTPRequest?
    }

    let control = TransferControl(deliversLater: true)
    private let state = Mutex(State())

    private static let count = Atomic<UInt64>(0)

    init() {
        key = "request-\(Self.count.add(1, ordering: .relaxed).newValue)"
    }

    /// Ends the call with ``NetworkError/Kind/cancelled``. Once it is over this does nothing.
    public func cancel() {
        let work = state.withLock { state in
            state.isCancelled = true
            return state.work
        }
        work?.cancel()
    }

    /// Holds the transfer: what runs stands still with its connection, what waits does not start. The total timeout
    /// goes on, the idle one does not.
    public func suspend() { control.setSuspended(true) }

    /// Lets a suspended transfer go on.
    public func resume() { control.setSuspended(false) }

    /// Whether ``cancel()`` was called.
    public var isCancelled: Bool { state.withLock(\.isCancelled) }

    /// Whether the one terminal event has been delivered or is being.
    public var isFinished: Bool { state.withLock(\.isFinished) }

    /// Whether a cached reply was delivered before the terminal event, as ``CachePolicy/cacheThenNetwork`` does. It tells
    /// a failure after a cached reply from one that leaves nothing to show.
    public var hasDeliveredCachedReply: Bool { state.withLock(\.hasDeliveredCachedReply) }

    /// Notes that a cached reply is about to be delivered; `false` when it must not be any more.
    func noteCachedReply() -> Bool {
        state.withLock { state in
            guard !state.isFinished, !state.isCancelled, !state.hasDeliveredCachedReply else { return false }
            state.hasDeliveredCachedReply = true
            return true
        }
    }

    /// What is sent, once it is known; for errors that do not say.
    var request: HTTPRequest? { state.withLock(\.request) }

    func note(_ request: HTTPRequest) { state.withLock { $0.request = request } }

    func start(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        let isCancelled = state.withLock { state in
            state.work = task
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    /// The terminal event is about to be delivered; no progress comes after it.
    func finish() {
        state.withLock { state in
            state.isFinished = true
            state.work = nil
            state.request = nil
        }
    }

    /// The same task.
    public static func == (lhs: RequestTask, rhs: RequestTask) -> Bool { lhs === rhs }

    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
