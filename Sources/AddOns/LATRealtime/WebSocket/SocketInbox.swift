import LATNetworking
import Platform
import Synchronization

/// The messages that have arrived and are not read yet. It is bounded: while it is full, nothing is read from the connection.
final class SocketInbox: Sendable {
    fileprivate struct State {
        var messages: [WebSocket.Message] = []
        /// The index of the first message that is not read yet.
        var first = 0
        var byteCount = 0
        var reader: Waiter<WebSocket.Message?>?
        var writer: Waiter<Void>?
        var end: Result<Void, NetworkError>?
        /// Whether this side closes the socket.
        var isClosing = false

        var count: Int { messages.count - first }
        var isFull: Bool { isFull(times: 1) }

        func isFull(times factor: Int) -> Bool {
            byteCount >= SocketInbox.byteLimit * factor || count >= SocketInbox.countLimit * factor
        }
    }

    private let state = Mutex(State())
    fileprivate static let byteLimit = 256 << 10
    fileprivate static let countLimit = 1_024
    /// How many times as much is kept once the connection closes or is over. What arrives then is read without the reader,
    /// because only the end tells the senders, and only the server's close frame the one that closes.
    private static let factorAtEnd = 64

    /// Whether the connection waits for the reader.
    var holdsUpConnection: Bool { state.withLock { $0.writer != nil } }

    // MARK: The connection

    /// Adds a message. Returns whether there is no room for another one.
    func put(_ message: WebSocket.Message) -> Bool {
        while true {
            let (reader, isFull) = state.withLock { state -> (Waiter<WebSocket.Message?>?, Bool) in
                if state.count == 0, let reader = state.reader {
                    state.reader = nil
                    return (reader, false)
                }
                if state.end == nil {
                    state.messages.append(message)
                    state.byteCount += message.byteCount
                }
                return (nil, state.isFull)
            }
            guard let reader else { return isFull }
            // The result is `false` for a reader that was cancelled meanwhile: it has not taken the message.
            if reader.end(.success(message)) { return false }
        }
    }

    /// Waits until the reader has made room, or the connection closes or is over (``checkRoom()``).
    ///
    /// - Throws: `CancellationError` when the current task is cancelled, ``NetworkError`` when the call is.
    func waitForRoom(_ call: LiveCall, _ output: ConnectionOutput) async throws {
        while true {
            let writer = Waiter<Void>()
            let mustWait = state.withLock { state in
                let factor = output.isOver || state.isClosing ? Self.factorAtEnd : 1
                guard state.isFull(times: factor), state.end == nil else { return false }
                state.writer = writer
                return true
            }
            guard mustWait else { return }
            defer { state.withLock { $0.writer = nil } }
            try await call.value(of: writer)
        }
    }

    /// Lets a connection that waits for room look again whether it has to.
    func checkRoom() { state.withLock(\.writer)?.end(.success(())) }

    /// Makes room for what arrives before the server's close frame, even if nobody reads the messages.
    func beginClosing() {
        state.withLock { $0.isClosing = true }
        checkRoom()
    }

    /// Accepts no more messages. The reader gets those that have arrived, and then the end.
    func finish(_ end: Result<Void, NetworkError>) {
        let (reader, writer) = state.withLock { state in
            if state.end == nil { state.end = end }
            defer { state.reader = nil }
            return (state.reader, state.writer)
        }
        writer?.end(.success(()))
        reader?.end(end.map { nil }.mapError { $0 })
    }

    // MARK: The reader

    fileprivate enum Step {
        case message(WebSocket.Message, Waiter<Void>?)
        case end(Result<Void, NetworkError>)
        case wait(Waiter<WebSocket.Message?>)
        case misuse
    }

    func next() async throws -> WebSocket.Message? {
        switch state.withLock({ $0.next() }) {
        case .message(let message, let writer):
            writer?.end(.success(()))
            return message
        case .end(let end):
            try end.get()
            return nil
        case .wait(let waiter):
            defer { state.withLock { if $0.reader === waiter { $0.reader = nil } } }
            return try await waiter.value()
        case .misuse:
            throw NetworkError.invalidRequest(
                "two loops read one WebSocket at once; let one of them pass messages on")
        }
    }
}

extension SocketInbox.State {
    fileprivate mutating func next() -> SocketInbox.Step {
        if count > 0 {
            let message = messages[first]
            // Frees the memory of the message.
            messages[first] = .text("")
            first += 1
            byteCount -= message.byteCount
            if count == 0 {
                messages.removeAll(keepingCapacity: messages.capacity <= 64)
                first = 0
            } else if first > count {
                messages.removeFirst(first)
                first = 0
            }
            return .message(message, isHalfEmpty ? writer : nil)
        }
        if let end { return .end(end) }
        // A reader that was cancelled already has its result.
        guard reader == nil || reader?.result != nil else { return .misuse }
        let waiter = Waiter<WebSocket.Message?>()
        reader = waiter
        return .wait(waiter)
    }

    private var isHalfEmpty: Bool {
        byteCount <= SocketInbox.byteLimit / 2 && self.count <= SocketInbox.countLimit / 2
    }
}
