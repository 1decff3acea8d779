/// What a live connection is doing.
public enum LiveState: Sendable, Hashable {
    /// Nobody reads the stream, so there is no connection. A socket is never idle.
    case idle
    /// The request is under way.
    case connecting
    /// The server has answered; events, or messages in both directions, can pass.
    case open
    /// The connection was lost; another attempt starts at this time.
    case waiting(until: ContinuousClock.Instant)
    /// It has ended and is not opened again.
    case closed
}
