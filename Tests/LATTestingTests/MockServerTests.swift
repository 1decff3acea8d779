import FoundationEssentials
import Testing

@testable import LATTesting

@Suite struct MockServerTests {
    @Test func queuedRepliesComeInOrderAndBeforeRoutes() throws {
        let server = try MockServer()
        server.route("GET", "/x") { _ in .text("route") }
        server.enqueue(.text("one"), .status(503))
        #expect(server.queuedReplies == 2)
        let client = try RawClient(server)
        #expect(try client.getResponse("/x").text == "one")
        #expect(try client.getResponse("/x").status == 503)
        #expect(try client.getResponse("/x").text == "route")
        #expect(server.queuedReplies == 0)
        #expect(server.acceptedConnections == 1)
        #expect(server.requests.map(\.indexOnConnection) == [0, 1, 2])
        #expect(Set(server.requests.map(\.connection)) == [1])
    }

    @Test func lastAddedRouteWins() throws {
        let server = try MockServer()
        server.route("GET", "/users/{id}") { request in
            .json(#"{"id": \#(request.pathParameters["id"] ?? "")}"#)
        }
        let client = try RawClient(server)
        let response = try client.getResponse("/users/7?x=1")
        #expect(response.text == #"{"id": 7}"#)
        #expect(response["Content-Type"] == "application/json")
        #expect(server.requests[0].pathParameters == ["id": "7"])
        server.route("*", "/users/{name}") { _ in .text("new") }
        #expect(try client.getResponse("/users/7").text == "new")
    }

    @Test func unmatchedRequestGets404() throws {
        let server = try MockServer()
        let client = try RawClient(server)
        let response = try client.getResponse("/nowhere?q")
        #expect(response.status == 404)
        #expect(response.text.contains("GET /nowhere"))
        server.fallback { .text("fallback \($0.method)") }
        #expect(try client.getResponse("/nowhere").text == "fallback GET")
    }

    @Test func throwingHandlerAnswers500() throws {
        let server = try MockServer()
        server.route("GET", "/") { _ in throw CancellationError() }
        let response = try RawClient(server).getResponse("/")
        #expect(response.status == 500)
        #expect(response.text.contains("CancellationError"))
    }

    @Test func handlerCanUseTheServer() throws {
        let server = try MockServer()
        server.route("GET", "/twice") { [weak server] _ in
            server?.enqueue(.text("second"))
            return .text("first of \(server?.requests.count ?? 0)")
        }
        let client = try RawClient(server)
        #expect(try client.getResponse("/twice").text == "first of 1")
        #expect(try client.getResponse("/twice").text == "second")
    }

    @Test func urlsHaveExactlyOneSlash() throws {
        let server = try MockServer()
        #expect(server.url("/a") == "http://127.0.0.1:\(server.port)/a")
        #expect(server.url("a") == server.url("/a"))
        #expect(server.url() == server.baseURL + "/")
    }

    @Test func requestsAreRecordedAsSent() throws {
        let server = try MockServer()
        server.enqueue(.text("ok"))
        let client = try RawClient(server)
        try client.send("post /a%20b?c=d&e HTTP/1.1\r\nhOst: h\r\nX: 1\r\nx: 2\r\nContent-Length: 4\r\n\r\n\u{1}\0ab")
        #expect(try client.response().status == 200)
        let request = try #require(server.requests.first)
        #expect(request.method == "post")
        #expect(request.target == "/a%20b?c=d&e")
        #expect(request.path == "/a%20b")
        #expect(request.query == "c=d&e")
        #expect(request.headers[values: "X"] == ["1", "2"])
        #expect(request.headers.map(\.name) == ["hOst", "X", "x", "Content-Length"])
        #expect(request.body == Data([1, 0, 97, 98]))
        #expect(request.bodyByteCount == 4)
        #expect(request.isComplete)
        #expect(request.version == "HTTP/1.1")
    }

    @Test func chunkedUploadsAndTheirTrailersAreRead() throws {
        let server = try MockServer()
        server.enqueue(.text("ok"))
        let client = try RawClient(server)
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
        try client.send("lo\r\n0\r\nX-Sum: 5\r\n\r\n")
        #expect(try client.response().status == 200)
        #expect(server.requests[0].text == "hello")
        #expect(server.requests[0].trailers["X-Sum"] == "5")
    }

    @Test func bodyLimitKeepsTheFirstBytes() throws {
        let server = try MockServer()
        server.bodyLimit = 1_000
        server.enqueue(.text("ok"))
        let client = try RawClient(server)
        let body = [UInt8](MockPattern.bytes(in: 0..<5_000_000))
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.count)\r\n\r\n")
        try client.send(body)
        #expect(try client.response().status == 200)
        #expect(server.requests[0].body == Data(body[..<1_000]))
        #expect(server.requests[0].bodyByteCount == 5_000_000)
        #expect(server.receivedBodyBytes == 5_000_000)
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() throws {
        let server = try MockServer()
        server.fallback { .text($0.path) }
        server.enqueue(.text("slow").delayed(by: .milliseconds(20)))
        let client = try RawClient(server)
        try client.send((0..<50).map { "GET /\($0) HTTP/1.1\r\nHost: h\r\n\r\n" }.joined())
        #expect(try client.response().text == "slow")
        for index in 1..<50 { #expect(try client.response().text == "/\(index)") }
    }

    @Test func bodilessRepliesKeepTheConnectionUsable() throws {
        let server = try MockServer()
        server.enqueue(.text("hello"), .status(204), .status(304), .text("end"))
        let client = try RawClient(server)
        try client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try client.response(toHead: true)["Content-Length"] == "5")
        #expect(try client.getResponse("/").status == 204)
        #expect(try client.getResponse("/").status == 304)
        #expect(try client.getResponse("/").text == "end")
    }

    @Test func http10ConnectionIsClosedUnlessKeptAlive() throws {
        let server = try MockServer()
        server.fallback { _ in .text("hi") }
        let client = try RawClient(server)
        try client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        #expect(try client.response()["Connection"] == "keep-alive")
        try client.send("GET / HTTP/1.0\r\n\r\n")
        #expect(client.readToEnd().ending == .closed)
        #expect(server.requests.map(\.version) == ["HTTP/1.0", "HTTP/1.0"])
    }

    @Test func halfClosedClientGetsItsReply() throws {
        let server = try MockServer()
        server.enqueue(.text("hello"))
        let client = try RawClient(server)
        try client.get("/")
        client.shutdownSending()
        #expect(client.readToEnd().text.hasSuffix("hello"))
    }

    @Test func malformedRequestsAreAnsweredAndClosed() throws {
        let server = try MockServer()
        let client = try RawClient(server)
        try client.send("GET nonsense\r\n\r\nmore and more")
        let (text, ending) = client.readToEnd()
        #expect(text.hasPrefix("HTTP/1.1 400 Bad Request\r\n"))
        #expect(ending == .closed)
        #expect(server.requests.isEmpty)
    }

    @Test func redirectAndJSONRepliesAreMade() throws {
        let server = try MockServer()
        server.enqueue(.redirect(to: "/b", status: 308), try .json(encoding: ["b": 1, "a": 2], status: 201))
        let client = try RawClient(server)
        let redirect = try client.getResponse("/a")
        #expect(redirect.status == 308)
        #expect(redirect["Location"] == "/b")
        let created = try client.getResponse("/")
        #expect(created.status == 201)
        #expect(created.text == #"{"a":2,"b":1}"#)
    }

    @Test func unixSocketIsServedAndRemoved() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "s.sock")
        let server = try MockServer(unixSocketPath: path)
        server.enqueue(.text("local"), .text("never whole").resetting(afterBytes: 10))
        let client = try RawClient(unixSocketPath: path)
        #expect(try client.getResponse("/").text == "local")
        #expect(server.url("/a") == "http://localhost/a")
        try client.get("/")
        #expect(client.readToEnd().text == "HTTP/1.1 2")
        #expect(directory.contents == ["s.sock"])
        server.stop()
        #expect(directory.contents == [])
        #expect(throws: MockServerError.self) {
            try MockServer(unixSocketPath: "/" + String(repeating: "x", count: 200))
        }
    }

    @Test func echoDescribesTheRequest() throws {
        let server = try MockServer()
        server.echo()
        let client = try RawClient(server)
        try client.send(
            "POST /anything/x?a=1&a=%22&b HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                + "Content-Length: 7\r\n\r\n{\"k\":1}")
        #expect(
            try client.response().text
                == #"{"args": {"a": ["1", "\""], "b": ""}, "data": "{\"k\":1}", "form": {}, "headers": "#
                + #"{"Host": "h", "Content-Type": "application/json", "Content-Length": "7"}, "json": {"k":1}, "#
                + #""method": "POST", "url": "http://h/anything/x?a=1&a=%22&b"}"#)
        try client.send(
            "PUT /anything HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
                + "Content-Length: 7\r\n\r\nn=a%0Ab")
        #expect(try client.response().text.contains(#""data": "", "form": {"n": "a\nb"}"#))
        try client.send("PUT /anything HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n")
        try client.send([0xFF, 0xFE])
        #expect(try client.response().text.contains(#""data": "data:application/octet-stream;base64,//4=""#))
    }

    @Test func twoHundredConnectionsAreServedAtOnce() async throws {
        let server = try MockServer()
        server.fallback { .text($0.path).delayed(by: .milliseconds(5)) }
        let clients = try (0..<200).map { _ in try RawClient(server) }
        try await server.waitForConnections(200)
        #expect(server.openConnections == 200)
        #expect(server.openDescriptors == 203)
        for round in 0..<5 {
            for (index, client) in clients.enumerated() { try client.get("/\(round)/\(index)") }
            for (index, client) in clients.enumerated() {
                #expect(try client.response().text == "/\(round)/\(index)")
            }
        }
        #expect(server.requestCount == 1_000)
        #expect(server.acceptedConnections == 200)
    }

    @Test func recordingCanBeTurnedOff() throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.fallback { _ in .text("x") }
        let client = try RawClient(server)
        for _ in 0..<10 { _ = try client.getResponse("/") }
        #expect(server.requests.isEmpty)
        #expect(server.requestCount == 10)
        server.forgetRequests()
        #expect(server.requestCount == 0)
    }
}
