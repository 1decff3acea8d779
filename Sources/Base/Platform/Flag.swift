import Synchronization

/// A mark that threads share.
package final class Flag: Sendable {
    private let value = Atomic(false)

    package init() {}

    package var isSet: Bool { value.load(ordering: .acquiring) }

    package func set() { value.store(true, ordering: .releasing) }

    /// Takes the mark away.
    ///
    /// - Returns: whether it was set.
    package func clear() -> Bool { value.exchange(false, ordering: .acquiringAndReleasing) }
}
