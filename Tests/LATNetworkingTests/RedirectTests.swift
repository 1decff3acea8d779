import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

@Suite(.timeLimit(.minutes(1))) struct RedirectTests {
    /// A request that opts out of the cookie jar or the netrc file does so at each of its hops.
    @Test func removedFieldsStayRemovedAtAnotherOrigin() throws {
        let request = HTTPRequest(
            "GET", "http://a.example/", headers: ["Cookie": nil, "Authorization": nil, "X-API-Key": "k", "X": "1"])
        let response = HTTPResponse(
            status: 302, headers: ["Location": "http://b.example/"], body: .empty, url: "http://a.example/")
        let next = try #require(try RedirectRule(secrets: .standard).next(after: response, to: request))
        let fields = next.headers.fields.map { "\($0.name): \($0.value ?? "none")" }
        #expect(Set(fields) == ["Cookie: none", "Authorization: none", "X: 1"])
    }

    @Test(arguments: [
        // RFC 9110 §15.4: 303 asks for GET, 301 and 302 change POST only, 307 and 308 change nothing.
        (301, "GET", "GET", false), (301, "HEAD", "HEAD", false), (301, "POST", "GET", false),
        (301, "PUT", "PUT", true), (301, "DELETE", "DELETE", false), (302, "GET", "GET", false),
        (302, "HEAD", "HEAD", false), (302, "POST", "GET", false), (302, "PUT", "PUT", true),
        (303, "GET", "GET", false), (303, "HEAD", "HEAD", false), (303, "POST", "GET", false),
        (303, "PUT", "GET", false), (303, "DELETE", "GET", false), (307, "GET", "GET", false),
        (307, "HEAD", "HEAD", false), (307, "POST", "POST", true), (307, "PUT", "PUT", true),
        (308, "GET", "GET", false), (308, "HEAD", "HEAD", false), (308, "POST", "POST", true),
        (308, "PATCH", "PATCH", true),
        // RFC 10008 §2.5: QUERY is kept, except after 303.
        (301, "QUERY", "QUERY", true), (302, "QUERY", "QUERY", true), (303, "QUERY", "GET", false),
        (307, "QUERY", "QUERY", true), (308, "QUERY", "QUERY", true),
    ])
    func methodAndBodyFollowTheStatus(_ status: Int, _ method: String, _ next: String, _ keepsBody: Bool) async throws {
        let server = try MockServer()
        server.route("*", "/a") { _ in .redirect(to: "/b", status: status) }
        server.route("*", "/b") { _ in .text("end") }
        let hasBody = ["POST", "PUT", "PATCH", "QUERY"].contains(method)
        let response = try await CentralRequestManager.make().startRequest(
            method, server.url("/a"), body: hasBody ? .data(Data("body".utf8), contentType: "a/b") : nil,
            headers: ["X-Kept": "1", "Content-Language": "de"])
        #expect(response.status == 200)
        #expect(response.url == server.url("/b"))
        #expect(response.redirects == [.init(url: server.url("/a"), status: status)])
        let second = try #require(server.requests.last)
        #expect(second.method == next)
        #expect(second.text == (keepsBody ? "body" : ""))
        #expect(second.headers["Content-Type"] == (keepsBody ? "a/b" : nil))
        #expect(second.headers["X-Kept"] == "1")
        if next != method { #expect(second.headers["Content-Language"] == nil) }
    }

    @Test func everyKindOfReplayableBodyIsSentAgain() async throws {
        let server = try MockServer()
        server.route("POST", "/a") { _ in .redirect(to: "/b", status: 307) }
        server.route("POST", "/b") { _ in .redirect(to: "/c", status: 308) }
        server.route("POST", "/c") { _ in .text("end") }
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 200_000, to: "big.bin")
        let bytes = MockPattern.bytes(in: 0..<200_000)
        let manager = try CentralRequestManager.make()
        let bodies: [HTTPBody] = [
            .data(bytes), .file(path), .json(["a": 1]), .form(["a": 1]),
            .stream {
                AsyncStream {
                    $0.yield(bytes); $0.finish()
                }
            },
        ]
        for body in bodies {
            server.forgetRequests()
            let response = try await manager.startRequest("POST", server.url("/a"), body: body)
            #expect(response.redirects.map(\.status) == [307, 308])
            let sent = server.requests.map(\.body)
            #expect(sent.count == 3)
            #expect(Set(sent).count == 1)
            #expect(!sent[0].isEmpty)
        }
        server.forgetRequests()
        _ = try await manager.startRequest("POST", server.url("/a"), files: [UploadFile(name: "f", path: path)])
        #expect(server.requests.allSatisfy { $0.bodyByteCount > 200_000 && $0.isComplete })
        #expect(server.requestCount == 3)
    }

    /// They are about the content that was sent, and the result is another resource.
    @Test func resultIsAskedForWithoutConditionsAndContent() async throws {
        let server = try MockServer()
        server.route("PUT", "/a") { _ in .redirect(to: "/b", status: 303) }
        server.route("GET", "/b") { _ in .text("end") }
        let fields = [
            "If-Match", "If-None-Match", "If-Unmodified-Since", "Idempotency-Key", "Content-MD5", "Content-Range",
        ]
        let headers = HTTPHeaders(fields.map { ($0, "x") } + [("X-Own", "x")])
        _ = try await CentralRequestManager.make().startRequest(
            "PUT", server.url("/a"), body: .text("x"), headers: headers)
        let sent = server.requests.map(\.headers)
        #expect(fields.allSatisfy(sent[0].contains) && sent.map { $0["X-Own"] } == ["x", "x"])
        #expect(fields.filter(sent[1].contains) == [])
    }

    @Test func oneShotStreamIsNotReplayed() async throws {
        let server = try MockServer()
        server.route("*", "/307") { _ in .redirect(to: "/end", status: 307) }
        server.route("*", "/303") { _ in .redirect(to: "/end", status: 303) }
        server.route("GET", "/end") { _ in .text("end") }
        let manager = try CentralRequestManager.make()
        func once() -> AsyncStream<Data> {
            AsyncStream {
                $0.yield(Data("x".utf8)); $0.finish()
            }
        }
        let error = await failure {
            try await manager.startRequest("POST", server.url("/307"), body: .stream(once()))
        }
        #expect(error?.kind == .redirect)
        #expect(error?.response?.status == 307)
        #expect(server.requests.map(\.path) == ["/307"])
        #expect(try await manager.startRequest("POST", server.url("/303"), body: .stream(once())).text == "end")
    }

    @Test(arguments: [300, 304, 305, 306, 399])
    func otherStatusesAreNotFollowed(_ status: Int) async throws {
        let server = try MockServer()
        server.fallback { _ in .redirect(to: "/end", status: status) }
        let response = try await CentralRequestManager.make().send(HTTPRequest("GET", server.url()))
        #expect(response.status == status)
        #expect(server.requestCount == 1)
    }

    @Test func redirectWithoutLocationIsNotFollowed() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(302) }
        let manager = try CentralRequestManager.make()
        #expect(try await manager.send(HTTPRequest("GET", server.url())).status == 302)
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.kind == .httpStatus)
    }

    @Test(arguments: [
        "ftp://h/x", "file:///etc/passwd", "javascript:alert(1)", "http://", "http://h:99999/", "mailto:a@b",
    ])
    func nonHTTPLocationIsRefused(_ location: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .redirect(to: location) }
        let error = await failure { try await CentralRequestManager.make().send(HTTPRequest("GET", server.url())) }
        #expect(error?.kind == .redirect)
        #expect(error?.response?.status == 302)
        #expect(server.requestCount == 1)
    }

    @Test func hopLimitEndsRedirectsAndLoops() async throws {
        let server = try MockServer()
        server.route("GET", "/count/{n}") { request in
            .redirect(to: "/count/\((Int(request.pathParameters["n"] ?? "") ?? 0) + 1)")
        }
        server.route("GET", "/loop/a") { _ in .redirect(to: "b") }
        server.route("GET", "/loop/b") { _ in .redirect(to: "a") }
        let manager = try CentralRequestManager.make { $0.redirects = .follow(limit: 3) }
        let error = await failure { try await manager.startRequest("GET", server.url("/count/0")) }
        #expect(error?.kind == .redirect)
        #expect(error?.message.contains("3") == true)
        #expect(error?.response?.status == 302)
        #expect(server.requestCount == 4)

        server.forgetRequests()
        let loop = await failure { try await manager.startRequest("GET", server.url("/loop/a")) }
        #expect(loop?.kind == .redirect)
        #expect(loop?.message.contains("form a loop") == true)
        #expect(server.requestCount == 4)

        server.forgetRequests()
        var request = HTTPRequest("GET", server.url("/count/0"))
        request.redirects = .follow(limit: 7)
        _ = await failure { try await manager.send(request) }
        #expect(server.requestCount == 8)
        server.forgetRequests()
        request.redirects = .follow(limit: 0)
        #expect(await failure { try await manager.send(request) }?.kind == .redirect)
        #expect(server.requestCount == 1)
        let none = try CentralRequestManager.make { $0.redirects = .none }
        #expect(try await none.send(HTTPRequest("GET", server.url("/count/0"))).status == 302)
        request.redirects = .follow(limit: 1)
        #expect(await failure { try await none.send(request) }?.kind == .redirect)
        request.redirects = .none
        let kept = await failure { try await manager.startRequest(request) }
        #expect(kept?.kind == .httpStatus && kept?.message.contains("send returns it without an error") == true)
    }

    @Test func twentyHopsAreFollowedByDefault() async throws {
        let server = try MockServer()
        server.route("GET", "/{n}") { request in
            let left = Int(request.pathParameters["n"] ?? "") ?? 0
            return left == 0 ? .text("end") : .redirect(to: "\(left - 1)")
        }
        let manager = try CentralRequestManager.make()
        let response = try await manager.startRequest("GET", server.url("/20"))
        #expect(response.redirects.count == 20)
        #expect(response.redirects.map(\.url) == (1...20).reversed().map { server.url("/\($0)") })
        #expect(server.acceptedConnections == 1)
        #expect(await failure { try await manager.startRequest("GET", server.url("/21")) }?.kind == .redirect)
    }

    @Test func callTimeoutSpansAllHops() async throws {
        let server = try MockServer()
        server.route("GET", "/{n}") { request in
            let left = Int(request.pathParameters["n"] ?? "") ?? 0
            let reply: MockReply = left == 0 ? .text("end") : .redirect(to: "\(left - 1)")
            return reply.delayed(by: .milliseconds(400))
        }
        let manager = try CentralRequestManager.make()
        let error = await failure {
            try await manager.startRequest("GET", server.url("/15"), timeout: .seconds(2))
        }
        #expect(error?.kind == .timeout(.total))
        #expect((1...6).contains(server.requestCount))
        #expect(try await manager.startRequest("GET", server.url("/2"), timeout: .seconds(20)).text == "end")
    }

    @Test func managerTimeoutSpansAllHops() async throws {
        let server = try MockServer()
        server.route("GET", "/{n}") { request in
            let left = Int(request.pathParameters["n"] ?? "") ?? 0
            let reply: MockReply = left == 0 ? .text("end") : .redirect(to: "\(left - 1)")
            return reply.delayed(by: .milliseconds(60))
        }
        let manager = try CentralRequestManager.make { $0.timeout = .milliseconds(300) }
        let error = await failure { try await manager.startRequest("GET", server.url("/15")) }
        #expect(error?.kind == .timeout(.total))
    }

    @Test func relativeAndUnencodedLocationsAreResolved() async throws {
        let server = try MockServer()
        for (from, location) in [
            ("/dir/a", "b?x=1"), ("/dir/b", "../up/é ü"), ("/up/*", "?only=query"),
        ] {
            server.route("GET", from) { request in
                request.query == "only=query" ? .text("end") : .redirect(to: location)
            }
        }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url("/dir/a#frag"))
        #expect(response.text == "end")
        #expect(
            server.requests.map(\.target) == [
                "/dir/a", "/dir/b?x=1", "/up/%C3%A9%20%C3%BC", "/up/%C3%A9%20%C3%BC?only=query",
            ])
    }

    @Test func streamFollowsRedirects() async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in .pattern(byteCount: 10_000).header("Location", "/b").status(302) }
        server.route("GET", "/b") { _ in .text("x\ny") }
        var lines: [String] = []
        let response = try await CentralRequestManager.make().stream("GET", server.url("/a"))
        for try await line in response.body.lines { lines.append(line) }
        #expect(lines == ["x", "y"])
        #expect(response.redirects.count == 1)
        #expect(server.acceptedConnections == 1)
    }
}

extension MockReply {
    fileprivate func status(_ status: Int) -> MockReply {
        var copy = self
        copy.status = status
        return copy
    }
}
