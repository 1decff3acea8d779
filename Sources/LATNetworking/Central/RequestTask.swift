public import Dispatch
import HTTPCore

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
    let call: Call

    init(_ call: Call) { self.call = call }

    /// Names the call among all of the process.
    public var key: String { call.key }

    /// Ends the call with ``NetworkError/Kind/cancelled``, wherever it is. Once its terminal event is delivered this does
    /// nothing.
    public func cancel() { call.cancel() }

    /// Holds the transfer: what runs stands still with its connection, what waits does not start. The total timeout
    /// goes on, the idle one does not.
    public func suspend() { call.setSuspended(true) }

    /// Lets a suspended transfer go on.
    public func resume() { call.setSuspended(false) }

    /// Whether the call was cancelled, here or by ``CentralRequestManager/cancelRequests(_:)``.
    public var isCancelled: Bool { call.isCancelled }

    /// Whether the one terminal event has been delivered or is being.
    public var isFinished: Bool { call.isFinished }

    /// Whether a cached reply was delivered before the terminal event, as ``CachePolicy/cacheThenNetwork`` does. It tells
    /// a failure after a cached reply from one that leaves nothing to show.
    public var hasDeliveredCachedReply: Bool { call.hasDeliveredCachedReply }

    /// Of the same call.
    public static func == (lhs: RequestTask, rhs: RequestTask) -> Bool { lhs.call === rhs.call }

    /// Hashes the identity of the call.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(call)) }
}

/// Where the closures of calls run.
///
/// Never on the stack of the caller nor on the engine's thread: a closure may
/// block or start further calls.
public struct CallbackExecutor: Sendable {
    private let enqueue: @Sendable (@escaping @Sendable () -> Void) -> Void

    /// Runs closures as the given function does. It has to return at once and to keep their order.
    public init(_ enqueue: @escaping @Sendable (_ closure: @escaping @Sendable () -> Void) -> Void) {
        self.enqueue = enqueue
    }

    /// Runs closures on a queue, which should be a serial one.
    public static func queue(_ queue: DispatchQueue) -> CallbackExecutor {
        CallbackExecutor { closure in queue.async(execute: closure) }
    }

    /// Runs closures on the main queue. A program that never pumps it, as most on Linux do not, waits for ever.
    public static var main: CallbackExecutor { .queue(.main) }

    /// A serial queue of its own.
    static func serial() -> CallbackExecutor { .queue(DispatchQueue(label: "LATNetworking.callbacks")) }

    /// Runs closures at once, where the call has come to its end.
    static let immediate = CallbackExecutor { closure in closure() }

    func run(_ closure: @escaping @Sendable () -> Void) { enqueue(closure) }
}
