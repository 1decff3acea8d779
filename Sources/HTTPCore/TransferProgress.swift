/// The progress of a transfer, in bytes of content on the wire.
///
/// A call that sends a body reports the upload, any other call the download.
/// The numbers never decrease, and the last event of a successful transfer
/// has `completed == total`.
public struct TransferProgress: Hashable, Sendable {
    /// The direction of a transfer.
    public enum Direction: Hashable, Sendable {
        /// To the server.
        case upload
        /// From the server.
        case download
    }

    /// The direction of the counted bytes.
    public let direction: Direction
    /// The bytes transferred so far.
    public let completed: Int64
    /// The total number of bytes, `nil` while unknown.
    public let total: Int64?

    /// The completed fraction, from 0 to 1; `nil` while the total is unknown.
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
