import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

private struct Item: Codable, Equatable, Sendable { var name: String }

/// A `RequestAdapter` of Alamofire; a `PluginType` of Moya that prepares.
private struct Adapter: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        request.headers["X-Client"] = "demo"
        return try await next(request)
    }
}

/// An `AuthenticationInterceptor` of Alamofire.
private actor Session: Authenticator {
    private var token = "old"
    func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "Bearer \(token)" }
    func refresh() { token = "new" }
}

/// An `EventMonitor` of Alamofire; a `PluginType` of Moya that watches.
private struct Monitor: RequestAccessory {
    let screen: Screen
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
        screen.show("finished \(call.request.url)")
    }
}

/// A case of a `TargetType` of Moya.
private struct FetchUser: RequestEntity, Encodable {
    typealias Model = Item
    static let route = Route("GET", domain: "github", path: "/users/{login}")
    var login: String
}

/// The calls of Alamofire, Moya, URLSession and AsyncHTTPClient in the tables of the guide, written with this library.
@Suite(.timeLimit(.minutes(1))) struct FromOthers {
    private let server: MockServer
    private let screen = Screen()
    private let folder: TemporaryDirectory
    private let url: String

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        url = server.url("/get")
        server.route("*", "/get") { _ in .json(#"{"name": "Ada"}"#) }
        server.route("GET", "/users/{login}") { .json(#"{"name": "\#($0.pathParameters["login"] ?? "")"}"#) }
        server.echo(path: "/form")
    }

    private func manager(
        _ change: (inout CentralRequestManager.Configuration) throws -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try .make { configuration in
            configuration.domains = try DomainTable(
                json5: #"{ domains: { github: { baseURL: "\#(server.baseURL)" } }, servers: {} }"#)
            try change(&configuration)
        }
    }

    // MARK: Alamofire

    @Test("AF.request(…).validate().serializingDecodable(…).value") func serializingDecodable() async throws {
        let central = try manager()
        let item = try await central.startRequest("GET", url, parameters: ["q": "swift"]).decode(Item.self)
        #expect(item.name == "Ada" && server.requests.map(\.target) == ["/get?q=swift"])
        server.enqueue(.status(404))
        #expect(try await failure { try await central.startRequest("GET", url) }.response?.status == 404)
    }

    @Test("AF.request(…).responseDecodable { … }") func responseDecodable() async throws {
        let central = try manager()
        central.startRequest(
            "POST", url, body: .json(Item(name: "Ada")),
            success: { task, response in screen.show((try? response.decode(Item.self))?.name ?? "none") },
            failure: { task, error in screen.show(error) })
        #expect(try await screen.next() == "Ada")
        #expect(server.requests.map(\.json) == [["name": "Ada"]])
    }

    @Test("URLEncodedFormParameterEncoder") func form() async throws {
        let central = try manager()
        _ = try await central.startRequest("POST", url, parameters: ["tags": ["a", "b"]], body: .form)
        #expect(server.requests.first?.formItems == [.init("tags[]", "a"), .init("tags[]", "b")])
    }

    @Test("AF.upload(multipartFormData:)") func multipartFormData() async throws {
        let central = try manager()
        let path = try folder.write(Data("%PDF".utf8), to: "report.pdf")
        let upload = central.upload(url, files: [UploadFile(name: "doc", path: path)], parameters: ["title": "Holiday"])
        #expect(try await upload.value.status == 200)
        #expect(server.requests.first?.text.contains(#"name="doc"; filename="report.pdf""#) == true)
    }

    @Test("AF.download(…, to:), AF.download(resumingWith:)") func alamofireDownload() async throws {
        let central = try manager()
        let download = central.download(url, to: folder.path + "/item.json")
        #expect(try await download.value.byteCount == 15 && folder.contents == ["item.json"])
        #expect(server.requests.map(\.path) == ["/get"])
    }

    @Test("RequestAdapter, EventMonitor, cURLDescription") func adapters() async throws {
        let central = try manager { configuration in
            configuration.interceptors = [Adapter()]
            configuration.accessories = [Monitor(screen: screen), RequestLog(.curl) { entry in screen.show(entry) }]
        }
        _ = try await central.startRequest("GET", url)
        #expect(server.requests.first?.headers["X-Client"] == "demo")
        #expect(try await screen.next(String.self).contains("curl"))
        #expect(try await screen.next() == "finished \(url)")
    }

    @Test("RequestRetrier, AuthenticationInterceptor") func retriers() async throws {
        let central = try manager { configuration in
            configuration.authenticator = Session()
            configuration.retryPolicy = RetryPolicy(retries: 2, statuses: [503])
        }
        server.enqueue(.status(401), .status(503))
        _ = try await central.startRequest("GET", url)
        #expect(server.requests.map { $0.headers["Authorization"] } == ["Bearer old", "Bearer new", "Bearer new"])
    }

    // MARK: Moya

    @Test("provider.request(.user(…))") func moyaRequest() async throws {
        let central = try manager()
        let user = try await FetchUser(login: "ada").startRequest(on: central)
        #expect(user.name == "ada" && server.requests.map(\.target) == ["/users/ada"])
    }

    @Test("sampleData, stubClosure") func moyaStub() async throws {
        let central = try manager()
        let user = try await FetchUser(login: "ada").simulated(.reply(json: ["name": "Eve"])).startRequest(on: central)
        #expect(user.name == "Eve" && server.requestCount == 0)
    }

    // MARK: URLSession

    @Test("data(from:), data(for:)") func data() async throws {
        let central = try manager()
        let address = try #require(URL(string: url))
        let response = try await central.startRequest("GET", address)
        #expect(response.data.count == 15 && response.headers["Content-Type"] == "application/json")
        var request = HTTPRequest("PUT", url, headers: ["If-Match": "\"v1\""])
        request.timeout = .seconds(5)
        request.body = .data(Data("{}".utf8), contentType: "application/json")
        server.enqueue(.status(412))
        let answer = try await central.send(request)
        #expect(answer.status == 412 && server.requests.last?.headers["If-Match"] == "\"v1\"")
    }

    @Test("bytes(from:).lines") func lines() async throws {
        let central = try manager()
        server.enqueue(.text("one\ntwo\n"))
        for try await line in try await central.stream("GET", url).body.lines { screen.show(line) }
        #expect(try await screen.next() == "one")
        #expect(try await screen.next() == "two")
        #expect(server.requestCount == 1)
    }

    @Test("upload(for:fromFile:), download(from:)") func files() async throws {
        let central = try manager()
        let path = try folder.write(Data("report".utf8), to: "report.txt")
        _ = try await central.startRequest("PUT", url, body: .file(path))
        let file = try await central.download(url, to: folder.path + "/item.json").value
        #expect(server.requests.first?.text == "report" && file.path.hasSuffix("/item.json"))
    }

    @Test("URLSessionConfiguration") func sessionConfiguration() async throws {
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = .direct
        configuration.headers = ["Accept-Language": "fi"]
        configuration.idleTimeout = .seconds(60)
        configuration.reachability.waitsForConnectivity = true
        configuration.maxConnectionsPerHost = 5
        configuration.cookies = .memory
        let central = try CentralRequestManager(configuration: configuration)
        server.enqueue(.text("").header("Set-Cookie", "a=1"))
        for _ in 1...2 { _ = try await central.startRequest("GET", url) }
        #expect(server.requests.map { $0.headers["Accept-Language"] } == ["fi", "fi"])
        #expect(server.requests.map { $0.headers["Cookie"] } == [nil, "a=1"])
    }

    // MARK: AsyncHTTPClient

    @Test("HTTPClient.shared.execute(_:timeout:)") func execute() async throws {
        let central = try manager()
        var request = HTTPRequest("POST", url)
        request.headers["X-Trace"] = "1"
        request.body = .text("hello")
        request.deadline = .seconds(30)
        let response = try await central.send(request)
        #expect(response.status == 200 && response.text == #"{"name": "Ada"}"#)
        #expect(server.requests.first?.text == "hello" && server.requests.first?.headers["X-Trace"] == "1")
    }

    @Test("response.body.collect(upTo:), for try await buffer in response.body") func body() async throws {
        let central = try manager()
        let body = try await central.stream("GET", url).body.collect(upTo: 1 << 20)
        #expect(body == Data(#"{"name": "Ada"}"#.utf8))
        var count = 0
        for try await chunk in try await central.stream("GET", url).body { count += chunk.count }
        #expect(count == 15 && server.requestCount == 2)
    }

    @Test("HTTPClientRequest.Body.stream(_:length:)") func streamedBody() async throws {
        let central = try manager()
        let chunks = AsyncStream<Data> { continuation in
            for text in ["one ", "two"] { continuation.yield(Data(text.utf8)) }
            continuation.finish()
        }
        _ = try await central.startRequest("POST", url, body: .stream(chunks, length: 7))
        #expect(server.requests.first?.text == "one two" && server.requests.first?.headers["Content-Length"] == "7")
    }

    @Test("client.shutdown()") func shutdown() async throws {
        let central = try manager()
        _ = try await central.startRequest("GET", url)
        await central.shutdown()
        try await server.waitForClosedConnections(1)
        #expect(try await failure { try await central.startRequest("GET", url) }.kind == .shutDown)
    }
}
