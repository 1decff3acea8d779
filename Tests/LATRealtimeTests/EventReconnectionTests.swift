import FoundationEssentials
import HTTPCore
import LATRealtime
import LATTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(2))) struct EventReconnectionTests {
    private let again = EventOptions(reconnection: .quick)

    private func ids(_ server: MockServer) -> [String?] { server.requests.map { $0.headers["Last-Event-ID"] } }

    @Test func lostStreamGoesOnAfterTheLastEvent() async throws {
        let server = try MockServer()
        server.enqueue(
            .events(.event("a", id: "1"), .event("b", id: "2"), .cut),
            .events(.text("id: 3\ndata: half"), .reset),
            .events(.event("c", id: "3")), .events(.event("d"), .event("e", id: "4"), .text("id: 9\n")),
            .events(.text("id: 5\n\n")), .status(204))
        let stream = try CentralRequestManager.make().events(server.url(), options: again)
        #expect(try await stream.all().map(\.data) == ["a", "b", "c", "d", "e"])
        #expect(ids(server) == [nil, "2", "2", "3", "4", "5"])
    }

    @Test func withoutReconnectionNothingIsOpenedAgain() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .cut) }
        let manager = try CentralRequestManager.make { $0.retries = 3 }
        let (data, error) = await manager.events(server.url()).outcome()
        #expect(data == ["a"])
        #expect(error?.kind == .connectionLost)
        #expect(server.requestCount == 1)
    }

    @Test func postIsSentAgainOnlyWhenTheCallSaysSo() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .cut) }
        let manager = try CentralRequestManager.make(
            server.baseURL, domain: #"events: { reconnect: true, firstWait: "1ms", longestWait: "2ms", attempts: 2 }"#)
        let post = Route("POST", domain: "d", path: "ask")
        #expect(await manager.events(post).outcome().error?.kind == .connectionLost)
        #expect(server.requestCount == 1)
        server.enqueue(.events(.event("a"), .cut), .events(.event("b")), .status(204))
        let stream = manager.events(post, parameters: ["q": "x"], options: again)
        #expect(try await stream.all().map(\.data) == ["a", "b"])
        #expect(server.requests.suffix(3).map(\.text) == [#"{"q":"x"}"#, #"{"q":"x"}"#, #"{"q":"x"}"#])
    }

    @Test func rowsReconnectionAppliesToGet() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make(
            server.baseURL, domain: #"events: { firstWait: "1ms", longestWait: "2ms", statuses: [503] }"#,
            servers:
                #"feed: { domain: "d", path: "feed", method: "GET", events: { reconnect: true, endsAt: "[DONE]" } }"#)
        server.enqueue(
            .events(.event("a"), .cut), .status(503), .events(.event("b")), .events(.event("[DONE]"), .stall))
        #expect(try await manager.events(server: "feed").all().map(\.data) == ["a", "b"])
        #expect(server.requestCount == 4)
        // The call's own choice wins.
        server.enqueue(.events(.event("a"), .cut))
        let never = EventOptions(reconnection: .never)
        #expect(await manager.events(server: "feed", options: never).outcome().error?.kind == .connectionLost)
    }

    @Test func explainShowsTheRowsEvents() throws {
        let table = try DomainTable(
            json5: """
                {
                  domains: { d: { baseURL: "http://a.example",
                    events: { reconnect: true, firstWait: "2s", statuses: [503, 429] } } },
                  servers: { feed: { domain: "d", path: "feed",
                    events: { attempts: 5, endsAt: "[DONE]", eventLimit: 4096, longestWait: "10s" } } },
                }
                """, environment: nil)
        let lines = table.explain("feed").split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
        for line in [
            "events.reconnect true", "events.firstWait 2s", "events.longestWait 10s", "events.attempts 5",
            "events.statuses 429, 503", "events.endsAt \"[DONE]\"", "events.eventLimit 4096",
        ] {
            #expect(lines.contains { $0.hasPrefix(line + " ") }, "\(line) in \(lines)")
        }
    }

    @Test func onlyListedStatusesReconnect() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        server.enqueue(.events(.event("a"), .cut), .status(500))
        let (data, error) = await manager.events(server.url(), options: again).outcome()
        #expect(data == ["a"])
        #expect(error?.kind == .httpStatus)
        server.enqueue(
            .status(503).header("Retry-After", "0"), .status(502), .events(.event("b")),
            .status(503).header("Retry-After", "9"))
        var options = again
        options.reconnection?.statuses = [502, 503]
        let (later, refusal) = await manager.events(server.url(), options: options).outcome()
        #expect(later == ["b"])
        // The server asks for a longer wait than the longest.
        #expect(refusal?.response?.status == 503)
        #expect(server.queuedReplies == 0)
    }

    @Test func attemptsInARowAreCounted() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.comment(), .cut) }
        var options = again
        options.reconnection?.attempts = 3
        let stream = try CentralRequestManager.make().events(server.url(), options: options)
        #expect(await stream.outcome().error?.kind == .connectionLost)
        #expect(server.requestCount == 4)
    }

    @Test func serverThatIsBackIsFound() async throws {
        let port = try ReservedPort()
        let server = try MockServer(port: port.port)
        server.enqueue(.events(.event("a", id: "1"), .stall))
        let stream = try CentralRequestManager.make().events(server.url(), options: again)
        let states = Log<LiveState>()
        let watching = Task { for await state in stream.states { states.append(state) } }
        let seen = Log<String>()
        let reading = Task {
            for try await event in stream {
                seen.append(event.data)
                if event.data == "b" { return }
            }
        }
        try await eventually { seen.count == 1 }
        server.stop()
        try await eventually { states.elements.contains { if case .waiting = $0 { true } else { false } } }
        let second = try MockServer(port: port.port) { _ in .events(.event("b", id: "2"), .stall) }
        try await reading.value
        #expect(second.requests.last?.headers["Last-Event-ID"] == "1")
        watching.cancel()
    }

    @Test func retryOfTheServerIsTheWait() async throws {
        let server = try MockServer()
        server.enqueue(.events(.retry(milliseconds: 0), .event("a")), .events(.event("b")), .status(204))
        // Without the server's `retry` the wait would be minutes.
        let options = EventOptions(reconnection: Reconnection(firstWait: .seconds(600), longestWait: .seconds(3_600)))
        let stream = try CentralRequestManager.make().events(server.url(), options: options)
        // The second connection says nothing, so the wait of the first holds.
        #expect(try await stream.all().map(\.data) == ["a", "b"])
    }

    @Test func idThatNoFieldCanCarryIsLeftOut() async throws {
        let server = try MockServer()
        server.enqueue(
            .events(.event("a", id: "x\u{1}y"), .cut), .events(.event("b", id: "ü"), .cut), .status(204))
        let stream = try CentralRequestManager.make().events(server.url(), options: again)
        #expect(try await stream.all().map(\.data) == ["a", "b"])
        #expect(ids(server) == [nil, nil, "ü"])
        #expect(stream.lastEventID == "ü")
    }

    @Test func oneShotBodyIsNotSentAgain() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .cut) }
        let chunks = AsyncStream<Data> { continuation in
            continuation.yield(Data("x".utf8))
            continuation.finish()
        }
        let stream = try CentralRequestManager.make().events(
            "POST", server.url(), body: .stream(chunks, contentType: "text/plain"), options: again)
        #expect(await stream.outcome().error?.kind == .connectionLost)
        #expect(server.requestCount == 1)
    }

    @Test func tokenIsRenewedWhenTheStreamIsOpenedAgain() async throws {
        let server = try MockServer()
        let valid = Mutex("one")
        server.route("GET", "/events") { request in
            guard request.headers["Authorization"] == "Bearer " + valid.withLock(\.self) else { return .status(401) }
            return .events(.event(valid.withLock(\.self)), .cut)
        }
        let manager = try CentralRequestManager.make {
            $0.authenticator = Renewing(source: { valid.withLock(\.self) })
        }
        let seen = Log<String>()
        let stream = manager.events(server.url("/events"), options: again)
        for try await event in stream {
            seen.append(event.data)
            if seen.count == 3 { break }
            // The server forgets the token, so the next connection is refused once.
            valid.withLock { $0 = seen.count == 1 ? "two" : "three" }
        }
        #expect(seen.elements == ["one", "two", "three"])
    }

    private final class Renewing: Authenticator {
        private let token = Mutex<String?>(nil)
        private let source: @Sendable () -> String

        init(source: @escaping @Sendable () -> String) { self.source = source }

        func apply(to request: inout HTTPRequest) async throws {
            let known = token.withLock { token in
                let known = token ?? source()
                token = known
                return known
            }
            request.headers["Authorization"] = "Bearer \(known)"
        }

        func refresh() async throws { token.withLock { $0 = source() } }
    }

    @Test func privateAddressesAreBlockedAtOnce() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.blocksPrivateAddresses = true }
        let (_, error) = await manager.events(server.url(), options: again).outcome()
        guard case .addressBlocked? = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func cookiesAndHeadersAreThoseOfEachConnection() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .cut).header("Set-Cookie", "seen=1"), .events(.event("b")), .status(204))
        let count = Mutex(0)
        let manager = try CentralRequestManager.make {
            $0.cookies = .memory
            $0.immediateHeaderProvider = { _ in
                ["X-Count": "\(count.withLock { count in count += 1; return count })"]
            }
        }
        _ = try await manager.events(server.url(), options: again).all()
        #expect(server.requests.map { $0.headers["Cookie"] } == [nil, "seen=1", "seen=1"])
        #expect(server.requests.map { $0.headers["X-Count"] } == ["1", "2", "3"])
    }

    // MARK: Cancelling

    @Test func cancelRequestsEndsOpenAndWaitingStreams() async throws {
        let server = try MockServer()
        server.route("GET", "/open") { _ in .events(.event("a"), .stall) }
        server.route("GET", "/lost") { _ in .events(.event("a")) }
        let manager = try CentralRequestManager.make()
        let slow = EventOptions(reconnection: Reconnection(firstWait: .seconds(3_000), longestWait: .seconds(3_000)))
        for (path, selection) in [
            ("/open", RequestSelection.url(server.url("/open"))), ("/open", .tag("live")), ("/lost", .tag("live")),
            ("/lost", .all),
        ] {
            let seen = Log<String>()
            let stream = manager.events("GET", server.url(path), tag: "live", options: slow)
            let reading = Task { () -> NetworkError? in
                do {
                    for try await event in stream { seen.append(event.data) }
                } catch {
                    return error as? NetworkError
                }
                return nil
            }
            try await eventually {
                if case .waiting = stream.state { return path == "/lost" }
                return path == "/open" && seen.count == 1
            }
            #expect(manager.cancelRequests(selection) == 1)
            #expect(await reading.value?.kind == .cancelled)
            #expect(manager.runningRequests() == 0)
            #expect(stream.state == .closed)
        }
        try await server.waitUntilIdle()
    }

    @Test func firstIDThatCannotBeSentIsAnError() async throws {
        let server = try MockServer()
        let stream = try CentralRequestManager.make().events(server.url(), options: EventOptions(lastEventID: "a\nb"))
        #expect(await stream.outcome().error?.kind == .invalidRequest)
        #expect(server.requestCount == 0 && stream.state == .closed)
    }

    @Test func negativeLimitIsAnError() async throws {
        let stream = try CentralRequestManager.make().events(
            "http://127.0.0.1:9/", options: EventOptions(eventLimit: -1))
        #expect(await stream.outcome().error?.message == "eventLimit is -1; give 0 or more")
    }

    /// Events that follow the last one may be missing.
    @Test func streamThatTLSDoesNotEndIsLost() async throws {
        struct Cut: Transport {
            func send(_ request: HTTPRequest) async throws -> HTTPResponse {
                var response = HTTPResponse(
                    status: 200, body: ResponseBody(Data("data: a\n\n".utf8)), url: request.url)
                response.headers = ["Content-Type": "text/event-stream"]
                response.bodyEnd = BodyEnd()
                return response
            }
        }
        let manager = try CentralRequestManager.make { $0.transport = Cut() }
        let once = await manager.events("https://h.test/").outcome()
        #expect(once.data == ["a"] && once.error?.kind == .connectionLost)
        #expect(once.error?.message.contains("close_notify") == true)
        let marked = await manager.events("https://h.test/", options: EventOptions(endsAt: "a")).outcome()
        #expect(marked.data.isEmpty && marked.error == nil)
    }

    @Test func statesAreReported() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .cut), .status(204))
        let stream = try CentralRequestManager.make().events(
            server.url(), options: EventOptions(reconnection: Reconnection(firstWait: .milliseconds(100))))
        #expect(stream.state == .idle)
        var states: [LiveState] = []
        var iterator = stream.makeAsyncIterator()
        _ = try await iterator.next()
        states.append(stream.state)
        #expect(try await iterator.next() == nil)
        states.append(stream.state)
        #expect(states == [.open, .closed])
        // The states of a closed stream are its last.
        for await state in stream.states { #expect(state == .closed) }
    }
}
