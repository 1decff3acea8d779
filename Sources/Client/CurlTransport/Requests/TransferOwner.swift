package import HTTPCore

/// The owner of a transfer: the engine's view of a call.
///
/// Its state may change at any time and on any thread. The engine reads ``transferState`` when a transfer is submitted and
/// after each notification. It reads the current state, because notifications may arrive out of order.
package protocol TransferOwner: AnyObject, Sendable {
    /// The current state: whether the owner is cancelled or suspended, and its priority.
    var transferState: TransferState { get }

    /// Receives a transfer's progress, on the engine's thread; `nil` while nobody observes it. It is read again after each
    /// notification until it is not `nil`.
    var progressHandler: (@Sendable (TransferProgress) -> Void)? { get }

    /// Receives an event for every read of the body, so it must be quick; `nil` when nobody observes it. Called on the
    /// engine's thread, or on any thread when the body is compressed.
    var bodyHandler: BodyHandler? { get }

    /// Whether the owner has observers, so that responses describe their connection.
    var isObserved: Bool { get }

    /// Receives the head of each request as libcurl sends it, on the engine's thread, so it must be quick; `nil` when nobody
    /// observes it. With one, libcurl writes its log for the transfer, which costs a few microseconds.
    var headHandler: (@Sendable (SentHead) -> Void)? { get }

    /// Receives each interim response (RFC 9110 §15.2) when its head is complete, on the engine's thread, so it must be quick;
    /// `nil` when nobody waits for one.
    var interimHandler: InterimHandler? { get }

    /// Called on the engine's thread when a transfer starts: the time that it waited to be sent is over, and its total timeout
    /// begins.
    func transferDidStart()

    /// Notifies a transfer of every change of ``transferState`` from now on.
    func attach(_ listener: any TransferListener)

    /// Ends the notifications that ``attach(_:)`` began.
    func detach(_ listener: any TransferListener)
}

extension TransferOwner {
    /// Default `nil`.
    package var bodyHandler: BodyHandler? { nil }

    /// Default `false`.
    package var isObserved: Bool { false }

    /// Default `nil`.
    package var headHandler: (@Sendable (SentHead) -> Void)? { nil }

    /// Default `nil`.
    package var interimHandler: InterimHandler? { nil }

    /// By default does nothing.
    package func transferDidStart() {}
}

/// Receives an event for every read of a body that is sent in pieces.
///
/// - Parameter file: The index among the parts of a multipart body that have a file name; `nil` for any other body.
package typealias BodyHandler = @Sendable (_ event: BodyEvent, _ file: Int?) -> Void

/// Receives the status and the fields of an interim response, and the URL that it came from.
package typealias InterimHandler = @Sendable (_ status: Int, _ headers: HTTPHeaders, _ url: String) -> Void

/// An event that occurs while a body or a file in it is read.
package enum BodyEvent: Hashable, Sendable {
    /// This number of bytes was read.
    case read(Int)
    /// All bytes were read.
    case end
    /// Reading starts again from the first byte.
    case rewound
}

/// The state of an owner, which its transfers follow.
package struct TransferState: Hashable, Sendable {
    /// Whether transfers end with ``NetworkError/Kind/cancelled``, whatever their state.
    package var isCancelled: Bool
    /// Whether transfers are suspended: running ones pause, waiting ones do not start.
    package var isSuspended: Bool
    /// The priority with which transfers wait for a connection.
    package var priority: RequestPriority

    /// Makes a state. By default it is neither cancelled nor suspended and has low priority.
    package init(isCancelled: Bool = false, isSuspended: Bool = false, priority: RequestPriority = .low) {
        self.isCancelled = isCancelled
        self.isSuspended = isSuspended
        self.priority = priority
    }
}

/// A transfer that observes its owner.
package protocol TransferListener: AnyObject, Sendable {
    /// Called when the owner's state has changed, on the thread that changed it.
    func stateDidChange()
}
