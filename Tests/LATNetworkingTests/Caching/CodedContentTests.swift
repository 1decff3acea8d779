import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

/// What the cache makes of compressed responses: those that are cut, and those of servers that compress on the fly.
@Suite(.timeLimit(.minutes(1))) struct CodedContentTests {
    private static let text = String(repeating: "The quick brown fox. ", count: 20)
    private static let gzip =
        Data(base64Encoded: "H4sIAAAAAAACAwvJSFUoLM1MzlZIKsovz1NIy6/QUwgZFRxMggBPe1LxpAEAAA==") ?? Data()

    private static func coded(_ data: Data = gzip, _ headers: HTTPHeaders) -> MockReply {
        headers.reduce(MockReply.data(data).header("Content-Encoding", "gzip")) { $0.header($1.name, $1.value) }
    }

    @Test(
        arguments: [CachePolicy.http, .cacheElseNetwork(.forever), .networkElseCache, .cacheThenNetwork],
        [gzip.prefix(1), gzip.prefix(40), gzip.dropLast(8), gzip.dropLast(1)])
    func cutContentIsNotStored(policy: CachePolicy, part: Data) async throws {
        let server = try MockServer()
        let headers: HTTPHeaders = ["Cache-Control": "max-age=3600", "ETag": "\"x\""]
        server.enqueue(Self.coded(part, headers), Self.coded(part, headers).inChunks(of: 9))
        server.fallback { _ in Self.coded(Self.gzip, headers) }
        let manager = try CentralRequestManager.caching(policy) { $0.retries = 0 }
        for _ in 0..<2 {
            let error = await failure { try await manager.startRequest("GET", server.url()) }
            #expect(error?.kind == .connectionLost)
        }
        let whole = try await manager.startRequest("GET", server.url())
        #expect(whole.text == Self.text && whole.source == .network)
        #expect(server.requests.allSatisfy { $0.headers["If-None-Match"] == nil })
    }

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func cutStreamIsNotStored(policy: CachePolicy) async throws {
        let server = try MockServer()
        let headers: HTTPHeaders = ["Cache-Control": "max-age=3600"]
        server.enqueue(Self.coded(Self.gzip.dropLast(4), headers).endingWithConnection())
        server.fallback { _ in Self.coded(Self.gzip, headers) }
        let manager = try CentralRequestManager.caching(policy) { $0.retries = 0 }
        let error = await failure {
            try await manager.stream("GET", server.url()).body.collect(upTo: 1 << 20)
        }
        #expect(error?.kind == .connectionLost)
        let whole = try await manager.stream("GET", server.url())
        #expect(try await whole.body.collect(upTo: 1 << 20) == Data(Self.text.utf8) && whole.source == .network)
    }

    /// The tag of the 200, and that of the 304: nginx and Django, Caddy and lighttpd, Jetty.
    @Test(arguments: [("W/\"x\"", "\"x\""), ("\"x-gzip\"", "\"x\""), ("\"x--gzip\"", "\"x\""), ("\"x\"", "W/\"x\"")])
    func oneRequestRevalidatesCompressedResponse(own: String, confirmed: String) async throws {
        let server = try MockServer()
        server.fallback { request in
            request.headers["If-None-Match"] == own
                ? MockReply.status(304).header("ETag", confirmed).header("X-Run", "2")
                : Self.coded(Self.gzip, ["Cache-Control": "max-age=0", "ETag": own, "X-Run": "1"])
        }
        let manager = try CentralRequestManager.caching(.http)
        #expect(try await manager.startRequest("GET", server.url()).text == Self.text)
        for number in 2...3 {
            let response = try await manager.startRequest("GET", server.url())
            #expect(response.text == Self.text && response.source == .revalidated)
            #expect(response.headers[values: "ETag"] == [own] && response.headers["X-Run"] == "2")
            #expect(server.requestCount == number)
        }
    }

    @Test(.needsNginx, arguments: ["/gzip/1m.bin", "/gzip/1k.json", "/1k.json"])
    func oneRequestRevalidatesNginxFile(path: String) async throws {
        let url = try #require(Servers.nginx) + path
        let manager = try CentralRequestManager.caching(.http)
        let first = try await manager.startRequest("GET", url)
        #expect(first.headers["ETag"]?.hasPrefix("W/") == path.hasPrefix("/gzip"))
        for _ in 0..<2 {
            let again = try await manager.startRequest("GET", url, headers: ["Cache-Control": "no-cache"])
            #expect(again.source == .revalidated && again.data == first.data)
            #expect(again.headers["ETag"] == first.headers["ETag"])
        }
        // nginx sends the same tag with a HEAD, and no length where it compresses.
        let head = try await manager.send(HTTPRequest("HEAD", url, headers: ["Cache-Control": "no-cache"]))
        let entry = CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: url, status: 200, headers: first.headers,
            requestTime: Date(), responseTime: Date())
        #expect(ValidationRule.verdict(of: head, on: entry) == .confirmed)
    }

    /// Caddy answers a HEAD with the length of a compressed empty body.
    @Test(arguments: ["\"x\"", nil] as [String?]) func headOfEmptyCodingKeepsTheStoredGET(tag: String?) async throws {
        let server = try MockServer()
        server.fallback { request in
            var reply = Self.coded(Self.gzip, ["Cache-Control": "max-age=3600"])
            if let tag { reply = reply.header("ETag", tag) }
            return request.method == "HEAD" ? reply.header("Content-Length", "23") : reply
        }
        let manager = try CentralRequestManager.caching(.http)
        #expect(try await manager.startRequest("GET", server.url()).text == Self.text)
        let head = HTTPRequest("HEAD", server.url(), headers: ["Cache-Control": "no-cache"])
        #expect(try await manager.send(head).status == 200)
        let again = try await manager.startRequest("GET", server.url())
        #expect(again.text == Self.text && again.source == .memoryCache)
        #expect(server.requestCount == 2)
    }
}
