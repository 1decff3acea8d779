/// What a live connection is doing.
public enum LiveState: Sendable, Hashable {
    /// Nobody reads, and there is no connection.
    case idle
    /// The request is under way.
    case connecting
    /// The server has answered, and data arrives.
    case open
    /// The connection was lost; another attempt starts at this time.
    case waiting(until: ContinuousClock.Instant)
    /// It has ended and is not opened again.
    case closed
}
