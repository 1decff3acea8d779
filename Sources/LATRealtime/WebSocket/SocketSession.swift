import FoundationEssentials
import HTTPCore
import LATNetworking
import Platform
import Synchronization

/// The connections of one WebSocket, one after the other, with the messages that were received and are to be sent.
final class SocketSession: Sendable {
    let state = LatestValue(LiveState.connecting)
    let inbox = SocketInbox()
    let options: WebSocketOptions
    private let protocols: [String]
    private let manager: CentralRequestManager
    private let call: LiveCall
    private let shared = Mutex(Shared())
    /// Ends with the first connection, or with the error for the caller.
    private let opened = Waiter<Void>()

    private struct Shared {
        var link: SocketLink?
        var latest: SocketLink?
        var closing: WebSocket.Closing?
        /// Whether this side closes the socket, so that there is no other connection.
        var isClosing: (code: WebSocket.CloseCode, reason: String)?
        var end: Result<Void, NetworkError>?
        var waiters: [ObjectIdentifier: Waiter<Void>] = [:]
        var driver: Task<Void, Never>?
        var unsent: [WebSocket.Message] = []
    }

    init(_ manager: CentralRequestManager, _ call: LiveCall, _ protocols: [String], _ options: WebSocketOptions) {
        self.manager = manager
        self.call = call
        self.protocols = protocols
        self.options = options
    }

    /// How the newest connection was closed. It is known as soon as a call fails, before the peer has answered.
    var closing: WebSocket.Closing? {
        let (closing, latest) = shared.withLock { ($0.closing, $0.latest) }
        return closing ?? latest?.state.withLock { $0.failure == nil ? nil : $0.closing }
    }
    /// The newest connection, open or not.
    var latest: SocketLink? { shared.withLock(\.latest) }
    var isOver: Bool { shared.withLock { $0.end != nil } }
    var coding: CodingRules? { call.coding }

    // MARK: Opening

    /// Opens the first connection.
    func open() async throws {
        shared.withLock { $0.driver = Task { await self.drive() } }
        do {
            try await opened.value()
        } catch {
            shared.withLock(\.driver)?.cancel()
            throw error
        }
    }

    /// Opens connections until one of them is the last.
    private func drive() async {
        var plan = ReconnectionPlan(options.reconnection)
        while true {
            state.send(.connecting)
            let (end, error) = await oneConnection()
            guard let end else { return finish(error.map { .failure($0) } ?? .success(())) }
            guard shared.withLock({ $0.isClosing == nil }),
                let wait = plan.wait(after: end, chance: .random(in: 0...1))
            else { return finish(error.map { .failure($0) } ?? .success(())) }
            state.send(.waiting(until: .now + wait))
            do {
                try await call.wait(wait)
            } catch {
                return finish(.failure(call.failure(error)))
            }
        }
    }

    /// Opens one connection, and waits for its end.
    ///
    /// - Returns: how it ended, `nil` when no other one may follow, and its error.
    private func oneConnection() async -> (ReconnectionPlan.End?, NetworkError?) {
        let link: SocketLink
        let body: ResponseBody
        do {
            (link, body) = try await connect()
            try link.sendAtOnce(try await greeting())
        } catch {
            let error = call.failure(error)
            if error.kind == .httpStatus, let status = error.response?.status {
                return (.refused(status: status, retryAfter: error.retryAfter), error)
            }
            return (error.isWorthReconnecting ? .failed : nil, error)
        }
        let openedAt = ContinuousClock.now
        publish(link)
        let end = await link.run(body, on: manager.executor)
        withdraw(link)
        let loss = ReconnectionPlan.End.lost(after: openedAt.duration(to: .now), hadEvents: link.hadMessages)
        switch end {
        case .closed(let closing):
            shared.withLock { $0.closing = closing }
            let isWorthIt = closing.isByServer && closing.code.isWorthReconnecting
            return (isWorthIt ? loss : nil, nil)
        case .lost(let error):
            shared.withLock { $0.closing = link.state.withLock(\.closing) ?? .lost }
            return (error.isWorthReconnecting ? loss : nil, error)
        }
    }

    private func connect() async throws -> (SocketLink, ResponseBody) {
        let handshake = WebSocketHandshake(protocols: protocols, offersCompression: options.compresses)
        let limit = call.request.timeout ?? options.openTimeout
        let response = try await call.open(handshake.headers, within: limit) { try handshake.check($0) }
        let agreement = try handshake.agreement(response.headers)
        guard let output = response.output else { throw handshake.refusal("it was not upgraded", response) }
        return (SocketLink(response, output, agreement, options, call, inbox), response.body)
    }

    private func greeting() async throws -> [WebSocket.Message] {
        let messages: [WebSocket.Message]
        do {
            messages = try await options.greeting?() ?? []
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the greeting threw: \(error)", request: call.request, underlying: error)
        }
        return messages
            + shared.withLock { shared in
                defer { shared.unsent = [] }
                return shared.unsent
            }
    }

    private func publish(_ link: SocketLink) {
        let (closing, waiters) = shared.withLock { shared in
            (shared.link, shared.latest) = (link, link)
            defer { shared.waiters = [:] }
            return (shared.isClosing, shared.waiters.values)
        }
        state.send(.open)
        for waiter in waiters { waiter.end(.success(())) }
        opened.end(.success(()))
        if let closing { link.close(closing.code, closing.reason) }
    }

    private func withdraw(_ link: SocketLink) {
        let unsent = link.takeUnsent()
        shared.withLock { shared in
            shared.link = nil
            shared.unsent += unsent
        }
    }

    private func finish(_ result: Result<Void, NetworkError>) {
        let waiters = shared.withLock { shared in
            shared.end = result
            shared.driver = nil
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
            if let link = shared.withLock(\.link), try await link.send(message) { return }
            try await waitForLink()
        }
    }

    private func waitForLink() async throws {
        let waiter = Waiter<Void>()
        let failure = shared.withLock { shared -> NetworkError? in
            if let link = shared.latest, shared.end != nil || shared.isClosing != nil { return link.closedError }
            if shared.end == nil, options.reconnection != nil, options.resend == .unsent {
                shared.waiters[ObjectIdentifier(waiter)] = waiter
                return nil
            }
            return shared.latest?.closedError
                ?? NetworkError(.connectionLost, message: "the WebSocket has no connection", request: call.request)
        }
        if let failure { throw failure }
        defer { shared.withLock { $0.waiters[ObjectIdentifier(waiter)] = nil } }
        try await waiter.value()
    }

    func ping() async throws -> Duration {
        guard let link = shared.withLock(\.link) else {
            throw latest?.closedError ?? NetworkError(.connectionLost, message: "the WebSocket has no connection")
        }
        return try await link.ping()
    }

    /// Begins to close the socket: there is no other connection.
    func close(_ code: WebSocket.CloseCode, _ reason: String) {
        let (link, driver) = shared.withLock { shared -> (SocketLink?, Task<Void, Never>?) in
            guard shared.end == nil, shared.isClosing == nil else { return (nil, nil) }
            shared.isClosing = (code, reason)
            if shared.link == nil {
                shared.closing = .init(code: code, reason: reason, isByServer: false, isClean: false)
            }
            return (shared.link, shared.link == nil ? shared.driver : nil)
        }
        link?.close(code, reason)
        // No connection is open, so no close frame is sent.
        driver?.cancel()
    }

    /// Waits until the socket is closed.
    func waitForEnd() async { for await _ in state.values() {} }
}

extension WebSocket.Closing {
    /// No close frame at all.
    static let lost = WebSocket.Closing(code: .lost, reason: "", isByServer: false, isClean: false)
}

extension WebSocketHandshake {
    /// Checks whether a response is the answer to this handshake.
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
