import Synchronization

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
