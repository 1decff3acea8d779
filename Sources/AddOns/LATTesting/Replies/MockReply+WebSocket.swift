import FoundationEssentials
import HTTPCore

/// Replies that are WebSockets (RFC 6455), written as a script.
extension MockReply {
    /// A step of a WebSocket.
    public indirect enum SocketStep: Sendable {
        /// A text in one frame.
        case text(_ text: String)
        /// Bytes in one frame.
        case data(_ data: Data)
        /// A text in several frames.
        case fragments(_ parts: [String])
        /// A ping.
        case ping(_ payload: String = "")
        /// An unsolicited pong.
        case pong(_ payload: String = "")
        /// A close frame; without a code an empty one. The steps `frame`, `bytes`, `wait`, `stall`, `cut` and `reset`
        /// that follow still take effect, up to the first step of another kind. When the client answers the close
        /// frame, the connection is closed.
        case close(_ code: Int? = 1000, _ reason: String = "")
        /// A frame with these fields, valid or not. The reserved bits RSV1, RSV2 and RSV3 are 4, 2 and 1.
        case frame(opcode: UInt8, _ payload: Data, isFinal: Bool = true, reserved: UInt8 = 0, isMasked: Bool = false)
        /// Bytes sent unchanged, such as a part of a frame.
        case bytes(_ bytes: Data)
        /// A wait for messages of the client.
        case receive(_ count: Int = 1)
        /// The next messages of the client, sent back; without a number all of them.
        case echo(_ count: Int = .max)
        /// Steps, repeated. `receive`, `echo`, `repeated`, `wait`, `stall`, `cut` and `reset` among them are left out.
        case repeated(_ steps: [SocketStep], count: Int)
        /// A wait.
        case wait(_ duration: Duration)
        /// Nothing more: nothing is sent, and nothing is read.
        case stall
        /// The end of the connection, without a close frame.
        case cut
        /// A reset of the connection.
        case reset
    }

    /// How a WebSocket answers pings.
    public enum SocketPongs: Sendable, Hashable {
        /// At once.
        case atOnce
        /// After this time.
        case after(_ delay: Duration)
        /// Never.
        case never
    }

    /// Makes a WebSocket. After the last step the server closes it with 1000. A close frame of the client is answered at any
    /// time.
    ///
    /// ```swift
    /// server.enqueue(.webSocket(.text("hello"), .echo(2), .ping(), .cut))
    /// server.route("GET", "/chat") { _ in
    ///     .webSocket { message in [.text("you said \(message.text)")] }
    /// }
    /// ```
    ///
    /// A request that is no handshake is answered with 400, one with another version with 426. `Sec-WebSocket-Accept` is
    /// added; a field of that name in the reply replaces it. The server compresses
    /// nothing. To agree to an extension, add its field with ``header(_:_:)``.
    public static func webSocket(_ steps: SocketStep...) -> MockReply { webSocket(steps) }

    /// Makes a WebSocket from a list of steps.
    public static func webSocket(_ steps: [SocketStep]) -> MockReply {
        var reply = MockReply(status: 101, headers: ["Upgrade": "websocket", "Connection": "Upgrade"])
        reply.socket = SocketScript(steps: steps)
        return reply
    }

    /// Makes a WebSocket that answers each message of the client, and stays open until the client closes it.
    ///
    /// - Parameters:
    ///   - steps: what happens first. Messages that these steps wait for are not answered. Default none.
    ///   - answer: runs on the server's thread; see ``MockServer``.
    public static func webSocket(
        _ steps: [SocketStep] = [], answering answer: @escaping @Sendable (RecordedMessage) -> [SocketStep]
    ) -> MockReply {
        var reply = webSocket(steps)
        reply.socket?.answer = answer
        return reply
    }

    /// Chooses one of the subprotocols that the client offers.
    public func subprotocol(_ name: String) -> MockReply { header("Sec-WebSocket-Protocol", name) }

    /// Sets how pings are answered. Default ``SocketPongs/atOnce``.
    public func pongs(_ pongs: SocketPongs) -> MockReply { changed { $0.socket?.pongs = pongs } }
}

/// What a WebSocket of the server does.
struct SocketScript: Sendable {
    var steps: [MockReply.SocketStep]
    var answer: (@Sendable (RecordedMessage) -> [MockReply.SocketStep])?
    var pongs = MockReply.SocketPongs.atOnce
}

/// A frame or a message that a client sent to a WebSocket of a ``MockServer``.
public struct RecordedMessage: Sendable, Hashable {
    /// What a client sends.
    public enum Kind: Sendable, Hashable {
        /// A message of text, whole.
        case text
        /// A message of bytes, whole.
        case data
        /// A ping.
        case ping
        /// A pong.
        case pong
        /// A close frame with this code; `nil` without one.
        case close(code: Int?)
    }

    /// The kind of frame or message.
    public let kind: Kind
    /// The content; of a close frame the reason.
    public let data: Data
    /// The number of the connection, counted from 1 in the order of acceptance.
    public let connection: Int
    /// How many frames it had.
    public let frameCount: Int

    /// The content read as UTF-8, with invalid bytes replaced.
    public var text: String { String(decoding: data, as: UTF8.self) }
}
