import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct User: Codable, Equatable, Sendable { var name: String }

private struct FetchUser: RequestEntity, Encodable {
    typealias Model = User  // responseClass
    static let route = Route("POST", server: "user.detail")  // requestDomainType, requestServerNameType
    var id: String
}

private struct ListUsers: RequestEntity {
    typealias Model = [User]
    static let route = Route("GET", domain: "daxiang", path: "/v1/users")
}

private struct SaveAvatar: RequestEntity, Encodable {
    static let route = Route("POST", domain: "daxiang", path: "/v1/avatar")
    var id: String
    let png: Data
    enum CodingKeys: CodingKey { case id }
    var files: [UploadFile] { [UploadFile(name: "img", fileName: "a.png", data: png)] }
}

private struct LegacyModel: Codable { var id = "42" }

extension LegacyModel: RequestEntity { static let route = Route("POST", domain: "daxiang", path: "save") }

/// The calls of the README of LATNetworking (Objective-C), written with this library.
@Suite(.timeLimit(.minutes(1))) struct FromLATNetworking {
    private let server: MockServer
    private let screen = Screen()

    init() throws {
        server = try MockServer()
        server.route("POST", "/api/v1/user/detail") { _ in .json(#"{"name": "Ada"}"#) }
        server.route("GET", "/api/v1/users") { _ in .json(#"[{"name": "Ada"}, {"name": "Bob"}]"#) }
        for path in ["/api/v1/avatar", "/api/save", "/form"] { server.echo(path: path) }
    }

    private func manager(
        _ change: (inout CentralRequestManager.Configuration) throws -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try .make { configuration in
            configuration.domains = try DomainTable(
                json5: """
                    {
                      domains: { daxiang: { baseURL: "\(server.baseURL)/api" } },
                      servers: { "user.detail": { domain: "daxiang", path: "v1/user/detail", method: "POST" } },
                    }
                    """)
            try change(&configuration)
        }
    }

    // MARK: 分布式 (distributed)

    @Test("LATDomainDic, LATNetDomainType") func domainTable() async throws {
        let central = try manager()
        _ = try await FetchUser(id: "42").startRequest(on: central)
        #expect(server.requests.map(\.target) == ["/api/v1/user/detail"])

        // The base URL is switched for the next call.
        let other = try MockServer()
        other.fallback { _ in .json(#"{"name": "Eve"}"#) }
        try central.updateDomains { (table) throws(NetworkError) in
            try table.setBaseURL(other.baseURL, forDomain: "daxiang")
        }
        #expect(try await FetchUser(id: "42").startRequest(on: central).name == "Eve")
        #expect(other.requests.map(\.target) == ["/v1/user/detail"])
    }

    @Test("LAT_NET_OUTTIMEINTERVAL, LAT_MAX_HTTP_CONNECTION_PER_HOST") func limits() async throws {
        let central = try manager { configuration in
            configuration.timeout = .seconds(60)
            configuration.maxConnectionsPerHost = 5
        }
        server.fallback { _ in .text("never").stalling(.start) }
        for number in 1...8 {
            central.startRequest(
                "GET", server.url("/slow/\(number)"), success: { _, _ in }, failure: { screen.show($1.kind) })
        }
        try await server.waitForRequests(5)
        try await eventually("the others wait") { await central.load.queued == 3 }
        #expect(server.acceptedConnections == 5)
        #expect(central.cancelRequests(.all) == 8)
        for _ in 1...8 { #expect(try await screen.next() == NetworkError.Kind.cancelled) }
    }

    @Test func requestTimeoutInterval() async throws {
        let central = try manager()
        server.enqueue(.text("never").stalling(.start))
        let error = try await failure {
            try await FetchUser(id: "42").timeout(.milliseconds(500)).startRequest(on: central)
        }
        #expect(error.kind == .timeout(.total))
        #expect(server.requestCount == 1)
    }

    @Test("setLATNetSetHTTPHeaderFieldsBlock:, HTTPHeaderFields") func headerFields() async throws {
        let central = try manager { configuration in
            configuration.headerProvider = { _ in ["User-Agent": "App/1.0", "Accept-Language": "zh-Hans-CN;q=1"] }
        }
        let call = FetchUser(id: "42").header("User-Agent", "ElephantSmartisan/2.1.0")
        _ = try await call.startRequest(on: central)
        _ = try await call.replacingGlobalHeaders().startRequest(on: central)
        #expect(
            server.requests.map { $0.headers["User-Agent"] } == Array(repeating: "ElephantSmartisan/2.1.0", count: 2))
        #expect(server.requests.map { $0.headers["Accept-Language"] } == ["zh-Hans-CN;q=1", nil])
    }

    @Test("startRequest, LATRequestResultBlock") func startRequest() async throws {
        let central = try manager()
        FetchUser(id: "42").startRequest(on: central) { data, model, error in
            screen.show(model?.name ?? "\(String(describing: error))")
        }
        #expect(try await screen.next() == "Ada")
        let sent = try #require(server.requests.first)
        #expect(sent.method == "POST" && sent.text == #"{"id":"42"}"#)
        #expect(try await ListUsers().startRequest(on: central).map(\.name) == ["Ada", "Bob"])
    }

    @Test("NSObject+LATNetMJExtensionCategory") func existingTypeAsRequest() async throws {
        let central = try manager()
        let json = try await LegacyModel().startRequest(on: central)
        #expect(json["json"]["id"].string == "42")
        #expect(server.requests.map(\.target) == ["/api/save"])
    }

    @Test("LATRequestProgressBlock") func requestProgress() async throws {
        let central = try manager()
        let photo = SaveAvatar(id: "42", png: Data(repeating: 0x41, count: 300_000))
        _ = try await photo.progress { screen.show($0.completed == $0.total) }.startRequest(on: central)
        var isComplete = try await screen.next(Bool.self)
        while !isComplete { isComplete = try await screen.next() }
        #expect(server.receivedBodyBytes > 300_000)
    }

    @Test func cancelRequest() async throws {
        let central = try manager()
        server.enqueue(.text("never").stalling(.start))
        let task = FetchUser(id: "42").startRequest(on: central) { data, model, error in
            screen.show(error?.kind == .cancelled)
        }
        try await server.waitForRequests(1)
        task.cancel()
        #expect(try await screen.next() == true)
        try await server.waitForClosedConnections(1)
        #expect(task.state == .cancelled)
    }

    @Test func requestPostFileDatas() async throws {
        let central = try manager()
        _ = try await SaveAvatar(id: "42", png: Data("PNG".utf8)).startRequest(on: central)
        let sent = try #require(server.requests.first)
        #expect(sent.headers["Content-Type"]?.hasPrefix("multipart/form-data; boundary=") == true)
        #expect(sent.text.contains("name=\"id\"\r\n\r\n42\r\n"))
        #expect(sent.text.contains(#"name="img"; filename="a.png""#) && sent.text.contains("\r\n\r\nPNG\r\n"))
    }

    @Test("LATNetCacheTypeMemoryAndDisk, LATNetCacheTypeMemory") func cacheThenNetwork() async throws {
        let central = try manager()
        _ = try await ListUsers().cache(.writeOnly).startRequest(on: central)
        server.enqueue(.json(#"[{"name": "Eve"}]"#))
        for try await reply in ListUsers().cache(.cacheThenNetwork).replies(on: central) {
            screen.show([reply.model[0].name, reply.response.source.rawValue])
        }
        #expect(try await screen.next() == ["Ada", "memoryCache"])
        #expect(try await screen.next() == ["Eve", "network"])

        // Without a network, the cached reply is still delivered, then the error.
        server.stop()
        let error = try await failure {
            for try await reply in ListUsers().cache(.cacheThenNetwork).replies(on: central) {
                screen.show(reply.model)
            }
        }
        #expect(error.kind == .connect)
        #expect(try await screen.next() == [User(name: "Eve")])
    }

    @Test func latNetCacheTypeNone() async throws {
        let central = try manager()
        for _ in 1...2 { _ = try await ListUsers().cache(.networkOnly).startRequest(on: central) }
        #expect(server.requestCount == 2)
        #expect(try await central.cache.usage().entryCount == 0)
    }

    // MARK: 集中式 (centralized)

    @Test("startRequestWithMethod:…success:failure:") func startRequestWithMethod() async throws {
        let central = try manager()
        let url = server.url("/form")
        let task = central.startRequest(
            "post", url, parameters: ["name": "Ada", "age": 36],
            success: { task, response in screen.show(response) },
            failure: { task, error in screen.show(error) })
        let response: HTTPResponse = try await screen.next()
        #expect(try response.json()["json"] == ["name": "Ada", "age": 36])
        #expect(server.requests.map(\.method) == ["POST"] && task.state == .finished)

        let missing = server.url("/missing")
        central.startRequest(
            "GET", missing,
            success: { task, response in screen.show(response) },
            failure: { task, error in screen.show(error) })
        let error: NetworkError = try await screen.next()
        #expect(error.kind == .httpStatus && error.response?.status == 404)
    }

    @Test("startRequestWithMethod:…progress:success:failure:") func startRequestWithProgress() async throws {
        let central = try manager()
        let url = server.url("/form")
        let text = String(repeating: "a", count: 200_000)
        central.startRequest(
            "POST", url, parameters: ["text": text],
            progress: { progress in screen.show(progress.fraction ?? -1) },
            success: { task, response in screen.show(response.status) },
            failure: { task, error in screen.show(error) })
        var fractions: [Double] = []
        var last: any Sendable = -1.0
        while let fraction = last as? Double {
            fractions.append(fraction)
            last = try await screen.next((any Sendable).self)
        }
        #expect(last as? Int == 200)
        #expect(fractions.last == 1 && fractions == fractions.sorted())
        #expect(server.receivedBodyBytes > 200_000)
    }

    @Test("startRequestWithMethod:…requestPostFileDatas:…") func startRequestInFull() async throws {
        let central = try manager()
        let url = server.url("/form")
        let png = Data("PNG".utf8)
        central.startRequest(
            "PUT", url, parameters: ["title": "Holiday"],
            files: [UploadFile(name: "img", fileName: "a.png", data: png)],
            cache: .networkOnly, timeout: .seconds(60), headers: ["X-Trace": "1"],
            progress: { progress in },
            success: { task, response in screen.show(response.status) },
            failure: { task, error in screen.show(error) })
        #expect(try await screen.next() == 200)
        let sent = try #require(server.requests.first)
        #expect(sent.method == "PUT" && sent.headers["X-Trace"] == "1")
        #expect(sent.text.contains("name=\"title\"\r\n\r\nHoliday\r\n") && sent.text.contains("\r\n\r\nPNG\r\n"))
    }

    // MARK: 【实现功能】 (features)

    @Test("LATFileManager") func fileManager() async throws {
        let central = try manager()
        try await central.values.set(User(name: "Ada"), for: "user", expiresAfter: .seconds(7 * 86_400))
        try await central.memoryValues.set(Data("draft".utf8), for: "draft")
        let user = try await central.values.get(User.self, for: "user")
        #expect(user == User(name: "Ada"))
        #expect(try await central.memoryValues.get(Data.self, for: "draft") == Data("draft".utf8))
        #expect(try await central.values.get(Data.self, for: "draft") == nil)
        try await central.values.remove("user")
        #expect(try await central.values.contains("user") == false)
    }

    @Test("LATNetReachability") func netReachability() async throws {
        let central = try manager()
        let status = await central.reachability.probe("daxiang")
        #expect(status.isReachable && status.address?.contains("127.0.0.1") == true)
        // The server may notice the connection later than the client.
        try await server.waitForClosedConnections(1)
        #expect(server.acceptedConnections == 1 && server.requestCount == 0)
        server.stop()
        let report = await central.reachability.report(of: "daxiang", isFresh: true)
        #expect(report.status.reason == .refused)
    }
}
