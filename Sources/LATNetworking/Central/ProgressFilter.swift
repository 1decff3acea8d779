import HTTPCore
import Synchronization

/// Keeps the numbers of a call from going down: a redirect or a retry is a transfer of its own, which begins at 0.
final class ProgressFilter: Sendable {
    private let last = Mutex<TransferProgress?>(nil)

    /// Whether an event is news. One of the other direction always is: after a 303 the answer is what is waited for.
    func admits(_ event: TransferProgress) -> Bool {
        last.withLock { last in
            if let before = last, before.direction == event.direction, event.completed < before.completed {
                return false
            }
            if last == event { return false }
            last = event
            return true
        }
    }
}
