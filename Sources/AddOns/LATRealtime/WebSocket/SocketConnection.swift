import FoundationEssentials
import LATNetworking
import Platform
import Synchronization

/// One connection after its handshake: reads messages, answers pings, sends, and closes.
final class SocketConnection: Sendable {
    /// How a connection ended.
    enum End: Sendable {
        case closed(WebSocket.Closing)
        case lost(NetworkError)
    }

    struct State {
        var writer = FrameWriter()
        /// The first close frame of either side.
        var closing: WebSocket.Closing?
        var hasSentClose = false
        /// Why this side has ended the connection.
        var failure: NetworkError?
        var isOver = false
        var hasInput = false
        var hadMessages = false
        var pings: [Ping] = []
        var pingCount: UInt64 = 0
        /// The newest ping that could not be answered at once.
        var latePong: [UInt8]?
        /// The senders that wait for room, in order.
        var senders: [Waiter<Void>] = []
        var written: Int64 = 0
        /// Where the bytes of the last message end.
        var messageEnd: Int64 = 0
        /// The messages that the engine may not have sent, and where their bytes end.
        var unsent: [(end: Int64, message: WebSocket.Message)] = []
        /// Limits the closing handshake.
        var timer: TimeLimits.Ticket?
        /// Sends the next ping.
        var beat: TimeLimits.Ticket?
        var keepAlive: KeepAlive
        var readTask: Task<Void, Never>?
        var isAborted = false

        /// Whether messages and pings may be sent.
        var isOpen: Bool { !isOver && !hasSentClose }

        mutating func noteClose(_ code: WebSocket.CloseCode, _ reason: String, isByServer: Bool = false) {
            if closing == nil { closing = .init(code: code, reason: reason, isByServer: isByServer, isClean: false) }
        }
    }

    struct Ping: Sendable {
        let payload: [UInt8]
        let sentAt: ContinuousClock.Instant
        let answer: Waiter<Duration>
    }

    let agreement: WebSocketHandshake.Agreement
    let response: HTTPResponse
    let output: ConnectionOutput
    let options: WebSocketOptions
    let state: Mutex<State>
    /// Compresses messages; made for the first one. A sender locks it before the state, so that the engine's thread, which
    /// locks only the state, never waits for a compression.
    let sending = Mutex<Deflater?>(nil)
    let observer: (any MessageObserver)?
    let call: LiveCall
    let inbox: SocketInbox

    init(
        _ response: HTTPResponse, _ output: ConnectionOutput, _ agreement: WebSocketHandshake.Agreement,
        _ options: WebSocketOptions, _ call: LiveCall, _ inbox: SocketInbox
    ) {
        var head = response
        head.body = .empty
        head.output = nil
        self.response = head
        self.output = output
        observer = output.observer
        self.agreement = agreement
        self.options = options
        self.call = call
        self.inbox = inbox
        state = Mutex(State(keepAlive: KeepAlive(limit: options.missedPongs)))
        output.onDrain { [weak self] in self?.drained() }
    }

    /// Whether a message has arrived.
    var hadMessages: Bool { state.withLock(\.hadMessages) }

    // MARK: Reading

    /// Reads the connection to its end, in its own task. It is the only task of an idle connection, which saves memory.
    ///
    /// - Parameters:
    ///   - executor: the preferred executor for reading; `nil` for none.
    ///   - ended: called once, when the connection has ended. It does not run on `executor`, because it calls the app's
    ///     observers, which must not delay the engine.
    func start(
        _ body: ResponseBody, on executor: (any TaskExecutor)?,
        _ ended: @escaping @Sendable (SocketConnection, End) -> Void
    ) {
        let aborted = state.withLock { state in
            let task = Task { [self] in
                let error = await withTaskExecutorPreference(executor) { await read(body) }
                ended(self, over(error))
            }
            state.readTask = task
            return state.isAborted ? task : nil
        }
        aborted?.cancel()
        scheduleBeat()
    }

    /// - Returns: the error; `nil` when the server has ended the connection.
    private func read(_ body: ResponseBody) async -> (any Error)? {
        var chunks = body.makeAsyncIterator()
        do {
            do {
                var reader = MessageReader(limit: options.messageLimit, compression: agreement.compression)
                while let chunk = try await chunks.next() {
                    state.withLock { $0.hasInput = true }
                    reader.append(chunk)
                    while let event = try reader.next() {
                        if handle(event) { try await inbox.waitForRoom(call, output) }
                    }
                }
            } catch let violation as WebSocketViolation {
                fail(violation)
                // Bytes that still arrive are dropped; the server ends the connection, or the timer does.
                while try await chunks.next() != nil {}
            }
            return nil
        } catch {
            return error
        }
    }

    /// - Returns: whether there is no room for another message.
    private func handle(_ event: MessageReader.Event) -> Bool {
        switch event {
        case .message(let message):
            observer?.receive(message.socketMessage)
            state.withLock { $0.hadMessages = true }
            return inbox.put(message)
        case .ping(let payload): answer(payload)
        case .pong(let payload): settle(payload)
        case .close(let code, let reason): receivedClose(code, reason)
        }
        return false
    }

    private func answer(_ payload: [UInt8]) {
        state.withLock { state in
            guard !state.hasSentClose else { return }
            // While many bytes are unsent, only the newest ping is answered (RFC 6455 §5.5.3).
            let isLate = output.awaitDrain(to: lowMark)
            state.latePong = isLate ? payload : nil
            if !isLate { write(.pong, payload, &state) }
        }
    }

    private func settle(_ payload: [UInt8]) {
        let settled = state.withLock { state -> [Ping] in
            // A pong answers its ping and those before it (RFC 6455 §5.5.3).
            guard let index = state.pings.lastIndex(where: { $0.payload == payload }) else { return [] }
            defer { state.pings.removeFirst(index + 1) }
            return Array(state.pings[...index])
        }
        for ping in settled { ping.answer.end(.success(ping.sentAt.duration(to: .now))) }
    }

    // MARK: Closing

    private func receivedClose(_ code: UInt16?, _ reason: String) {
        observer?.receive(.close(code: code, reason: reason))
        state.withLock { state in
            let received = code.map(WebSocket.CloseCode.init(rawValue:)) ?? .noCode
            // Both sides may close at the same time. The code is then that of the frame received (RFC 6455 §7.1.5), if it tells
            // of a failure.
            if let own = state.closing, state.failure == nil, received != own.code, !received.isOrdinary {
                state.closing = nil
            }
            state.noteClose(received, reason, isByServer: true)
            state.closing?.isClean = true
            sendClose(code, "", &state)
        }
        startTimer()
    }

    /// Begins the closing handshake. Later calls have no effect.
    func close(_ code: WebSocket.CloseCode, _ reason: String) {
        state.withLock { state in
            guard state.isOpen else { return }
            state.noteClose(code, reason)
            sendClose(code == .noCode ? nil : code.rawValue, reason, &state)
        }
        inbox.beginClosing()
        startTimer()
    }

    private func fail(_ violation: WebSocketViolation) {
        let isLarge = violation.code == WebSocket.CloseCode.tooLarge.rawValue
        let error = error(isLarge ? .bodyTooLarge : .protocolViolation, violation.message + violation.advice)
        state.withLock { state in
            if state.failure == nil { state.failure = error }
            state.noteClose(WebSocket.CloseCode(rawValue: violation.code), violation.message)
            sendClose(violation.code, String(violation.message.prefix(100)), &state)
        }
        inbox.finish(.failure(error))
        startTimer()
    }

    private func sendClose(_ code: UInt16?, _ reason: String, _ state: inout State) {
        guard !state.hasSentClose else { return }
        observer?.sendClose(code, reason)
        write(.close, FrameWriter.closePayload(code, reason), &state)
        state.hasSentClose = true
    }

    /// Ends the connection when the closing handshake takes too long.
    private func startTimer() {
        let limit = options.closeTimeout
        state.withLock { state in
            guard state.timer == nil, !state.isOver else { return }
            state.timer = call.schedule(after: limit) { [weak self] in self?.abortClosing(limit) }
        }
    }

    private func abortClosing(_ limit: Duration) {
        guard inbox.holdsUpConnection else { return abort() }
        let message =
            "nobody read the messages before the server's close frame within \(limit), so the rest of them is lost"
        abort(error(.connectionLost, message + "; read socket.messages until they end"))
    }

    /// Ends the connection at once.
    func abort(_ failure: NetworkError? = nil) {
        let task = state.withLock { state in
            guard !state.isOver else { return Task<Void, Never>?.none }
            if state.failure == nil { state.failure = failure }
            state.isAborted = true
            return state.readTask
        }
        task?.cancel()
    }

    private func over(_ error: (any Error)?) -> End {
        let error = error.map(call.failure)
        let (end, timers, pings, senders) = state.withLock { state in
            state.isOver = true
            let timers = [state.timer, state.beat].compactMap(\.self)
            (state.timer, state.beat, state.readTask) = (nil, nil, nil)
            let (pings, senders) = (state.pings, state.senders)
            (state.pings, state.senders) = ([], [])
            return (ending(of: state, error), timers, pings, senders)
        }
        for timer in timers { call.cancel(timer) }
        output.end()
        for ping in pings { ping.answer.end(.failure(closedError)) }
        for sender in senders { sender.end(.success(())) }
        return end
    }

    private func ending(of state: State, _ error: NetworkError?) -> End {
        if let failure = state.failure { return .lost(failure) }
        if call.isCancelled, let error { return .lost(error) }
        if let closing = state.closing, closing.isClean || state.hasSentClose { return .closed(closing) }
        // libcurl's message for an end without any byte after the 101 speaks of an empty reply.
        if let error, error.kind != .connectionLost || error.curlCode != Self.gotNothing { return .lost(error) }
        return .lost(self.error(.connectionLost, "the server ended the connection without a close frame"))
    }

    /// `CURLE_GOT_NOTHING`.
    private static let gotNothing = 52

    // MARK: Keep-alive

    private func scheduleBeat() {
        guard let interval = options.pingInterval else { return }
        state.withLock { state in
            guard !state.isOver else { return }
            state.beat = call.schedule(after: interval) { [weak self] in self?.beat(interval) }
        }
    }

    private func beat(_ interval: Duration) {
        let isReaderBehind = inbox.holdsUpConnection
        let action = state.withLock { state -> KeepAlive.Action? in
            // The closing handshake has its own time limit.
            guard state.isOpen else { return nil }
            let action = state.keepAlive.beat(
                hadInput: state.hasInput, isReaderBehind: isReaderBehind, written: state.written,
                taken: output.takenCount)
            state.hasInput = false
            if action == .ping { writePing([], &state) }
            return action
        }
        guard let action else { return }
        guard action == .lost else { return scheduleBeat() }
        let pings =
            options.missedPongs == 1
            ? "the server did not answer a ping within \(interval)"
            : "the server answered none of \(options.missedPongs) pings, each \(interval) after the last"
        abort(error(.timeout(.idle), pings))
    }

    /// The error for an operation that needs an open connection.
    var closedError: NetworkError {
        let (failure, closing) = state.withLock { ($0.failure, $0.closing) }
        if let failure { return failure }
        let why = closing.map { " (\($0.code.rawValue))" } ?? ""
        return error(.connectionLost, "the WebSocket is closed\(why)")
    }

    func error(_ kind: NetworkError.Kind, _ message: String) -> NetworkError {
        NetworkError(kind, message: message, request: call.request, response: response)
    }
}
