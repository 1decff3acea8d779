import LATNetworking

/// The settings of a WebSocket, besides its request.
///
/// ```swift
/// let options = WebSocketOptions(pingInterval: .seconds(15), reconnection: Reconnection())
/// let socket = try await central.webSocket("wss://chat.example.org/room", options: options)
/// ```
public struct WebSocketOptions: Sendable {
    /// What happens to messages when the connection is lost, with a ``reconnection``.
    public enum Resend: Sendable, Hashable {
        /// Nothing: a `send` without a connection throws.
        case never
        /// Messages that were not written to the network are sent first on the next connection, and a `send` waits for it.
        /// Whether the others arrived is unknown.
        case unsent
    }

    /// Whether compression is offered to the server (`permessage-deflate`, RFC 7692). Default `true`; messages below 1 KiB
    /// are sent uncompressed.
    public var compresses: Bool
    /// The largest size of a message that is received, and of each of its frames, in bytes after decompression. A larger
    /// one ends the connection with the code 1009. Default 16 MiB.
    public var messageLimit: Int
    /// How many bytes may be queued before `send` waits. Default 256 KiB.
    public var sendBuffer: Int
    /// The longest time of the opening handshake, with its redirects, and then of the ``greeting``. The request's `timeout`
    /// replaces it. A ``reconnection`` that takes longer is tried again. Default 30 s.
    public var openTimeout: Duration
    /// The time between two checks. A ping is sent if the server was silent since the last check. Default 30 s; `nil` for no
    /// pings.
    public var pingInterval: Duration?
    /// How many pings in a row may get no bytes from the server before the connection counts as lost. Default 2.
    public var missedPongs: Int
    /// How long the closing handshake may take. Default 10 s.
    public var closeTimeout: Duration
    /// When a lost connection is opened again. Default `nil`: never.
    public var reconnection: Reconnection?
    /// What happens to messages when the connection is lost. Default ``Resend/never``.
    public var resend: Resend
    /// Makes the messages that are sent first on each connection, such as subscriptions, before the socket counts as
    /// open. Default `nil`: none.
    public var greeting: (@Sendable () async throws -> [WebSocket.Message])?

    /// Makes options. Each parameter has the default of its property.
    public init(
        compresses: Bool = true, messageLimit: Int = 16 << 20, sendBuffer: Int = 256 << 10,
        openTimeout: Duration = .seconds(30), pingInterval: Duration? = .seconds(30), missedPongs: Int = 2,
        closeTimeout: Duration = .seconds(10), reconnection: Reconnection? = nil, resend: Resend = .never,
        greeting: (@Sendable () async throws -> [WebSocket.Message])? = nil
    ) {
        self.compresses = compresses
        self.messageLimit = messageLimit
        self.sendBuffer = sendBuffer
        self.openTimeout = openTimeout
        self.pingInterval = pingInterval
        self.missedPongs = missedPongs
        self.closeTimeout = closeTimeout
        self.reconnection = reconnection
        self.resend = resend
        self.greeting = greeting
    }

    /// - Throws: `NetworkError` of kind `invalidRequest` that names the setting.
    func check() throws(NetworkError) {
        let numbers = [
            ("messageLimit", messageLimit, 0), ("sendBuffer", sendBuffer, 1), ("missedPongs", missedPongs, 1),
        ]
        for (name, number, least) in numbers where number < least {
            throw .invalidRequest("\(name) is \(number); give \(least) or more")
        }
        let durations = [
            ("openTimeout", openTimeout), ("pingInterval", pingInterval ?? .seconds(1)),
            ("closeTimeout", closeTimeout),
        ]
        for (name, duration) in durations where duration <= .zero {
            throw .invalidRequest("\(name) is \(duration); give more than 0")
        }
    }
}

/// Decides at each tick of a timer whether a connection gets a ping or counts as lost. A pure value.
///
/// Any bytes from the server keep the connection alive, not only pongs. Silence does not count while the reader of the messages
/// is behind, because nothing is read then, nor while the bytes before the last ping are still being sent.
struct KeepAlive: Equatable {
    enum Action: Equatable {
        case rest
        case ping
        case lost
    }

    let limit: Int
    /// The pings since the last bytes from the server, or since silence last did not count.
    private(set) var missed = 0
    /// How many bytes were written before the last ping.
    private var pingStart: Int64 = 0
    /// How many bytes had been sent at the last tick.
    private var lastTaken: Int64 = 0

    init(limit: Int) { self.limit = limit }

    /// - Parameters:
    ///   - written: how many bytes were written since the connection was opened.
    ///   - taken: how many of them have been sent.
    mutating func beat(hadInput: Bool, isReaderBehind: Bool, written: Int64, taken: Int64) -> Action {
        let isPingBehind = taken <= pingStart && taken > lastTaken
        lastTaken = taken
        if hadInput || isReaderBehind || isPingBehind {
            missed = 0
            return .rest
        }
        guard missed < limit else { return .lost }
        missed += 1
        pingStart = written
        return .ping
    }
}
