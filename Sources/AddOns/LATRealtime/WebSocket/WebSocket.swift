public import FoundationEssentials
import LATNetworking
import HTTPCore

/// A WebSocket (RFC 6455): messages in both directions on one connection.
///
/// ```swift
/// let socket = try await central.webSocket("wss://chat.example.org/room", protocols: ["chat.v2"])
/// try await socket.send("hello")
/// for try await message in socket.messages {
///     if let text = message.text { print(text) }
/// }
/// ```
///
/// The connection is made like any call, with headers, token, redirects, proxies, cookies, pins and limits. A reader that
/// is slow makes the server wait, and a server that is slow makes `send` wait. The socket answers the server's pings, and
/// detects a lost connection with its own pings. It closes when it is released; a loop over its messages keeps it.
public final class WebSocket: Sendable {
    let session: SocketSession

    init(_ session: SocketSession) { self.session = session }

    deinit { session.close(.goingAway, "") }

    // MARK: Receiving

    /// The messages of the server, for one loop at a time.
    ///
    /// Unless ``WebSocketOptions/reconnection`` opens another connection, the loop ends when either side sends a close
    /// frame, with any code (see ``closing``), and throws when the connection is lost. It also throws when the server
    /// violates the protocol.
    public var messages: WebSocketMessages<Message> { WebSocketMessages(socket: self) { $0 } }

    /// The messages decoded from JSON, with the `Coding` of the call.
    ///
    /// ```swift
    /// for try await price in socket.messages(of: Price.self) { … }
    /// ```
    ///
    /// The loop throws an error of kind `decoding(path:)` for a message that cannot be decoded. A later loop begins with the
    /// message after it.
    public func messages<Model: Decodable & Sendable>(of model: Model.Type) -> WebSocketMessages<Model> {
        WebSocketMessages(socket: self) { [coding = session.coding] in
            try LiveValue.decode(model, of: $0.data, coding, "a message")
        }
    }

    // MARK: Sending

    /// Sends a message. Waits while ``WebSocketOptions/sendBuffer`` bytes or more are queued, and returns once the message is
    /// queued.
    ///
    /// Messages of several tasks never mix, and those of one task keep the order of its calls.
    ///
    /// - Throws: `NetworkError` when the socket is closed; `CancellationError` when the current task was cancelled before
    ///   there was room, so that nothing was sent.
    public func send(_ message: Message) async throws { try await session.send(message) }

    /// Sends a text.
    public func send(_ text: String) async throws { try await send(.text(text)) }

    /// Sends bytes.
    public func send(_ data: Data) async throws { try await send(.data(data)) }

    /// Sends a value as a text of JSON, with the `Coding` of the call.
    ///
    /// - Throws: `NetworkError` of kind `invalidRequest` for a value that does not encode.
    public func send(json value: some Encodable & Sendable) async throws {
        var body = HTTPBody.json(value)
        if let coding = session.coding { body = body.coded(by: coding) }
        guard case .encoded(let encoder) = body.content else { return }
        try await send(.text(String(decoding: try encoder.encode(), as: UTF8.self)))
    }

    /// How many bytes are queued to be sent, including the headers of their frames. When the newest connection is over, how many
    /// bytes of messages were not sent; with ``WebSocketOptions/Resend/unsent`` they wait for the next connection, if there is one.
    public var bufferedAmount: Int { session.latest?.bufferedAmount ?? 0 }

    /// Sends a ping, and waits for its pong.
    ///
    /// - Parameter limit: the longest wait. A pong arrives behind the messages before it, so that some loop has to read
    ///   ``messages``. Default 30 s.
    /// - Returns: the time between the two.
    /// - Throws: as `send(_:)`; `NetworkError` of kind `timeout(.idle)` when no pong has arrived in time, which leaves the
    ///   socket open.
    @discardableResult
    public func ping(within limit: Duration = .seconds(30)) async throws -> Duration {
        try await session.ping(within: limit)
    }

    // MARK: Closing

    /// Closes the socket: sends a close frame after the queued messages, and waits for the server's close frame at most for
    /// ``WebSocketOptions/closeTimeout``. Has no effect once the socket closes.
    ///
    /// - Parameters:
    ///   - code: 1000 to 1003, 1007 to 1014, or 3000 to 4999. Default ``CloseCode/normal``.
    ///   - reason: at most 123 bytes of UTF-8. Default empty.
    /// - Returns: how the socket was closed; the server may have closed it before.
    /// - Throws: `NetworkError` of kind `invalidRequest` for a code or a reason that cannot be sent; `CancellationError` if the
    ///   current task is cancelled, which does not stop the closing handshake.
    @discardableResult
    public func close(code: CloseCode = .normal, reason: String = "") async throws -> Closing {
        guard code.mayBeSent else {
            throw NetworkError.invalidRequest(
                "the close code \(code.rawValue) cannot be sent; use 1000, or one from 3000 to 4999")
        }
        guard reason.utf8.count <= 123 else {
            throw NetworkError.invalidRequest(
                "the reason has \(reason.utf8.count) bytes, and a close frame has room for 123; shorten it")
        }
        session.close(code, reason)
        await session.waitForEnd()
        // The wait of a cancelled task ends early.
        if !session.isOver { try Task.checkCancellation() }
        return session.closing ?? .lost
    }

    /// How the newest connection was closed; `nil` while it is open.
    public var closing: Closing? { session.closing }

    // MARK: Watching

    /// What the socket is doing now.
    public var state: LiveState { session.state.current }

    /// What the socket is doing, now and after every change, until it is closed. A slow reader misses states, but never
    /// the latest.
    public var states: AsyncStream<LiveState> { session.state.values() }

    /// How many connections were lost after they had opened, and were or will be replaced by another one. Messages that
    /// were sent shortly before may not have arrived. A slow reader of ``states`` can miss a loss; this counts each.
    public var losses: Int { session.losses }

    /// The subprotocol that the server chose among those offered; `nil` for none.
    public var subprotocol: String? { session.latest?.agreement.subprotocol }

    /// Whether `permessage-deflate` was negotiated, so that messages may be compressed.
    public var isCompressed: Bool { session.latest?.agreement.compression != nil }

    /// The response to the newest handshake, without a body; `nil` before it.
    public var response: HTTPResponse? { session.latest?.response }
}
