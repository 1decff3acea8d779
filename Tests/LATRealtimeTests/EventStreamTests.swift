import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(2))) struct EventStreamTests {
    private struct Token: Decodable, Sendable, Equatable {
        var text: String
    }

    // MARK: Reading

    @Test func eventsArriveInOrder() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("one", id: "1"), .comment("alive"), .event("two\nlines", type: "note", id: "2")))
        let stream = try CentralRequestManager.make().events("GET", server.url())
        let events = try await stream.all()
        #expect(
            events == [
                ServerSentEvent(data: "one", id: "1"), ServerSentEvent(type: "note", data: "two\nlines", id: "2"),
            ])
        #expect(stream.state == .closed)
        #expect(stream.lastEventID == "2")
        // A stream that has ended gives no more events and sends no more requests.
        #expect(try await stream.all() == [])
        #expect(server.requestCount == 1)
    }

    @Test func eventIsDeliveredBeforeTheNextOneIsSent() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("one"), .stall))
        let stream = try CentralRequestManager.make().events(server.url())
        var iterator = stream.makeAsyncIterator()
        #expect(try await iterator.next()?.data == "one")
        #expect(stream.state == .open)
    }

    @Test func requestAsksForAnEventStream() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("x")) }
        let manager = try CentralRequestManager.make { $0.headers = ["X-App": "7", "Accept": "application/json"] }
        _ = try await manager.events(
            "POST", server.url(), body: .json(["a": 1]), headers: ["X-Own": "1"],
            options: EventOptions(lastEventID: "9")
        ).all()
        let request = try #require(server.requests.first)
        #expect(request.method == "POST")
        #expect(request.headers["Accept"] == "text/event-stream")
        #expect(request.headers["Cache-Control"] == "no-cache")
        #expect(request.headers["Last-Event-ID"] == "9")
        #expect(request.headers["X-App"] == "7" && request.headers["X-Own"] == "1")
        #expect(request.text == #"{"a":1}"#)
        _ = try await manager.events("GET", server.url(), headers: ["Accept": "text/plain", "Cache-Control": nil]).all()
        #expect(server.requests[1].headers["Accept"] == "text/plain")
        #expect(!server.requests[1].headers.contains("Cache-Control"))
        #expect(!server.requests[1].headers.contains("Last-Event-ID"))
    }

    @Test func everyFormReadsTheStream() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("x")) }
        let manager = try CentralRequestManager.make(
            server.baseURL, servers: #"feed: { domain: "d", path: "feed/{id}", method: "GET" }"#)
        let url = try #require(URL(string: server.url("/url")))
        let streams = [
            manager.events(server.url("/text")), manager.events("GET", url),
            manager.events(HTTPRequest("GET", server.url("/request"))),
            manager.events(Route("GET", domain: "d", path: "path"), headers: ["X-Own": "1"]),
            manager.events(server: "feed", parameters: ["id": 7]),
            Feed(id: 8).events(on: manager), Feed(id: 9).timeout(.seconds(30)).events(on: manager),
        ]
        for stream in streams { #expect(try await stream.all().map(\.data) == ["x"]) }
        #expect(
            server.requests.map(\.path) == ["/text", "/url", "/request", "/path", "/feed/7", "/feed/8", "/feed/9"])
        #expect(server.requests.allSatisfy { $0.headers["Accept"] == "text/event-stream" })
        #expect(server.requests[3].headers["X-Own"] == "1")
    }

    private struct Feed: RequestEntity, Encodable {
        static let route = Route(server: "feed")
        var id: Int
    }

    // MARK: Decoding

    @Test func eventsAreDecodedWithTheDomainsCoding() async throws {
        struct Tick: Decodable, Sendable, Equatable {
            var lastPrice: Int
            var at: Date
        }
        let server = try MockServer()
        server.fallback { _ in
            .events(
                .event(#"{"last_price": 3, "at": 60}"#, type: "tick"), .event("{}", type: "ping"),
                .event("[DONE]"), .event("after"))
        }
        let manager = try CentralRequestManager.make(
            server.baseURL, domain: #"keys: "snakeCase", dates: "unixSeconds""#,
            servers: #"feed: { domain: "d", path: "feed/{id}", method: "GET" }"#)
        let tick = Tick(lastPrice: 3, at: Date(timeIntervalSince1970: 60))
        let options = EventOptions(endsAt: "[DONE]")
        let ticks = Feed(id: 1).events(of: Tick.self, type: "tick", on: manager, options: options)
        #expect(try await ticks.all() == [tick])
        for try await event in Feed(id: 1).events(on: manager, options: options) where event.type == "tick" {
            #expect(try event.decode(Tick.self) == tick)
        }
    }

    @Test func undecodableEventNamesTheEventAndThePlace() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event(#"{"text": "a"}"#), .event(#"{"text": 1}"#, type: "delta"), .stall))
        let stream = try CentralRequestManager.make().events(server.url()).decoded(as: Token.self)
        let tokens = Log<Token>()
        let error = await #expect(throws: NetworkError.self) {
            for try await token in stream { tokens.append(token) }
        }
        #expect(tokens.elements == [Token(text: "a")])
        #expect(error?.kind == .decoding(path: "text"))
        #expect(error?.message.hasPrefix(#"the data of the event "delta" is not Token at text:"#) == true)
        #expect(stream.state == .closed)
        try await server.waitUntilDisconnected()
    }

    @Test func errorInAnEventIsInTheError() async throws {
        let failure = #"{"error": {"code": "overloaded"}}"#
        let server = try MockServer()
        server.enqueue(.events(.event(#"{"text": "a"}"#), .event(failure, type: "error")))
        let stream = try CentralRequestManager.make().events(server.url("/chat")).decoded(as: Token.self)
        let error = await #expect(throws: NetworkError.self) { try await stream.all() }
        #expect(error?.kind == .business(code: "overloaded") && error?.businessFailure?.code == "overloaded")
        #expect(error?.response?.status == 200 && error?.response?.text == failure)
        #expect(try error?.response?.json()["error"]["code"].string == "overloaded")
        #expect(error?.message.contains(#""overloaded""#) == true)
    }

    @Test(arguments: [0, 1, 2]) func streamWithoutItsEndMarkerIsLost(ending: Int) async throws {
        let steps: [MockReply.EventStep] = [[], [.event("a")], [.event("a"), .text("data: [DON")]][ending]
        let server = try MockServer()
        server.fallback { _ in .events(steps) }
        let manager = try CentralRequestManager.make(
            server.baseURL,
            servers: #"feed: { domain: "d", path: "feed", method: "GET", events: { endsAt: "[DONE]" } }"#)
        let options = EventOptions(endsAt: "[DONE]")
        for stream in [manager.events(server.url(), options: options), manager.events(server: "feed")] {
            let (data, error) = await stream.outcome()
            #expect(data == (ending == 0 ? [] : ["a"]))
            #expect(error?.kind == .connectionLost && error?.message.contains("[DONE]") == true)
            #expect(stream.state == .closed)
        }
        // With reconnection it is opened again.
        let again = EventOptions(reconnection: .quick, endsAt: "[DONE]")
        server.enqueue(.events(steps), .events(.event("b"), .event("[DONE]"), .stall))
        #expect(try await manager.events(server.url(), options: again).all().map(\.data).last == "b")
        // A 204 says that there is nothing more.
        server.enqueue(.events(steps), .status(204))
        #expect(try await manager.events(server.url(), options: again).all().count == (ending == 0 ? 0 : 1))
    }

    @Test func compressionIsNotOfferedToAProxy() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("x")) }
        let manager = try CentralRequestManager.make()
        #expect(try await manager.events(server.url()).all().map(\.data) == ["x"])
        #expect(server.requests[0].headers["Accept-Encoding"] == "identity")
        server.enqueue(
            MockReply(
                headers: ["Content-Type": "text/event-stream", "Content-Encoding": "gzip"], body: .bytes(Data("x".utf8))
            ))
        let error = await manager.events(server.url()).outcome().error
        #expect(error?.kind == .protocolViolation && error?.message.contains("compressed") == true)
    }

    @Test func endOfTheStreamIsNotDelivered() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .event("[DONE]", id: "8"), .event("after"), .stall))
        let stream = try CentralRequestManager.make().events(server.url(), options: EventOptions(endsAt: "[DONE]"))
        #expect(try await stream.all().map(\.data) == ["a"])
        #expect(stream.lastEventID == "8")
        try await server.waitUntilDisconnected()
    }

    @Test func typeOfTheLastEventEndsTheStream() async throws {
        let server = try MockServer()
        let end = MockReply.EventStep.event("{}", type: "message_stop", id: "8")
        server.enqueue(.events(.event("a"), end, .event("after"), .stall))
        let options = EventOptions(reconnection: .quick, endsAt: "message_stop")
        let stream = try CentralRequestManager.make().events(server.url(), options: options)
        #expect(try await stream.all().map(\.data) == ["a", "{}"])
        #expect(stream.lastEventID == "8" && stream.state == .closed)
        try await server.waitUntilDisconnected()
        // An event that was not ended may be cut.
        server.enqueue(.events(.event("a"), .text("event: message_stop\ndata: {}\n")))
        let cut = try CentralRequestManager.make().events(server.url(), options: EventOptions(endsAt: "message_stop"))
        let (data, error) = await cut.outcome()
        #expect(data == ["a"] && error?.kind == .connectionLost)
    }

    // MARK: What is no event stream

    @Test func otherStatusesAndMediaTypesAreErrors() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        for status in [201, 202, 205, 206, 400, 404, 500, 503] {
            server.enqueue(.text("no", status: status))
            let (_, error) = await manager.events(server.url()).outcome()
            #expect(error?.kind == .httpStatus, "\(status)")
            #expect(error?.response?.status == status)
        }
        for type in ["text/html; charset=utf-8", "application/json", "text/event-streams", "text", ""] {
            server.enqueue(.data(Data("data: x\n\n".utf8), contentType: type))
            let (data, error) = await manager.events(server.url()).outcome()
            #expect(error?.kind == .protocolViolation, "\(type)")
            #expect(error?.message.contains("not with text/event-stream") == true)
            #expect(data.isEmpty)
        }
        server.enqueue(MockReply(body: .bytes(Data("data: x\n\n".utf8))))
        #expect(await manager.events(server.url()).outcome().error?.message.contains("no Content-Type") == true)
        for type in ["text/event-stream", "text/event-stream; charset=UTF-8", "Text/Event-Stream ;x=y"] {
            server.enqueue(.data(Data("data: x\n\n".utf8), contentType: type))
            #expect(await manager.events(server.url()).outcome().data == ["x"], "\(type)")
        }
    }

    @Test func wrongMediaTypeClosesTheConnection() async throws {
        let server = try MockServer()
        server.enqueue(.text("endless").stalling(.afterBodyBytes(2)))
        let (_, error) = await (try CentralRequestManager.make()).events(server.url()).outcome()
        #expect(error?.kind == .protocolViolation)
        try await server.waitUntilDisconnected()
    }

    @Test func noContentEndsTheStream() async throws {
        let server = try MockServer()
        server.enqueue(.status(204))
        let options = EventOptions(reconnection: .quick)
        let stream = try CentralRequestManager.make().events(server.url(), options: options)
        #expect(try await stream.all() == [])
        #expect(server.requestCount == 1)
        #expect(stream.state == .closed)
    }

    @Test func redirectsAreFollowed() async throws {
        let server = try MockServer()
        server.route("GET", "/old") { _ in .redirect(to: "/new", status: 307) }
        server.route("GET", "/new") { _ in .events(.event("x")) }
        let events = try await CentralRequestManager.make().events(server.url("/old")).all()
        #expect(events.map(\.data) == ["x"])
        #expect(server.requests[1].headers["Accept"] == "text/event-stream")
    }

    @Test func invalidRequestThrowsAndCloses() async throws {
        let manager = try CentralRequestManager.make()
        let stream = manager.events(server: "nowhere")
        #expect(await stream.outcome().error?.kind == .unknownName)
        #expect(stream.state == .closed)
    }

    @Test func sealedManagerRefuses() async throws {
        struct Plain: Sealer {
            func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
                SealedRequest(method: request.method, target: "/", body: body)
            }
            func open(
                _ body: Data, of response: HTTPResponse, to sealed: SealedRequest
            ) async throws -> OpenedReply? { nil }
        }
        let server = try MockServer()
        server.fallback { _ in .events(.event("x")) }
        let manager = try CentralRequestManager.make { $0.sealer = Plain() }
        let (_, error) = await manager.events(server.url()).outcome()
        #expect(error?.kind == .invalidRequest)
        var open = HTTPRequest("GET", server.url())
        open.sealing = .unsealed
        #expect(await manager.events(open).outcome().data == ["x"])
    }

    // MARK: Limits

    @Test func tooLargeEventEndsTheStream() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("small"), .event(String(repeating: "x", count: 2_000)), .stall))
        let stream = try CentralRequestManager.make().events(server.url(), options: EventOptions(eventLimit: 1_000))
        let (data, error) = await stream.outcome()
        #expect(data == ["small"])
        #expect(error?.kind == .bodyTooLarge)
        #expect(error?.message.contains("1000 bytes; raise eventLimit") == true)
        try await server.waitUntilDisconnected()
    }

    @Test func commentsRestartTheIdleTimeout() async throws {
        let server = try MockServer()
        let alive = (0..<60).flatMap { _ in [MockReply.EventStep.wait(.milliseconds(50)), .comment()] }
        server.enqueue(.events(alive + [.event("x"), .stall]))
        var request = HTTPRequest("GET", server.url())
        request.idleTimeout = .seconds(2)
        let (data, error) = await (try CentralRequestManager.make()).events(request).outcome()
        #expect(data == ["x"])
        #expect(error?.kind == .timeout(.idle))
    }

    @Test func rowsTotalTimeoutDoesNotApplyAndOwnDoes() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .wait(.milliseconds(700)), .event("b")))
        server.fallback { _ in .events(.event("a"), .stall) }
        let manager = try CentralRequestManager.make(server.baseURL, domain: #"timeout: "200ms""#) {
            $0.timeout = .milliseconds(200)
            $0.deadline = .milliseconds(300)
        }
        let route = Route("GET", domain: "d", path: "x")
        #expect(await manager.events(route).outcome().data == ["a", "b"])
        let (data, error) = await EntityCall(route).timeout(.seconds(2)).events(on: manager).outcome()
        #expect(data == ["a"])
        #expect(error?.kind == .timeout(.total))
        var request = HTTPRequest("GET", server.url())
        request.deadline = .milliseconds(200)
        #expect(await manager.events(request).outcome().error?.kind == .timeout(.deadline))
    }

    /// 64 MiB of events wait at the server while nobody reads.
    @Test func slowReaderMakesTheServerWait() async throws {
        let server = try MockServer()
        let count = 32_768
        let event = String(repeating: "x", count: 2_040)
        server.enqueue(.events(.repeated([.event(event)], count: count)))
        let stream = try CentralRequestManager.make().events(server.url())
        var iterator = stream.makeAsyncIterator()
        #expect(try await iterator.next()?.data == event)
        // The server has stopped when it sends nothing for a while.
        var (last, still) = (server.sentBytes, 0)
        try await eventually {
            try await Task.sleep(for: .milliseconds(10))
            still = server.sentBytes == last ? still + 1 : 0
            last = server.sentBytes
            return still == 20
        }
        #expect(last < 24 << 20)
        var read = 1
        while try await iterator.next() != nil { read += 1 }
        #expect(read == count)
    }

    // MARK: Ends

    @Test func leavingTheLoopClosesTheConnection() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a", id: "5"), .event("b", id: "6"), .stall) }
        let manager = try CentralRequestManager.make()
        let stream = manager.events(server.url())
        for try await event in stream where event.data == "a" { break }
        try await server.waitUntilDisconnected()
        #expect(stream.state == .idle)
        #expect(manager.runningRequests(.all) == 0)
        // Another loop goes on after the event that was read last.
        for try await event in stream where event.data == "b" { break }
        #expect(server.requests.map { $0.headers["Last-Event-ID"] } == [nil, "5"])
    }

    @Test func twoLoopsAtOnceAreRefused() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .event("b"), .stall) }
        let stream = try CentralRequestManager.make().events(server.url())
        var iterator = stream.makeAsyncIterator()
        #expect(try await iterator.next()?.data == "a")
        let (_, error) = await stream.outcome()
        #expect(error?.kind == .invalidRequest)
        // The first goes on.
        #expect(try await iterator.next()?.data == "b")
        #expect(stream.state == .open)
    }

    @Test func cancelledTaskThrowsCancellationError() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .stall))
        let stream = try CentralRequestManager.make().events(server.url())
        let seen = Log<String>()
        let reading = Task {
            for try await event in stream { seen.append(event.data) }
        }
        try await eventually { seen.count == 1 }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        try await server.waitUntilDisconnected()
        #expect(stream.state == .closed)
    }

    @Test func lostConnectionDropsTheUnfinishedEvent() async throws {
        let server = try MockServer()
        for end in [MockReply.EventStep.cut, .reset] {
            server.enqueue(.events(.event("a", id: "1"), .text("id: 2\ndata: half"), end))
            let stream = try CentralRequestManager.make().events(server.url())
            let (data, error) = await stream.outcome()
            #expect(data == ["a"])
            #expect(error?.kind == .connectionLost, "\(end)")
            #expect(stream.lastEventID == "1")
        }
    }

    @Test func managerLeavesNothingBehind() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .stall) }
        let manager = try CentralRequestManager.make()
        for _ in 0..<5 {
            for try await _ in manager.events(server.url()) { break }
        }
        try await server.waitUntilDisconnected()
        #expect(await manager.gauges?.sockets == 0)
        var iterator = manager.events(server.url()).makeAsyncIterator()
        #expect(try await iterator.next()?.data == "a")
        await manager.shutdown()
        let gauges = try #require(await manager.gauges)
        #expect(gauges.sockets == 0 && gauges.easyHandles == 0)
        let error = await #expect(throws: NetworkError.self) { try await iterator.next() }
        #expect(error?.kind == .shutDown)
    }
}
