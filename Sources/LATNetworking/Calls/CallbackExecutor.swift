public import Dispatch

/// Where the closures of calls run.
///
/// Never on the caller's stack, nor on the engine's thread: a closure may block or start further calls.
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

    /// Runs closures on the main queue. Most Linux programs do not process that queue, so the closures never run there.
    public static var main: CallbackExecutor { .queue(.main) }

    /// A serial queue of the manager.
    static func serial() -> CallbackExecutor { .queue(DispatchQueue(label: "LATNetworking.callbacks")) }

    /// Runs closures at once, on the thread where the call ended.
    static let immediate = CallbackExecutor { closure in closure() }

    func run(_ closure: @escaping @Sendable () -> Void) { enqueue(closure) }
}
