package import HTTPCore

/// Whose transfer it is: the engine's view of a call.
///
/// The owner is switched from any thread, before, while and after its transfers run. The engine reads ``standing`` when a
/// transfer is submitted and after each change it is told of: two changes in a row may be told in any order, and the
/// last state counts.
package protocol TransferOwner: AnyObject, Sendable {
    /// Whether the owner is cancelled, is suspended, and how urgent it is, now.
    var standing: TransferStanding { get }

    /// Is told how far a transfer is, on the engine's thread; `nil` when nobody wants to know.
    var progressHandler: (@Sendable (TransferProgress) -> Void)? { get }

    /// Is told what is read of the body's files, on the engine's thread and for every piece, so it has to be quick; `nil`
    /// when nobody wants to know.
    var bodyHandler: BodyHandler? { get }

    /// Tells a transfer of every change of ``standing`` from now on.
    func attach(_ listener: any TransferListener)

    /// Ends what ``attach(_:)`` began.
    func detach(_ listener: any TransferListener)
}

extension TransferOwner {
    /// Nobody wants to know.
    package var bodyHandler: BodyHandler? { nil }
}

/// Is told what is read of a body that is longer than a few KiB.
///
/// - Parameter file: counts the parts of a multipart body that have a file name; `nil` for a body that is one piece.
package typealias BodyHandler = @Sendable (_ event: BodyEvent, _ file: Int?) -> Void

/// What happens to the bytes of a file that is sent.
package enum BodyEvent: Hashable, Sendable {
    /// So many more were read.
    case read(Int)
    /// There are no more.
    case end
    /// They will be read again from the first.
    case rewound
}

/// What an owner's transfers are to do.
package struct TransferStanding: Hashable, Sendable {
    /// The transfer ends with ``NetworkError/Kind/cancelled``, wherever it is.
    package var isCancelled: Bool
    /// The transfer is held: what runs stands still, what waits does not start.
    package var isSuspended: Bool
    /// What it waits with for a connection.
    package var priority: RequestPriority

    /// Makes a value.
    package init(isCancelled: Bool = false, isSuspended: Bool = false, priority: RequestPriority = .low) {
        self.isCancelled = isCancelled
        self.isSuspended = isSuspended
        self.priority = priority
    }
}

/// A transfer, as its owner sees it.
package protocol TransferListener: AnyObject, Sendable {
    /// The owner's standing has changed; called on the thread of whoever changed it.
    func standingDidChange()
}
