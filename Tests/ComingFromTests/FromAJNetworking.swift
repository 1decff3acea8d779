import LATKit
import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

/// RequestBeanDemoRegister and ResponseBeanDemoRegister.
private struct Register: RequestEntity, Encodable {
    typealias Model = Registered
    static let route = Route("POST", domain: "app", path: "/register")
    var userName: String
    var pw: String?
}

private struct Registered: Codable, Equatable, Sendable { var userId: Int }

private struct UploadAvatar: RequestEntity, Encodable {
    static let route = Route("POST", domain: "app", path: "/avatar")
    var compid: String
    let avatar: Data
    enum CodingKeys: CodingKey { case compid }
    var files: [UploadFile] { [UploadFile(name: "img", fileName: "img", data: avatar)] }
}

private struct News: RequestEntity, Encodable {
    typealias Model = [String]
    static let route = Route("GET", domain: "app", path: "/news")
    var page = 1
}

/// A bean that overrides `checkSuccess`.
private final class SignIn: RequestModel<Registered> {
    override class func model(from reply: Reply<Registered>) throws -> Registered {
        guard reply.model.userId > 0 else { throw NetworkError(.business(code: "0"), message: "sign in again") }
        return reply.model
    }
}

private struct Hub: ActivityIndicator.Presenter {
    let screen: Screen
    func show(_ tip: String?) { screen.show("showHub \(tip ?? "")") }
    func dismiss() { screen.show("dismissHub") }
}

/// The calls of the README of AJNetworking, written with this library.
@Suite(.timeLimit(.minutes(1))) struct FromAJNetworking {
    private let server: MockServer
    private let screen = Screen()
    private let folder: TemporaryDirectory
    private let clock = Clock()

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        server.route("POST", "/register") { _ in .json(#"{"code": 0, "data": {"userId": 7}}"#) }
        server.route("POST", "/avatar") { _ in .json(#"{"code": 0, "data": {"size": 3}}"#) }
        server.route("GET", "/news") { request in .json(#"{"code": 0, "data": ["\#(request.query("page") ?? "")"]}"#) }
        server.route("GET", "/desktop.jpg") { _ in .pattern(byteCount: 300_000) }
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
                          envelope: { code: "code", message: "msg", data: "data", success: [0] },
                        },
                      },
                    }
                    """)
            configuration.cacheClock = { [clock] in clock.now }
            try change(&configuration)
        }
    }

    // MARK: 一、二 (configuration, requests)

    @Test("hostUrl, requestWithBean:callBack:") func requestWithBean() async throws {
        let central = try manager()
        let registered = try await Register(userName: "ada", pw: "secret").startRequest(on: central)
        #expect(registered.userId == 7)
        Register(userName: "bob").startRequest(on: central) { data, model, error in
            screen.show(model?.userId ?? -1)
        }
        #expect(try await screen.next() == 7)
        #expect(server.requests.map(\.json) == [["userName": "ada", "pw": "secret"], ["userName": "bob"]])
        #expect(server.requests.map(\.target) == ["/register", "/register"])
    }

    @Test("AJError, statusCode, responseMessage") func businessFailure() async throws {
        let central = try manager()
        server.enqueue(.json(#"{"code": 101, "msg": "name is taken", "data": null}"#), .status(404))
        do {
            _ = try await Register(userName: "ada").startRequest(on: central)
            Issue.record("no error")
        } catch let error as NetworkError {
            let refusal = try #require(error.businessFailure)
            #expect(refusal.code == "101" && refusal.message == "name is taken")
            #expect(error.response?.data.isEmpty == false)
        }
        let error = try await failure { try await Register(userName: "ada").startRequest(on: central) }
        #expect(error.kind == .httpStatus && error.response?.status == 404 && error.businessFailure == nil)
    }

    @Test func checkSuccess() async throws {
        let central = try manager()
        server.enqueue(.json(#"{"code": 0, "data": {"userId": 0}}"#))
        SignIn(Route("POST", domain: "app", path: "/register")).start(on: central) { call, outcome in
            if case .networkError(let error) = outcome { screen.show(error) }
        }
        let error: NetworkError = try await screen.next()
        #expect(error.kind == .business(code: "0") && error.message == "sign in again")
        #expect(server.requestCount == 1)
    }

    @Test("httpsCertificatePath, httpsCertificatePassword") func clientCertificate() throws {
        let error = #expect(throws: NetworkError.self) {
            try manager { configuration in
                configuration.tls.clientCertificate = .pkcs12(path: "id.p12", password: "secret")
            }
        }
        #expect(error?.kind == .invalidRequest && error?.message.contains("id.p12") == true)
    }

    @Test("HTTPS", .enabled(if: Nginx.https != nil, "nginx is not running")) func unknownAuthority() async throws {
        let url = try #require(Nginx.https) + "/1k.bin"
        let central = try manager { configuration in configuration.tls.caFile = Nginx.authority }
        #expect(try await central.startRequest("GET", url).data.count == 1_024)
        // AJNetworking accepts every certificate.
        guard case .tls = try await failure(of: { try await manager().startRequest("GET", url) }).kind else {
            Issue.record("an unknown authority was trusted")
            return
        }
    }

    // MARK: 三、四 (upload, download)

    @Test func constructingBodyBlock() async throws {
        let central = try manager()
        let reply = try await UploadAvatar(compid: "1702487", avatar: Data("JPG".utf8)).startRequest(on: central)
        #expect(reply["size"].int == 3)
        let text = try #require(server.requests.first).text
        #expect(text.contains("name=\"compid\"\r\n\r\n1702487\r\n"))
        #expect(text.contains(#"name="img"; filename="img""#) && text.contains("\r\n\r\nJPG\r\n"))
    }

    @Test("downloadTaskWithBean:progress:completion:") func downloadTaskWithBean() async throws {
        let central = try manager()
        let url = server.url("/desktop.jpg")
        var options = DownloadOptions()
        options.existingFile = .skip
        let download = central.download(url, to: folder.path + "/desktop.jpg", options: options)
        for await progress in download.progress { screen.show(progress.fraction ?? 0) }
        let file = try await download.value
        #expect(MockPattern.firstMismatch(in: try #require(folder.read("desktop.jpg")), at: 0) == nil)
        #expect(file.byteCount == 300_000 && !file.isSkipped && download.currentProgress.fraction == 1)

        let again = try await central.download(url, to: folder.path + "/desktop.jpg", options: options).value
        #expect(again.isSkipped && server.requestCount == 1)

        // The page of an error is not saved.
        let missing = central.download(server.url("/none.jpg"), to: folder.path + "/none.jpg", options: options)
        #expect(try await failure { try await missing.value }.kind == .httpStatus)
        #expect(folder.contents == ["desktop.jpg"])
    }

    @Test("suspend, resume, cancel") func downloadIsControlled() async throws {
        let central = try manager()
        let stalled = MockReply.pattern(byteCount: 300_000).stalling(.afterBodyBytes(100_000))
        server.enqueue(stalled, stalled)
        let download = central.download(server.url("/desktop.jpg"), to: folder.path(of: "a.jpg"))
        for await progress in download.progress where progress.completed > 0 { break }
        download.pause()
        #expect(download.state == .paused)
        download.resume()
        #expect(download.state == .running)
        download.cancel()
        #expect(try await failure { try await download.value }.kind == .cancelled)
        try await server.waitForClosedConnections(1)
        #expect(folder.contents.isEmpty)
    }

    // MARK: 五、六 (cache)

    @Test("cacheWithRequestWithBean:callBack:, cacheResponse") func cacheOnly() async throws {
        let central = try manager()
        let miss = try await failure { try await News().cache(.cacheOnly).startRequest(on: central) }
        #expect(miss.kind == .cache && server.requestCount == 0)
        _ = try await News().cache(.writeOnly).startRequest(on: central)
        let reply = try await News().cache(.cacheOnly).reply(on: central)
        #expect(reply.model == ["1"] && reply.response.source == .memoryCache)
        #expect(server.requestCount == 1)
    }

    @Test func cacheLiveSecond() async throws {
        let central = try manager()
        for _ in 1...2 {
            _ = try await News(page: 2).cache(.cacheElseNetwork(.fixed(.seconds(60)))).startRequest(on: central)
        }
        #expect(server.requestCount == 1)
        clock.advance(by: 60)
        let reply = try await News(page: 2).cache(.cacheElseNetwork(.fixed(.seconds(60)))).reply(on: central)
        #expect(reply.response.source == .network && server.requestCount == 2)
        clock.advance(by: 86_400 * 365)
        let old = try await News(page: 2).cache(.cacheElseNetwork(.forever)).reply(on: central)
        #expect(old.response.source == .memoryCache && server.requestCount == 2)
    }

    @Test("requestWithBean:cacheCallBack:httpCallBack:") func cacheThenHTTP() async throws {
        let central = try manager()
        _ = try await News().cache(.writeOnly).startRequest(on: central)
        for try await reply in News().cache(.cacheThenNetwork).replies(on: central) {
            if reply.response.source.isFromCache { screen.show("cache") } else { screen.show("http") }
        }
        #expect(try await screen.next() == "cache")
        #expect(try await screen.next() == "http")
        #expect(server.requestCount == 2)
    }

    @Test("AJCacheOptions") func cacheOptions() async throws {
        let central = try manager { configuration in
            configuration.cacheStorage = .memoryAndDisk
            configuration.cacheDirectory = folder.path + "/aj_network_cache"
        }
        _ = try await News().cache(.writeOnly).startRequest(on: central)
        try await central.cache.flush()
        #expect(folder.contents.allSatisfy { $0.hasPrefix("aj_network_cache") } && !folder.contents.isEmpty)
        #expect(try await central.cache.removeAll(olderThan: .seconds(60)).entryCount == 0)
        clock.advance(by: 61)
        #expect(try await central.cache.removeAll(olderThan: .seconds(60)).entryCount == 1)
        try await central.cache.collectGarbage()
        #expect(try await central.cache.usage().entryCount == 0)
        await central.shutdown()
    }

    // MARK: 七、八、九 (status, hub, ending)

    @Test("AJNetworkStatus: currentStatus, canReachable") func networkStatus() async throws {
        let central = try manager()
        let kind = central.reachability.currentStatus
        #expect(central.reachability.isReachable == ![.none, .loopback].contains(kind))
        // The status is information only. AJNetworking fails a request while the status is unknown.
        #expect(central.reachability.currentStatus(of: "app") == .unknown)
        #expect(try await Register(userName: "ada").startRequest(on: central).userId == 7)
    }

    @Test("isShowHub, hubTips, hubDelegate") func hub() async throws {
        let central = try manager { configuration in
            configuration.accessories = [ActivityIndicator(Hub(screen: screen), delay: .zero) { call in call.tag }]
        }
        _ = try await Register(userName: "ada").tag("registering").startRequest(on: central)
        #expect(try await screen.next() == "showHub registering")
        #expect(try await screen.next() == "dismissHub")
    }

    @Test("stopRequestTaskWithTaskKey:") func stopRequestTaskWithTaskKey() async throws {
        let central = try manager()
        server.fallback { _ in .text("never").stalling(.start) }
        let tasks = [1, 2, 3].map { number in
            central.startRequest(
                "GET", server.url("/slow/\(number)"),
                success: { task, response in screen.show(task.key) },
                failure: { task, error in screen.show("\(error.kind) \(task.key)") })
        }
        try await server.waitForRequests(3)
        #expect(central.cancelRequests(.keys(tasks.dropLast().map(\.key))) == 2)
        let ended: Set<String> = [try await screen.next(), try await screen.next()]
        #expect(ended == Set(tasks.dropLast().map { "cancelled \($0.key)" }))
        #expect(central.runningRequests() == 1)
        tasks[2].cancel()
        #expect(try await screen.next() == "cancelled \(tasks[2].key)")
        try await server.waitForClosedConnections(3)
    }
}
