package import FoundationEssentials
import Synchronization

/// A buffer of the bytes to send on a connection after its upgrade (101). Senders fill it, and the engine drains it.
package final class ConnectionOutput: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        /// The index of the first byte that the engine has not taken.
        var start = 0
        var taken: Int64 = 0
        var isOpen = false
        var isOver = false
        /// Whether the engine pauses until there are bytes.
        var engineWaits = false
        var wake: (@Sendable () -> Void)?
        var drained: (@Sendable () -> Void)?
        /// ``drained`` is called as soon as no more than this many bytes wait; `nil` when no sender waits for that.
        var drainLimit: Int?
        var observer: (any MessageObserver)?
    }

    /// The result of ``read(into:)``.
    package enum Piece: Sendable {
        case bytes(Int)
        /// There are no bytes now.
        case wait
        /// There will be no more bytes.
        case end
    }

    private let state = Mutex(State())
    /// The capacity that is kept while no bytes wait. Memory beyond it is freed.
    private static let keptCapacity = 16 << 10

    package init() {}

    // MARK: For senders

    /// Records or replays the messages of the connection; `nil` for neither.
    package var observer: (any MessageObserver)? {
        get { state.withLock(\.observer) }
        set { state.withLock { $0.observer = newValue } }
    }

    /// How many bytes wait for the engine.
    package var pendingCount: Int { state.withLock { $0.bytes.count - $0.start } }

    /// Whether the connection has ended, so that nothing more is sent.
    package var isOver: Bool { state.withLock(\.isOver) }

    /// How many bytes the engine has taken since the beginning.
    package var takenCount: Int64 { state.withLock(\.taken) }

    /// Appends bytes, even if others wait already. Returns `false` when the connection is over.
    @discardableResult
    package func write(_ write: (inout [UInt8]) -> Void) -> Bool {
        let (isOpen, wake) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            guard !state.isOver else { return (false, nil) }
            write(&state.bytes)
            return (true, Self.takeWake(&state))
        }
        wake?()
        return isOpen
    }

    /// Calls `body` on the engine's thread after each ``awaitDrain(to:)``, and on any thread when the connection is over.
    package func onDrain(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.drained = body } }

    /// Requests one call of the closure of ``onDrain(_:)`` as soon as at most `limit` bytes wait. Returns `false`, and
    /// requests nothing, when that is the case already or the connection is over.
    package func awaitDrain(to limit: Int) -> Bool {
        state.withLock { state in
            guard !state.isOver, state.bytes.count - state.start > limit else { return false }
            state.drainLimit = limit
            return true
        }
    }

    // MARK: For the engine

    /// Sets the closure that is called, from any thread, when there are bytes, or the end, after a ``Piece/wait``.
    package func start(wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }

    /// Releases the bytes for sending, after the server has accepted the upgrade.
    package func open() {
        let wake = state.withLock { state in
            state.isOpen = true
            return Self.takeWake(&state)
        }
        wake?()
    }

    /// Moves waiting bytes into a buffer.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> Piece {
        let (piece, drained) = state.withLock { state -> (Piece, (@Sendable () -> Void)?) in
            guard !state.isOver else { return (.end, nil) }
            let count = min(buffer.count, state.bytes.count - state.start)
            guard state.isOpen, count > 0 else {
                state.engineWaits = true
                return (.wait, nil)
            }
            state.bytes.withUnsafeBytes { bytes in
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[state.start..<(state.start + count)]))
            }
            state.start += count
            state.taken += Int64(count)
            let left = state.bytes.count - state.start
            if left == 0 {
                state.bytes.removeAll(keepingCapacity: state.bytes.capacity <= Self.keptCapacity)
                state.start = 0
            } else if state.start > left {
                state.bytes.removeFirst(state.start)
                state.start = 0
            }
            guard let limit = state.drainLimit, left <= limit else { return (.bytes(count), nil) }
            state.drainLimit = nil
            return (.bytes(count), state.drained)
        }
        drained?()
        return piece
    }

    /// Ends the connection: nothing more is sent.
    package func end() {
        let (drained, wake) = state.withLock { state -> ((@Sendable () -> Void)?, (@Sendable () -> Void)?) in
            state.isOver = true
            state.bytes = []
            state.start = 0
            defer { (state.drained, state.wake) = (nil, nil) }
            return (state.drained, state.engineWaits ? state.wake : nil)
        }
        drained?()
        wake?()
    }

    private static func takeWake(_ state: inout State) -> (@Sendable () -> Void)? {
        guard state.engineWaits, state.isOpen, state.bytes.count > state.start else { return nil }
        state.engineWaits = false
        return state.wake
    }
}

/// Records or replays the messages of a WebSocket, before they become frames. A replay compares the sent messages and
/// makes the received ones.
package protocol MessageObserver: Sendable {
    /// Called before each message is sent, in the order of sending.
    ///
    /// - Throws: the error for a message that a replay does not expect. It is not sent.
    func send(_ message: SocketMessage) throws(NetworkError)
    /// Called before the close frame of this side.
    func sendClose(_ code: UInt16?, _ reason: String)
    /// Called before each ping of this side.
    func sendPing(_ payload: [UInt8])
    /// Called for each message and for the close frame that the server sends.
    func receive(_ message: SocketMessage)
}

/// A message of a WebSocket, or its end.
package enum SocketMessage: Hashable, Sendable {
    case text(String)
    case data(Data)
    /// The close frame; the code is `nil` when it has none.
    case close(code: UInt16?, reason: String)
}

extension HTTPResponse {
    /// The connection that a response came over, and what went over it.
    public struct Connection: Hashable, Sendable {
        /// The number of the connection among those of its manager; `nil` with a libcurl before 8.2.
        public let id: Int64?
        /// The address of the other end, the server or the proxy: `203.0.113.7`, `2001:db8::1`. Empty for a Unix domain socket.
        public let remoteAddress: String
        /// The port of the other end; 0 for a Unix domain socket.
        public let remotePort: Int
        /// The port of this end; 0 for a Unix domain socket.
        public let localPort: Int
        /// Whether the connection was open before the request.
        public let isReused: Bool
        /// The bytes of the request's body on the wire.
        public let sentBodySize: Int64
        /// The bytes of the response's body on the wire, before they were decompressed; `nil` for a stream.
        public let receivedBodySize: Int64?
        /// The bytes of the response's head. Over HTTP/2 and HTTP/3 those of its fields as text.
        public let headSize: Int

        /// Makes a description, for transports other than the engine. By default the id and the size of the received
        /// body are unknown, the connection is new, and the other numbers are 0.
        public init(
            id: Int64? = nil, remoteAddress: String, remotePort: Int, localPort: Int = 0, isReused: Bool = false,
            sentBodySize: Int64 = 0, receivedBodySize: Int64? = nil, headSize: Int = 0
        ) {
            self.id = id
            self.remoteAddress = remoteAddress
            self.remotePort = remotePort
            self.localPort = localPort
            self.isReused = isReused
            self.sentBodySize = sentBodySize
            self.receivedBodySize = receivedBodySize
            self.headSize = headSize
        }
    }

    /// The connection; `nil` for a response that came over none, and for a call without observers (`RequestAccessory`).
    public var connection: Connection? {
        get { connectionFacts?.value }
        set { connectionFacts = newValue.map(ConnectionFacts.init) }
    }
}

/// A box for a connection's description, so that a response stays small.
package final class ConnectionFacts: Sendable {
    let value: HTTPResponse.Connection

    init(_ value: HTTPResponse.Connection) { self.value = value }
}
