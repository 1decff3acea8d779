/// The times from the start of a transfer to the end of each stage, as measured
/// by libcurl (`CURLINFO_*_TIME_T`).
///
/// A stage that did not take place (no TLS, a reused connection, a response
/// without the network) is `nil`.
public struct Timings: Sendable, Hashable {
    private var nameLookupMicroseconds: Int64
    private var connectMicroseconds: Int64
    private var tlsMicroseconds: Int64
    private var firstByteMicroseconds: Int64
    private var totalMicroseconds: Int64
    private var queueMicroseconds: Int64

    /// Whether the request used a connection that was already open.
    public let connectionReused: Bool

    /// The time until the host name was resolved.
    public var nameLookup: Duration? { connectionReused ? nil : Self.duration(nameLookupMicroseconds) }
    /// The time until the TCP connection was established.
    public var connect: Duration? { connectionReused ? nil : Self.duration(connectMicroseconds) }
    /// The time until the TLS handshake ended.
    public var tls: Duration? { connectionReused ? nil : Self.duration(tlsMicroseconds) }
    /// The time until the first byte of the response arrived.
    public var firstByte: Duration? { Self.duration(firstByteMicroseconds) }
    /// The time until the end of the body; `nil` for a streamed body, which has not ended yet.
    public var total: Duration? { Self.duration(totalMicroseconds) }
    /// The wait for a free connection before the start of the transfer. Only ``RequestOptions/Values/deadline`` includes it.
    public var queue: Duration { .microseconds(queueMicroseconds) }

    /// Makes timings from microseconds; 0 means that a stage did not take place.
    package init(
        nameLookup: Int64 = 0, connect: Int64 = 0, tls: Int64 = 0, firstByte: Int64 = 0, total: Int64 = 0,
        queue: Int64 = 0, connectionReused: Bool = false
    ) {
        nameLookupMicroseconds = nameLookup
        connectMicroseconds = connect
        tlsMicroseconds = tls
        firstByteMicroseconds = firstByte
        totalMicroseconds = total
        queueMicroseconds = queue
        self.connectionReused = connectionReused
    }

    /// The timings of a response that did not come from the network.
    public static let none = Timings()

    private static func duration(_ microseconds: Int64) -> Duration? {
        microseconds > 0 ? .microseconds(microseconds) : nil
    }
}
