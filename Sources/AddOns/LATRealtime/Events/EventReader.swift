import FoundationEssentials
import LATNetworking

/// One loop over an event stream: opens connections one after the other, and reads their events.
final class EventReader {
    private let session: EventSession
    /// The call, while the loop runs.
    private var call: LiveCall?
    private var rules: EventRules
    private var plan: ReconnectionPlan
    private var parser: EventStreamParser
    /// The body of the connection; `nil` without one.
    private var body: ResponseBody?
    /// The last response, without its body.
    private var head: HTTPResponse? { origin?.response }
    private var origin: ServerSentEvent.Origin?
    private var openedAt = ContinuousClock.now
    private var hadEvents = false
    /// The data of the last event of the connection.
    private var lastData: String?
    /// Whether the event that was delivered last is the end.
    private var isEnded = false
    private var isOver = false

    init(_ session: EventSession) {
        self.session = session
        rules = EventRules(session.options, DomainTable.EventSettings(), isSafe: false, isReplayable: false)
        plan = ReconnectionPlan(nil)
        parser = EventStreamParser(eventLimit: rules.eventLimit)
    }

    /// Begins the loop with its call.
    ///
    /// - Throws: the reason why the call could not be made.
    func begin(_ made: Result<LiveCall, NetworkError>, isolation: isolated (any Actor)? = #isolation) async throws {
        if case .failure(let error) = made { await session.manager.noteUnmade(error) }
        let call = try made.get()
        self.call = call
        rules = EventRules(
            session.options, call.events, isSafe: call.request.method.isSafe, isReplayable: call.isReplayable)
        plan = ReconnectionPlan(rules.reconnection)
        parser = EventStreamParser(lastEventID: session.lastEventID, eventLimit: rules.eventLimit)
    }

    /// The next event; `nil` when the stream has ended.
    func next(isolation: isolated (any Actor)? = #isolation) async throws -> ServerSentEvent? {
        guard !isOver, call != nil || !session.isClosed else { return nil }
        do {
            if call == nil { try await begin(session.begin()) }
            guard let call else { return nil }
            while !isEnded {
                if let event = try parser.next() {
                    if let event = accepted(event) { return event }
                    return end()
                }
                if let end = try await advance(call), try await !waits(after: end, call) { return self.end() }
            }
            return end()
        } catch {
            throw end(throwing: error)
        }
    }

    // MARK: Connections

    private enum Stop {
        /// The server announced that there are no more events (204).
        case over
        /// A connection ended. The error is thrown when no other one follows.
        case lost(ReconnectionPlan.End, NetworkError?)
    }

    /// Gets more bytes for the parser, from a new connection if there is none. Returns `nil`, or why there are no more bytes.
    private func advance(
        _ call: LiveCall, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Stop? {
        guard let body else { return try await connect(call) }
        do {
            guard let chunk = try await Self.chunk(of: body, call) else {
                if let marker = rules.endsAt, parser.unfinishedData == marker { return .over }
                return .lost(loss, unmarkedEnd(call) ?? cutEnd(call))
            }
            parser.append(chunk)
            // A body that was collected is one chunk.
            if !body.isStream { self.body = .empty }
            return nil
        } catch let error as NetworkError where error.isWorthReconnecting {
            return .lost(loss, error)
        }
    }

    /// The error of a body that ended without the end marker of its stream; `nil` for a stream that declares none. The last
    /// event may say why.
    private func unmarkedEnd(_ call: LiveCall) -> NetworkError? {
        guard let marker = rules.endsAt else { return nil }
        let last = lastData.map { "the last one was \(EventText.quoted($0))" } ?? "there were none"
        return NetworkError(
            .connectionLost,
            message:
                "the stream ended without its end marker \(EventText.quoted(marker)), so events may be missing; \(last); "
                + "reconnect, or change endsAt if the server ends without a marker",
            request: call.request, response: head)
    }

    /// The error of a body that TLS does not show to be whole; `nil` for any other end.
    private func cutEnd(_ call: LiveCall) -> NetworkError? {
        head?.cutFault("name the event that ends the stream with endsAt").map {
            NetworkError(.connectionLost, message: $0, request: call.request, response: head)
        }
    }

    private var loss: ReconnectionPlan.End { .lost(after: openedAt.duration(to: .now), hadEvents: hadEvents) }

    private static func chunk(of body: ResponseBody, _ call: LiveCall) async throws -> Data? {
        // All iterators of a stream share one position.
        var chunks = body.makeAsyncIterator()
        do {
            return try await chunks.next()
        } catch let error as NetworkError {
            throw call.failure(error)
        }
    }

    private func connect(_ call: LiveCall, isolation: isolated (any Actor)? = #isolation) async throws -> Stop? {
        session.state.send(.connecting)
        let response: HTTPResponse
        do {
            response = try await call.open(session.resumption, check: HTTPResponse.checkIsEventStream)
        } catch let error as NetworkError {
            if error.kind == .httpStatus, let status = error.response?.status {
                return .lost(.refused(status: status, retryAfter: error.retryAfter), error)
            }
            guard error.isWorthReconnecting else { throw error }
            return .lost(.failed, error)
        }
        var head = response
        head.body = .empty
        origin = ServerSentEvent.Origin(head, call.errors)
        guard response.status != 204 else { return .over }
        parser = EventStreamParser(lastEventID: session.lastEventID, eventLimit: rules.eventLimit)
        hadEvents = false
        lastData = nil
        body = response.body
        openedAt = .now
        session.state.send(.open)
        return nil
    }

    /// Waits until the next connection may be opened. Returns `false` when there is no other one.
    private func waits(
        after stop: Stop, _ call: LiveCall, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Bool {
        guard case .lost(let end, let error) = stop else { return false }
        body = nil
        noteID()
        if let retry = parser.retry { plan.serverWait = .milliseconds(min(retry, 1 << 40)) }
        guard let wait = plan.wait(after: end, chance: .random(in: 0...1)) else {
            if let error { throw error }
            return false
        }
        session.state.send(.waiting(until: .now + wait))
        try await call.wait(wait)
        return true
    }

    // MARK: Events and the end

    /// The event for the caller; `nil` for the one whose data ends the stream.
    private func accepted(_ event: ServerSentEvent) -> ServerSentEvent? {
        hadEvents = true
        noteID()
        guard event.data != rules.endsAt else { return nil }
        isEnded = event.type == rules.endsAt
        lastData = event.data
        var event = event
        event.origin = origin
        return event
    }

    private func noteID() {
        if parser.lastEventID != session.lastEventID { session.lastEventID = parser.lastEventID }
    }

    private func end() -> ServerSentEvent? {
        isOver = true
        body = nil
        call?.finish(.success(head ?? HTTPResponse(status: 204, url: call?.request.url ?? "")))
        session.close()
        return nil
    }

    private func end(throwing error: any Error) -> any Error {
        var error = error
        if let large = error as? EventStreamParser.TooLarge {
            error = NetworkError(
                .bodyTooLarge,
                message:
                    "an event or a line is larger than \(large.limit) bytes; raise eventLimit if the server is right "
                    + "to send it", request: call?.request, response: head)
        }
        isOver = true
        body = nil
        // Without a call, another loop reads the stream or the stream could not begin.
        if let call {
            noteID()
            call.finish(.failure(call.failure(error)))
            session.close()
        }
        return error
    }

    /// Forgets the last event, which was not delivered, so that a stream that continues begins with it. The loop must end.
    func takeBack(to lastEventID: String) {
        parser = EventStreamParser(lastEventID: lastEventID, eventLimit: rules.eventLimit)
        noteID()
    }

    /// Ends the loop because its events cannot be delivered.
    func fail(_ error: any Error) { if !isOver { _ = end(throwing: error) } }

    /// A loop that ends early closes its connection.
    deinit {
        guard let call, !isOver else { return }
        call.finish(
            .failure(NetworkError(.cancelled, message: "the loop over the events ended early", request: call.request)))
        session.endLoop()
    }
}
