import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat start` as a process.
@Suite(.timeLimit(.minutes(1))) struct StartProcessTests {
    private let server: MockServer
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        let closed = try ClosedPort()
        _ = try folder.writeTable(
            """
            {
              defaults: { headers: { "X-Row": "row" } },
              domains: {
                demo: { baseURL: "\(server.baseURL)", secretHeaders: ["X-Sign"] },
                shop: {
                  baseURL: "\(closed.url(""))",
                  environments: { dev: "\(server.baseURL)/shop" },
                  envelope: { code: "status", message: "message", data: "datas", success: [10000],
                              messages: { "10001": "Token expired" } },
                },
                canned: { baseURL: "https://app.example.org", simulation: { directory: "Fixtures" } },
              },
              servers: {
                "user.detail": { domain: "demo", path: "users/{id}", method: "GET" },
                "user.save": { domain: "demo", path: "users/{id}", method: "PUT" },
                "order": { domain: "shop", path: "order", method: "POST" },
                "bare": { domain: "demo", path: "x" },
                "token": { domain: "demo", path: "token", method: "GET", authenticator: "shop" },
                "sealed": { domain: "demo", path: "sealed", method: "POST", sealing: "k" },
                "canned.greeting": { domain: "canned", path: "greeting", method: "GET" },
                "canned.nothing": { domain: "canned", path: "nothing", method: "GET" },
              },
            }
            """)
    }

    private func start(
        _ arguments: String..., environment: [String: String] = [:], columns: UInt16? = nil
    ) async throws -> LatProcess.Result {
        try await LatProcess.run(["start"] + arguments, environment: environment, columns: columns, in: folder.path)
    }

    // MARK: What is sent

    @Test func rowSetsTheURLAndArgumentsTheParameters() async throws {
        server.enqueue(.json(#"{"b":1,"a":2}"#), .status(204))
        let get = try await start("user.detail", "-p", "id=a b", "-p", "page:=2", "-H", "X-Own: own")
        #expect(get.exitCode == 0 && get.text == #"{"b":1,"a":2}"# && get.err == "")
        #expect(server.requests[0].target == "/users/a%20b?page=2" && server.requests[0].method == "GET")
        #expect(server.requests[0].headers["X-Row"] == "row" && server.requests[0].headers["X-Own"] == "own")
        #expect(server.requests[0].headers["User-Agent"]?.hasPrefix("lat/") == true)
        let put = try await start("user.save", "-p", "id:=42", "-p", "name=Ada", "-p", "age:=36", "-H", "X-Row:")
        #expect(put.exitCode == 0 && put.out.isEmpty && server.requests[1].method == "PUT")
        #expect(server.requests[1].path == "/users/42" && server.requests[1].text == #"{"age":36,"name":"Ada"}"#)
        #expect(server.requests[1].headers["X-Row"] == nil)
    }

    @Test func repeatedHeadersAreAllSent() async throws {
        server.enqueue(.status(204))
        let result = try await start("user.detail", "id=1", "X-Own:1", "X-Own:2", "-H", "X-Own: 3")
        try #require(result.exitCode == 0, "\(result.err)")
        #expect(server.requests[0].headers[values: "X-Own"].sorted() == ["1", "2", "3"])
    }

    @Test func environmentChoosesTheBaseURL() async throws {
        server.fallback { _ in .json(#"{"status": 10000}"#) }
        let option = try await start("order", "--environment", "dev")
        let variable = try await start("order", environment: ["LAT_ENVIRONMENT": "dev"])
        #expect(option.exitCode == 0 && variable.exitCode == 0)
        #expect(server.requests.map(\.path) == ["/shop/order", "/shop/order"])
        #expect(try await start("order", "--environment", "", environment: ["LAT_ENVIRONMENT": "dev"]).exitCode == 3)
    }

    // MARK: What is shown

    @Test func responseNeedsNoJSONWithoutEnvelope() async throws {
        server.enqueue(.pattern(byteCount: 300_000), .pattern(byteCount: 300_000))
        let shown = try await start("user.detail", "-p", "id=1")
        #expect(shown.exitCode == 0 && shown.out.count == 300_000 && shown.err == "")
        let file = try await start("user.detail", "-p", "id=1", "-o", "out.bin")
        #expect(file.exitCode == 0 && file.out.isEmpty && file.err == "")
        #expect(folder.read("out.bin").map { MockPattern.firstMismatch(in: $0, at: 0) == nil } == true)
    }

    @Test func terminalShowsFormattedJSON() async throws {
        server.enqueue(.json(#"{"b":1}"#))
        let result = try await start("user.detail", "-p", "id=1", environment: ["NO_COLOR": "1"], columns: 80)
        #expect(result.text == "{\r\n  \"b\": 1\r\n}\r\n")
    }

    @Test func verboseShowsTheRequestWithoutSecrets() async throws {
        server.enqueue(.text("ok"))
        let result = try await start("user.detail", "-p", "id=1", "-v", "-H", "X-Sign: abc", "-H", "Cookie: def")
        #expect(result.text == "ok" && !result.err.contains("abc") && !result.err.contains("def"))
        for line in [
            "> GET /users/1 HTTP/1.1", "> Host: 127.0.0.1:\(server.port)", "> X-Row: row", "> X-Sign: (not shown)",
            "> Cookie: (not shown)", "< HTTP/1.1 200 OK",
        ] {
            #expect(result.err.contains(line + "\n"))
        }
        #expect(result.err.contains("* first byte ") || result.err.contains(" · first byte "))
    }

    @Test func reportIsOneJSONObject() async throws {
        server.enqueue(.json(#"{"status": 10000, "message": "fine", "datas": [1]}"#))
        let result = try await start("order", "--environment", "dev", "-p", "a=1", "--format", "json")
        let json = try JSONValue(parsing: result.out)
        #expect(result.exitCode == 0 && result.err == "")
        #expect(json["server"].string == "order" && json["method"].string == "POST" && json["status"].int == 200)
        #expect(json["url"].string == server.url("/shop/order") && json["source"].string == "network")
        #expect(json["envelope"] == ["code": 10000, "message": "fine", "data": [1]] && json["error"].isNull)
        #expect(json["body"].string?.hasPrefix(#"{"status": 10000"#) == true)
    }

    @Test func simulatedCallNeedsNoServer() async throws {
        _ = try folder.write(Data("hello".utf8), to: "Config/Fixtures/greeting")
        let result = try await start("canned.greeting", "-v")
        #expect(result.exitCode == 0 && result.text == "hello")
        #expect(result.err.contains("simulates") && !result.err.contains("> GET"))
        let missing = try await start("canned.nothing")
        #expect(missing.exitCode == 2 && missing.err.contains("nothing.GET.json"))
    }

    // MARK: How it ends

    @Test func businessFailureShowsMessageAndExitsWith1() async throws {
        server.enqueue(
            .json(#"{"status": 10001, "message": "nope"}"#), .json(#"{"status": "E7", "message": "sold out"}"#))
        let known = try await start("order", "--environment", "dev", "-o", "out.json")
        #expect(known.exitCode == 1 && known.text == #"{"status": 10001, "message": "nope"}"#)
        #expect(known.err.hasPrefix("lat: ") && known.err.contains("Token expired"))
        #expect(folder.contents.contains("out.json") == false)
        let own = try await start("order", "--environment", "dev", "--format", "json")
        let json = try JSONValue(parsing: own.out)
        #expect(own.exitCode == 1 && own.err == "" && json["error"]["kind"].string == "business")
        #expect(json["error"]["detail"].string == "E7" && json["envelope"]["message"].string == "sold out")
    }

    @Test func serverFailureExitsWith1() async throws {
        server.enqueue(.text("no such user", status: 404), .text("no envelope"))
        let status = try await start("user.detail", "-p", "id=1")
        #expect(status.exitCode == 1 && status.text == "no such user" && status.err.contains("404"))
        let envelope = try await start("order", "--environment", "dev")
        #expect(envelope.exitCode == 1 && envelope.text == "no envelope" && envelope.err.contains("is not JSON"))
    }

    @Test func missingResponseExitsWith3() async throws {
        let refused = try await start("order")
        #expect(refused.exitCode == 3 && refused.out.isEmpty && refused.err.contains("is the server running"))
        server.enqueue(.text("never").stalling(.beforeHead))
        let late = try await start("user.detail", "-p", "id=1", "--timeout", "200ms")
        #expect(late.exitCode == 3 && late.err.contains("raise --timeout"))
    }

    @Test(arguments: [
        (["user.detial"], "unknown server \"user.detial\" in Config/domains.json5; did you mean \"user.detail\"?"),
        (
            ["user.detail"],
            "the path users/{id} of \"user.detail\" needs a value for {id}; write lat start user.detail id=VALUE"
        ),
        (
            ["user.detail", "-p", "x=2", "-p", "ids=1"],
            "the path users/{id} of \"user.detail\" needs a value for {id}; did you mean id by \"ids\"?"
        ),
        (["user.detail", "id"], "\"id\" is no item: it has none of = := == : @; write name=text"),
        (["user.detail", "id=1", "id=2"], "\"id\" is given twice; for several values write 'id:=["),
        (["user.detail", "id@f"], "\"id@f\" is not for lat start; write name=text"),
        (["user.detail", "id="], "the path parameter {id} of the server \"user.detail\" is empty"),
        (["user.detail", "id:=[1]"], "{id} in the path users/{id} cannot be [1]; write id=TEXT"),
        (["user.detail", "id:=null"], "{id} in the path users/{id} cannot be null; write id=TEXT"),
        (["bare"], "the row \"bare\" in Config/domains.json5 has no method; add method: \"GET\" to it"),
        (
            ["order", "--environment", "deb"],
            "unknown environment \"deb\" in Config/domains.json5; did you mean \"dev\"?"
        ),
        (["order", "-o", "nowhere/file"], "--output \"nowhere/file\" cannot be written (No such file or directory)"),
    ])
    func invalidCallIsReportedAndNotSent(_ arguments: [String], _ message: String) async throws {
        let result = try await LatProcess.run(["start"] + arguments, in: folder.path)
        #expect(result.exitCode == 2 && result.out.isEmpty)
        #expect(result.err.hasPrefix("lat: " + message) && result.err.split(separator: "\n").count == 1)
        #expect(server.requestCount == 0)
    }

    @Test func namedAuthenticatorNeedsATokenOfTheCommandLine() async throws {
        server.enqueue(.text("in"))
        let refused = try await start("token")
        #expect(refused.exitCode == 2 && refused.err.contains("the authenticator \"shop\" (Config/domains.json5:"))
        #expect(refused.err.contains("-H \"Authorization: Bearer TOKEN\""))
        #expect(server.requestCount == 0)
        let given = try await start("token", "-H", "Authorization: Bearer t")
        #expect(given.exitCode == 0 && given.text == "in", "\(given.err)")
        #expect(server.requests.first?.headers["Authorization"] == "Bearer t")
        let sealed = try await start("sealed")
        #expect(sealed.exitCode == 2 && sealed.err.contains("the sealer \"k\"") && server.requestCount == 1)
    }

    @Test func emptyPathParameterIsRefused() async throws {
        let result = try await start("user.detail", "-p", "id=")
        #expect(result.exitCode == 2 && result.err.contains("{id}") && server.requestCount == 0)
        let upwards = try await start("user.detail", "-p", "id=..")
        #expect(upwards.exitCode == 2 && server.requestCount == 0)
    }
}
