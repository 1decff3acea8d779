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
