public import FoundationEssentials
import LATNetworking

extension WebSocket {
    /// A message of a WebSocket.
    public enum Message: Sendable, Hashable {
        /// A text, which is UTF-8 on the wire.
        case text(String)
        /// Bytes.
        case data(Data)

        var socketMessage: SocketMessage {
            switch self {
            case .text(let text): .text(text)
            case .data(let data): .data(data)
            }
        }

        /// The text; `nil` for bytes.
        public var text: String? { if case .text(let text) = self { text } else { nil } }

        /// The bytes; for a text its UTF-8.
        public var data: Data {
            switch self {
            case .text(let text): Data(text.utf8)
            case .data(let data): data
            }
        }

        /// How many bytes it has on the wire, without frames and compression.
        public var byteCount: Int {
            switch self {
            case .text(let text): text.utf8.count
            case .data(let data): data.count
            }
        }
    }

    /// Why a WebSocket is closed (RFC 6455 §7.4).
    public struct CloseCode: RawRepresentable, Sendable, Hashable, ExpressibleByIntegerLiteral {
        /// The number.
        public var rawValue: UInt16

        /// Makes a code from its number. An app's own codes are 4000 to 4999, registered ones 3000 to 3999.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// Makes a code from a literal.
        public init(integerLiteral value: UInt16) { rawValue = value }

        /// 1000: normal closure.
        public static let normal: CloseCode = 1000
        /// 1001: the server shuts down, or the client leaves.
        public static let goingAway: CloseCode = 1001
        /// 1002: protocol error.
        public static let protocolError: CloseCode = 1002
        /// 1003: this kind of message is not accepted.
        public static let unsupportedData: CloseCode = 1003
        /// 1005: the close frame had no status code. Never sent.
        public static let noCode: CloseCode = 1005
        /// 1006: abnormal closure; the connection ended without a close frame. Never sent.
        public static let lost: CloseCode = 1006
        /// 1007: the content is not what its kind says, such as a text that is not UTF-8.
        public static let invalidContent: CloseCode = 1007
        /// 1008: a message violates the policy of the app.
        public static let policyViolation: CloseCode = 1008
        /// 1009: a message is too large.
        public static let tooLarge: CloseCode = 1009
        /// 1011: internal error of the server.
        public static let serverError: CloseCode = 1011
        /// 1012: the server restarts.
        public static let serviceRestart: CloseCode = 1012
        /// 1013: the server is too busy.
        public static let tryAgainLater: CloseCode = 1013

        /// Whether the code may be in a close frame. 1004 to 1006 and 1015 are never on the wire.
        var mayBeSent: Bool {
            switch rawValue {
            case 1000...1003, 1007...1014, 3000...4999: true
            default: false
            }
        }

        /// Whether it says nothing of a failure.
        package var isOrdinary: Bool { [Self.normal, .goingAway, .noCode].contains(self) }

        /// Whether another connection may succeed.
        var isWorthReconnecting: Bool { [1001, 1011, 1012, 1013, 1014].contains(rawValue) }
    }

    /// How a WebSocket was closed.
    public struct Closing: Sendable, Hashable {
        /// The code of the first close frame; ``CloseCode/lost`` without one. If both sides closed at the same time, it is that of
        /// the server if that one tells of a failure, such as 1009.
        public var code: CloseCode
        /// The reason in the frame of ``code``; often empty.
        public var reason: String
        /// Whether the server sent the frame of ``code``.
        public var isByServer: Bool
        /// Whether both sides have sent a close frame.
        public var isClean: Bool

        /// Makes a closing, for tests.
        public init(code: CloseCode, reason: String = "", isByServer: Bool, isClean: Bool) {
            self.code = code
            self.reason = reason
            self.isByServer = isByServer
            self.isClean = isClean
        }
    }
}

/// The messages of a WebSocket, in the order in which they arrive.
///
/// The loop ends when the socket is closed, and throws when its connection is lost and not opened again. One loop reads
/// at a time. Ending the loop early does not close the socket.
public struct WebSocketMessages<Element: Sendable>: AsyncSequence, Sendable {
    /// Keeps the socket open while there is a loop.
    let socket: WebSocket
    /// Makes the element of a message.
    let element: @Sendable (WebSocket.Message) throws -> Element

    /// Starts a loop.
    public func makeAsyncIterator() -> Iterator { Iterator(socket: socket, element: element) }

    /// The iterator of the messages.
    public struct Iterator: AsyncIteratorProtocol {
        let socket: WebSocket
        let element: @Sendable (WebSocket.Message) throws -> Element

        /// The next message; `nil` when the socket is closed.
        ///
        /// - Throws: `NetworkError`; `CancellationError` when the current task was cancelled.
        public mutating func next() async throws -> Element? {
            try await socket.session.inbox.next().map { try element($0) }
        }
    }
}
