import LATKit
import FoundationEssentials
import LATNetworking
import LATStorage
import LATTesting
import Testing

private struct Weather: Codable, Equatable, Sendable { var degrees: Double }

/// `prepare` and `finally`: what runs before and after each request.
private struct Bookends: RequestAccessory {
    let screen: Screen
    func willStart(_ call: ObservedCall) { screen.show("prepare \(call.request.url)") }
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { screen.show("finally") }
}

private struct HUD: ActivityIndicator.Presenter {
    let screen: Screen
    func show(_ tip: String?) { screen.show("HUD \(tip ?? "")") }
    func dismiss() { screen.show("no HUD") }
}

/// A subclass of BaseRequestHttpModel.
private final class LoadWeather: RequestModel<Weather> {
    let city: String
    init(city: String) {
        self.city = city
        super.init(Route("POST", url: "/weather"))
    }
    override var parameters: Parameters? { ["city": city] }
    override var options: RequestOptions { RequestOptions(headers: ["X-Token": "t"]) }
    override class func model(from reply: Reply<Weather>) throws -> Weather {
        Weather(degrees: (reply.model.degrees - 32) / 1.8)
    }
}

private final class Controller: RequestModelDelegate {
    let screen: Screen
    init(screen: Screen) { self.screen = screen }
    func requestModel<Model>(_ call: RequestModel<Model>.Call, didEndWith outcome: CallOutcome<Reply<Model>>) {
        switch outcome {
        case .success(let reply): screen.show(["success", "\(reply.model)"])
        case .failure(let refusal, _): screen.show(["failure", refusal.envelope.data?["errMsg"].string ?? ""])
        case .networkError(let error): screen.show(["networkError", "\(error.kind)"])
        }
    }
}

private struct Note: Codable, Identifiable, Sendable { var id: Int; var text: String }

extension PreferenceKey<Int> { fileprivate static var fontSize: Self { Self("fontSize", default: 12) } }

/// The calls of the README of FrankNetworkManage, written with this library.
@Suite(.timeLimit(.minutes(1))) struct FromFrankNetworkManage {
    private let server: MockServer
    private let screen = Screen()
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        server.route("*", "/weather") { _ in .json(#"{"code": 0, "degrees": 50}"#) }
        server.echo(path: "/path/images")
    }

    /// A manager with the settings that an app of FrankNetworkManage makes in its AppDelegate.
    private func manager(
        _ change: (inout CentralRequestManager.Configuration) throws -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try .make { configuration in
            configuration.baseURL = server.baseURL
            configuration.parameterEncoding = .form
            configuration.successJudge = { response, document in document["code"].int ?? 0 == 0 }
            try change(&configuration)
        }
    }

    // MARK: FrankNetworkManage

    @Test("httpRequestWithHttpMethod:…, judgeResponseIsSuccess") func httpRequest() async throws {
        let central = try manager()
        func load() {
            central.startRequest(
                "POST", "/weather", parameters: ["city": "Turku"], headers: ["X-Token": "t"],
                success: { task, response in screen.show(response) },
                failure: { task, error in
                    if let refusal = error.businessFailure { screen.show(refusal) } else { screen.show(error) }
                })
        }
        load()
        let response: HTTPResponse = try await screen.next()
        #expect(try response.json()["degrees"].int == 50)
        let sent = try #require(server.requests.first)
        #expect(sent.method == "POST" && sent.formItems == [.init("city", "Turku")])
        #expect(sent.headers["X-Token"] == "t")

        server.enqueue(.json(#"{"code": 7, "errMsg": "no such city"}"#), .status(503))
        load()
        let refusal: BusinessFailure = try await screen.next()
        #expect(refusal.envelope.data?["errMsg"].string == "no such city")
        load()
        let error: NetworkError = try await screen.next()
        #expect(error.kind == .httpStatus && error.request?.url == server.url("/weather"))
    }

    @Test("prepare, finally") func prepareAndFinally() async throws {
        let central = try manager { configuration in
            configuration.accessories = [Bookends(screen: screen)]
        }
        server.enqueue(.status(500))
        _ = try await failure { try await central.startRequest("GET", "/weather") }
        #expect(try await screen.next() == "prepare \(server.url("/weather"))")
        #expect(try await screen.next() == "finally")
    }

    @Test("prepare, finally of one request") func prepareAndFinallyOfOneRequest() async throws {
        let central = try manager()
        func load() async throws -> Weather {
            screen.show("prepare")
            defer { screen.show("finally") }
            return try await central.startRequest("GET", "/weather").decode()
        }
        #expect(try await load() == Weather(degrees: 50))
        server.stop()
        _ = try await failure(of: load)
        for word in ["prepare", "finally", "prepare", "finally"] { #expect(try await screen.next() == word) }
    }

    @Test("isShowHUD") func hud() async throws {
        let central = try manager { configuration in
            configuration.accessories = [ActivityIndicator(HUD(screen: screen), delay: .zero) { call in call.tag }]
        }
        _ = try await central.startRequest("GET", "/weather", tag: "loading")
        #expect(try await screen.next() == "HUD loading")
        #expect(try await screen.next() == "no HUD")
    }

    @Test("NetworkCacheType_Never, _OnlyCache, _CacheAndLoad") func cacheTypes() async throws {
        let central = try manager()
        _ = try await central.startRequest("GET", "/weather", cache: .networkOnly)
        #expect(try await central.cache.usage().entryCount == 0)
        _ = try await central.startRequest("GET", "/weather", cache: .writeOnly)
        #expect(try await central.cache.usage().entryCount == 1)

        server.enqueue(.json(#"{"code": 0, "degrees": 68}"#))
        central.startRequest(
            "GET", "/weather", cache: .cacheThenNetwork,
            success: { task, response in screen.show(response) },
            failure: { task, error in screen.show(error) })
        let first: HTTPResponse = try await screen.next()
        let second: HTTPResponse = try await screen.next()
        #expect(first.source.isFromCache && !second.source.isFromCache)
        #expect(try [first.json()["degrees"].int, second.json()["degrees"].int] == [50, 68])

        // What the judge rejects is not stored.
        server.enqueue(.json(#"{"code": 7}"#))
        _ = try await failure { try await central.startRequest("GET", "/weather", cache: .writeOnly) }
        let stored = try await central.startRequest("GET", "/weather", cache: .cacheOnly)
        #expect(try stored.json()["degrees"].int == 68)
        #expect(server.requestCount == 4)
        try await central.cache.removeAll()
        #expect(
            try await failure { try await central.startRequest("GET", "/weather", cache: .cacheOnly) }.kind == .cache)
    }

    @Test("updateBaseUrl:, absoluteUrlWithPath:, encodeUrl:") func baseURL() async throws {
        let central = try manager { $0.baseURL = nil }
        central.baseURL = server.url("/api/")
        server.fallback { .text($0.path) }
        let response = try await central.startRequest("GET", "/城市/a b")
        #expect(
            response.text == "/api/%E5%9F%8E%E5%B8%82/a%20b" && response.url.hasSuffix("/api/%E5%9F%8E%E5%B8%82/a%20b"))
        let encoded = try await central.startRequest("GET", "a%20b")
        #expect(encoded.text == "/api/a%20b")
        #expect("a b&c".urlEncoded == "a%20b%26c")
    }

    @Test("removesKeysWithNullValues") func nullsAreStripped() async throws {
        let central = try manager { configuration in
            configuration.coding.ignoresNullMembers = true
        }
        server.enqueue(.json(#"{"code": 0, "wind": null, "degrees": 50}"#))
        let weather = try await central.startRequest("GET", "/weather").decode([String: JSONValue].self)
        #expect(weather == ["code": 0, "degrees": 50])
    }

    @Test("uploadWithImage:…") func uploadImage() async throws {
        let central = try manager()
        let jpeg = Data(repeating: 0x4A, count: 100_000)
        let upload = central.upload(
            "/path/images",
            files: [UploadFile(name: "imagefiles", fileName: "20260101120000.jpg", data: jpeg)],
            parameters: ["album": 7])
        for await progress in upload.progress { screen.show(progress.completed) }
        #expect(try await upload.value.status == 200)
        var sent = try await screen.next(Int64.self)
        while sent < 100_000 { sent = try await screen.next() }
        let text = try #require(server.requests.first).text
        #expect(text.contains("name=\"album\"\r\n\r\n7\r\n"))
        #expect(text.contains(#"name="imagefiles"; filename="20260101120000.jpg""#))
        #expect(text.contains("Content-Type: image/jpeg"))
    }

    @Test("uploadFileWithUrl:…") func uploadFile() async throws {
        let central = try manager()
        let path = try folder.write(Data("%PDF".utf8), to: "report.pdf")
        let response = try await central.upload("/path/images", files: [UploadFile(name: "file", path: path)]).value
        #expect(response.status == 200)
        #expect(try #require(server.requests.first).text.contains("\r\n\r\n%PDF\r\n"))
    }

    // MARK: FrankHttpDownloadManage

    @Test("initWithDownloadUrl:…, setDownloadStatus:") func download() async throws {
        let central = try manager()
        server.route("GET", "/video.mp4") { request in
            var reply = MockReply(headers: ["ETag": "\"v1\""], body: .bytes(MockPattern.bytes(in: 0..<400_000)))
            if let range = request.headers["Range"], let start = Int64(range.dropFirst(6).prefix { $0 != "-" }) {
                reply = MockReply(
                    status: 206, headers: ["ETag": "\"v1\"", "Content-Range": "bytes \(start)-399999/400000"],
                    body: .bytes(MockPattern.bytes(in: start..<400_000)))
            }
            return request.headers["Range"] == nil ? reply.stalling(.afterBodyBytes(100_000)) : reply
        }
        let path = folder.path(of: "video.mp4")
        let download = central.download("/video.mp4", to: path)
        for await progress in download.progress where progress.completed >= 100_000 { break }
        download.pause()
        try await server.waitForClosedConnections(1)
        #expect(download.state == .paused)
        download.resume()
        let file = try await download.value
        #expect(file.path == path && download.currentProgress.completed == 400_000)
        #expect(server.requests.last?.headers["Range"] != nil)
        #expect(MockPattern.firstMismatch(in: try #require(folder.read("video.mp4")), at: 0) == nil)
    }

    // MARK: BaseRequestHttpModel

    @Test("doRequestWithHttpMethod:…, DoneBusiness:status:") func modelWithDelegate() async throws {
        let central = try manager()
        let controller = Controller(screen: screen)
        func load() {
            let model = LoadWeather(city: "Turku")
            model.delegate = controller
            model.start(on: central)
        }
        load()
        #expect(try await screen.next() == ["success", "\(Weather(degrees: 10))"])
        #expect(server.requests.first?.formItems == [.init("city", "Turku")])
        #expect(server.requests.first?.headers["X-Token"] == "t")
        server.enqueue(.json(#"{"code": 7, "errMsg": "no such city"}"#), .status(503))
        load()
        #expect(try await screen.next() == ["failure", "no such city"])
        load()
        #expect(try await screen.next() == ["networkError", "httpStatus"])
    }

    @Test("doRequestWithHttpMethod:…success:failure:netError:") func modelWithClosure() async throws {
        let central = try manager()
        LoadWeather(city: "Turku").start(on: central) { call, outcome in
            switch outcome {
            case .success(let reply): screen.show(reply.model)
            case .failure(let refusal, _): screen.show(refusal)
            case .networkError(let error): screen.show(error)
            }
        }
        #expect(try await screen.next() == Weather(degrees: 10))
        #expect(server.requests.map(\.method) == ["POST"])
    }

    // MARK: Tools

    @Test("DeviceManage") func deviceManage() async throws {
        let central = try manager()
        let device = DeviceInfo.current
        #expect(device.operatingSystem.kernel?.isEmpty == false && device.processor.logicalCount ?? 0 > 0)
        #expect(device.memory?.total ?? 0 > device.memory?.available ?? 0 && device.disk(at: "/")?.free ?? 0 > 0)
        #expect(device.interfaces.contains { $0.kind == .loopback && $0.addresses.contains("127.0.0.1") })
        #expect(Reachability.InterfaceKind.allCases.contains(central.reachability.currentStatus))
    }

    @Test("FrankFMDBManage") func frankFMDBManage() throws {
        let store = try ObjectStore(path: folder.path(of: "notes.sqlite"))
        try store.insert(Note(id: 1, text: "it's here; -- DROP"))
        try store.upsert(Note(id: 2, text: "second"))
        #expect(try store.fetch(Note.self, where: \.id >= 1, sortedBy: [.descending(\.id)]).map(\.id) == [2, 1])
        try store.delete(Note.self, id: 2)
        #expect(try store.fetch(Note.self, id: 1)?.text == "it's here; -- DROP" && store.count(Note.self) == 1)
    }

    @Test("FrankUserDefaults, NSString+Category") func frankUserDefaults() throws {
        let preferences = Preferences(path: folder.path(of: "preferences.json"))
        #expect(preferences[.fontSize] == 12)
        try preferences.set(.fontSize, to: 14)
        #expect(Preferences(path: folder.path(of: "preferences.json"))[.fontSize] == 14)
        #expect(try "hello".digest(.md5) == "5d41402abc4b2a76b9719d911017c592" && "hello".base64 == "aGVsbG8=")
    }
}
