import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct User: Decodable, Equatable, Sendable { var name: String }

private struct FetchUser: RequestEntity, Encodable {
    typealias Model = User
    static let route = Route("GET", domain: "d", path: "v1/users/{id}")
    var id: String
    var page: Int?
}

private struct SaveUser: RequestEntity, Encodable {
    typealias Model = User
    static let route = Route("POST", domain: "d", path: "v1/users/{id}")
    var id: String
}

@Suite(.timeLimit(.minutes(1))) struct SimulationTests {
    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer.answering(#"{"name": "network"}"#)
    }

    private func fixture(_ name: String, _ text: String? = nil) throws {
        try directory.write(Data((text ?? #"{"name": "\#(name)"}"#).utf8), to: name)
    }

    private func manager(
        _ simulation: Simulation? = nil, domain: String = "", base: String = ""
    ) throws -> CentralRequestManager {
        try .make(.make(server.url(base), domain: domain)) { $0.simulation = simulation }
    }

    // MARK: Fixtures

    @Test func mostSpecificFixtureIsUsed() async throws {
        let manager = try manager(.fixtures(directory.path))
        let names = [
            "v1/users/{id}", "v1/users/{id}.json", "v1/users/{id}.GET.json", "v1/users/42", "v1/users/42.json",
            "v1/users/42.GET.json",
        ]
        // Each name is more specific than the ones before.
        for name in names {
            try fixture(name)
            let reply = try await FetchUser(id: "42").reply(on: manager)
            #expect(reply.model.name == name)
            #expect(reply.response.source == .simulated)
            #expect(reply.response.status == 200)
        }
        #expect(try await SaveUser(id: "42").startRequest(on: manager).name == "v1/users/42.json")
        #expect(try await FetchUser(id: "7", page: 2).startRequest(on: manager).name == "v1/users/{id}.GET.json")
        #expect(server.acceptedConnections == 0)
    }

    /// Fixtures are named by the entity's path, without the path of the domain's base URL.
    @Test func fixturePathOmitsTheBaseURLsPath() async throws {
        let manager = try manager(.fixtures(directory.path), base: "/api")
        try fixture("v1/users/42.GET.json")
        #expect(try await FetchUser(id: "42").startRequest(on: manager).name == "v1/users/42.GET.json")
    }

    @Test func fixtureExtensionSetsTheContentType() async throws {
        try fixture("plain.txt", "words")
        try fixture("v1/users/1.json")
        let manager = try manager(.fixtures(directory.path))
        let text = try await manager.startRequest("GET", server.url("/plain.txt?q=1"))
        #expect(text.headers["Content-Type"] == "text/plain")
        #expect(text.text == "words")
        #expect(text.source == .simulated)
        #expect(text.url == server.url("/plain.txt?q=1"))
        let json = try await FetchUser(id: "1").reply(on: manager)
        #expect(json.response.headers["Content-Type"] == "application/json")
    }

    @Test func missingFixtureErrorNamesTheFilesToCreate() async throws {
        let manager = try manager(.fixtures(directory.path))
        let error = await failure { try await FetchUser(id: "42").startRequest(on: manager) }
        #expect(error?.kind == .simulation)
        for word in [directory.path, "v1/users/42.GET.json", "v1/users/42.json", "v1/users/{id}.GET.json"] {
            #expect(error?.message.contains(word) == true, "\(error?.message ?? "")")
        }
        #expect(error?.request?.url == server.url("/v1/users/42"))
        #expect(await failure { try await manager.startRequest("GET", server.url("/none")) }?.kind == .simulation)
        #expect(server.acceptedConnections == 0)
    }

    @Test(arguments: [
        "/../secret", "/a/../../secret", "/a/..%2f..%2fsecret", "/%2e%2e/secret", "/..", "/", "/a/..\\..\\secret",
    ])
    func fixtureOutsideTheFolderIsNotRead(_ path: String) async throws {
        try fixture("secret.json", #"{"name": "secret"}"#)
        try fixture("in/a/b.json")
        let manager = try manager(.fixtures(directory.path(of: "in")))
        let error = await failure { try await manager.startRequest("GET", server.baseURL + path) }
        #expect(error?.kind == .simulation, "\(error.map { "\($0)" } ?? "")")
    }

    @Test func routeWithURLFindsItsFixture() async throws {
        struct Find: RequestEntity, Encodable {
            static let route = Route("GET", url: "http://127.0.0.1:1/v2/{id}")
            var id = 5
        }
        try fixture("v2/{id}.json")
        let manager = try manager(.fixtures(directory.path))
        #expect(try await Find().startRequest(on: manager)["name"].string == "v2/{id}.json")
    }

    // MARK: Other simulations

    @Test func cannedReplyComesAfterItsDelay() async throws {
        let manager = try manager()
        let start = ContinuousClock.now
        let simulation = Simulation.reply(
            status: 201, json: ["name": "canned"], headers: ["X-A": "1"], after: .milliseconds(80))
        let reply = try await FetchUser(id: "1").simulated(simulation).reply(on: manager)
        #expect(start.duration(to: .now) >= .milliseconds(80))
        #expect(reply.model.name == "canned")
        #expect(reply.response.source == .simulated)
        #expect(reply.response.status == 201)
        #expect(reply.response.headers["X-A"] == "1")
        #expect(reply.response.headers["content-type"] == "application/json")
        #expect(reply.response.url == server.url("/v1/users/1"))
        #expect(server.acceptedConnections == 0)
    }

    @Test func cannedFailureIsThrown() async throws {
        let manager = try manager(domain: #"envelope: { code: "status", data: "data", success: [0] }"#)
        let call = FetchUser(id: "1")
        let status = await failure { try await call.simulated(.reply(status: 503)).startRequest(on: manager) }
        #expect(status?.kind == .httpStatus)
        #expect(status?.response?.source == .simulated)
        let business = await failure {
            try await call.simulated(.reply(json: ["status": 7])).startRequest(on: manager)
        }
        #expect(business?.kind == .business(code: "7"))
        let good: JSONValue = ["status": 0, "data": ["name": "Ada"]]
        #expect(try await call.simulated(.reply(json: good)).startRequest(on: manager).name == "Ada")
    }

    @Test func cancellingEndsTheDelay() async throws {
        let manager = try manager(.reply(after: .seconds(60)))
        let done = Event()
        let kinds = Log<NetworkError.Kind?>()
        let handle = FetchUser(id: "1").startRequest(on: manager) { _, _, error in
            kinds.append(error?.kind)
            done.happen()
        }
        handle.cancel()
        await done.wait()
        #expect(kinds.elements == [.cancelled])
    }

    @Test func timeoutEndsASimulatedDelay() async throws {
        let manager = try manager(.reply(json: ["name": "late"], after: .seconds(3)))
        let error = await failure { try await FetchUser(id: "1").timeout(.milliseconds(100)).startRequest(on: manager) }
        #expect(error?.kind == .timeout(.total))
    }

    @Test func simulatedServerGetsTheRequest() async throws {
        let stage = try MockServer.answering(#"{"name": "stage"}"#)
        let manager = try manager(.server(stage.url("/mock")))
        let reply = try await FetchUser(id: "4 2", page: 3).header("A", "1").reply(on: manager)
        #expect(reply.model.name == "stage")
        #expect(reply.response.source == .simulated)
        #expect(stage.requests.map(\.target) == ["/mock/v1/users/4%202?page=3"])
        #expect(stage.requests.first?.headers["A"] == "1")
        #expect(stage.requests.first?.headers["Host"] == "127.0.0.1:\(stage.port)")
        #expect(server.acceptedConnections == 0)
    }

    /// The simulated server's base URL replaces the domain's, with its path and query.
    @Test func simulatedServerReplacesTheBaseURL() async throws {
        let stage = try MockServer.answering(#"{"name": "stage"}"#)
        let manager = try manager(domain: #"simulation: { baseURL: "\#(stage.url("/mock"))" }"#, base: "/api?k=v")
        _ = try await FetchUser(id: "42").startRequest(on: manager)
        #expect(stage.requests.map(\.target) == ["/mock/v1/users/42"])
    }

    /// A download sends several requests for one call; each goes to the simulated address as the call does.
    @Test(arguments: [1, 2]) func downloadReachesTheSimulatedServer(segments: Int) async throws {
        let stage = try MockServer.answering("stage")
        let manager = try CentralRequestManager.make {
            $0.simulation = .server(stage.url("/mock"))
        }
        let folder = try TemporaryDirectory()
        _ = try await manager.download(server.url("/file?a=1"), to: folder.path(of: "f"), segments: segments).value
        #expect(stage.requests.map(\.target) == ["/mock/file?a=1"])
    }

    // MARK: Precedence

    @Test func mostSpecificSimulationWins() async throws {
        try fixture("v1/users/1.json", #"{"name": "domain"}"#)
        let byManager = try manager(.reply(json: ["name": "manager"]))
        #expect(try await FetchUser(id: "1").startRequest(on: byManager).name == "manager")
        #expect(try await FetchUser(id: "1").simulated(.off).startRequest(on: byManager).name == "network")
        let byDomain = try manager(
            .reply(json: ["name": "manager"]), domain: #"simulation: { directory: "\#(directory.path)", delay: "1ms" }"#
        )
        #expect(try await FetchUser(id: "1").startRequest(on: byDomain).name == "domain")
        #expect(
            try await FetchUser(id: "1").simulated(.reply(json: ["name": "call"])).startRequest(on: byDomain).name
                == "call")
        #expect(try await FetchUser(id: "1").simulated(.off).startRequest(on: byDomain).name == "network")
        let off = try manager(.reply(json: ["name": "manager"]), domain: "simulation: null")
        let reply = try await FetchUser(id: "1").reply(on: off)
        #expect(reply.model.name == "network")
        #expect(reply.response.source == .network)
    }

    @Test func simulationIsSwitchedAtRunTime() async throws {
        try fixture("v1/users/1.json", #"{"name": "fixture"}"#)
        let path = directory.path
        let manager = try manager()
        #expect(try await FetchUser(id: "1").startRequest(on: manager).name == "network")
        try manager.updateDomains { table throws(NetworkError) in
            var row = try table.domain("d")
            row.settings.simulation = .directory(path, delay: nil)
            try table.setDomain("d", row)
        }
        #expect(try await FetchUser(id: "1").startRequest(on: manager).name == "fixture")
    }

    @Test func fixtureFolderIsRelativeToTheTableFile() async throws {
        try fixture("Fixtures/v1/users/1.json", #"{"name": "beside"}"#)
        let text = DomainTable.text(server.url(), domain: #"simulation: { directory: "Fixtures" }"#)
        let path = try directory.write(Data(text.utf8), to: "domains.json5")
        let manager = try CentralRequestManager.make(DomainTable(contentsOf: path, environment: nil))
        #expect(try await FetchUser(id: "1").startRequest(on: manager).name == "beside")
    }

    @Test func providersAreAskedForSimulatedRequests() async throws {
        let count = Counter()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.simulation = .reply(json: ["name": "x"])
            $0.headerProvider = { _ in
                count.next()
                return [:]
            }
        }
        _ = try await FetchUser(id: "1").startRequest(on: manager)
        #expect(count.value == 1)
    }
}
