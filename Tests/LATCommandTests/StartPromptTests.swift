import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat start` with parameters of the path missing.
@Suite(.timeLimit(.minutes(1))) struct StartPromptTests {
    private let server: MockServer
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        server.fallback { .text($0.target) }
        folder = try TemporaryDirectory()
        _ = try folder.writeTable(
            """
            {
              domains: { demo: { baseURL: "\(server.baseURL)" } },
              servers: { "user.detail": { domain: "demo", path: "teams/{team}/users/{id}", method: "GET" } },
            }
            """)
    }

    private func typed(_ arguments: String...) throws -> LatProcess {
        try LatProcess(
            ["start", "user.detail"] + arguments, environment: ["NO_COLOR": "1"], columns: 80, isTyped: true,
            in: folder.path)
    }

    @Test func terminalIsAskedByName() async throws {
        let process = try typed()
        await process.waitForOutput("team: ")
        process.type("red\n")
        await process.waitForOutput("id: ")
        process.type("4 2\n")
        let result = await process.result
        #expect(result.exitCode == 0)
        #expect(
            result.text
                == "GET \(server.baseURL)/teams/{team}/users/{id}\r\nteam: red\r\nid: 4 2\r\n/teams/red/users/4%202\r\n"
        )
    }

    @Test func onlyMissingParametersAreAsked() async throws {
        let process = try typed("team=red")
        await process.waitForOutput("id: ")
        process.type("\n")
        await process.waitForOutput("cannot be empty")
        process.type("7\n")
        let result = await process.result
        #expect(result.exitCode == 0 && server.requests.map(\.path) == ["/teams/red/users/7"])
        #expect(!result.text.contains("team:"))
    }

    /// A table whose row has parameters that the document requires.
    private func writeDocumented() throws {
        _ = try folder.writeTable(
            """
            {
              domains: { demo: { baseURL: "\(server.baseURL)" } },
              servers: { "user.detail": { domain: "demo", path: "users/{id}", method: "PUT", parameters: { fixed: 1 },
                documented: { parameters: { name: "string", age: "integer", fixed: "integer", note: "string?" } } } },
            }
            """)
    }

    @Test func requiredParametersAreAskedInTheirType() async throws {
        try writeDocumented()
        let process = try typed("id=7")
        await process.waitForOutput("age (integer): ")
        process.type("old\n")
        await process.waitForOutput("age is of the type integer of JSON; Ctrl-C ends lat")
        process.type("36\n")
        await process.waitForOutput("name: ")
        process.type("Ada\n")
        let result = await process.result
        #expect(result.exitCode == 0 && !result.text.contains("note") && !result.text.contains("fixed"))
        let body = try JSONValue(parsing: #require(server.requests.first).body)
        #expect(body == ["name": "Ada", "age": 36, "fixed": 1])
    }

    @Test func requiredParametersAreNamedWithoutATerminal() async throws {
        try writeDocumented()
        let result = try await LatProcess.run(["start", "user.detail", "id=7"], in: folder.path)
        #expect(result.exitCode == 2 && server.requestCount == 0)
        #expect(
            result.err == "lat: \"user.detail\" needs values for age and name; write lat start user.detail age:=JSON "
                + "name=VALUE\n")
        let near = try await LatProcess.run(["start", "user.detail", "id=7", "name=Ada", "agee:=3"], in: folder.path)
        #expect(near.err == "lat: \"user.detail\" needs a value for age; did you mean age by \"agee\"?\n")
        let given = try await LatProcess.run(["start", "user.detail", "id=7", "name=A", "age:=null"], in: folder.path)
        #expect(given.exitCode == 0)
    }

    @Test func pastedLinesAnswerAllPrompts() async throws {
        let names = (1...20).map { "part\($0)" }
        let path = names.map { "{\($0)}" }.joined(separator: "/")
        _ = try folder.writeTable(
            """
            {
              domains: { demo: { baseURL: "\(server.baseURL)" } },
              servers: { "user.detail": { domain: "demo", path: "\(path)", method: "GET" } },
            }
            """)
        let process = try typed()
        await process.waitForOutput("part1: ")
        process.type(names.indices.map { "v\($0)\n" }.joined())
        // Ends the program if it waits for a line that was lost.
        process.type("\u{4}")
        let result = await process.result
        #expect(result.exitCode == 0)
        #expect(server.requests.map(\.path) == ["/" + names.indices.map { "v\($0)" }.joined(separator: "/")])
    }

    @Test func controlCLeavesWith130() async throws {
        let process = try typed()
        await process.waitForOutput("team: ")
        process.type("re\u{3}")
        let result = await process.result
        #expect(result.exitCode == 130 && server.requestCount == 0)
        #expect(result.text.hasSuffix("^C\r\n"))
    }

    @Test func controlDLeavesWith2() async throws {
        let process = try typed()
        await process.waitForOutput("team: ")
        process.type("\u{4}")
        let result = await process.result
        #expect(result.exitCode == 2 && server.requestCount == 0)
        #expect(result.text.hasSuffix("lat: no value was typed for team; write lat start user.detail team=VALUE\r\n"))
    }

    @Test func withoutATerminalAllMissingAreNamed() async throws {
        let result = try await LatProcess.run(["start", "user.detail"], input: "red\n1\n", in: folder.path)
        #expect(result.exitCode == 2 && result.out.isEmpty && server.requestCount == 0)
        #expect(
            result.err == "lat: the path teams/{team}/users/{id} of \"user.detail\" needs values for {team} and {id}; "
                + "write lat start user.detail team=VALUE id=VALUE\n")
    }

    @Test func itemsAreParameters() async throws {
        let result = try await LatProcess.run(
            ["start", "user.detail", "team=red", "-p", "id:=7", "page:=2", "X-Own:a"], in: folder.path)
        #expect(result.exitCode == 0 && result.text == "/teams/red/users/7?page=2")
        #expect(server.requests.first?.headers["X-Own"] == "a")
    }
}
