import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct User: Codable, Equatable, Sendable {
    let id: Int
    let name: String
}

private struct FetchUser: RequestEntity, Encodable {
    typealias Model = User
    static let route = Route("GET", server: "user.detail")
    var id: Int
}

/// A type that was declared without requests in mind.
private final class LegacyModel {
    var title = "old"
}

extension LegacyModel: RequestEntity { static let route = Route("POST", domain: "daxiang", path: "save") }

private final class LegacyForm: Encodable {
    var title = "old"
    var note: String?
}

extension LegacyForm: RequestEntity { static let route = Route("POST", domain: "daxiang", path: "save") }

private final class Search: RequestEntity, Encodable {
    static let route = Route("GET", domain: "daxiang", path: "search")
    var text: String
    init(text: String) { self.text = text }
}

private enum Orders: RequestEntity {
    case page(Int)
    case recent
    static let route = Route("GET", domain: "daxiang", path: "orders")

    var parameters: Parameters? {
        switch self {
        case .page(let number): ["page": number]
        case .recent: ["recent": true]
        }
    }
}

private actor Session: RequestEntity {
    static let route = Route("POST", domain: "daxiang", path: "session")
    let device: String
    private(set) var answers = 0

    init(device: String) { self.device = device }

    nonisolated var parameters: Parameters? { ["device": device] }

    func renew(on manager: CentralRequestManager) async throws -> String? {
        let answer = try await startRequest(on: manager)
        answers += 1
        let user = try await FetchUser(id: answers).startRequest(on: manager)
        return (answer["token"].string ?? "") + user.name
    }
}

@MainActor private final class Screen {
    let model = LegacyForm()
    var user: User?

    func load(on manager: CentralRequestManager) async throws {
        model.title = "shown"
        user = try await FetchUser(id: 1).startRequest(on: manager)
        _ = try await model.startRequest(on: manager)
        _ = try await model.timeout(.seconds(5)).reply(on: manager)
        for try await reply in model.replies(on: manager) { _ = reply.model }
    }
}

/// Entities whose properties have the other optionality than those of the protocol.
private struct WithoutQuestionMarks: RequestEntity, Encodable {
    static let route = Route("POST", domain: "daxiang", path: "save")
    var property = "of the type"
    var parameters: Parameters { ["explicit": 1] }
}

private struct WholeBody: RequestEntity, Encodable {
    static let route = Route("POST", domain: "daxiang", path: "save")
    var property = 1
    var body: HTTPBody { .json(["a", "b"]) }
}

private struct WithQuestionMarks: RequestEntity {
    static let route = Route("POST", domain: "daxiang", path: "save")
    var files: [UploadFile]?
    var options: RequestOptions?
}

@MainActor private final class IsolatedForm: RequestEntity {
    nonisolated static let route = Route("POST", domain: "daxiang", path: "save")
    nonisolated var parameters: Parameters? { ["isolated": true] }
}

/// The contract of the distributed interface. It uses the shared manager, so it is compiled but never run.
private func contract(token: String) async throws {
    var c = CentralRequestManager.Configuration()
    c.domains = try DomainTable(contentsOf: "Config/domains.json5")
    c.headerProvider = { request in ["User-Agent": "App/2.1", "Authorization": "Bearer \(token)"] }
    c.interceptors = [Signing()]
    try CentralRequestManager.configureShared(c)
    let otherManager = try CentralRequestManager(configuration: c)

    let user = try await FetchUser(id: 42).startRequest()
    let reply = try await FetchUser(id: 42).timeout(.seconds(5)).header("User-Agent", "Demo/1").cache(.cacheThenNetwork)
        .reply()
    _ = (user.name, reply.model.name, reply.response.status, reply.envelope?.code, reply.envelope?.message)
    for try await reply in FetchUser(id: 42).cache(.cacheThenNetwork).replies() { _ = reply.response.source }
    let handle = FetchUser(id: 42).startRequest { data, model, error in _ = (data?.count, model?.name, error?.kind) }
    handle.cancel()
    FetchUser(id: 42).startRequest { _, _, _ in }
    _ = try await FetchUser(id: 42).startRequest(on: otherManager)
    _ = try await LegacyModel().startRequest()["id"].int
}

private struct Signing: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse { try await next(request) }
}

/// The call sites of the distributed interface, spelled as in its contract, compiled and run.
@Suite(.timeLimit(.minutes(1))) struct EntityContractTests {
    private func start() throws -> (MockServer, CentralRequestManager) {
        let server = try MockServer.answering(#"{"token": "t"}"#)
        server.route("GET", "/api/v1/users/{id}") { request in
            .json(#"{"id": \#(request.pathParameters["id"] ?? ""), "name": "Ada"}"#)
        }
        let table = try DomainTable(
            json5: """
                {
                  domains: { daxiang: { baseURL: "\(server.url("/api"))", headers: { "X-App": "demo" } } },
                  servers: { "user.detail": { domain: "daxiang", path: "v1/users/{id}", method: "GET" } },
                }
                """, environment: nil)
        return (server, try CentralRequestManager.make(table) { $0.cacheStorage = .memory })
    }

    /// Swift does not tell that such a property is not the one of the protocol.
    @Test func otherOptionalityOfAPropertyIsSent() async throws {
        let (server, manager) = try start()
        try await WithoutQuestionMarks().startRequest(on: manager)
        try await WholeBody().startRequest(on: manager)
        let file = UploadFile(name: "a", fileName: "b", data: Data("content".utf8))
        let options = RequestOptions(headers: ["X-Own": "1"])
        try await WithQuestionMarks(files: [file], options: options).startRequest(on: manager)
        try await WithQuestionMarks().startRequest(on: manager)
        let requests = server.requests
        try #require(requests.count == 4)
        #expect(requests[0].json == ["explicit": 1])
        #expect(requests[1].text == #"["a","b"]"# && requests[1].target.hasSuffix("?property=1"))
        #expect(requests[2].text.contains("content") && requests[2].headers["X-Own"] == "1")
        #expect(requests[3].headers["X-Own"] == nil && !requests[3].text.contains("content"))
        #expect(FetchUser(id: 1).body == nil && FetchUser(id: 1).files.isEmpty)
    }

    @Test func entityReturnsItsModel() async throws {
        let (server, manager) = try start()
        let user: User = try await FetchUser(id: 42).startRequest(on: manager)
        #expect(user == User(id: 42, name: "Ada"))
        let request = try #require(server.requests.first)
        #expect(request.method == "GET")
        #expect(request.target == "/api/v1/users/42")
        #expect(request.headers["X-App"] == "demo")
        #expect(request.body.isEmpty)
    }

    @Test func fluentSettingsAreApplied() async throws {
        let (server, manager) = try start()
        let reply = try await FetchUser(id: 42).timeout(.seconds(5)).header("User-Agent", "Demo/1")
            .cache(.cacheThenNetwork).reply(on: manager)
        #expect(reply.model.name == "Ada")
        #expect(reply.response.status == 200)
        #expect(reply.response.source == .network)
        #expect(reply.envelope == nil)
        #expect(server.requests.first?.headers["User-Agent"] == "Demo/1")
    }

    @Test func repliesSequenceYieldsTheReply() async throws {
        let (server, manager) = try start()
        var sources: [HTTPResponse.Source] = []
        for try await reply in FetchUser(id: 42).cache(.cacheThenNetwork).replies(on: manager) {
            sources.append(reply.response.source)
        }
        #expect(sources == [.network])
        #expect(server.requestCount == 1)
    }

    @Test func repliesSequenceThrowsTheError() async throws {
        let (server, manager) = try start()
        server.enqueue(.status(503))
        let error = await failure { for try await _ in FetchUser(id: 42).replies(on: manager) {} }
        #expect(error?.kind == .httpStatus)
    }

    @Test func cancellingTheReaderCancelsTheRequest() async throws {
        let (server, manager) = try start()
        server.enqueue(.json("{}").stalling(.beforeHead))
        let reading = Task { for try await _ in FetchUser(id: 42).replies(on: manager) {} }
        try await server.waitForRequests(1)
        reading.cancel()
        try await server.waitForClosedConnections(1)
    }

    @Test func closureGetsDataAndModel() async throws {
        let (server, manager) = try start()
        let ends = Log<String>()
        let done = Event()
        let handle = FetchUser(id: 42).startRequest(on: manager) { data, model, error in
            ends.append("\(data?.isEmpty ?? true) \(model?.name ?? "-") \(error == nil)")
            done.happen()
        }
        #expect(!handle.key.isEmpty)
        await done.wait()
        #expect(ends.elements == ["false Ada true"])
        #expect(handle.isFinished)
        #expect(server.requestCount == 1)
    }

    @Test func closureGetsTheErrorWithTheData() async throws {
        let (server, manager) = try start()
        server.enqueue(.text("no such user", status: 404), .json(#"{"id": "x"}"#))
        let ends = Log<(String?, Bool, NetworkError.Kind?, String?)>()
        for count in 1...2 {
            let done = Event()
            FetchUser(id: 42).startRequest(on: manager) { data, model, error in
                ends.append(
                    (data.map { String(decoding: $0, as: UTF8.self) }, model == nil, error?.kind, error?.request?.url))
                done.happen()
            }
            await done.wait()
            #expect(ends.count == count)
        }
        #expect(ends.elements[0].0 == "no such user")
        #expect(ends.elements[0].2 == .httpStatus)
        #expect(ends.elements[1].0 == #"{"id": "x"}"#)
        #expect(ends.elements[1].2 == .decoding(path: "id"))
        #expect(ends.elements.allSatisfy { $0.1 })
        #expect(ends.elements.allSatisfy { $0.3 == server.url("/api/v1/users/42") })
    }

    @Test func cancellingTheHandleEndsTheCallOnce() async throws {
        let (server, manager) = try start()
        server.enqueue(.json("{}").stalling(.beforeHead))
        let kinds = Log<NetworkError.Kind?>()
        let done = Event()
        let handle = FetchUser(id: 42).startRequest(on: manager) { data, model, error in
            #expect(data == nil)
            #expect(model == nil)
            kinds.append(error?.kind)
            done.happen()
        }
        try await server.waitForRequests(1)
        handle.cancel()
        handle.cancel()
        await done.wait()
        try await server.waitForClosedConnections(1)
        #expect(kinds.elements == [.cancelled])
        #expect(handle.isCancelled)
    }

    @Test func cancellingTheTaskThrowsCancellationError() async throws {
        let (server, manager) = try start()
        server.enqueue(.json("{}").stalling(.beforeHead))
        let call = Task { try await FetchUser(id: 42).startRequest(on: manager) }
        try await server.waitForRequests(1)
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
    }

    @Test func existingTypeBecomesAnEntity() async throws {
        let (server, manager) = try start()
        let model = LegacyModel()
        let answer: JSONValue = try await model.startRequest(on: manager)
        #expect(answer["token"].string == "t")
        let form = LegacyForm()
        form.title = "new"
        _ = try await form.startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/api/save", "/api/save"])
        #expect(server.requests[0].body.isEmpty)
        #expect(server.requests[1].json == ["title": "new"])
    }

    @Test func classesEnumsAndActorsMayBeEntities() async throws {
        let (server, manager) = try start()
        _ = try await Search(text: "a b").startRequest(on: manager)
        _ = try await Orders.page(3).startRequest(on: manager)
        _ = try await Orders.recent.startRequest(on: manager)
        let session = Session(device: "d1")
        _ = try await session.startRequest(on: manager)
        #expect(try await session.renew(on: manager) == "tAda")
        #expect(
            server.requests.map(\.target) == [
                "/api/search?text=a%20b", "/api/orders?page=3", "/api/orders?recent=true", "/api/session",
                "/api/session", "/api/v1/users/1",
            ])
        #expect(server.requests[3].json == ["device": "d1"])
    }

    @Test func mainActorCanStartEntities() async throws {
        let (server, manager) = try start()
        let screen = await Screen()
        try await screen.load(on: manager)
        #expect(await screen.user?.name == "Ada")
        #expect(server.requests.map(\.target) == ["/api/v1/users/1", "/api/save", "/api/save", "/api/save"])
        #expect(server.requests.last?.json == ["title": "shown"])
        _ = try await IsolatedForm().startRequest(on: manager)
        #expect(server.requests.last?.json == ["isolated": true])
    }

    @Test func routesMethodWinsOverTheRows() async throws {
        struct Delete: RequestEntity {
            static let route = Route("delete", server: "user.detail")
            var parameters: Parameters? { ["id": 7] }
        }
        let (server, manager) = try start()
        _ = try await Delete().startRequest(on: manager)
        #expect(server.requests.map { "\($0.method) \($0.target)" } == ["DELETE /api/v1/users/7"])
    }

    @Test func routeWithURLNeedsNoTable() async throws {
        struct Find: RequestEntity, Encodable {
            static let route = Route("GET", url: "find/{what}")
            var what: String
            var page: Int
        }
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url("/base") }
        _ = try await Find(what: "a/b ü", page: 2).startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/base/find/a%2Fb%20%C3%BC?page=2"])
        for what in ["", ".", ".."] {
            let error = await failure { try await Find(what: what, page: 1).startRequest(on: manager) }
            #expect(error?.kind == .invalidRequest)
        }
        #expect(server.requestCount == 1)
    }
}
