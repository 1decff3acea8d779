import Dispatch
import Glibc
import HTTPCore
import Platform
import Synchronization

// Requests and replies: handles the parser's events and sends the answers.
extension ServerLoop {
    func handle(_ event: RequestParser.Event, of connection: Connection) {
        switch event {
        case .head(let head):
            let index = connection.requestCount
            connection.requestCount += 1
            let record = RecordedRequest(head: head, connection: connection.id, indexOnConnection: index)
            let (settings, early) = shared.update { contents -> (SharedState.Settings, MockReply?) in
                contents.activeExchanges += 1
                let refuses = head.expectsContinue && contents.settings.expectPolicy == .refuse
                return (contents.settings, refuses ? nil : contents.takeQueued { $0.answersBeforeBody })
            }
            connection.exchange = Connection.Exchange(head: head, record: record, bodyLimit: settings.bodyLimit)
            if head.expectsContinue, settings.expectPolicy == .refuse {
                answer(connection, with: MockReply.status(417).closingConnection())
            } else if let early {
                answer(connection, with: early)
            } else if head.expectsContinue, settings.expectPolicy == .continue {
                // Nothing else is being sent, so the send buffer has room for these few bytes.
                _ = connection.send(.bytes(ArraySlice("HTTP/1.1 100 Continue\r\n\r\n".utf8)))
            }
            guard connection.exchange?.isAnswered == false else { return }
            let path = String(RequestTarget(record.target).path)
            if let receiver = shared.read({ contents in contents.receivers.last { $0.takes(path) } }) {
                connection.exchange?.receiver = receiver
                perform(receiver.begin(record), on: connection)
            }
        case .body(let piece):
            connection.exchange?.append(piece)
            shared.update { $0.receivedBodyBytes += Int64(piece.count) }
            if let exchange = connection.exchange, !exchange.isAnswered, let receiver = exchange.receiver {
                perform(receiver.receive(piece, of: exchange.record), on: connection)
            }
        case .end(let trailers):
            connection.exchange?.record.trailers = trailers
            connection.exchange?.record.isComplete = true
            answerFromHandlers(connection)
        }
    }

    private func perform(_ action: BodyAction, on connection: Connection) {
        switch action {
        case .proceed: break
        case .interim(let status, let headers):
            // Few bytes, for which a client that sends a body has room.
            let head = "HTTP/1.1 \(status) \(ReasonPhrase.of(status))\r\n" + headers.lines + "\r\n"
            _ = connection.send(.bytes(ArraySlice(head.utf8)))
            connection.exchange?.sentInterim = true
        case .cut:
            guard let exchange = connection.exchange, exchange.sentInterim else {
                return close(connection, by: Socket.reset)
            }
            // A client that is still sending when a reset arrives may never read the interim responses before it.
            exchange.receiver?.abandon(exchange.record)
            closeGracefully(connection)
        }
    }

    private func answerFromHandlers(_ connection: Connection) {
        guard let exchange = connection.exchange else { return }
        if exchange.isAnswered {
            finishExchange(connection)
            return
        }
        let record = exchange.record
        let (request, queued, handler) = shared.update {
            contents -> (RecordedRequest, MockReply?, MockServer.Handler?) in
            var request = record
            var handler = contents.fallback
            let queued = contents.takeQueued()
            if queued == nil {
                let path = RequestTarget(request.target).path
                for route in contents.routes.reversed() {
                    guard let parameters = route.pattern.match(method: request.method, path: path) else { continue }
                    request.pathParameters = parameters
                    handler = route.handler
                    break
                }
            }
            contents.record(request)
            return (request, queued, handler)
        }
        connection.exchange?.isAnswered = true
        if queued != nil { exchange.receiver?.abandon(request) }
        start(queued ?? exchange.receiver?.end(request) ?? Self.reply(of: handler, to: request), on: connection)
    }

    private static func reply(of handler: MockServer.Handler?, to request: RecordedRequest) -> MockReply {
        guard let handler else {
            let text = "nothing is queued and no route is set for \(request.method) \(request.path)\n"
            return .text(text, status: 404)
        }
        do {
            return try handler(request)
        } catch {
            return .text("the handler of \(request.method) \(request.path) threw: \(error)\n", status: 500)
        }
    }

    /// Records a request whose body is not read yet, and answers it.
    private func answer(_ connection: Connection, with reply: MockReply) {
        guard let record = connection.exchange?.record else { return }
        shared.update { $0.record(record) }
        connection.exchange?.isAnswered = true
        start(reply, on: connection)
    }

    func refuse(_ connection: Connection, with failure: RequestParser.Failure) {
        let reply = MockReply.text(failure.reason + "\n", status: failure.status).closingConnection()
        let context = ReplyPlan.Context(keepsConnection: false)
        connection.writer = ReplyWriter(ReplyPlan(reply, answering: context))
        connection.phase = .replying(.none)
    }

    // MARK: Sending

    private func start(_ reply: MockReply, on connection: Connection) {
        guard let head = connection.exchange?.head else { return }
        let context = ReplyPlan.Context(
            isHead: head.method == "HEAD", minorVersion: head.minorVersion, keepsConnection: head.keepsConnection)
        let reply = Self.upgrading(reply, head)
        connection.writer = ReplyWriter(ReplyPlan(reply, answering: context))
        connection.player = reply.socket.map(SocketPlayer.init)
        connection.phase = .replying(.none)
    }

    /// Sends what the socket takes. Returns `true` when the reply is complete and the connection reads again.
    func writeReply(of connection: Connection) -> Bool {
        guard var writer = connection.writer else { return false }
        // Removed while it changes, so that its bytes are not copied.
        connection.writer = nil
        var budget = Self.sendBudget
        var now = MonotonicTime.now
        while true {
            switch writer.next(at: now) {
            case .send(let content):
                guard let count = connection.send(content) else {
                    close(connection)
                    return false
                }
                now = .now
                writer.didSend(count, at: now)
                if count > 0 { shared.update { $0.sentBytes += Int64(count) } }
                budget -= count
                if count == 0 || budget <= 0 { return suspend(connection, writer, as: .room) }
            case .wait(let time):
                schedule(connection, at: time)
                return suspend(connection, writer, as: .time)
            case .stall:
                return suspend(connection, writer, as: .stall)
            case .finish(.keep):
                connection.phase = connection.player == nil ? .reading : .webSocket(.none, reads: true)
                finishExchange(connection)
                return true
            case .finish(.close):
                closeGracefully(connection)
                return false
            case .finish(.reset):
                connection.phase = .resetting(until: now + Self.lingerTime)
                resetWhenReceived(connection)
                return false
            }
        }
    }

    private func suspend(_ connection: Connection, _ writer: ReplyWriter, as wait: Connection.Wait) -> Bool {
        connection.writer = writer
        connection.phase = .replying(wait)
        return false
    }

    /// Ends the exchange when its request is read and its reply is sent.
    private func finishExchange(_ connection: Connection) {
        guard let exchange = connection.exchange, exchange.record.isComplete, exchange.isAnswered else { return }
        connection.exchange = nil
        shared.update { $0.activeExchanges -= 1 }
    }
}

/// The thread that runs a ``ServerLoop``.
final class ServerThread: Sendable {
    private let thread: pthread_t
    private let end: DispatchSemaphore
    /// Whether the thread was joined. The lock is held during the join, so that a second caller waits as well.
    private let isJoined = Mutex(false)

    /// - Throws: ``MockServerError`` when the system cannot start a thread; the loop's descriptors are then still open.
    init(running loop: ServerLoop) throws {
        let end = DispatchSemaphore(value: 0)
        let work = Work(loop)
        let run: @Sendable () -> Void = {
            // Releases the loop before the end is signalled.
            work.runAndRelease()
            end.signal()
        }
        guard let thread = BackgroundThread.make("MockServer", run) else {
            throw MockServerError.systemCall("pthread_create")
        }
        self.end = end
        self.thread = thread
    }

    /// Whether the caller runs on this thread, as a handler does.
    var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Waits until the thread has ended. With a limit it detaches the thread after this many seconds, or if the caller runs
    /// on it; without one it must not be called on the thread itself.
    func join(orDetachAfter seconds: Int? = nil) {
        isJoined.withLock { isJoined in
            guard !isJoined else { return }
            let hasEnded = seconds.map { !isCurrent && end.wait(timeout: .now() + .seconds($0)) == .success } ?? true
            if hasEnded { pthread_join(thread, nil) } else { pthread_detach(thread) }
            isJoined = true
        }
    }

    /// `@unchecked Sendable`: made on one thread and handed to the new one, which alone uses it from then on.
    private final class Work: @unchecked Sendable {
        private var loop: ServerLoop?

        init(_ loop: ServerLoop) { self.loop = loop }

        func runAndRelease() {
            loop?.run()
            loop = nil
        }
    }
}
