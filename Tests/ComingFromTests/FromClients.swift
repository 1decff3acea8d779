import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

private struct Item: Codable, Sendable { var name: String }

/// The calls of httpx, OkHttp and Ktor in the tables of the guide that no other test has.
@Suite(.timeLimit(.minutes(1))) struct FromClients {
    private let server: MockServer
    private let screen = Screen()
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        server.route("*", "/get") { _ in .json(#"{"name": "Ada"}"#) }
    }

    @Test("httpx.get(…).raise_for_status().json(), httpx.post(…, json=…)") func json() async throws {
        let central = try CentralRequestManager.make()
        let url = server.url("/get")
        let found = try await central.startRequest("GET", url, parameters: ["q": "swift"]).json()
        #expect(found["name"].string == "Ada" && server.requests.map(\.target) == ["/get?q=swift"])
        _ = try await central.startRequest("POST", url, body: .json(Item(name: "Ada")))
        #expect(server.requests.last?.json == ["name": "Ada"])
        server.enqueue(.status(404))
        let answer = try await central.send(HTTPRequest("GET", url))
        #expect(answer.status == 404)
    }

    @Test("httpx.Client(base_url=…, headers=…, timeout=…)") func client() async throws {
        let central = try CentralRequestManager.make { configuration in
            configuration.baseURL = server.baseURL
            configuration.headers = ["Accept-Language": "fi"]
            configuration.deadline = .seconds(30)
            configuration.maxConnections = 5
            configuration.limits.maxConcurrentRequestsPerHost = 5
            configuration.connectTimeout = .seconds(2)
            configuration.idleTimeout = .seconds(60)
            configuration.accessories = [Finished(screen: screen)]
        }
        server.enqueue(.json("{}").header("Link", "</get?page=2>; rel=\"next\""))
        let response = try await central.startRequest("GET", "/get")
        #expect(response.links["next"]?.url == server.url("/get?page=2"))
        #expect(server.requests.first?.headers["Accept-Language"] == "fi")
        #expect(try await screen.next() == "finished")
    }

    @Test("auth=(user, password)") func basic() async throws {
        let central = try CentralRequestManager.make()
        var request = HTTPRequest("GET", server.url("/get"))
        request.authentication = .basic(user: "ada", password: "secret")
        _ = try await central.send(request)
        #expect(server.requests.first?.headers["Authorization"] == "Basic YWRhOnNlY3JldA==")
    }

    @Test("Cache(directory, size), install(HttpCache), addNetworkInterceptor") func cache() async throws {
        let central = try CentralRequestManager.make { configuration in
            configuration.cachePolicy = .http
            configuration.cacheStorage = .memoryAndDisk
            configuration.cacheDirectory = folder.path + "/cache"
            configuration.networkInterceptors = [Adapter()]
        }
        server.enqueue(.text("stored").header("Cache-Control", "max-age=60"))
        for _ in 1...2 {
            #expect(try await central.startRequest("GET", server.url("/get")).text == "stored")
        }
        #expect(server.requests.map { $0.headers["X-Client"] } == ["demo"])
    }
}

/// An entry of `event_hooks` of httpx.
private struct Finished: RequestAccessory {
    let screen: Screen
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { screen.show("finished") }
}

/// A network interceptor of OkHttp.
private struct Adapter: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        request.headers["X-Client"] = "demo"
        return try await next(request)
    }
}
