import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

/// The call sites of the central interface, spelled as in its contract, compiled and run.
@Suite(.timeLimit(.minutes(1))) struct ContractTests {
    private struct Page: Decodable {
        let args: [String: String]
    }

    private struct Order: Encodable, Sendable {
        let name: String
        let count: Int
    }

    private func echoServer() throws -> MockServer {
        let server = try MockServer()
        for path in ["/get", "/post", "/put", "/anything"] { server.echo(path: path) }
        return server
    }

    @Test func shortCallReturnsTheWholeResponse() async throws {
        let server = try echoServer()
        let central = try CentralRequestManager.make()

        let response = try await central.startRequest(
            "GET", server.url("/get"), parameters: ["q": "swift", "page": 2])
        let status: Int = response.status
        let contentType: String? = response.headers["Content-Type"]
        let cookies: [String] = response.headers[values: "Set-Cookie"]
        let data: Data = response.data
        #expect(status == 200)
        #expect(contentType == "application/json")
        #expect(response.headers["content-TYPE"] == contentType)
        #expect(cookies.isEmpty)
        #expect(!data.isEmpty)
        #expect(try response.json()["args"]["q"].string == "swift")
        #expect(try response.json()["args"]["absent"]["deeper"].string == nil)
        #expect(try response.decode(Page.self).args == ["q": "swift", "page": "2"])
        #expect(response.source == .network)
        let firstByte: Duration? = response.timings.firstByte
        #expect(firstByte != nil)
        #expect(response.timings.nameLookup != nil || response.timings.connect != nil)
        #expect(response.timings.tls == nil)
        #expect(response.timings.total != nil)
        #expect(!response.timings.connectionReused)
        let url: String = response.url
        #expect(url == server.url("/get?page=2&q=swift"))
        #expect(response.redirects.isEmpty)
    }

    @Test func sourcesAreDistinct() {
        let all: [HTTPResponse.Source] = [.network, .memoryCache, .diskCache, .revalidated, .stale, .simulated]
        #expect(Set(all).count == 6)
    }

    @Test func closureCallEndsOnce() async throws {
        let server = try echoServer()
        let url = server.url("/post")
        let central = try CentralRequestManager.make()
        let done = Event()
        let answers = Log<String?>()
        let keys = Log<String>()

        let task = central.startRequest(
            "post", url, parameters: ["name": "Ada"],
            progress: { progress in _ = (progress.completed, progress.total, progress.fraction) },
            success: { task, response in
                answers.append(try? response.json()["json"]["name"].string)
                keys.append(task.key)
                done.happen()
            },
            failure: { task, error in
                Issue.record("\(task.key): \(error)")
                done.happen()
            })
        task.suspend()
        task.resume()
        await done.wait()
        task.cancel()

        #expect(answers.elements == ["Ada"])
        #expect(keys.elements == [task.key])
        #expect(server.requests.map(\.method) == ["POST"])
    }

    @Test func longFormTakesEveryArgument() async throws {
        let server = try echoServer()
        let url = server.url("/put")
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("%PDF".utf8), to: "report.pdf")
        let png = Data([0x89, 0x50, 0x4E, 0x47])
        let central = try CentralRequestManager.make()
        let done = Event()

        central.startRequest(
            "PUT", url, parameters: [:],
            files: [
                UploadFile(name: "img", fileName: "a.png", data: png), UploadFile(name: "doc", path: path),
            ],
            body: nil, cache: .networkOnly, timeout: .seconds(60), headers: ["X-Trace": "1"],
            progress: { _ in }, success: { _, _ in done.happen() },
            failure: { _, error in
                Issue.record(error)
                done.happen()
            })
        await done.wait()

        let request = try #require(server.requests.first)
        #expect(request.method == "PUT")
        #expect(request.headers["X-Trace"] == "1")
        #expect(request.headers["Content-Type"]?.hasPrefix("multipart/form-data; boundary=") == true)
        #expect(request.body.firstRange(of: png) != nil)
        let text = request.text
        #expect(text.contains(#"name="img"; filename="a.png""#))
        #expect(text.contains("Content-Type: image/png"))
        #expect(text.contains(#"name="doc"; filename="report.pdf""#))
        #expect(text.contains("Content-Type: application/pdf"))
        #expect(text.contains("%PDF"))
    }

    @Test func nilHeaderIsRemoved() async throws {
        let server = try echoServer()
        let central = try CentralRequestManager.make { $0.headers = ["X-Global": "g"] }
        let trace: String? = nil
        _ = try await central.startRequest("GET", server.url("/get"), headers: ["X-Trace": trace, "X-Global": nil])
        let request = try #require(server.requests.first)
        #expect(request.headers["X-Trace"] == nil)
        #expect(request.headers["X-Global"] == nil)
    }

    @Test func everyKindOfBodyIsSent() async throws {
        let server = try echoServer()
        let url = server.url("/post")
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("from disk".utf8), to: "notes.txt")
        let order = Order(name: "tea", count: 2)
        let central = try CentralRequestManager.make()

        let created = try await central.startRequest("POST", url, body: .json(order))
        #expect(try created.json()["json"]["count"].int == 2)
        _ = try await central.startRequest("POST", url, parameters: ["a": "b c"], body: .form)
        _ = try await central.startRequest("POST", url, body: .data(Data([0, 1, 2]), contentType: "a/b"))
        _ = try await central.startRequest("POST", url, body: .file(path))
        let chunks = AsyncStream<Data> { continuation in
            continuation.yield(Data("one ".utf8))
            continuation.yield(Data("two".utf8))
            continuation.finish()
        }
        _ = try await central.startRequest("POST", url, body: .stream(chunks))
        _ = try await central.startRequest(
            "POST", url, body: .multipart([UploadFile(name: "field", value: "plain")]))

        let requests = server.requests
        #expect(
            requests.map { $0.headers["Content-Type"]?.prefix { $0 != ";" } } == [
                "application/json", "application/x-www-form-urlencoded", "a/b", "text/plain", nil,
                "multipart/form-data",
            ])
        #expect(requests[1].formItems == [.init("a", "b c")])
        #expect(requests[2].body == Data([0, 1, 2]))
        #expect(requests[3].text == "from disk")
        #expect(requests[4].text == "one two")
        #expect(requests[4].headers["Transfer-Encoding"] == "chunked")
        #expect(requests[5].text.contains("name=\"field\"\r\n\r\nplain\r\n"))
    }

    @Test func streamIsReadByChunkAndByLine() async throws {
        let server = try MockServer()
        server.route("GET", "/stream") { _ in .pattern(byteCount: 300_000) }
        server.route("GET", "/lines") { _ in .text("one\ntwo\r\nthree") }
        let central = try CentralRequestManager.make()

        let url = server.url("/stream")
        var offset: Int64 = 0
        for try await chunk in try await central.stream("GET", url).body {
            #expect(MockPattern.firstMismatch(in: chunk, at: offset) == nil)
            offset += Int64(chunk.count)
        }
        #expect(offset == 300_000)

        var lines: [String] = []
        for try await line in try await central.stream("GET", server.url("/lines")).body.lines { lines.append(line) }
        #expect(lines == ["one", "two", "three"])
    }

    @Test func sendReturnsErrorStatusAsResponse() async throws {
        let server = try MockServer()
        server.route("*", "/raw") { _ in
            MockReply(
                status: 404, reason: "Nothing Here",
                headers: HTTPHeaders([("X-B", "1"), ("X-A", "2"), ("X-B", "3")]), body: .bytes(Data("no".utf8)))
        }
        let central = try CentralRequestManager.make {
            $0.headers = ["X-Global": "yes"]
            $0.cacheStorage = .memory
        }
        let url = server.url("/raw")
        let bytes = Data("bytes".utf8)

        var request = HTTPRequest("GET", url)
        request.headers["If-None-Match"] = "\"x\""
        request.headers.append("Accept", "a/b")
        request.headers.append("Accept", "c/d")
        request.body = .data(bytes, contentType: "a/b")
        request.cachePolicy = .http
        request.redirects = .none
        request.decompresses = false
        request.retries = 0
        request.timeout = .seconds(60)
        request.authentication = .digest(user: "u", password: "p")
        let raw = try await central.send(request)

        #expect(raw.status == 404)
        #expect(raw.reason == "Nothing Here")
        var fields: [String] = []
        for (name, value) in raw.headers { fields.append("\(name)=\(value)") }
        #expect(fields.prefix(3) == ["X-B=1", "X-A=2", "X-B=3"])
        #expect(raw.text == "no")

        let sent = try #require(server.requests.last)
        #expect(sent.headers["If-None-Match"] == "\"x\"")
        #expect(sent.headers[values: "Accept"] == ["a/b", "c/d"])
        #expect(sent.headers["X-Global"] == "yes")
        #expect(sent.headers["Accept-Encoding"] == nil)
    }

    @Test func otherCredentialsCompile() {
        var request = HTTPRequest("GET", "http://127.0.0.1/")
        request.authentication = .basic(user: "u", password: "p")
        request.authentication = .bearer(token: "t")
        request.authentication = .any(user: "u", password: "p")
        #expect(request.authentication == .any(user: "u", password: "p"))
    }

    @Test func redirectIsReturnedWhenNoneAreFollowed() async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in .redirect(to: "/b", status: 302) }
        server.route("GET", "/b") { _ in .text("b") }
        let central = try CentralRequestManager.make()
        var request = HTTPRequest("GET", server.url("/a"))
        request.redirects = .none
        let raw = try await central.send(request)
        #expect(raw.status == 302)
        #expect(raw.headers["Location"] == "/b")
        #expect(raw.redirects.isEmpty)
        #expect(server.requestCount == 1)
        request.redirects = .automatic
        #expect(try await central.send(request).text == "b")
    }

    @Test func errorStatusIsThrownWithItsResponse() async throws {
        let server = try MockServer()
        server.enqueue(.json(#"{"why": "full"}"#, status: 503))
        let central = try CentralRequestManager.make()
        do {
            _ = try await central.startRequest("GET", server.url("/"))
            Issue.record("no error")
        } catch let error as NetworkError {
            #expect(error.kind == .httpStatus)
            #expect(error.response?.status == 503)
            #expect(error.response?.data == Data(#"{"why": "full"}"#.utf8))
        }
    }
}

private let token = "secret"

private struct Signing: Interceptor {
    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse { try await next(request) }
}

/// The call sites that need TLS, against nginx.
@Suite(
    .timeLimit(.minutes(1)),
    .needsNginx)
struct TLSContractTests {
    @Test func configuredAuthorityIsTrusted() async throws {
        let base = try #require(Servers.nginxTLS)
        var c = CentralRequestManager.Configuration()
        c.tls.caFile = Servers.authority
        c.baseURL = base
        let central = try CentralRequestManager(configuration: c)
        let response = try await central.startRequest("GET", "1k.bin")
        #expect(response.data.count == 1_024)
        #expect(response.version == .http2)
        #expect(response.reason.isEmpty)
        let tls: Duration? = response.timings.tls
        #expect(tls != nil)
        #expect(try await central.startRequest("GET", "1k.bin").timings.connectionReused)
        #expect(try await central.startRequest("GET", "1k.bin").timings.tls == nil)
    }

    @Test func unknownAuthorityIsRefused() async throws {
        let base = try #require(Servers.nginxTLS)
        let central = try CentralRequestManager.make()
        let error = await failure { try await central.startRequest("GET", base + "/1k.bin") }
        guard case .tls(let reason) = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect([.untrusted, .selfSigned].contains(reason))
    }

    @Test func hundredCallsShareOneConnection() async throws {
        let base = try #require(Servers.nginxTLS)
        let central = try CentralRequestManager.make {
            $0.tls.caFile = Servers.authority
            $0.baseURL = base
        }
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<100 { group.addTask { try await central.startRequest("GET", "4k.bin").data.count } }
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
        #expect(counts == [Int](repeating: 4_096, count: 100))
        let gauges = try #require(await central.gauges)
        #expect(gauges.sockets == 1)
    }
}

/// The lines that configure a manager. One test configures ``CentralRequestManager/shared``, which can be done once.
@Suite(.timeLimit(.minutes(1))) struct SetupContractTests {
    @Test func sharedManagerIsConfiguredOnce() async throws {
        let server = try MockServer()
        server.echo(path: "/get")
        var c = CentralRequestManager.Configuration()
        c.headerProvider = { request in ["User-Agent": "App/2.1", "Authorization": "Bearer \(token)"] }
        c.interceptors = [Signing()]
        c.timeout = .seconds(60); c.connectTimeout = .seconds(10); c.idleTimeout = .seconds(60)
        c.maxConnectionsPerHost = 5
        let directory = try TemporaryDirectory()
        c.cachePolicy = .http; c.cacheDirectory = directory.path + "/cache"
        c.redirects = .follow(limit: 20)
        try CentralRequestManager.configureShared(c)

        let central = CentralRequestManager.shared
        _ = try await central.startRequest("GET", server.url("/get"))
        let request = try #require(server.requests.first)
        #expect(request.headers["User-Agent"] == "App/2.1")
        #expect(request.headers["Authorization"] == "Bearer secret")

        let error = #expect(throws: NetworkError.self) { try CentralRequestManager.configureShared(c) }
        #expect(error?.kind == .invalidRequest)
        #expect(CentralRequestManager.shared === central)
    }

    @Test func missingCAFileIsRefusedAtOnce() throws {
        var c = CentralRequestManager.Configuration()
        c.tls.caFile = "ca.pem"
        c.proxy = "socks5h://127.0.0.1:1080"
        #expect(c.engine.tls.caFile == "ca.pem")
        #expect(c.proxy == .url("socks5h://127.0.0.1:1080"))
        c.proxy = .environment
        // A missing file is refused by the initializer, not at the first request.
        let error = #expect(throws: NetworkError.self) { try CentralRequestManager(configuration: c) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("ca.pem") == true)
    }
}
