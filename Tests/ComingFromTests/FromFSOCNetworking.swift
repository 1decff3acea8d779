import LATKit
import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

private struct UserInfo: Codable, Equatable, Sendable { var name: String }

private struct FetchUser: RequestEntity, Encodable {
    typealias Model = UserInfo
    static let route = Route("GET", domain: "app", path: "api/users/{id}")
    var id: Int
}

/// FSNetServerCodeHandlerProtocol: the texts of what went wrong.
extension NetworkError {
    fileprivate var userMessage: String {
        switch kind {
        case .business: businessFailure?.message ?? "服务器异常，请稍后重试"
        case .timeout: "网络超时\n请稍后重试"
        default: "网络异常\n请更换网络或稍后重试"
        }
    }
}

/// FSNetRequestHandlerProtocol.
private struct KeyExchange: FailureResolver {
    let screen: Screen
    func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
        guard let code = error.businessFailure?.code, ["10005", "10006", "10007"].contains(code) else {
            return .deliver
        }
        screen.show("new keys after \(code)")
        return .replay
    }
}

/// YTKUrlFilterProtocol.
private struct AppVersion: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        request.url += request.url.contains("?") ? "&version=2.1" : "?version=2.1"
        return try await next(request)
    }
}

/// The calls of the README of FSOCNetworking, and of YTKNetwork, which it wraps, written with this library.
@Suite(.timeLimit(.minutes(1))) struct FromFSOCNetworking {
    private let server: MockServer
    private let screen = Screen()
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        server.route("*", "/api/userInfo") { _ in .json(#"{"status": 10000, "data": {"name": "Ada"}}"#) }
        server.route("POST", "/api/file/upload") { _ in .json(#"{"status": 10000, "data": {"id": 5}}"#) }
        server.route("POST", "/api/file/down") { _ in .pattern(byteCount: 50_000) }
        server.route("GET", "/api/users/{id}") { request in
            .json(#"{"status": 10000, "data": {"name": "user \#(request.pathParameters["id"] ?? "")"}}"#)
        }
    }

    private func manager(
        _ change: (inout CentralRequestManager.Configuration) throws -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try .make { configuration in
            configuration.domains = try DomainTable(
                json5: """
                    {
                      domains: {
                        app: {
                          baseURL: "\(server.baseURL)",
                          envelope: {
                            code: "status", message: "message", data: "data", success: [10000],
                            messages: { "10001": "Token失效", "10003": "服务器维护中" },
                          },
                        },
                      },
                      servers: {
                        "user.info": { domain: "app", path: "api/userInfo", method: "POST" },
                        "file.upload": { domain: "app", path: "api/file/upload", method: "POST" },
                      },
                    }
                    """)
            configuration.baseURL = server.baseURL
            try change(&configuration)
        }
    }

    // MARK: 使用例子 (examples)

    @Test("postRequestWithUrl:parameters:entityClass:complateBlock:") func postRequest() async throws {
        let central = try manager()
        do {
            let route = Route("POST", domain: "app", path: "api/userInfo")
            let user = try await central.startRequest(route, parameters: ["id": 7], as: UserInfo.self)
            screen.show(user.model.name)
        } catch let error as NetworkError {
            screen.show(error.userMessage)
        }
        #expect(try await screen.next() == "Ada")
        let sent = try #require(server.requests.first)
        #expect(sent.method == "POST" && sent.target == "/api/userInfo" && sent.json == ["id": 7])
    }

    @Test("postRequestWithUrl:…constructingBodyBlock:complateBlock:") func postUpload() async throws {
        let central = try manager()
        let imageData = Data("JPG".utf8)
        let reply = try await central.startRequest(
            server: "file.upload", parameters: ["album": 1],
            files: [UploadFile(name: "files[0].file", fileName: "1_iOS.jpg", data: imageData)])
        #expect(reply.model["id"].int == 5)
        let text = try #require(server.requests.first).text
        #expect(
            text.contains(#"name="files[0].file"; filename="1_iOS.jpg""#) && text.contains("Content-Type: image/jpeg"))
        #expect(text.contains("name=\"album\"\r\n\r\n1\r\n"))
    }

    @Test("postDownloadFileWithURL:…complateBlock:") func postDownload() async throws {
        let central = try manager()
        let request = HTTPRequest("POST", "api/file/down", body: .json(["id": 5]))
        let file = try await central.download(request, to: folder.path + "/report.bin").value
        #expect(file.byteCount == 50_000 && folder.contents == ["report.bin"])
        #expect(server.requests.map(\.json) == [["id": 5]])
    }

    @Test("initWithURL:method:params:headersBlock:timeout:…") func fatRequest() async throws {
        let central = try manager()
        var request = HTTPRequest("PUT", "api/userInfo", body: .form(["name": "Ada"]))
        request.headers["X-Request"] = "1"
        request.timeout = .seconds(20)
        request.cachePolicy = .networkOnly
        let response = try await central.send(request)
        #expect(try response.json()["data"]["name"].string == "Ada")
        let sent = try #require(server.requests.first)
        #expect(sent.method == "PUT" && sent.formItems == [.init("name", "Ada")] && sent.headers["X-Request"] == "1")
    }

    // MARK: 配置网络 (configuration)

    @Test("logStartRequest:, logEndRequest:") func log() async throws {
        let central = try manager { configuration in
            configuration.accessories = [RequestLog(.full) { entry in screen.show(entry) }]
        }
        _ = try await central.startRequest(server: "user.info", parameters: ["id": 7, "password": "hunter2"])
        var entries = ""
        while !entries.contains("Ada") { entries += try await screen.next(String.self) }
        #expect(entries.contains("POST") && entries.contains("/api/userInfo") && !entries.contains("hunter2"))
        #expect(server.requests.first?.json?["password"].string == "hunter2")
    }

    @Test("requestHeaderFields, requestCommonParamsWithUrl:") func parameters() async throws {
        let central = try manager { configuration in
            configuration.headerProvider = { request in ["X-Kind": request.method == .get ? "read" : "write"] }
            configuration.parameterProvider = { request in
                ["language": "cn", "appType": 1, "nonce": Int.random(in: 0..<100)]
            }
            configuration.volatileParameters = ["nonce"]
        }
        _ = try await central.startRequest(server: "user.info", parameters: ["id": 7, "language": "fi"])
        let sent = try #require(server.requests.first)
        #expect(sent.headers["X-Kind"] == "write")
        // The parameters of the request win over the common ones.
        #expect(sent.json?["language"] == "fi" && sent.json?["appType"] == 1 && sent.json?["nonce"].int != nil)

        // The stored reply is found although the nonce changes each time.
        for _ in 1...2 { _ = try await FetchUser(id: 7).cache(.cacheElseNetwork(.forever)).startRequest(on: central) }
        #expect(server.requests.filter { $0.method == "GET" }.count == 1)
    }

    @Test("mapingDictForServerCommonModel, serverErrorMessageWithCode:") func serverErrorMessage() async throws {
        let central = try manager()
        let replies: [MockReply] = [
            .json(#"{"status": 10001, "message": "expired"}"#), .json(#"{"status": 10099, "message": "full"}"#),
            .json(#"{"status": 10099}"#), .text("never").stalling(.start), .noReply,
        ]
        var messages: [String] = []
        for (reply, timeout) in zip(replies, [nil, nil, nil, Duration.milliseconds(200), nil]) {
            server.route("*", "/api/userInfo") { _ in reply }
            let error = try await failure { try await central.startRequest(server: "user.info", timeout: timeout) }
            messages.append(error.userMessage)
        }
        #expect(messages == ["Token失效", "full", "服务器异常，请稍后重试", "网络超时\n请稍后重试", "网络异常\n请更换网络或稍后重试"])
    }

    @Test("handleNetworkData:") func handleNetworkData() async throws {
        let central = try manager { configuration in
            configuration.outcomeObservers = [
                { outcome, request in
                    if case .failure(let refusal, _) = outcome, refusal.code == "10001" { screen.show("sign in") }
                    if case .networkError(let error) = outcome, case .tls = error.kind { screen.show("not safe") }
                }
            ]
        }
        server.enqueue(.json(#"{"status": 10001}"#))
        _ = try await failure { try await central.startRequest(server: "user.info") }
        #expect(try await screen.next() == "sign in")
    }

    @Test("handleReqest:entityClass:completionBlock:") func handleRequest() async throws {
        let central = try manager { configuration in configuration.resolver = KeyExchange(screen: screen) }
        server.enqueue(.json(#"{"status": 10005}"#))
        let reply = try await central.startRequest(server: "user.info", as: UserInfo.self)
        #expect(reply.model == UserInfo(name: "Ada") && server.requestCount == 2)
        #expect(try await screen.next() == "new keys after 10005")
    }

    @Test("securityPolicy, FSSecurityPolicy", .enabled(if: Nginx.https != nil, "nginx is not running"))
    func securityPolicy() async throws {
        let url = try #require(Nginx.https) + "/1k.bin"
        let host = try #require(URL(string: url)?.host)
        let central = try manager { configuration in
            configuration.tls.caFile = Nginx.authority
            configuration.tls.pins = [host: ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]]
        }
        #expect(try await failure { try await central.startRequest("GET", url) }.kind == .tls(.pinMismatch))
    }

    // MARK: YTKNetwork

    @Test("cacheTimeInSeconds, ignoreCache, startWithoutCache") func cacheTime() async throws {
        let central = try manager()
        for _ in 1...2 {
            _ = try await FetchUser(id: 7).cache(.cacheElseNetwork(.fixed(.seconds(180)))).reply(on: central)
        }
        #expect(server.requestCount == 1)
        let fresh = try await FetchUser(id: 7).cache(.writeOnly).reply(on: central)
        #expect(fresh.response.source == .network && server.requestCount == 2)
    }

    @Test func saveResponseDataToCacheFile() async throws {
        let central = try manager()
        let list = try await central.startRequest("GET", "/api/users/1")
        try await central.cache.store(list.data, for: "/api/users/7")
        let seeded = try await FetchUser(id: 7).cache(.cacheOnly).reply(on: central)
        #expect(seeded.model.name == "user 1" && seeded.response.source.isFromCache)
        #expect(server.requestCount == 1)
    }

    @Test("YTKBatchRequest, isDataFromCache") func batchRequest() async throws {
        let central = try manager()
        let batch = RequestBatch<Reply<UserInfo>>(
            [7, 8].map { id in
                .init { try await FetchUser(id: id).cache(.cacheElseNetwork(.forever)).reply(on: central) }
            })
        #expect(try await batch.values().map(\.model.name) == ["user 7", "user 8"])
        #expect(try await batch.results().areAllFromCache)
        #expect(server.requestCount == 2)

        server.enqueue(.status(500), .status(500))
        let fresh = RequestBatch<UserInfo>(
            [1, 2].map { id in .init { try await FetchUser(id: id).startRequest(on: central) } })
        #expect(try await failure { try await fresh.values() }.kind == .httpStatus)
    }

    @Test("YTKChainRequest") func chainRequest() async throws {
        let central = try manager()
        let name = try await RequestChain { try await FetchUser(id: 1).startRequest(on: central) }
            .then { first in try await FetchUser(id: first.name.count).startRequest(on: central).name }
            .value()
        #expect(name == "user 6" && server.requests.map(\.path) == ["/api/users/1", "/api/users/6"])
    }

    @Test("YTKUrlFilterProtocol") func urlFilter() async throws {
        let central = try manager { configuration in configuration.interceptors = [AppVersion()] }
        _ = try await FetchUser(id: 7).startRequest(on: central)
        _ = try await central.startRequest("GET", "/api/users/8", parameters: ["page": 2])
        #expect(server.requests.map(\.target) == ["/api/users/7?version=2.1", "/api/users/8?page=2&version=2.1"])
    }

    @Test func statusCodeValidator() async throws {
        let central = try manager()
        server.enqueue(.status(404))
        var request = HTTPRequest("GET", "/api/users/9")
        request.acceptedStatuses = [200, 404]
        let response = try await central.startRequest(request)
        #expect(response.status == 404 && server.requestCount == 1)
        server.enqueue(.status(500))
        #expect(try await failure { try await central.startRequest(request) }.kind == .httpStatus)
    }

    @Test func jsonValidator() async throws {
        let central = try manager()
        server.enqueue(.json(#"{"status": 10000, "data": {"name": 7}}"#))
        let error = try await failure { try await FetchUser(id: 7).startRequest(on: central) }
        #expect(error.kind == .decoding(path: "data.name") && error.response?.status == 200)
    }

    @Test("tag, userInfo") func tag() async throws {
        let central = try manager { configuration in
            configuration.outcomeObservers = [{ outcome, request in screen.show(request.userInfo["row"]?.int ?? 0) }]
        }
        let call = FetchUser(id: 7).tag("profile").userInfo(["row": 3])
        let user = try await call.observe(didFinish: { call, result in screen.show(call.tag ?? "") }).startRequest(
            on: central)
        #expect(user.name == "user 7")
        #expect(try await screen.next() == 3)
        #expect(try await screen.next() == "profile")
    }
}
