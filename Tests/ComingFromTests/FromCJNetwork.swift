import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

private struct UserInfo: Codable, Equatable, Sendable { var name: String }

/// `encryptBlock` and `decryptBlock` for a server with a format of its own.
private struct AppCipher: Sealer {
    func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
        SealedRequest(method: request.method, body: body.map { Data($0.reversed()) })
    }
    func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) async throws -> OpenedReply? {
        OpenedReply(body: Data(body.reversed()))
    }
}

private struct Waiting: RequestAccessory {
    let screen: Screen
    func handle(_ event: CallEvent) {
        if case .waiting(.barrier) = event.kind { screen.show("waits for the keeper") }
    }
}

/// `getRequestFailureMessageBlock`.
extension NetworkError {
    fileprivate var failureMessage: String { businessFailure?.message ?? "网络错误" }
}

/// The calls of the README of CJNetwork, written with this library.
@Suite(.timeLimit(.minutes(1))) struct FromCJNetwork {
    private let server: MockServer
    private let screen = Screen()
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        server.route("*", "/api/user") { _ in .json(#"{"status": 1, "message": "ok", "result": {"name": "Ada"}}"#) }
        server.echo(path: "/upload")
    }

    /// A manager with the settings that the README of CJNetwork makes in TestNetworkClient.
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
                          envelope: { code: "status", message: "message", data: "result", success: [1] },
                        },
                      },
                      servers: { "user": { domain: "app", path: "api/user", method: "POST" } },
                    }
                    """)
            configuration.baseURL = server.baseURL
            configuration.parameterProvider = { request in ["phone": "iPhone6"] }
            try change(&configuration)
        }
    }

    // MARK: 二 (CJNetworkClient)

    @Test("setupCompleteFullUrlBlock:completeAllParamsBlock:") func completeParameters() async throws {
        let central = try manager()
        _ = try await central.startRequest("POST", "api/user", parameters: ["id": 7])
        _ = try await central.startRequest("POST", "api/user", parameters: ["phone": "own"])
        #expect(server.requests.map(\.target) == ["/api/user", "/api/user"])
        #expect(server.requests.map(\.json) == [["phone": "iPhone6", "id": 7], ["phone": "own"]])
    }

    @Test("setupResponseConvertBlock:…getRequestFailureMessageBlock:") func responseConvert() async throws {
        let central = try manager()
        let reply = try await central.startRequest(server: "user", as: UserInfo.self)
        #expect(reply.envelope?.code == 1 && reply.envelope?.message == "ok" && reply.model == UserInfo(name: "Ada"))
        #expect(reply.response.source.isFromCache == false)
        server.enqueue(.json(#"{"status": 4, "message": "full"}"#), .status(500))
        var messages: [String] = []
        for _ in 1...2 {
            messages.append(try await failure { try await central.startRequest(server: "user") }.failureMessage)
        }
        #expect(messages == ["full", "网络错误"])
    }

    @Test("checkIsCommonBlock:") func checkIsCommon() async throws {
        let central = try manager { configuration in
            configuration.outcomeObservers = [
                { outcome, request in
                    if case .failure(let refusal, _) = outcome, refusal.code == "5" {
                        screen.show("signed in elsewhere")
                    }
                }
            ]
        }
        server.enqueue(.json(#"{"status": 5}"#), .json(#"{"status": 6}"#))
        for code in ["5", "6"] {
            do {
                _ = try await central.startRequest(server: "user")
                Issue.record("no error")
            } catch let error as NetworkError where error.businessFailure?.code == "5" {
                screen.show("the observer has said it")
            } catch let error as NetworkError {
                screen.show("\(code) is the caller's: \(error.failureMessage)")
            }
        }
        #expect(try await screen.next() == "signed in elsewhere")
        #expect(try await screen.next() == "the observer has said it")
        #expect(try await screen.next() == "6 is the caller's: 网络错误")
    }

    @Test("setupSimulateDomain:, CJRequestTypeSimulate, CJRequestTypeLocal") func simulate() async throws {
        let central = try manager()
        let mock = try MockServer()
        mock.fallback { _ in .json(#"{"status": 1, "result": {"name": "simulated"}}"#) }
        try folder.write(Data(#"{"status": 1, "result": {"name": "local"}}"#.utf8), to: "api/user.json")
        struct FetchUser: RequestEntity {
            typealias Model = UserInfo
            static let route = Route(server: "user")
        }
        let remote = try await FetchUser().simulated(.server(mock.baseURL)).reply(on: central)
        let local = try await FetchUser().simulated(.fixtures(folder.path, after: .milliseconds(5))).reply(on: central)
        #expect([remote.model.name, local.model.name] == ["simulated", "local"])
        #expect(remote.response.source == .simulated && mock.requests.map(\.path) == ["/api/user"])
        #expect(server.requestCount == 0)

        let simulated = try manager { configuration in configuration.simulation = .server(mock.baseURL) }
        #expect(try await FetchUser().startRequest(on: simulated).name == "simulated")
    }

    // MARK: 三 (encryption, cache, log)

    @Test("setupCleanHTTPSessionManager:cryptHTTPSessionManager:") func cleanAndCrypt() async throws {
        let key = Data((0..<32).map { UInt8($0) })
        let clean = try manager()
        let crypt = try manager { configuration in
            configuration.sealer = try AESGCMSealer(keys: ["k1": key], current: "k1")
        }
        let peer = SealingPeer(try AESGCMSealer(keys: ["k1": key], current: "k1"))
        server.route("POST", "/sealed") { [screen] request in
            let opened = try peer.open(
                method: request.method, target: request.target, headers: request.headers, body: request.body)
            screen.show(String(decoding: opened.body ?? Data(), as: UTF8.self))
            let reply = try peer.seal(Data(#"{"secret": 1}"#.utf8), status: 200, to: opened)
            return MockReply(status: 200, headers: reply.headers, body: .bytes(reply.body))
        }
        let reply = try await crypt.startRequest("POST", "sealed", parameters: ["id": 7])
        #expect(try reply.json()["secret"].int == 1)
        #expect(try await screen.next() == #"{"id":7,"phone":"iPhone6"}"#)
        #expect(server.requests.first?.text.contains("iPhone6") == false)
        _ = try await clean.startRequest("POST", "api/user", parameters: ["id": 7])
        #expect(server.requests.last?.json == ["id": 7, "phone": "iPhone6"])
    }

    @Test("encryptBlock, decryptBlock") func ownCipher() async throws {
        let central = try manager { configuration in configuration.sealer = AppCipher() }
        server.fallback { .data($0.body) }
        let response = try await central.startRequest("POST", "/echo", parameters: ["id": 7])
        #expect(try response.json() == ["id": 7, "phone": "iPhone6"])
        #expect(server.requests.first?.text == String(#"{"id":7,"phone":"iPhone6"}"#.reversed()))
    }

    @Test("cj_getUrl:params:settingModel:success:failure:") func getURL() async throws {
        let central = try manager()
        let url = server.url("/api/user")
        central.startRequest(
            "GET", url, parameters: ["id": 7],
            success: { task, response in screen.show((try? response.json()["result"]["name"].string) ?? "none") },
            failure: { task, error in screen.show(error.message) })
        #expect(try await screen.next() == "Ada")
        #expect(server.requests.map(\.target) == ["/api/user?id=7&phone=iPhone6"])
    }

    @Test("cj_postUrl:params:settingModel:success:failure:") func postURL() async throws {
        let central = try manager()
        server.enqueue(.status(404))
        let url = server.url("/api/user")
        central.startRequest(
            "POST", url, parameters: ["id": 7],
            success: { task, response in screen.show("none") },
            failure: { task, error in screen.show(error.message) })
        #expect(try await screen.next(String.self).contains("404"))
        #expect(server.requests.map(\.json) == [["id": 7, "phone": "iPhone6"]])
    }

    @Test("CJNetworkCacheStrategy") func cacheStrategies() async throws {
        let central = try manager { configuration in configuration.parameterProvider = nil }
        func load(_ policy: CachePolicy) {
            central.startRequest(
                "GET", "/api/user", cache: policy,
                success: { task, response in screen.show(response.source.isFromCache) },
                failure: { task, error in screen.show(error) })
        }
        load(.networkOnly)  // NoneCache
        #expect(try await screen.next() == false)
        for isCacheData in [false, true] {
            load(.cacheElseNetwork(.fixed(.seconds(60))))  // EndWithCacheIfExist
            #expect(try await screen.next() == isCacheData)
        }
        load(.cacheThenNetwork)  // UseCacheToTransition
        for isCacheData in [true, false] { #expect(try await screen.next() == isCacheData) }
        #expect(server.requestCount == 3)
    }

    @Test("CJCacheManager") func cacheManager() async throws {
        let central = try manager()
        try await central.values.set(UserInfo(name: "Ada"), for: "user")
        let user = try await central.values.get(UserInfo.self, for: "user")
        #expect(user == UserInfo(name: "Ada"))
        // "Clear when switching account": each account has its own responses.
        central.cache.partition = "ada"
        _ = try await central.startRequest("GET", "/api/user", cache: .writeOnly)
        central.cache.partition = "bob"
        #expect(
            try await failure { try await central.startRequest("GET", "/api/user", cache: .cacheOnly) }.kind == .cache)
        #expect(server.requestCount == 1)
    }

    @Test("CJRequestLogTypeConsoleLog, CJRequestLogTypeSuppendWindow") func log() async throws {
        let central = try manager { configuration in
            configuration.accessories = [RequestLog(.curl) { entry in screen.show(entry) }]
        }
        _ = try await central.startRequest("POST", "/api/user", parameters: ["id": 7])
        let entry: String = try await screen.next()
        #expect(entry.contains("curl") && entry.contains("/api/user") && entry.contains("iPhone6"))
        #expect(server.requestCount == 1)
    }

    // MARK: Files

    @Test("cj_postUploadUrl:…uploadMomentInfoChangeBlock:…") func uploadWithMomentInfo() async throws {
        let central = try manager()
        let png = Data(repeating: 0x41, count: 50_000)
        let path = try folder.write(Data(repeating: 0x42, count: 60_000), to: "voice.mp3")
        let upload = central.upload(
            "/upload",
            files: [UploadFile(name: "file", fileName: "a.png", data: png), UploadFile(name: "file", path: path)])
        for await progress in upload.progress {
            for file in progress.files { screen.show("\(file.fileName ?? "") \(file.state)") }
        }
        let response = try await upload.value
        #expect(response.status == 200 && upload.currentProgress.files.map(\.state) == [.done, .done])
        #expect(try await screen.next(String.self).hasPrefix("a.png "))
        let text = try #require(server.requests.first).text
        #expect(text.contains("Content-Type: image/png") && text.contains("Content-Type: audio/mpeg"))
    }

    @Test("cj_postUploadUrl:…progress:success:failure:") func uploadWithProgress() async throws {
        let central = try manager()
        let png = Data(repeating: 0x41, count: 50_000)
        central.startRequest(
            "POST", "/upload", parameters: ["album": 1],
            files: [UploadFile(name: "upfile", fileName: "a.png", data: png)],
            progress: { progress in if progress.fraction == 1 { screen.show("sent") } },
            success: { task, response in screen.show("success") },
            failure: { task, error in screen.show("failure") })
        #expect(try await screen.next() == "sent")
        #expect(try await screen.next() == "success")
        let text = try #require(server.requests.first).text
        #expect(text.contains(#"name="upfile"; filename="a.png""#) && text.contains("name=\"album\"\r\n\r\n1\r\n"))
    }

    @Test("断点续传 (resuming)") func resume() async throws {
        let central = try manager()
        let bytes = MockPattern.bytes(in: 0..<400_000)
        server.enqueue(
            MockReply(headers: ["ETag": "\"v1\""], body: .bytes(bytes)).stalling(.afterBodyBytes(150_000)))
        server.fallback { request in
            let start = Int(request.headers["Range"]?.dropFirst(6).prefix { $0 != "-" } ?? "") ?? 0
            return MockReply(
                status: 206, headers: ["ETag": "\"v1\"", "Content-Range": "bytes \(start)-399999/400000"],
                body: .bytes(bytes.dropFirst(start)))
        }
        let path = folder.path(of: "big.zip")
        let first = central.download("/big.zip", to: path)
        for await progress in first.progress where progress.completed >= 150_000 { break }
        first.cancel(keepingProgress: true)
        _ = try await failure { try await first.value }
        let file = try await central.download("/big.zip", to: path).value
        #expect(file.resumedByteCount == 150_000 && file.byteCount == 400_000 && folder.read("big.zip") == bytes)
        #expect(server.requests.map { $0.headers["Range"] } == [nil, "bytes=150000-"])
        #expect(server.requests[1].headers["If-Range"] == "\"v1\"")
    }

    @Test("并发数控制 (concurrency), keeperUrl") func concurrency() async throws {
        let central = try manager { configuration in
            configuration.limits.maxConcurrentRequests = 2
            configuration.accessories = [Waiting(screen: screen)]
        }
        server.fallback { _ in .text("never").stalling(.start) }
        var keeper = HTTPRequest("GET", "/keeper")
        keeper.isBarrier = true
        let gate = Task { [keeper] in try await central.send(keeper) }
        try await server.waitForRequests(1)
        for number in 1...4 {
            central.startRequest(
                "GET", "/slow/\(number)",
                success: { task, response in screen.show("none") },
                failure: { task, error in screen.show("\(error.kind)") })
        }
        for _ in 1...4 { #expect(try await screen.next() == "waits for the keeper") }
        #expect(server.requestCount == 1)
        gate.cancel()
        try await server.waitForRequests(3)
        #expect(central.cancelRequests(.all) >= 4)
        for _ in 1...4 { #expect(try await screen.next() == "cancelled") }
        #expect(server.requestCount == 3)
    }
}
