import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// No user gets another user's response, and no wrong response replaces a right one.
@Suite(.timeLimit(.minutes(2))) struct CacheSafetyTests {
    /// Returns a server that responds with the sender's credentials.
    private static func mirror(_ headers: HTTPHeaders) throws -> MockServer {
        let server = try MockServer()
        server.fallback { request in
            let who = request.headers["Authorization"] ?? request.headers["X-Tenant-Key"] ?? request.headers["Cookie"]
            return reply(who ?? "nobody", headers)
        }
        return server
    }

    private static func reply(_ text: String, _ headers: HTTPHeaders = [:], status: Int = 200) -> MockReply {
        headers.reduce(MockReply.text(text, status: status)) { $0.header($1.name, $1.value) }
    }

    private static let policies: [CachePolicy] = [
        .http, .cacheElseNetwork(.forever), .cacheThenNetwork, .networkElseCache, .writeOnly,
    ]

    @Test(arguments: policies, ["Authorization", "Cookie", "X-Tenant-Key"])
    func usersDoNotShareResponses(policy: CachePolicy, field: String) async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(policy) { $0.secrets.insert(header: "X-Tenant-Key") }
        for user in ["ada", "bob", "ada", "bob"] {
            #expect(try await manager.startRequest("GET", server.url(), headers: [field: user]).text == user)
        }
        // Only the same credentials find the stored response.
        for user in ["ada", "bob"] {
            let kept = try await manager.startRequest(
                "GET", server.url(), cache: .cacheOnly, headers: [field: user])
            #expect(kept.text == user && kept.source == .memoryCache)
        }
        let stranger = await failure {
            try await manager.startRequest("GET", server.url(), cache: .cacheOnly, headers: [field: "eve"])
        }
        #expect(stranger?.kind == .cache)
        #expect(
            await failure { try await manager.startRequest("GET", server.url(), cache: .cacheOnly) }?.kind == .cache)
    }

    @Test func requestAuthenticationSeparatesUsers() async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.http)
        var request = HTTPRequest("GET", server.url())
        var texts: [String?] = []
        for token in ["a", "b", "a"] {
            request.authentication = .bearer(token: token)
            texts.append(try await manager.send(request).text)
        }
        #expect(texts == ["Bearer a", "Bearer b", "Bearer a"])
        #expect(server.requestCount == 2)
    }

    @Test(arguments: policies) func netrcCredentialsSeparateUsers(policy: CachePolicy) async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine 127.0.0.1 login service password pw".utf8), to: "netrc")
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(policy) { $0.netrc = .file(file) }
        let own = try await manager.startRequest("GET", server.url()).text
        #expect(own == "Basic c2VydmljZTpwdw==")
        #expect(try await manager.startRequest("GET", server.url(), headers: ["Authorization": "ada"]).text == "ada")
        #expect(try await manager.startRequest("GET", server.url(), cache: .cacheOnly).text == own)
        #expect(server.requestCount == 2)
    }

    @Test func seededResponseIsForTheNetrcCredentials() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine 127.0.0.1 login service password pw".utf8), to: "netrc")
        let server = try Self.mirror([:])
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) { $0.netrc = .file(file) }
        try await manager.cache.store(Data("seed".utf8), for: server.url())
        #expect(try await manager.cache.explain(server.url()).verdict == .answers)
        #expect(try await manager.startRequest("GET", server.url()).text == "seed")
        #expect(try await manager.startRequest("GET", server.url(), headers: ["Authorization": "ada"]).text == "ada")
        #expect(server.requestCount == 1)
    }

    @Test func sharedCacheKeepsNoResponseToNetrcCredentials() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine 127.0.0.1 login service password pw".utf8), to: "netrc")
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.http) {
            $0.netrc = .file(file)
            $0.cacheMode = .shared
        }
        for _ in 1...2 { #expect(try await manager.startRequest("GET", server.url()).source == .network) }
    }

    /// Managers that share a store differ in what their signers add to all of their requests.
    @Test func signersSeparateManagers() async throws {
        struct Signer: RequestSigner {
            let identity: String

            func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
                ["X-Tenant-Key": identity]
            }
        }
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let directory = try TemporaryDirectory()
        for user in ["ada", "bob", "ada"] {
            let manager = try CentralRequestManager.caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
                $0.signer = Signer(identity: user)
            }
            #expect(try await manager.startRequest("GET", server.url()).text == user)
            await manager.shutdown()
        }
        #expect(server.requestCount == 2)
    }

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func changingSignatureDoesNotSeparateRequests(policy: CachePolicy) async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(policy) { $0.signer = Counting() }
        let first = try await manager.startRequest("GET", server.url()).text
        #expect(try await manager.startRequest("GET", server.url()).text == first)
        #expect(server.requestCount == 1)
    }

    private final class Counting: RequestSigner {
        private let count = Box(0)

        func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
            count.change { $0 += 1 }
            return ["Authorization": "Signature \(count.value)"]
        }
    }

    @Test(arguments: [true, false]) func rejectedResponseIsNotStoredByStreamOrSend(streams: Bool) async throws {
        let server = try MockServer()
        server.enqueue(.json(#"{"error": "busy"}"#))
        server.fallback { _ in .json(#"{"name": "Ada"}"#) }
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            $0.successJudge = { _, document in document["error"].string == nil }
        }
        if streams {
            _ = try await manager.stream("GET", server.url()).body.collect(upTo: 100)
        } else {
            _ = try await manager.send(HTTPRequest("GET", server.url()))
        }
        #expect(try await manager.startRequest("GET", server.url()).json()["name"] == "Ada")
    }

    @Test(arguments: [CachePolicy.networkElseCache, .http]) func retriesComeBeforeAStoredResponse(policy: CachePolicy)
        async throws
    {
        let server = try MockServer()
        let headers: HTTPHeaders = ["Cache-Control": "max-age=0, stale-if-error=600"]
        server.enqueue(
            Self.reply("old", headers), .status(503), Self.reply("new", headers), .status(503), .status(503),
            .status(503))
        let manager = try CentralRequestManager.caching(policy) {
            $0.retryPolicy = RetryPolicy(retries: 1, statuses: [503], firstWait: .zero)
        }
        var texts: [String?] = []
        for _ in 1...3 { texts.append(try await manager.startRequest("GET", server.url()).text) }
        #expect(texts == ["old", "new", "new"] && server.requestCount == 5)
    }

    @Test func providedParametersApplyToSeedsAndDownloads() async throws {
        let server = try MockServer()
        server.fallback { .text($0.query ?? "") }
        let directory = try TemporaryDirectory()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            $0.baseURL = server.url()
            $0.parameterProvider = { _ in ["app_key": "k"] }
        }
        try await manager.cache.store(Data("seed".utf8), for: "/cities")
        #expect(try await manager.startRequest("GET", "/cities", cache: .cacheOnly).text == "seed")
        #expect(try await manager.cache.explain("/cities").description.contains("app_key"))
        let file = try await manager.download("/file", to: directory.path(of: "f")).value
        #expect(FileManager.default.contents(atPath: file.path) == Data("app_key=k".utf8))
    }

    @Test func socketsAndHostFieldsSeparateServers() async throws {
        let directory = try TemporaryDirectory()
        let manager = try CentralRequestManager.caching(.http)
        var servers: [MockServer] = []
        for name in ["a", "b"] {
            let server = try MockServer(unixSocketPath: directory.path(of: name))
            server.fallback { _ in Self.reply(name, ["Cache-Control": "max-age=3600"]) }
            servers.append(server)
            var request = HTTPRequest("GET", "http://localhost/v1")
            request.unixSocketPath = directory.path(of: name)
            for _ in 1...2 { #expect(try await manager.send(request).text == name) }
        }
        let server = try MockServer()
        server.fallback { Self.reply($0.headers["Host"] ?? "", ["Cache-Control": "max-age=3600"]) }
        for host in ["a.example", "b.example", "a.example"] {
            #expect(try await manager.startRequest("GET", server.url(), headers: ["Host": host]).text == host)
        }
        #expect(servers.map(\.requestCount) == [1, 1] && server.requestCount == 2)
    }

    /// The jar sends the cookies of the host in the `Host` field, so only their owner gets the stored response.
    @Test func cookiesOfAHostFieldSeparateUsers() async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.http) { $0.cookies = .memory }
        for user in ["ada", "bob"] {
            try await manager.cookies?.set(Cookie("user", user, domain: "api.example.org"))
            let response = try await manager.startRequest("GET", server.url(), headers: ["Host": "api.example.org"])
            #expect(response.text == "user=\(user)")
        }
    }

    @Test func publicResponseIsSharedByUsers() async throws {
        let server = try Self.mirror(["Cache-Control": "public, max-age=3600"])
        let manager = try CentralRequestManager.caching(.http)
        #expect(try await manager.startRequest("GET", server.url(), headers: ["Authorization": "ada"]).text == "ada")
        #expect(try await manager.startRequest("GET", server.url(), headers: ["Authorization": "bob"]).text == "ada")
        #expect(try await manager.startRequest("GET", server.url()).text == "ada")
        #expect(server.requestCount == 1)
    }

    /// A partition identifies the user, so a renewed token still finds the stored response.
    @Test(arguments: ["manager", "request", "entity"])
    func partitionReplacesCredentialsInTheKey(place: String) async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.http) { if place == "manager" { $0.cachePartition = "ada" } }
        struct Ask: RequestEntity {
            typealias Model = String
            static let route = Route("GET", url: "/me")
        }
        manager.baseURL = server.url("")
        for (token, user) in [("1", "ada"), ("2", "ada"), ("3", "bob")] {
            if place == "manager" { manager.cache.partition = user }
            var request = HTTPRequest("GET", server.url("/me"), headers: ["Authorization": token])
            if place == "request" { request.cachePartition = user }
            if place == "entity" {
                // The response is not JSON, but it is stored all the same.
                _ = try? await Ask().header("Authorization", token).cachePartition(user).startRequest(on: manager)
            } else {
                #expect(try await manager.send(request).text == (user == "ada" ? "1" : "3"))
            }
        }
        #expect(server.requestCount == 2)
    }

    @Test func callInFlightKeepsItsPartition() async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let held = Holding()
        let manager = try CentralRequestManager.caching(.http) { configuration in
            configuration.cachePartition = "ada"
            configuration.networkInterceptors = [held]
        }
        let call = Task { try await manager.startRequest("GET", server.url()) }
        await held.isThere.wait()
        manager.cache.partition = "bob"
        held.mayGo.happen()
        #expect(try await call.value.text == "nobody")
        #expect(try await manager.cache.entries().map(\.partition) == ["ada"])
        #expect(
            await failure { try await manager.startRequest("GET", server.url(), cache: .cacheOnly) }?.kind == .cache)
    }

    /// The jar's cookies are sent with the request, so they are part of its credentials.
    @Test(arguments: [false, true])
    func jarCookiesSeparateUsers(isPublic: Bool) async throws {
        let caching: HTTPHeaders = [
            "Cache-Control": isPublic ? "public, max-age=3600" : "max-age=3600", "Vary": "Cookie",
        ]
        let server = try Self.mirror(caching)
        let manager = try CentralRequestManager.caching(.http) { $0.cookies = .memory }
        let jar = try #require(manager.cookies)
        for (value, expected) in [("ada", "s=ada"), ("bob", "s=bob"), ("ada", "s=ada")] {
            try await jar.set(Cookie("s", value, domain: "127.0.0.1"))
            #expect(try await manager.startRequest("GET", server.url()).text == expected)
        }
        #expect(server.requestCount == 2)
    }

    /// The secret key of the credential digest is stored beside the entries, readable by its owner only.
    @Test func laterManagerFindsTheSameUsersResponse() async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let directory = try TemporaryDirectory()
        for round in 0..<2 {
            let manager = try CentralRequestManager.caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
            }
            let response = try await manager.startRequest("GET", server.url(), headers: ["Authorization": "ada"])
            #expect(response.source == (round == 0 ? .network : .diskCache))
            await manager.shutdown()
        }
        var status = stat()
        #expect(stat(directory.path(of: "cache/identity.key"), &status) == 0 && status.st_mode & 0o777 == 0o600)
    }

    /// Both managers look up an empty cache first, each with a secret of its own.
    @Test func managersUseTheFirstStoredSecret() async throws {
        let server = try Self.mirror(["Cache-Control": "max-age=3600"])
        let directory = try TemporaryDirectory()
        let managers = try (0..<2).map { _ in
            try CentralRequestManager.caching(.http) {
                $0.cacheStorage = .memoryAndDisk
                $0.cacheDirectory = directory.path(of: "cache")
            }
        }
        let ada: HTTPHeaders = ["Authorization": "ada"]
        for manager in managers {
            let miss = await failure {
                try await manager.startRequest("GET", server.url(), cache: .cacheOnly, headers: ada)
            }
            #expect(miss?.kind == .cache)
        }
        _ = try await managers[0].startRequest("GET", server.url(), headers: ada)
        try await managers[0].cache.flush()
        #expect(try await managers[1].startRequest("GET", server.url(), headers: ada).source == .diskCache)
        #expect(server.requestCount == 1)
        for manager in managers { await manager.shutdown() }
    }

    // MARK: No wrong response is stored

    @Test(arguments: [416, 412, 206, 429])
    func rangeErrorReplacesNoStoredResponse(status: Int) async throws {
        let server = try MockServer()
        server.fallback { request in
            let isPart = request.headers["Range"] != nil
            return Self.reply(
                isPart ? "wrong" : "whole", ["Cache-Control": "max-age=3600", "Content-Range": "bytes */5"],
                status: isPart ? status : 200)
        }
        let manager = try CentralRequestManager.caching(.http)
        for _ in 0..<2 {
            let part = try await manager.send(HTTPRequest("GET", server.url(), headers: ["Range": "bytes=99-"]))
            #expect(part.status == status)
            #expect(try await manager.startRequest("GET", server.url()).text == "whole")
        }
    }

    @Test func serverErrorReplacesNoStoredResponse() async throws {
        let server = try MockServer()
        server.enqueue(
            Self.reply("good", ["Cache-Control": "max-age=0, stale-if-error=600", "ETag": "\"1\""], status: 200))
        server.fallback { _ in Self.reply("bad", ["Cache-Control": "private"], status: 500) }
        let manager = try CentralRequestManager.caching(.http)
        for _ in 0..<3 {
            let response = try await manager.send(HTTPRequest("GET", server.url()))
            #expect(response.text == "good")
        }
    }

    /// RFC 9111 §4.3.4: a 304 with another strong validator selects no stored response.
    @Test func notModifiedWithOtherTagConfirmsNothing() async throws {
        let server = try MockServer()
        server.enqueue(Self.reply("old", ["Cache-Control": "max-age=0", "ETag": "\"1\""], status: 200))
        server.fallback { request in
            request.headers["If-None-Match"] == nil
                ? Self.reply("new", ["ETag": "\"2\""], status: 200)
                : Self.reply("", ["ETag": "\"2\""], status: 304)
        }
        let manager = try CentralRequestManager.caching(.http)
        #expect(try await manager.startRequest("GET", server.url()).text == "old")
        let second = try await manager.startRequest("GET", server.url())
        #expect(second.text == "new" && second.source == .network)
    }

    @Test(
        arguments: ["PUT", "DELETE", "PATCH", "POST"], [CachePolicy.networkOnly, .http, .cacheElseNetwork(.forever)])
    func unsafeMethodInvalidatesUnderEveryPolicy(method: String, policy: CachePolicy) async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.networkOnly)
        let url = server.url("/item")
        #expect(try await manager.startRequest("GET", url, cache: .http).text == "1")
        #expect(try await manager.startRequest("GET", url, cache: .http).text == "1")
        _ = try await manager.startRequest(method, url, cache: policy)
        #expect(try await manager.startRequest("GET", url, cache: .http).text == "3")
    }

    @Test func failedUnsafeMethodInvalidatesNothing() async throws {
        let server = try MockServer()
        server.fallback { request in
            request.method == "GET"
                ? Self.reply("x", ["Cache-Control": "max-age=3600"], status: 200) : .text("", status: 500)
        }
        let manager = try CentralRequestManager.caching(.http)
        _ = try await manager.startRequest("GET", server.url())
        _ = await failure { try await manager.startRequest("DELETE", server.url()) }
        #expect(try await manager.startRequest("GET", server.url()).source == .memoryCache)
    }

    @Test(arguments: ["PUT", "DELETE", "PATCH"])
    func unsafeMethodIsAlwaysSent(method: String) async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) { $0.cachesUnsafeMethods = true }
        for number in 1...3 {
            #expect(try await manager.startRequest(method, server.url(), body: .text("x")).text == "\(number)")
        }
    }

    @Test func storedPostInvalidatesItsURL() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.http) { $0.cachesUnsafeMethods = true }
        #expect(try await manager.startRequest("GET", server.url()).text == "1")
        #expect(try await manager.startRequest("POST", server.url(), body: .text("q")).text == "2")
        #expect(try await manager.startRequest("POST", server.url(), body: .text("q")).text == "2")
        #expect(try await manager.startRequest("GET", server.url()).text == "3")
    }

    /// A background refresh is judged like a response that is delivered.
    @Test func refreshNeverStoresBusinessFailures() async throws {
        let server = try MockServer()
        let caching: HTTPHeaders = [
            "Cache-Control": "max-age=1, stale-while-revalidate=600", "Content-Type": "application/json",
        ]
        server.enqueue(Self.reply(#"{"code":0,"data":"good"}"#, caching))
        server.fallback { _ in Self.reply(#"{"code":7,"message":"no"}"#, caching) }
        let clock = TestClock()
        let table = try DomainTable(
            json5:
                #"{ domains: { d: { baseURL: "\#(server.url(""))", envelope: { code: "code", data: "data", success: [0] } } },"#
                + #" servers: { "s.get": { domain: "d", path: "x", method: "GET", cache: "http" } } }"#)
        let manager = try CentralRequestManager.caching(.http, clock) { $0.domains = table }
        #expect(try await manager.startRequest(server: "s.get", as: String.self).model == "good")
        clock.advance(by: 2)
        // Several refreshes run, and none replaces the stored response.
        while server.requestCount < 4 {
            #expect(try await manager.startRequest(server: "s.get", as: String.self).model == "good")
        }
    }

    @Test(arguments: [false, true]) func disconnectedClientMayServeStale(isChosen: Bool) async throws {
        let server = try MockServer()
        server.fallback { request in
            Self.reply(
                "kept", ["Cache-Control": request.path == "/strict" ? "max-age=1, must-revalidate" : "max-age=1"])
        }
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock) { $0.servesStaleWhenDisconnected = isChosen }
        for path in ["/free", "/strict"] { _ = try await manager.startRequest("GET", server.url(path)) }
        clock.advance(by: 3600)
        server.stop()
        #expect(
            await outcome { try await manager.startRequest("GET", server.url("/free")) }
                == (isChosen ? "kept" : "failed"))
        #expect(await outcome { try await manager.startRequest("GET", server.url("/strict")) } == "failed")
    }

    private func outcome(_ work: () async throws -> HTTPResponse) async -> String {
        do { return try await work().text ?? "" } catch { return "failed" }
    }

    private struct Holding: Interceptor {
        let isThere = Event()
        let mayGo = Event()

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            isThere.happen()
            await mayGo.wait()
            return try await next(request)
        }
    }
}
