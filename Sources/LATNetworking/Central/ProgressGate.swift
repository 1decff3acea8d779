public import HTTPCore
import Platform
import Synchronization

/// Receives the progress of a transfer.
public typealias ProgressHandler = @Sendable (_ progress: TransferProgress) -> Void

/// Forwards progress until its call has ended.
final class ProgressGate: Sendable {
    private let receiver: ProgressHandler
    private let callbacks: CallbackExecutor
    private let filter = ProgressFilter()
    private let isOpen = Atomic(true)

    init(_ receiver: @escaping ProgressHandler, _ callbacks: CallbackExecutor) {
        self.receiver = receiver
        self.callbacks = callbacks
    }

    /// The handler that the call reports to.
    var handler: ProgressHandler {
        { [self] progress in
            guard filter.admits(progress) else { return }
            callbacks.run { [self] in
                if isOpen.load(ordering: .acquiring) { receiver(progress) }
            }
        }
    }

    /// Returns when all progress reported so far has been delivered; later progress is dropped.
    func close(for call: Call) async throws {
        defer { shut() }
        let waiter = Waiter<Void>()
        callbacks.run { waiter.end(.success(())) }
        try await waiter.value(for: call)
    }

    /// Drops all later progress.
    func shut() { isOpen.store(false, ordering: .releasing) }
}

/// Keeps a call's progress from decreasing when a redirect or a retry starts a new transfer at 0.
private final class ProgressFilter: Sendable {
    private let last = Mutex<TransferProgress?>(nil)

    /// Whether to forward an event. The first event of another direction passes, such as the response after a 303.
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
