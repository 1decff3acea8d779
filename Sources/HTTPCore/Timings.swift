/// When the stages of a transfer were over, each counted from its start, as
/// libcurl measured them (`CURLINFO_*_TIME_T`).
///
/// A stage that did not take place (no TLS, a reused connection, nothing from
/// the network) is `nil`.
public struct Timings: Sendable, Hashable {
    private var nameLookupMicroseconds: Int64
    private var connectMicroseconds: Int64
    private var tlsMicroseconds: Int64
    private var firstByteMicroseconds: Int64
    private var totalMicroseconds: Int64
    private var queueMicroseconds: Int64

    /// Whether the request went over a connection that was already open.
    public let connectionReused: Bool

    /// The name was resolved.
    public var nameLookup: Duration? { connectionReused ? nil : Self.duration(nameLookupMicroseconds) }
    /// The TCP connection stood.
    public var connect: Duration? { connectionReused ? nil : Self.duration(connectMicroseconds) }
    /// The TLS handshake was over.
    public var tls: Duration? { connectionReused ? nil : Self.duration(tlsMicroseconds) }
    /// The first byte of the response was there.
    public var firstByte: Duration? { Self.duration(firstByteMicroseconds) }
    /// All was over, the body included; `nil` for a streamed body, which is not over yet.
    public var total: Duration? { Self.duration(totalMicroseconds) }
    /// The wait for a free connection, before the transfer started and outside of every timeout.
    public var queue: Duration { .microseconds(queueMicroseconds) }

    /// Makes timings from microseconds; 0 stands for a stage that did not take place.
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

    /// The timings of a response that never touched the network.
    public static let none = Timings()

    private static func duration(_ microseconds: Int64) -> Duration? {
        microseconds > 0 ? .microseconds(microseconds) : nil
    }
}
