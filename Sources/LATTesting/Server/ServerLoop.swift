import FoundationEssentials
import Glibc
import HTTPCore

/// The thread of a ``MockServer``: accepts, reads, answers, closes. Everything here is touched by that thread only; what
/// others may see is in ``SharedState``.
final class ServerLoop {
    let shared: SharedState
    private let listener: Int32
    private let wakeReceiver: Int32
    private let unixSocketPath: String?
    private var connections: [Int: Connection] = [:]
    private var queue: EventQueue
    private var timers = TimerHeap()
    private var nextConnection = 1
    /// When to accept again after the process ran out of descriptors.
    private var acceptPausedUntil: Nanoseconds?
    private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 262_144, alignment: 64)

    // Descriptors that are no connections; those are numbered from 1.
    private static let listenerToken = 0
    private static let wakeToken = -1
    /// How long a closing connection may go on sending, and how long a reset waits for its bytes.
    private static let lingerTime: Nanoseconds = 2_000_000_000
    /// How much one connection may send before the others have their turn.
    private static let sendBudget = 4 << 20

    /// Takes over the queue, the listener and the descriptor that becomes readable by ``SharedState/wake()``,
    /// once it runs.
    init(shared: SharedState, queue: EventQueue, listener: Int32, wakeReceiver: Int32, unixSocketPath: String?) {
        self.shared = shared
        self.queue = queue
        self.listener = listener
        self.wakeReceiver = wakeReceiver
        self.unixSocketPath = unixSocketPath
    }

    deinit { scratch.deallocate() }

    /// The thread's life.
    func run() {
        queue.insert(listener, token: Self.listenerToken, events: .readable)
        queue.insert(wakeReceiver, token: Self.wakeToken, events: .readable)
        var ready: [(token: Int, events: EventQueue.Events)] = []
        while true {
            let now = Nanoseconds.monotonicNow()
            let waiterDeadline = shared.expireWaiters(at: now)
            fireTimers(at: now)
            if handleOrders() { break }
            let wakeTimes = [waiterDeadline, timers.first?.time, acceptPausedUntil].compactMap { $0 }
            queue.wait(milliseconds: Self.milliseconds(until: wakeTimes.min(), from: now), into: &ready)
            for (token, events) in ready { handle(events, of: token) }
        }
        end()
    }

    /// Milliseconds to wait, rounded up so that nothing is early; -1 is for ever.
    private static func milliseconds(until time: Nanoseconds?, from now: Nanoseconds) -> Int32 {
        guard let time else { return -1 }
        guard time > now else { return 0 }
        return Int32(min(60_000, (time - now) / 1_000_000 + 1))
    }

    /// True when the server is to stop.
    private func handleOrders() -> Bool {
        let (stops, closesIdle) = shared.update { contents in
            let orders = (contents.stopIsRequested, contents.idleConnectionsAreToClose)
            contents.idleConnectionsAreToClose = false
            return orders
        }
        if closesIdle {
            for connection in Array(connections.values)
            where connection.exchange == nil && !connection.parser.isInsideRequest {
                if case .reading = connection.phase { close(connection) }
            }
        }
        return stops
    }

    private func end() {
        for connection in Array(connections.values) { close(connection) }
        Glibc.close(listener)
        Glibc.close(wakeReceiver)
        Glibc.close(queue.descriptor)
        if let unixSocketPath { unlink(unixSocketPath) }
        shared.end()
    }

    private func handle(_ events: EventQueue.Events, of token: Int) {
        switch token {
        case Self.listenerToken:
            acceptConnections()
        case Self.wakeToken:
            _ = read(wakeReceiver, scratch.baseAddress, scratch.count)
            // A change of the read rate takes effect at once.
            for connection in connections.values where connection.readIsPaused {
                connection.nextRead = .min
                schedule(connection, at: .monotonicNow())
            }
        default:
            guard let connection = connections[token] else { return }
            handle(events, of: connection)
            settle(connection)
        }
    }

    private func handle(_ events: EventQueue.Events, of connection: Connection) {
        let isGone = !events.isDisjoint(with: [.gone, .peerClosed])
        switch connection.phase {
        case .reading:
            receive(connection, ignoringRate: !events.isDisjoint(with: .gone))
        case .lingering:
            drain(connection)
        case .replying(.room) where !isGone, .replying(.none) where !isGone:
            advance(connection)
        case .resetting where isGone, .replying where isGone:
            close(connection)
        case .replying, .resetting, .closed:
            break
        }
    }

    private func fireTimers(at now: Nanoseconds) {
        if let paused = acceptPausedUntil, paused <= now {
            acceptPausedUntil = nil
            queue.change(listener, token: Self.listenerToken, to: .readable)
        }
        while let entry = timers.popDue(at: now) {
            guard let connection = connections[entry.connection], connection.deadline == entry.time else { continue }
            connection.deadline = nil
            switch connection.phase {
            case .reading: connection.readIsPaused = false
            case .replying: advance(connection)
            case .lingering: close(connection)
            case .resetting: resetWhenReceived(connection)
            case .closed: break
            }
            settle(connection)
        }
    }

    /// Waits for other events when the connection now wants others.
    private func settle(_ connection: Connection) {
        if case .closed = connection.phase { return }
        let wanted = connection.wantedInterest
        guard wanted != connection.interest else { return }
        connection.interest = wanted
        queue.change(connection.descriptor, token: connection.id, to: wanted)
    }

    private func schedule(_ connection: Connection, at time: Nanoseconds) {
        connection.deadline = time
        timers.insert(TimerHeap.Entry(time: time, connection: connection.id))
    }
}

// MARK: - Reading

extension ServerLoop {
    private func acceptConnections() {
        for _ in 0..<64 {
            let descriptor = queue.accept(listener)
            guard descriptor >= 0 else {
                if errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM {
                    // The listener stays readable; without a pause this would spin.
                    acceptPausedUntil = Nanoseconds.monotonicNow() + 20_000_000
                    queue.change(listener, token: Self.listenerToken, to: [])
                }
                if errno == ECONNABORTED || errno == EINTR { continue }
                return
            }
            if unixSocketPath == nil { Socket.set(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
            let connection = Connection(id: nextConnection, descriptor: descriptor)
            nextConnection += 1
            connections[connection.id] = connection
            let readRate = shared.update { contents in
                contents.acceptedConnections += 1
                return contents.settings.bodyReadRate
            }
            // The system would take megabytes on its own, and nobody would notice a slow reader.
            if readRate != nil { Socket.set(descriptor, SOL_SOCKET, SO_RCVBUF, 32_768) }
            queue.insert(descriptor, token: connection.id, events: connection.interest)
        }
    }

    /// - Parameter ignoringRate: Whether the client is gone, so that there is nobody to be slow for.
    private func receive(_ connection: Connection, ignoringRate: Bool) {
        let rate = ignoringRate ? nil : shared.read { $0.settings.bodyReadRate }
        var limit = scratch.count
        if let rate {
            let now = Nanoseconds.monotonicNow()
            let isInBody = connection.exchange != nil
            if isInBody, rate <= 0 || connection.nextRead > now {
                connection.readIsPaused = true
                // A standstill ends when the rate is changed, which wakes the thread.
                if rate > 0 { schedule(connection, at: connection.nextRead) }
                return
            }
            limit = rate > 0 ? min(limit, max(1, rate / 20)) : min(limit, 4_096)
        }
        let count = recv(connection.descriptor, scratch.baseAddress, limit, Int32(MSG_DONTWAIT))
        if count > 0 {
            let bytes = [UInt8](UnsafeRawBufferPointer(rebasing: scratch[..<count]))
            if connection.pending.isEmpty { connection.pending = bytes[...] } else { connection.pending += bytes }
            advance(connection)
            if let rate, rate > 0, connection.exchange != nil {
                let now = Nanoseconds.monotonicNow()
                connection.nextRead = max(now, connection.nextRead) + Int64(Double(count) / Double(rate) * 1e9)
            }
        } else if count == 0 || (errno != EAGAIN && errno != EINTR) {
            close(connection)
        }
    }

    /// Takes what is there as far as it goes: events of the parser, then bytes of the reply, then the next request.
    private func advance(_ connection: Connection) {
        while true {
            switch connection.phase {
            case .reading:
                do throws(RequestParser.Failure) {
                    guard let event = try connection.parser.next(&connection.pending) else { return }
                    handle(event, of: connection)
                } catch {
                    refuse(connection, with: error)
                }
            case .replying:
                guard writeReply(of: connection) else { return }
            case .lingering, .resetting, .closed:
                return
            }
        }
    }

    private func handle(_ event: RequestParser.Event, of connection: Connection) {
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
                // Nothing else is on its way, so these few bytes always find room.
                _ = connection.send(.bytes(ArraySlice("HTTP/1.1 100 Continue\r\n\r\n".utf8)))
            }
        case .body(let piece):
            connection.exchange?.append(piece)
            shared.update { $0.receivedBodyBytes += Int64(piece.count) }
        case .end(let trailers):
            connection.exchange?.isRead = true
            connection.exchange?.record.trailers = trailers
            connection.exchange?.record.isComplete = true
            answerFromHandlers(connection)
        }
    }

    private func answerFromHandlers(_ connection: Connection) {
        guard let exchange = connection.exchange else { return }
        if exchange.isAnswered {
            finishExchange(connection)
            return
        }
        enum Answer: Sendable {
            case reply(MockReply)
            case handler(MockServer.Handler)
            case none
        }
        let record = exchange.record
        let (request, answer) = shared.update { contents -> (RecordedRequest, Answer) in
            var request = record
            var answer = Answer.none
            if let queued = contents.takeQueued() {
                answer = .reply(queued)
            } else {
                let path = RequestTarget(request.target).path
                for route in contents.routes.reversed() {
                    guard let parameters = route.pattern.match(method: request.method, path: path) else { continue }
                    request.pathParameters = parameters
                    answer = .handler(route.handler)
                    break
                }
                if case .none = answer, let fallback = contents.fallback { answer = .handler(fallback) }
            }
            contents.record(request)
            return (request, answer)
        }
        connection.exchange?.isAnswered = true
        switch answer {
        case .reply(let reply): start(reply, on: connection)
        case .handler(let handler): start(Self.reply(of: handler, to: request), on: connection)
        case .none:
            let text = "nothing is queued and no route is set for \(request.method) \(request.path)\n"
            start(.text(text, status: 404), on: connection)
        }
    }

    private static func reply(of handler: MockServer.Handler, to request: RecordedRequest) -> MockReply {
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

    private func refuse(_ connection: Connection, with failure: RequestParser.Failure) {
        let reply = MockReply.text(failure.reason + "\n", status: failure.status).closingConnection()
        let context = ReplyPlan.Context(keepsConnection: false)
        connection.writer = ReplyWriter(ReplyPlan(reply, answering: context))
        connection.phase = .replying(.none)
    }
}

// MARK: - Answering

extension ServerLoop {
    private func start(_ reply: MockReply, on connection: Connection) {
        guard let head = connection.exchange?.head else { return }
        let context = ReplyPlan.Context(
            isHead: head.method == "HEAD", minorVersion: head.minorVersion, keepsConnection: head.keepsConnection)
        connection.writer = ReplyWriter(ReplyPlan(reply, answering: context))
        connection.phase = .replying(.none)
    }

    /// Sends what can be sent. True when the reply is done and the connection goes on reading.
    private func writeReply(of connection: Connection) -> Bool {
        guard var writer = connection.writer else { return false }
        // Taken out while it is changed, so that its bytes are not copied.
        connection.writer = nil
        var budget = Self.sendBudget
        var now = Nanoseconds.monotonicNow()
        while true {
            switch writer.next(at: now) {
            case .send(let content):
                guard let count = connection.send(content) else {
                    close(connection)
                    return false
                }
                now = Nanoseconds.monotonicNow()
                writer.didSend(count, at: now)
                budget -= count
                if count == 0 || budget <= 0 { return suspend(connection, writer, as: .room) }
            case .wait(let time):
                schedule(connection, at: time)
                return suspend(connection, writer, as: .time)
            case .stall:
                return suspend(connection, writer, as: .stall)
            case .finish(.keep):
                connection.phase = .reading
                finishExchange(connection)
                return true
            case .finish(.close):
                closeGracefully(connection)
                return false
            case .finish(.reset):
                connection.phase = .resetting
                connection.resetDeadline = now + Self.lingerTime
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

    /// Ends the exchange when its request is read and its reply sent.
    private func finishExchange(_ connection: Connection) {
        guard let exchange = connection.exchange, exchange.isRead, exchange.isAnswered else { return }
        connection.exchange = nil
        shared.update { $0.activeExchanges -= 1 }
    }
}

// MARK: - Closing

extension ServerLoop {
    private func close(_ connection: Connection) {
        close(connection, by: { Glibc.close($0) })
    }

    private func close(_ connection: Connection, by closing: (Int32) -> Void) {
        if case .closed = connection.phase { return }
        connection.phase = .closed
        connections[connection.id] = nil
        queue.remove(connection.descriptor)
        closing(connection.descriptor)
        let exchange = connection.exchange
        connection.exchange = nil
        connection.writer = nil
        shared.update { contents in
            contents.closedConnections += 1
            guard let exchange else { return }
            contents.activeExchanges -= 1
            if !exchange.isAnswered, contents.settings.recordsRequests {
                contents.abandonedRequests.append(exchange.record)
            }
        }
    }

    /// Closes with a FIN. A close with unread bytes would become a reset, so those are awaited first.
    private func closeGracefully(_ connection: Connection) {
        let isRead = connection.exchange?.isRead ?? false
        if isRead, connection.pending.isEmpty, Socket.unreadByteCount(connection.descriptor) == 0 {
            close(connection)
            return
        }
        shutdown(connection.descriptor, Int32(SHUT_WR))
        connection.phase = .lingering
        connection.pending = []
        schedule(connection, at: .monotonicNow() + Self.lingerTime)
    }

    private func drain(_ connection: Connection) {
        let count = recv(connection.descriptor, scratch.baseAddress, scratch.count, Int32(MSG_DONTWAIT))
        if count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) { close(connection) }
    }

    private func resetWhenReceived(_ connection: Connection) {
        let now = Nanoseconds.monotonicNow()
        if Socket.unsentByteCount(connection.descriptor) == 0 || now >= connection.resetDeadline {
            close(connection, by: Socket.reset)
        } else {
            schedule(connection, at: now + 1_000_000)
        }
    }
}

extension SharedState.Contents {
    /// The next queued reply, when it is one that is wanted.
    mutating func takeQueued(where isWanted: (MockReply) -> Bool = { _ in true }) -> MockReply? {
        guard queueHead < queue.count, isWanted(queue[queueHead]) else { return nil }
        let reply = queue[queueHead]
        queueHead += 1
        if queueHead == queue.count {
            queue.removeAll(keepingCapacity: true)
            queueHead = 0
        }
        return reply
    }

    mutating func record(_ request: RecordedRequest) {
        requestCount += 1
        if settings.recordsRequests { requests.append(request) }
    }
}
