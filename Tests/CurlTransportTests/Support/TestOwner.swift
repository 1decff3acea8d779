import CurlTransport
import HTTPCore
import Synchronization

/// A transfer owner whose state the test sets.
final class TestOwner: TransferOwner {
    private struct State {
        var transferState: TransferState
        var progress: (@Sendable (TransferProgress) -> Void)?
        var listeners: [any TransferListener] = []
    }

    private let state: Mutex<State>

    let bodyHandler: BodyHandler?

    init(
        isSuspended: Bool = false, progress: (@Sendable (TransferProgress) -> Void)? = nil, body: BodyHandler? = nil
    ) {
        bodyHandler = body
        state = Mutex(State(transferState: TransferState(isSuspended: isSuspended), progress: progress))
    }

    var transferState: TransferState { state.withLock(\.transferState) }

    var progressHandler: (@Sendable (TransferProgress) -> Void)? { state.withLock(\.progress) }

    /// The number of attached transfers.
    var listenerCount: Int { state.withLock(\.listeners.count) }

    func attach(_ listener: any TransferListener) { state.withLock { $0.listeners.append(listener) } }

    func detach(_ listener: any TransferListener) {
        state.withLock { $0.listeners.removeAll { $0 === listener } }
    }

    /// Sets the progress handler of transfers that are sent from now on.
    func onProgress(_ handler: @escaping @Sendable (TransferProgress) -> Void) {
        state.withLock { $0.progress = handler }
    }

    func cancel() { change { $0.isCancelled = true } }

    func setSuspended(_ isSuspended: Bool) { change { $0.isSuspended = isSuspended } }

    func raisePriority(to priority: RequestPriority) { change { $0.priority = max($0.priority, priority) } }

    private func change(_ body: (inout TransferState) -> Void) {
        let listeners = state.withLock { state in
            body(&state.transferState)
            return state.listeners
        }
        for listener in listeners { listener.stateDidChange() }
    }
}
