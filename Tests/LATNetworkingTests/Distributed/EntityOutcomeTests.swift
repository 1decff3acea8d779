import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct User: Decodable, Sendable { var name: String }

private struct Refusal: Error {}

private final class Fixer: FailureResolver {
    let asked = Log<(kind: NetworkError.Kind, url: String)>()
    let verdict: @Sendable (NetworkError) throws -> Resolution

    init(_ verdict: @escaping @Sendable (NetworkError) throws -> Resolution = { _ in .replay }) {
        self.verdict = verdict
    }

    func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
        asked.append((error.kind, request.url))
        return try verdict(error)
    }
}

@Suite(.timeLimit(.minutes(1))) struct EntityOutcomeTests {
    private static let envelope = #"envelope: { code: "status", data: "data", success: [0] }"#
    private static let good = MockReply.json(#"{"status": 0, "data": {"name": "Ada"}}"#)
    private static let bad = MockReply.json(#"{"status": 7, "message": "no"}"#)

    private func start(
        _ replies: MockReply..., change: (inout CentralRequestManager.Configuration) -> Void
    ) throws -> (MockServer, CentralRequestManager) {
        let server = try MockServer()
        server.enqueue(replies)
        server.fallback { _ in Self.good }
        return (server, try CentralRequestManager.make(.make(server.url(), domain: Self.envelope), change))
    }

    // MARK: Observers

    private func name(_ outcome: CallOutcome<HTTPResponse>) -> String {
        switch outcome {
        case .success(let response): "success \(response.status)"
        case .failure(let failure, let error): "failure \(failure.code) \(error.kind)"
        case .networkError(let error): "networkError \(error.kind)"
        }
    }

    @Test func observersRunBeforeTheCallerReturns() async throws {
        let events = Log<String>()
        let (server, manager) = try start(
            Self.good, Self.bad, .status(500), .json(#"{"status": 0, "data": 5}"#),
            Self.good.announcingLength(1_000)
        ) {
            $0.outcomeObservers = [
                { outcome, _ in
                    await Task.yield()
                    events.append("1: \(name(outcome))")
                }, { outcome, _ in events.append("2: \(name(outcome))") },
            ]
        }
        for _ in 1...5 {
            do {
                _ = try await Get<User>().startRequest(on: manager)
                events.append("caller")
            } catch {
                events.append("caller")
            }
        }
        let outcomes = [
            "success 200", "failure 7 business(7)", "networkError httpStatus", "networkError decoding(data)",
            "networkError connectionLost",
        ]
        #expect(events.elements == outcomes.flatMap { ["1: \($0)", "2: \($0)", "caller"] })
        #expect(server.requestCount == 5)
    }

    @Test func observersSeeClosureCalls() async throws {
        let events = Log<String>()
        let (server, manager) = try start(Self.bad) {
            $0.outcomeObservers = [{ outcome, _ in events.append(name(outcome)) }]
        }
        for _ in 1...2 {
            let done = Event()
            Get<User>().startRequest(on: manager) { _, model, _ in
                events.append(model?.name ?? "-")
                done.happen()
            }
            await done.wait()
        }
        #expect(events.elements == ["failure 7 business(7)", "-", "success 200", "Ada"])
        #expect(server.requestCount == 2)
    }

    @Test func observersSeeCentralCalls() async throws {
        let events = Log<String>()
        let (server, manager) = try start(.status(404)) {
            $0.outcomeObservers = [{ outcome, request in events.append("\(name(outcome)) \(request.url)") }]
        }
        _ = await failure { try await manager.startRequest("GET", server.url("/a")) }
        _ = try await manager.startRequest("GET", server.url("/b"))
        #expect(
            events.elements == ["networkError httpStatus \(server.url("/a"))", "success 200 \(server.url("/b"))"])
    }

    @Test func observersGetTheRequest() async throws {
        let urls = Log<String>()
        let (server, manager) = try start(Self.bad) {
            $0.outcomeObservers = [{ _, request in urls.append(request.url) }]
        }
        _ = await failure { try await Get<User>().startRequest(on: manager) }
        _ = try await Get<User>().startRequest(on: manager)
        #expect(urls.elements == [server.url("/x"), server.url("/x")])
    }

    @Test func observersSeeCancellations() async throws {
        let events = Log<String>()
        let (server, manager) = try start(Self.good.stalling(.beforeHead), Self.good.stalling(.beforeHead)) {
            $0.outcomeObservers = [{ outcome, _ in events.append(name(outcome)) }]
        }
        let done = Event()
        let handle = Get<User>().startRequest(on: manager) { _, _, _ in done.happen() }
        try await server.waitForRequests(1)
        handle.cancel()
        await done.wait()
        #expect(events.elements == ["networkError cancelled"])
        let call = Task { try await Get<User>().startRequest(on: manager) }
        try await server.waitForRequests(2)
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        #expect(events.elements == ["networkError cancelled", "networkError cancelled"])
    }

    @Test
    func observersSeeRequestsRefusedBeforeSending() async throws {
        let events = Log<String>()
        let (_, manager) = try start { $0.outcomeObservers = [{ outcome, _ in events.append(name(outcome)) }] }
        struct Unknown: RequestEntity { static let route = Route("GET", domain: "nobody", path: "x") }
        _ = await failure { try await Unknown().startRequest(on: manager) }
        #expect(events.elements == ["networkError unknownName"])
    }

    // MARK: The resolver

    @Test func resolvedCallIsSentAgain() async throws {
        let fixer = Fixer()
        let outcomes = Log<String>()
        let (server, manager) = try start(Self.bad) {
            $0.resolver = fixer
            $0.outcomeObservers = [{ outcome, _ in outcomes.append(name(outcome)) }]
        }
        #expect(try await Get<User>().startRequest(on: manager).name == "Ada")
        #expect(server.requestCount == 2)
        #expect(fixer.asked.elements.map(\.kind) == [.business(code: "7")])
        #expect(fixer.asked.elements.map(\.url) == [server.url("/x")])
        #expect(outcomes.elements == ["success 200"])
    }

    @Test(arguments: [0, 1, 3])
    func replaysAreBounded(_ limit: Int) async throws {
        let fixer = Fixer()
        let outcomes = Log<String>()
        let (server, manager) = try start {
            $0.resolver = fixer
            $0.maxReplays = limit
            $0.outcomeObservers = [{ outcome, _ in outcomes.append(name(outcome)) }]
        }
        server.fallback { _ in Self.bad }
        let error = await failure { try await Get<User>().startRequest(on: manager) }
        #expect(error?.kind == .business(code: "7"))
        #expect(server.requestCount == limit + 1)
        #expect(fixer.asked.count == limit)
        #expect(outcomes.elements == ["failure 7 business(7)"])
    }

    @Test func failureOfTheReplayIsDelivered() async throws {
        let fixer = Fixer()
        let (server, manager) = try start(Self.bad, .status(500)) {
            $0.resolver = fixer
            $0.maxReplays = 1
        }
        let error = await failure { try await Get<User>().startRequest(on: manager) }
        #expect(error?.kind == .httpStatus)
        #expect(server.requestCount == 2)
    }

    @Test func deliverEndsTheCall() async throws {
        let fixer = Fixer { _ in .deliver }
        let (server, manager) = try start(Self.bad) {
            $0.resolver = fixer
            $0.maxReplays = 5
        }
        #expect(await failure { try await Get<User>().startRequest(on: manager) }?.kind == .business(code: "7"))
        #expect(server.requestCount == 1)
        #expect(fixer.asked.count == 1)
    }

    @Test func resolversNetworkErrorIsDelivered() async throws {
        let fixer = Fixer { _ in throw NetworkError(.other, message: "the session is over; log in") }
        let outcomes = Log<String>()
        let (server, manager) = try start(Self.bad) {
            $0.resolver = fixer
            $0.outcomeObservers = [{ outcome, _ in outcomes.append(name(outcome)) }]
        }
        let error = await failure { try await Get<User>().startRequest(on: manager) }
        #expect(error?.message == "the session is over; log in")
        #expect(server.requestCount == 1)
        #expect(outcomes.elements == ["networkError other"])
    }

    /// A call throws `NetworkError`, whatever error the app's own code throws.
    @Test func resolversOwnErrorIsTheUnderlyingError() async throws {
        let fixer = Fixer { _ in throw Refusal() }
        let outcomes = Log<String>()
        let (server, manager) = try start(Self.bad, Self.bad) {
            $0.resolver = fixer
            $0.outcomeObservers = [{ outcome, _ in outcomes.append(name(outcome)) }]
        }
        let error = await failure { try await Get<User>().startRequest(on: manager) }
        #expect(error?.underlying is Refusal)
        let done = Event()
        let errors = Log<NetworkError?>()
        Get<User>().startRequest(on: manager) { _, _, error in
            errors.append(error)
            done.happen()
        }
        await done.wait()
        #expect(errors.elements.first??.underlying is Refusal)
        #expect(outcomes.count == 2)
        #expect(server.requestCount == 2)
    }

    @Test func consumedStreamIsNotReplayed() async throws {
        let fixer = Fixer()
        let (server, manager) = try start(Self.bad) { $0.resolver = fixer }
        let chunks = AsyncStream<Data> { continuation in
            continuation.yield(Data("once".utf8))
            continuation.finish()
        }
        struct Upload: RequestEntity {
            static let route = Route("PUT", domain: "d", path: "x")
            var files: [UploadFile]
        }
        let upload = Upload(files: [UploadFile(name: "f", fileName: "f.bin", stream: chunks)])
        let error = await failure { try await upload.startRequest(on: manager) }
        #expect(error?.kind == .business(code: "7"))
        #expect(server.requestCount == 1)
        #expect(server.requests.map { $0.text.contains("once") } == [true])
        #expect(fixer.asked.count == 0)
    }

    @Test func consumedStreamIsNotRetried() async throws {
        let server = try MockServer()
        server.enqueue(.noReply)
        server.fallback { _ in .json("{}") }
        let manager = try CentralRequestManager.make(.make(server.url()))
        let chunks = AsyncStream<Data> { continuation in
            continuation.yield(Data("once".utf8))
            continuation.finish()
        }
        struct Upload: RequestEntity {
            static let route = Route("PUT", domain: "d", path: "x")
            var files: [UploadFile]
        }
        let upload = Upload(files: [UploadFile(name: "f", fileName: "f.bin", stream: chunks)])
        let error = await failure { try await upload.retries(3).startRequest(on: manager) }
        #expect(error?.kind == .connectionLost)
        #expect(server.requests.map { $0.text.contains("once") } == [true])
    }

    @Test func fileFromMemoryIsReplayed() async throws {
        struct Upload: RequestEntity {
            static let route = Route("PUT", domain: "d", path: "x")
            var files: [UploadFile] { [UploadFile(name: "f", fileName: "f.bin", data: Data("again".utf8))] }
        }
        let (server, manager) = try start(Self.bad) { $0.resolver = Fixer() }
        _ = try await Upload().startRequest(on: manager)
        #expect(server.requests.map { $0.text.contains("again") } == [true, true])
    }

    @Test func cancelledCallIsNotResolved() async throws {
        let fixer = Fixer()
        let (server, manager) = try start(Self.good.stalling(.beforeHead)) { $0.resolver = fixer }
        let done = Event()
        let handle = Get<User>().startRequest(on: manager) { _, _, _ in done.happen() }
        try await server.waitForRequests(1)
        handle.cancel()
        await done.wait()
        #expect(fixer.asked.count == 0)
        #expect(server.requestCount == 1)
    }

    @Test func resolverMayUseTheSameManager() async throws {
        struct Login: RequestEntity { static let route = Route("POST", domain: "d", path: "login") }
        struct Relogin: FailureResolver {
            let managers: Log<CentralRequestManager>
            let tokens: Log<String>
            func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
                guard error.response?.status == 401, let manager = managers.elements.first else { return .deliver }
                tokens.append(try await Login().startRequest(on: manager)["token"].string ?? "")
                return .replay
            }
        }
        let server = try MockServer()
        server.route("POST", "/login") { _ in .json(#"{"status": 0, "data": {"token": "t1"}}"#) }
        server.route("GET", "/x") { request in
            request.headers["Authorization"] == "Bearer t1" ? Self.good : .status(401)
        }
        let managers = Log<CentralRequestManager>()
        let tokens = Log<String>()
        let manager = try CentralRequestManager.make(.make(server.url(), domain: Self.envelope)) {
            $0.maxConnectionsPerHost = 1
            $0.resolver = Relogin(managers: managers, tokens: tokens)
            $0.headerProvider = { _ in tokens.elements.last.map { ["Authorization": "Bearer \($0)"] } ?? [:] }
        }
        managers.append(manager)
        defer { managers.removeAll() }
        #expect(try await Get<User>().startRequest(on: manager).name == "Ada")
        #expect(server.requests.map(\.path) == ["/x", "/login", "/x"])
    }

    @Test func centralCallIsResolved() async throws {
        let fixer = Fixer()
        let (server, manager) = try start(.status(401)) { $0.resolver = fixer }
        #expect(try await manager.startRequest("POST", server.url("/c"), parameters: ["a": 1]).status == 200)
        #expect(server.requests.map(\.text) == [#"{"a":1}"#, #"{"a":1}"#])
    }
}
