public import Dispatch

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
