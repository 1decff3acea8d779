import LATKit
import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

private struct User: Codable, Hashable, Sendable {
    var id: Int
    var name: String
}

/// A model with explicit parameters and a hook that appends an exclamation mark to names.
private final class FetchUser: RequestModel<User> {
    var id: Int

    init(id: Int, delegate: (any RequestModelDelegate)? = nil) {
        self.id = id
        super.init(Route(server: "user.detail"), delegate: delegate)
    }

    override var parameters: Parameters? { ["id": id, "q": "x"] }
    override var options: RequestOptions { RequestOptions(headers: ["X-Model": "own"]) }

    override class func model(from reply: Reply<User>) throws -> User {
        var user = reply.model
        guard user.id < 1_000 else { throw Rejected() }
        user.name += "!"
        return user
    }

    struct Rejected: Error {}
}

/// A model whose properties are its parameters.
private final class SaveUser: RequestModel<JSONValue>, Encodable {
    let name: String
    let nickname: String?
    private enum CodingKeys: CodingKey { case name, nickname }

    init(name: String, nickname: String? = nil) {
        self.name = name
        self.nickname = nickname
        super.init(Route("POST", domain: "demo", path: "users"))
    }
}

private struct Unencodable: Encodable, Sendable {
    func encode(to encoder: any Encoder) throws { throw FetchUser.Rejected() }
}

private final class Broken: RequestModel<JSONValue> {
    override var parameters: Parameters? { ["x": Unencodable()] }
}

/// Thrown for an outcome that a test does not expect.
private struct Unexpected: Error {}

/// A delegate that logs its callbacks in order with the closures.
private final class Listener: RequestModelDelegate {
    let log: Log<String>
    private let onEvent: @Sendable () -> Void

    init(_ log: Log<String>, _ onEvent: @escaping @Sendable () -> Void = {}) {
        self.log = log
        self.onEvent = onEvent
    }

    func requestModel<Model>(_ call: RequestModel<Model>.Call, didEndWith outcome: CallOutcome<Reply<Model>>) {
        if case .success(let reply) = outcome, let user = reply.model as? User {
            log.append("delegate \(user.name)")
        } else {
            log.append("delegate")
        }
        onEvent()
    }
}

/// Collects the outcomes passed to a closure, so that a test can wait for them.
private final class Outcomes<Model: Decodable & Sendable>: Sendable {
    let log = Log<CallOutcome<Reply<Model>>>()
    private let stream = AsyncStream<CallOutcome<Reply<Model>>>.makeStream()

    var closure: RequestModel<Model>.Call.Completion {
        { [log, stream] _, outcome in
            log.append(outcome)
            stream.continuation.yield(outcome)
        }
    }

    func next() async -> CallOutcome<Reply<Model>>? {
        for await outcome in stream.stream { return outcome }
        return nil
    }
}

private func table(_ server: MockServer) throws -> DomainTable {
    try DomainTable(
        json5: """
            {
              domains: {
                demo: { baseURL: "\(server.baseURL)", headers: { "X-App": "demo" } },
                shop: { baseURL: "\(server.baseURL)/shop",
                        envelope: { code: "status", message: "message", data: "datas", success: [10000],
                                    messages: { "10001": "Token expired" } } },
              },
              servers: {
                "user.detail": { domain: "demo", path: "users/{id}", method: "GET" },
                "shop.order": { domain: "shop", path: "order", method: "POST", timeout: "20s" },
              },
            }
            """, environment: nil)
}

@Suite(.timeLimit(.minutes(1))) struct RequestModelTests {
    private let server: MockServer
    private let manager: CentralRequestManager
    private let callbacks = DispatchQueue(label: "callbacks")
    private static let mark = DispatchSpecificKey<Bool>()

    init() throws {
        let server = try MockServer()
        server.echo(path: "/users")
        server.route("GET", "/users/{id}") { .json(#"{"id": \#($0.pathParameters["id"] ?? ""), "name": "Ada"}"#) }
        self.server = server
        let table = try table(server)
        let callbacks = callbacks
        callbacks.setSpecific(key: Self.mark, value: true)
        manager = try CentralRequestManager.make {
            $0.domains = table
            $0.callbackExecutor = .queue(callbacks)
        }
    }

    @Test func closureIsCalledBeforeTheDelegate() async throws {
        let log = Log<String>()
        let isNotified = Event()
        let listener = Listener(log) { isNotified.happen() }
        FetchUser(id: 7, delegate: listener).start(on: manager) { call, outcome in
            guard case .success(let reply) = outcome else { return }
            #expect(DispatchQueue.getSpecific(key: Self.mark) == true && call.task.isFinished)
            #expect(call.route == Route(server: "user.detail"))
            log.append("closure \(reply.model.name)")
        }
        await isNotified.wait()
        await callbacks.drain()
        #expect(log.elements == ["closure Ada!", "delegate Ada!"])
        #expect(server.requests[0].path == "/users/7" && server.requests[0].query == "q=x")
        #expect(server.requests[0].headers["X-App"] == "demo" && server.requests[0].headers["X-Model"] == "own")
        withExtendedLifetime(listener) {}
    }

    @Test func propertiesAreSentAsParameters() async throws {
        let outcomes = Outcomes<JSONValue>()
        SaveUser(name: "Ada").start(on: manager, outcomes.closure)
        guard case .success(let reply)? = await outcomes.next() else { throw Unexpected() }
        #expect(reply.model["json"] == ["name": "Ada"] && reply.response.status == 200)
        #expect(server.requests[0].method == "POST")
    }

    @Test func eachReplyHasItsOutcome() async throws {
        server.enqueue(
            .json(#"{"status": 10000, "message": "", "datas": 5}"#),
            .json(#"{"status": "10001", "message": "nope", "datas": null}"#), .text("gone", status: 410))
        let order = RequestModel<Int>(Route(server: "shop.order"))
        let outcomes = Outcomes<Int>()
        order.start(on: manager, outcomes.closure)
        guard case .success(let reply)? = await outcomes.next() else { throw Unexpected() }
        #expect(reply.model == 5 && reply.envelope?.codeText == "10000")
        order.start(on: manager, outcomes.closure)
        guard case .failure(let failure, let error)? = await outcomes.next() else { throw Unexpected() }
        #expect(failure.code == "10001" && failure.message == "Token expired")
        #expect(error.response?.text?.contains("nope") == true)
        order.start(on: manager, outcomes.closure)
        guard case .networkError(let status)? = await outcomes.next() else { throw Unexpected() }
        #expect(status.kind == .httpStatus && status.response?.text == "gone")
        let closed = try ClosedPort()
        RequestModel<Int>(Route("GET", url: closed.url("/"))).start(on: manager, outcomes.closure)
        guard case .networkError(let refused)? = await outcomes.next() else { throw Unexpected() }
        #expect(refused.kind == .connect)
    }

    @Test func invalidRequestEndsWithANetworkError() async throws {
        let outcomes = Outcomes<JSONValue>()
        Broken(Route("GET", url: server.url("/"))).start(on: manager, outcomes.closure)
        guard case .networkError(let error)? = await outcomes.next() else { throw Unexpected() }
        #expect(error.kind == .invalidRequest && error.message.contains("parameter x"))
        RequestModel<JSONValue>(Route(server: "user.detial")).start(on: manager, outcomes.closure)
        guard case .networkError(let unknown)? = await outcomes.next() else { throw Unexpected() }
        #expect(unknown.kind == .unknownName && unknown.message.contains("user.detail"))
        #expect(server.requestCount == 0)
    }

    @Test func throwingModelHookKeepsTheResponse() async throws {
        let outcomes = Outcomes<User>()
        FetchUser(id: 1_000).start(on: manager, outcomes.closure)
        guard case .networkError(let error)? = await outcomes.next() else { throw Unexpected() }
        #expect(error.kind == .decoding(path: "") && error.underlying is FetchUser.Rejected)
        #expect(error.message.contains("FetchUser") && error.response?.status == 200)
    }

    @Test func callMayRestartInsideItsClosure() async throws {
        server.enqueue(.status(503), .status(503))
        let log = Log<String>()
        let keys = Log<String>()
        let done = Event()
        FetchUser(id: 1).start(on: manager) { call, outcome in
            keys.append(call.task.key)
            switch outcome {
            case .networkError(let error):
                log.append("\(error.response?.status ?? 0)")
                if keys.count < 5 { call.restart() } else { done.happen() }
            case .failure: log.append("failure")
            case .success(let reply):
                log.append(reply.model.name)
                done.happen()
            }
        }
        await done.wait()
        await callbacks.drain()
        #expect(log.elements == ["503", "503", "Ada!"] && server.requestCount == 3)
        #expect(Set(keys.elements).count == 3)
    }

    @Test func changeAfterStartAppliesToTheNextCall() async throws {
        let model = FetchUser(id: 1)
        let outcomes = Outcomes<User>()
        model.start(on: manager, outcomes.closure)
        model.id = 2
        guard case .success(let first)? = await outcomes.next() else { throw Unexpected() }
        model.start(on: manager, outcomes.closure)
        guard case .success(let second)? = await outcomes.next() else { throw Unexpected() }
        #expect(first.model.id == 1 && second.model.id == 2)
    }

    @Test func cancellingTheModelEndsEachCallOnce() async throws {
        server.enqueue(.text("never").stalling(.beforeHead), .text("never").stalling(.beforeHead))
        let model = FetchUser(id: 1)
        let outcomes = Outcomes<User>()
        model.start(on: manager, outcomes.closure)
        model.start(on: manager, outcomes.closure)
        try await server.waitForRequests(2)
        model.cancel()
        for _ in 0..<2 {
            guard case .networkError(let error)? = await outcomes.next() else { throw Unexpected() }
            #expect(error.kind == .cancelled)
        }
        model.cancel()
        await callbacks.drain()
        #expect(outcomes.log.count == 2)
    }

    @Test func cancellingOneCallLeavesTheOther() async throws {
        server.enqueue(.text("never").stalling(.beforeHead))
        let model = FetchUser(id: 1)
        let outcomes = Outcomes<User>()
        let stalled = model.start(on: manager, outcomes.closure)
        try await server.waitForRequests(1)
        model.start(on: manager, outcomes.closure)
        guard case .success? = await outcomes.next() else { throw Unexpected() }
        stalled.cancel()
        guard case .networkError(let error)? = await outcomes.next() else { throw Unexpected() }
        #expect(error.kind == .cancelled && outcomes.log.count == 2)
    }

    @Test func callOutlivesModelAndDelegate() async throws {
        let mayAnswer = DispatchSemaphore(value: 0)
        server.route("GET", "/users/{id}") { _ in
            mayAnswer.wait()
            return .json(#"{"id": 1, "name": "Ada"}"#)
        }
        let log = Log<String>()
        weak var model: FetchUser?
        weak var listener: Listener?
        let outcomes = Outcomes<User>()
        do {
            let delegate = Listener(log)
            let fetch = FetchUser(id: 1, delegate: delegate)
            (model, listener) = (fetch, delegate)
            fetch.start(on: manager, outcomes.closure)
        }
        #expect(model == nil && listener == nil)
        mayAnswer.signal()
        guard case .success? = await outcomes.next() else { throw Unexpected() }
        await callbacks.drain()
        #expect(log.elements.isEmpty)
    }

    @Test func closureIsReleasedAfterTheCall() async throws {
        let isReleased = Event()
        var model: FetchUser? = FetchUser(id: 1)
        do {
            let sentinel = Sentinel { isReleased.happen() }
            model?.start(on: manager) { _, _ in withExtendedLifetime(sentinel) {} }
        }
        await isReleased.wait()
        model = nil
    }
}

@Suite(.timeLimit(.minutes(1))) struct ServerCallTests {
    private let server: MockServer
    private let manager: CentralRequestManager

    init() throws {
        let server = try MockServer()
        self.server = server
        let table = try table(server)
        manager = try CentralRequestManager.make { $0.domains = table }
    }

    @Test func rowIsCalledByName() async throws {
        server.enqueue(.json(#"{"id": 42, "name": "Ada"}"#), .json(#"{"id": 43, "name": "Ada"}"#))
        let reply = try await manager.startRequest(
            server: "user.detail", parameters: ["id": 42, "q": "a b"], headers: ["X-App": nil, "X-Two": "2"])
        #expect(reply.model["name"].string == "Ada" && reply.response.status == 200 && reply.envelope == nil)
        #expect(server.requests[0].path == "/users/42" && server.requests[0].query == "q=a%20b")
        #expect(server.requests[0].headers["X-App"] == nil && server.requests[0].headers["X-Two"] == "2")
        let user = try await manager.startRequest(server: "user.detail", parameters: ["id": 43], as: User.self).model
        #expect(user == User(id: 43, name: "Ada"))
    }

    @Test func domainsEnvelopeIsApplied() async throws {
        server.enqueue(
            .json(#"{"status": 10000, "datas": [1, 2]}"#), .json(#"{"status": 7, "message": "sold out"}"#))
        let reply = try await manager.startRequest(server: "shop.order", parameters: ["item": "tea", "count": 3])
        #expect(reply.model == [1, 2] && reply.envelope?.code == 10000)
        #expect(server.requests[0].method == "POST" && server.requests[0].text == #"{"count":3,"item":"tea"}"#)
        let error = await failure { try await manager.startRequest(server: "shop.order") }
        #expect(error?.kind == .business(code: "7") && error?.businessFailure?.message == "sold out")
    }

    @Test func invalidCallIsNotSent() async throws {
        let unknown = await failure { try await manager.startRequest(server: "user.detial", parameters: ["id": 1]) }
        #expect(unknown?.kind == .unknownName)
        let unset = await failure { try await manager.startRequest(server: "user.detail") }
        #expect(unset?.kind == .invalidRequest && unset?.message.contains("{id}") == true)
        let broken = await failure {
            try await manager.startRequest(server: "shop.order", parameters: ["x": Unencodable()])
        }
        #expect(broken?.kind == .invalidRequest)
        let bare = try CentralRequestManager.make()
        let tableless = await failure { try await bare.startRequest(server: "user.detail") }
        #expect(tableless?.kind == .unknownName)
        #expect(server.requestCount == 0)
    }

    @Test func callsTimeoutWinsOverTheRows() async throws {
        server.enqueue(.text("never").stalling(.beforeHead))
        let error = await failure {
            try await manager.startRequest(server: "shop.order", timeout: .milliseconds(100))
        }
        #expect(error?.kind == .timeout(.total))
    }
}
