import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat domains` as a process.
@Suite(.timeLimit(.minutes(1))) struct DomainsProcessTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func domains(
        _ arguments: String..., environment: [String: String] = [:], columns: UInt16? = nil
    ) async throws -> LatProcess.Result {
        try await LatProcess.run(["domains"] + arguments, environment: environment, columns: columns, in: folder.path)
    }

    private static let table = """
        {
          defaults: { timeout: "30s" },
          domains: {
            demo: { baseURL: "http://127.0.0.1:8080", headers: { "X-Api-Key": "hidden", "X-App": "demo" } },
            shop: {
              baseURL: "https://shop.example.org/api",
              environments: { dev: "http://127.0.0.1:9090" },
              mirrors: ["https://shop2.example.org/api"],
            },
          },
          servers: {
            ping: { domain: "demo", path: "ping" },
            "order.save": { domain: "shop", path: "orders/{id}", method: "PUT", timeout: "5s" },
          },
        }
        """

    @Test(arguments: ["diff", "pull"]) func interruptedActionComplainsOfNothing(_ action: String) async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.status(200).stalling(.start) }
        let table = try folder.writeTable(Self.table)
        let places = action == "diff" ? [table, server.url("/table")] : [server.url("/table")]
        let process = try LatProcess(["domains", action] + places, in: folder.path)
        try await eventually("the request") { server.requestCount == 1 }
        process.send(signal: SIGINT)
        let result = await process.result
        #expect(result.exitCode == 130 && result.err == "" && result.out.isEmpty)
    }

    @Test func pulledTextThatIsNoTableReplacesNothing() async throws {
        let server = try MockServer()
        server.route("GET", "/page") { _ in .text("<html>ok</html>") }
        server.route("GET", "/table") { _ in .text(Self.table) }
        try folder.write(Data("{ domains: {} }".utf8), to: "t.json5")
        let page = try await domains("pull", server.url("/page"), "-o", "t.json5")
        #expect(page.exitCode == 2 && page.err.contains("error"), "\(page.err)")
        #expect(folder.read("t.json5") == Data("{ domains: {} }".utf8))
        let table = try await domains("pull", server.url("/table"), "-o", "t.json5")
        #expect(table.exitCode == 0 && folder.read("t.json5") == Data(Self.table.utf8), "\(table.err)")
    }

    // MARK: check

    @Test(arguments: BrokenTable.all)
    func everyMistakeIsShownWithLineAndCaret(_ broken: BrokenTable) async throws {
        _ = try folder.writeTable(broken.text)
        let result = try await domains("check")
        #expect(result.exitCode == 2 && result.out.isEmpty)
        #expect(
            result.err == """
                Config/domains.json5:\(broken.printed)
                lat: the table Config/domains.json5 has 1 error; correct it and run the command again

                """)
    }

    @Test func allMistakesAreShownInTheOrderOfTheFile() async throws {
        _ = try folder.writeTable(
            "{ domains: { a: { basURL: 1, timeout: 5 } },\n servers: { s: { domain: \"a\", path: \"\", method: \"PSOT\" } } }"
        )
        let result = try await domains("check", "Config/domains.json5")
        let places = result.err.split(separator: "\n").filter { $0.hasPrefix("Config/") }.map {
            $0.split(separator: ":")[1...3].joined(separator: ":")
        }
        #expect(places == ["1:19: error", "1:39: error", "2:49: warning"] && result.exitCode == 2)
        #expect(result.err.hasSuffix("has 2 errors and 1 warning; correct it and run the command again\n"))
    }

    @Test func validTableIsReportedInOneLine() async throws {
        _ = try folder.writeTable(Self.table)
        let result = try await domains("check")
        #expect(result.exitCode == 0 && result.err == "")
        #expect(result.text == "Config/domains.json5 is valid: 2 domains, 2 servers, environment dev\n")
    }

    @Test func warningIsShownWithoutFailure() async throws {
        let path = try folder.writeTable(Self.table.replacing("\"PUT\"", with: "\"PTU\""))
        let result = try await domains("check", "--table", path)
        #expect(result.exitCode == 0)
        #expect(result.text == "\(path) is valid: 2 domains, 2 servers, environment dev, 1 warning\n")
        #expect(result.err.contains("warning: ") && result.err.contains("PTU") && result.err.hasSuffix("^~~~~\n"))
    }

    @Test func terminalGetsColours() async throws {
        _ = try folder.writeTable("{ domains: 5 }")
        let coloured = try await domains("check", columns: 80)
        #expect(coloured.text.hasPrefix("\u{1B}[1mConfig/domains.json5:1:12\u{1B}[0m: \u{1B}[31merror:\u{1B}[0m "))
        #expect(coloured.text.contains("\r\n\u{1B}[32m           ^\u{1B}[0m\r\n"))
        let plain = try await domains("check", environment: ["NO_COLOR": "1"], columns: 80)
        #expect(!plain.text.contains("\u{1B}") && plain.exitCode == 2)
    }

    @Test func checkPrintsOneJSONObject() async throws {
        _ = try folder.writeTable("{\n  domains: { a: { basURL: \"http://h\" } },\n}")
        let broken = try await domains("check", "--format", "json")
        let json = try JSONValue(parsing: broken.out)
        #expect(broken.exitCode == 2 && broken.err == "" && json["isValid"] == false)
        let problem = json["problems"][0]
        #expect(problem["line"].int == 2 && problem["column"].int == 19 && problem["severity"].string == "error")
        #expect(problem["suggestion"].string == "baseURL" && problem["excerpt"].array?.count == 2)
        _ = try folder.writeTable(Self.table)
        let valid = try await domains("check", "--format", "json")
        #expect(
            try JSONValue(parsing: valid.out) == [
                "file": "Config/domains.json5", "isValid": true, "message": nil, "problems": [], "domains": 2,
                "servers": 2, "environments": ["dev"],
            ])
    }

    @Test func missingTableIsReported() async throws {
        let standard = try await domains("check")
        #expect(standard.exitCode == 2)
        #expect(
            standard.err
                == "lat: there is no Config/domains.json5 in this folder; name a table with --table FILE\n")
        let named = try await domains("list", "--table", "nowhere.json5")
        #expect(named.err == "lat: the table nowhere.json5 is not there; check the path\n" && named.exitCode == 2)
        let isFolder = try await domains("check", folder.path)
        #expect(isFolder.err.contains("is a folder, not a file") && isFolder.exitCode == 2)
    }

    // MARK: list

    @Test func passwordsAreNotListed() async throws {
        _ = try folder.writeTable("{ domains: { demo: { baseURL: \"http://ada:secret@127.0.0.1:8080/a\" } } }")
        for format in ["text", "json"] {
            let text = try await domains("list", "--format", format).text
            #expect(text.contains("http://ada:***@127.0.0.1:8080/a") && !text.contains("secret"))
        }
    }

    @Test func domainsAndServersAreListedInColumns() async throws {
        _ = try folder.writeTable(Self.table)
        #expect(
            try await domains("list").text == """
                Config/domains.json5

                Domains
                  demo  http://127.0.0.1:8080
                  shop  https://shop.example.org/api  mirrors https://shop2.example.org/api

                Servers
                  ping        –    demo  ping
                  order.save  PUT  shop  orders/{id}

                """)
    }

    @Test func environmentOptionOverridesTheVariable() async throws {
        _ = try folder.writeTable(Self.table)
        let option = try await domains("list", "--environment", "dev").text
        #expect(option.hasPrefix("Config/domains.json5  environment dev\n"))
        #expect(option.contains("  shop  http://127.0.0.1:9090\n"))
        let variable = try await domains("list", environment: ["LAT_ENVIRONMENT": "dev"]).text
        #expect(variable == option)
        let none = try await domains("list", "--environment", "", environment: ["LAT_ENVIRONMENT": "dev"]).text
        #expect(none.contains("https://shop.example.org/api"))
        let unknown = try await domains("list", "--environment", "dve")
        #expect(unknown.exitCode == 2)
        #expect(
            unknown.err
                == "lat: unknown environment \"dve\" in Config/domains.json5; did you mean \"dev\"?\n")
    }

    @Test func listPrintsOneJSONObject() async throws {
        _ = try folder.writeTable(Self.table)
        let json = try JSONValue(parsing: try await domains("list", "--format", "json").out)
        #expect(json["environment"].isNull && json["environments"] == ["dev"])
        #expect(
            json["domains"][1] == [
                "name": "shop", "baseURL": "https://shop.example.org/api", "mirrors": ["https://shop2.example.org/api"],
            ])
        #expect(json["servers"][0] == ["name": "ping", "method": nil, "domain": "demo", "path": "ping"])
    }

    // MARK: explain

    @Test(arguments: ["order.save", "https://shop.example.org/api/orders/42", "http://127.0.0.1:9090/orders/1?x=1"])
    func callIsExplainedByNameAndByURL(_ name: String) async throws {
        _ = try folder.writeTable(Self.table)
        let result = try await domains("explain", name)
        #expect(result.exitCode == 0)
        #expect(
            result.text == """
                order.save  PUT  https://shop.example.org/api/orders/{id}
                  domain   shop                           Config/domains.json5:13
                  method   PUT                            Config/domains.json5:13
                  path     orders/{id}                    Config/domains.json5:13
                  baseURL  https://shop.example.org/api   Config/domains.json5:6
                  mirrors  https://shop2.example.org/api  Config/domains.json5:8
                  timeout  5s                             Config/domains.json5:13

                """)
    }

    @Test func explanationHidesSecrets() async throws {
        _ = try folder.writeTable(Self.table)
        let text = try await domains("explain", "demo").text
        #expect(!text.contains("hidden") && text.contains("headers.X-Api-Key"))
        let json = try JSONValue(parsing: try await domains("explain", "demo", "--format", "json").out)
        let values = json["values"].array ?? []
        #expect(values.allSatisfy { $0["value"].string?.contains("hidden") == false })
        #expect(values.first { $0["setting"] == "timeout" }?["line"].int == 2)
    }

    @Test func unknownNameSuggestsTheNearest() async throws {
        _ = try folder.writeTable(Self.table)
        let result = try await domains("explain", "order.sav")
        #expect(result.exitCode == 2 && result.out.isEmpty)
        #expect(
            result.err
                == "lat: unknown server \"order.sav\" in Config/domains.json5; did you mean \"order.save\"?\n")
        let other = try await domains("explain", "zzzzzzzz")
        #expect(other.err.contains("the servers and domains are "), "\(other.err)")
        let url = try await domains("explain", "https://elsewhere.example.org/")
        #expect(url.exitCode == 2 && url.err.contains("lat domains list shows them"))
    }

    @Test func everyCommandReportsABrokenTable() async throws {
        _ = try folder.writeTable("{ domains: 5 }")
        for arguments in [["domains", "list"], ["domains", "explain", "x"], ["start", "x"]] {
            let result = try await LatProcess.run(arguments, in: folder.path)
            #expect(result.exitCode == 2 && result.out.isEmpty)
            #expect(result.err.contains("{ domains: 5 }\n           ^\n"))
        }
    }
}
