import Synchronization

/// How far a transfer is, in bytes of content on the wire.
///
/// A call that sends a body reports the upload, any other the download. The
/// numbers never go down, and the last event of a transfer that succeeded
/// has `completed == total`.
public struct TransferProgress: Hashable, Sendable {
    /// Which way the counted bytes go.
    public enum Direction: Hashable, Sendable {
        /// From here to the server.
        case upload
        /// From the server to here.
        case download
    }

    /// Which way the counted bytes go.
    public let direction: Direction
    /// The bytes transferred so far.
    public let completed: Int64
    /// All bytes, `nil` while unknown.
    public let total: Int64?

    /// The share that is done, from 0 to 1; `nil` while the total is unknown.
    public var fraction: Double? {
        guard let total else { return nil }
        return total == 0 ? 1 : min(1, Double(completed) / Double(total))
    }

    /// Makes a progress value.
    public init(direction: Direction, completed: Int64, total: Int64?) {
        self.direction = direction
        self.completed = completed
        self.total = total
    }
}

/// Holds a transfer and lets it go on, whether it has started or not.
///
/// The side of the caller switches; the transport that carries the request
/// attaches itself and is told of every switch.
package final class TransferControl: Sendable {
    private struct State {
        var isSuspended = false
        var listener: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    package init() {}

    /// Whether the transfer is held.
    package var isSuspended: Bool { state.withLock(\.isSuspended) }

    /// Holds the transfer, or lets it go on.
    package func setSuspended(_ isSuspended: Bool) {
        let listener = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.isSuspended != isSuspended else { return nil }
            state.isSuspended = isSuspended
            return state.listener
        }
        listener?()
    }

    /// Tells the transport of switches from now on. The listener reads ``isSuspended``: two
    /// switches in a row may reach it in any order, the last state counts.
    package func attach(_ listener: @escaping @Sendable () -> Void) {
        state.withLock { $0.listener = listener }
    }

    /// Ends what ``attach(_:)`` began.
    package func detach() { state.withLock { $0.listener = nil } }
}
