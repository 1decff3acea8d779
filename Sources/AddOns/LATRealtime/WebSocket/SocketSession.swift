import FoundationEssentials
import HTTPCore
import LATNetworking
import Platform
import Synchronization

/// The connections of one WebSocket, one after the other, with the messages that were received and those to send.
final class SocketSession: Sendable {
    let state = LatestValue(LiveState.connecting)
    let inbox = SocketInbox()
    let options: WebSocketOptions
    private let protocols: [String]
    private let manager: CentralRequestManager
    private let call: LiveCall
    private let shared: Mutex<Shared>
    /// Ends with the first connection, or with the error for the caller.
    private let opened = Waiter<Void>()

    private struct Shared {
        var connection: SocketConnection?
        var latest: SocketConnection?
        var closing: WebSocket.Closing?
        /// The close frame of this side once it closes the socket. No other connection follows then.
        var isClosing: (code: WebSocket.CloseCode, reason: String)?
        var end: Result<Void, NetworkError>?
        var waiters: [ObjectIdentifier: Waiter<Void>] = [:]
        /// Opens the next connection.
        var opening: Task<Void, Never>?
        var plan: ReconnectionPlan
        var openedAt = ContinuousClock.now
        var losses = 0
        /// Whether nobody waits for the first connection any more.
        var isAbandoned = false
        var unsent: [WebSocket.Message] = []
    }

    init(_ manager: CentralRequestManager, _ call: LiveCall, _ protocols: [String], _ options: WebSocketOptions) {
        self.manager = manager
        self.call = call
        self.protocols = protocols
        self.options = options
        shared = Mutex(Shared(plan: ReconnectionPlan(options.reconnection)))
    }

    /// How the newest connection was closed. When this side fails the connection (RFC 6455 §7.1.7), it is known at once, before
    /// the server has answered.
    var closing: WebSocket.Closing? {
        let (closing, latest) = shared.withLock { ($0.closing, $0.latest) }
        return closing ?? latest?.state.withLock { $0.failure == nil ? nil : $0.closing }
    }
    /// The newest connection, open or not.
    var latest: SocketConnection? { shared.withLock(\.latest) }
    /// The number of connections that were lost, so that another one was or is to be opened.
    var losses: Int { shared.withLock(\.losses) }
    var isOver: Bool { shared.withLock { $0.end != nil } }
    var coding: CodingRules? { call.coding }

    // MARK: Opening

    /// Opens the first connection.
    func open() async throws {
        shared.withLock { $0.opening = Task { await self.openNext() } }
        do {
            try await opened.value()
        } catch {
            let (opening, connection) = shared.withLock { shared in
                shared.isAbandoned = true
                return (shared.opening, shared.connection)
            }
            opening?.cancel()
            connection?.abort()
            throw error
        }
    }

    /// Opens one connection. Another task reads it, so that the memory of this task is freed.
    private func openNext() async {
        state.send(.connecting)
        do {
            let (connection, body) = try await connect()
            // An unsent greeting is not kept: the next connection makes its own.
            try connection.sendAtOnce(try await greeting(), isKept: false)
            try connection.sendAtOnce(takeUnsent(), isKept: true)
            publish(connection)
            connection.start(body, on: manager.executor) { [self] in ended($0, $1) }
        } catch {
            let error = call.failure(error)
            if error.kind == .httpStatus, let status = error.response?.status {
                continueOrFinish(.refused(status: status, retryAfter: error.retryAfter), error)
            } else {
                // The first connection must open in time; a later one that does not is tried again.
                let isLate = error.kind == .timeout(.total) && latest != nil
                continueOrFinish(isLate || error.isWorthReconnecting ? .failed : nil, error)
            }
        }
    }

    private func ended(_ connection: SocketConnection, _ end: SocketConnection.End) {
        let unsent = connection.takeUnsent()
        let openedAt = shared.withLock { shared in
            shared.connection = nil
            shared.unsent += unsent
            shared.closing =
                switch end {
                case .closed(let closing): closing
                case .lost: connection.state.withLock(\.closing) ?? .lost
                }
            return shared.openedAt
        }
        let loss = ReconnectionPlan.End.lost(after: openedAt.duration(to: .now), hadEvents: connection.hadMessages)
        switch end {
        case .closed(let closing):
            continueOrFinish(closing.isByServer && closing.code.isWorthReconnecting ? loss : nil, nil)
        case .lost(let error):
            continueOrFinish(error.isWorthReconnecting ? loss : nil, error)
        }
    }

    /// Opens the next connection after a wait, or ends the socket.
    ///
    /// - Parameter end: how the last connection ended; `nil` when no other one may follow.
    private func continueOrFinish(_ end: ReconnectionPlan.End?, _ error: NetworkError?) {
        let (isLast, isAbandoned, isClosing) = shared.withLock { shared in
            shared.opening = nil
            guard let end, shared.isClosing == nil, !shared.isAbandoned,
                let wait = shared.plan.wait(after: end, chance: .random(in: 0...1))
            else { return (true, shared.isAbandoned, shared.isClosing != nil) }
            if case .lost = end { shared.losses += 1 }
            shared.opening = Task { await openNext(after: wait) }
            return (false, false, false)
        }
        guard isLast else { return }
        var failure = isAbandoned ? call.failure(CancellationError()) : error
        // Closing between two connections has cancelled the next one.
        if isClosing, failure?.kind == .cancelled, !call.isCancelled { failure = nil }
        finish(failure.map { .failure($0) } ?? .success(()))
    }

    private func openNext(after wait: Duration) async {
        state.send(.waiting(until: .now + wait))
        do {
            try await call.wait(wait)
        } catch {
            return continueOrFinish(nil, call.failure(error))
        }
        await openNext()
    }

    /// The longest time of the handshake, and of the greeting.
    private var limit: Duration { call.request.timeout ?? options.openTimeout }

    private func connect() async throws -> (SocketConnection, ResponseBody) {
        let handshake = WebSocketHandshake(protocols: protocols, offersCompression: options.compresses)
        let response = try await call.open(handshake.headers, within: limit) { try handshake.check($0) }
        let agreement = try handshake.agreement(response.headers)
        guard let output = response.output else { throw handshake.refusal("it was not upgraded", response) }
        return (SocketConnection(response, output, agreement, options, call, inbox), response.body)
    }

    private func greeting() async throws -> [WebSocket.Message] {
        guard let greeting = options.greeting else { return [] }
        do {
            return try await call.run(within: limit, late: "the greeting had no messages after \(limit)", greeting)
        } catch let error as NetworkError {
            throw error
        } catch let error as CancellationError where Task.isCancelled {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the greeting threw: \(error)", request: call.request, underlying: error)
        }
    }

    private func takeUnsent() -> [WebSocket.Message] {
        shared.withLock { shared in
            defer { shared.unsent = [] }
            return shared.unsent
        }
    }

    private func publish(_ connection: SocketConnection) {
        let (closing, isAbandoned, waiters) = shared.withLock { shared in
            (shared.connection, shared.latest, shared.opening, shared.openedAt) = (connection, connection, nil, .now)
            shared.closing = nil
            defer { shared.waiters = [:] }
            return (shared.isClosing, shared.isAbandoned, shared.waiters.values)
        }
        state.send(.open)
        for waiter in waiters { waiter.end(.success(())) }
        opened.end(.success(()))
        if let closing { connection.close(closing.code, closing.reason) }
        if isAbandoned { connection.abort() }
    }

    private func finish(_ result: Result<Void, NetworkError>) {
        let waiters = shared.withLock { shared in
            shared.end = result
            shared.opening = nil
            defer { shared.waiters = [:] }
            return shared.waiters.values
        }
        inbox.finish(result)
        let head = latest?.response ?? HTTPResponse(status: 101, url: call.request.url)
        call.finish(result.map { head })
        state.finish(.closed)
        for waiter in waiters { waiter.end(.success(())) }
        opened.end(result.mapError { $0 })
    }

    // MARK: Using

    /// Sends a message on the open connection, or on the next one when the options say so.
    func send(_ message: WebSocket.Message) async throws {
        while true {
            let connection = shared.withLock(\.connection)
            if let connection, try await connection.send(message) { return }
            try await waitForConnection(after: connection)
        }
    }

    /// Waits for another connection than the one that was tried.
    private func waitForConnection(after tried: SocketConnection?) async throws {
        let waiter = Waiter<Void>()
        let failure = shared.withLock { shared -> NetworkError? in
            guard shared.end == nil, shared.isClosing == nil, options.reconnection != nil, options.resend == .unsent
            else {
                return closedError(shared)
            }
            // It may have been opened in the meantime.
            if let connection = shared.connection, connection !== tried {
                waiter.end(.success(()))
            } else {
                shared.waiters[ObjectIdentifier(waiter)] = waiter
            }
            return nil
        }
        if let failure { throw failure }
        defer { shared.withLock { $0.waiters[ObjectIdentifier(waiter)] = nil } }
        try await waiter.value()
    }

    func ping(within limit: Duration) async throws -> Duration {
        guard let connection = shared.withLock(\.connection) else { throw shared.withLock { closedError($0) } }
        return try await connection.ping(within: limit)
    }

    /// The error for an operation that needs an open connection. While the next connection is being opened, the error of the
    /// last one would be wrong, because the socket is not closed.
    private func closedError(_ shared: Shared) -> NetworkError {
        if shared.opening == nil || shared.isClosing != nil, let latest = shared.latest { return latest.closedError }
        return NetworkError(
            .connectionLost, message: "the WebSocket has no connection; it is being opened", request: call.request)
    }

    /// Begins to close the socket. No other attempt to connect follows.
    func close(_ code: WebSocket.CloseCode, _ reason: String) {
        let (connection, opening) = shared.withLock { shared -> (SocketConnection?, Task<Void, Never>?) in
            guard shared.end == nil, shared.isClosing == nil else { return (nil, nil) }
            shared.isClosing = (code, reason)
            if shared.connection == nil {
                shared.closing = .init(code: code, reason: reason, isByServer: false, isClean: false)
            }
            return (shared.connection, shared.connection == nil ? shared.opening : nil)
        }
        connection?.close(code, reason)
        // No connection is open, so no close frame is sent.
        opening?.cancel()
    }

    /// Waits until the socket is closed.
    func waitForEnd() async { for await _ in state.values() {} }
}

extension WebSocket.Closing {
    /// No close frame at all.
    static let lost = WebSocket.Closing(code: .lost, reason: "", isByServer: false, isClean: false)
}

extension WebSocketHandshake {
    /// Checks whether a response completes this handshake.
    ///
    /// - Throws: `NetworkError` of kind `protocolViolation`.
    func check(_ response: HTTPResponse) throws {
        guard response.output != nil else {
            throw refusal("its connection was not upgraded", response)
        }
        do throws(Refusal) {
            _ = try agreement(response.headers)
        } catch {
            throw refusal(error.reason, response)
        }
    }

    func refusal(_ reason: String, _ response: HTTPResponse) -> NetworkError {
        var head = response
        // The error must not keep the connection open.
        head.body = .empty
        head.output = nil
        return NetworkError(
            .protocolViolation,
            message: "the server's answer is not a WebSocket handshake: \(reason); is the address that of a WebSocket?",
            response: head)
    }
}
