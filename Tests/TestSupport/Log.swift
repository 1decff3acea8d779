import Synchronization

/// A thread-safe list of values.
package final class Log<Element: Sendable>: Sendable {
    private let storage = Mutex<[Element]>([])

    package init() {}

    package var elements: [Element] { storage.withLock { $0 } }
    package var count: Int { storage.withLock { $0.count } }

    package func append(_ element: Element) { storage.withLock { $0.append(element) } }

    /// Breaks a retain cycle through this list.
    package func removeAll() { storage.withLock { $0 = [] } }
}

/// Calls a closure when it is released, which shows that nothing captures it any more.
package final class Sentinel: Sendable {
    private let onRelease: @Sendable () -> Void

    package init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }

    deinit { onRelease() }
}
