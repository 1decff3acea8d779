import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

/// `lat --all-pages`.
@Suite(.timeLimit(.minutes(1))) struct PagesProcessTests {
    private let server: MockServer
    private let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
        server.route("GET", "/items") { request in
            let page = request.query("page").flatMap { Int($0) } ?? 1
            let body =
                "{\"data\": [ {\"b\": 1.50, \"a\": \"x, \\\"y\\\"\"}, \(page) ],\n \"next\": \(page < 3 ? "\(page + 1)" : "null")}"
            let reply = MockReply.json(body)
            return page < 3 ? reply.header("Link", "</items?page=\(page + 1)>; rel=\"next\"") : reply
        }
        server.route("GET", "/broken") { request in
            request.query("page") == nil
                ? .json("[1, 2]").header("Link", "</broken?page=2>; rel=next") : .json(#"{"x": 1}"#, status: 500)
        }
    }

    private let item = #"{"b":1.50,"a":"x, \"y\""}"#

    @Test(arguments: [["-u", "ada:secret"], ["--bearer", "secret"], ["X-Api-Key:secret"]])
    func credentialsStayWithTheirOrigin(_ options: [String]) async throws {
        let other = try MockServer()
        other.fallback { _ in .json("[3]") }
        server.route("GET", "/away") { _ in .json("[1]").header("Link", "<\(other.url("/2"))>; rel=next") }
        let result = try await LatProcess.run([server.url("/away"), "--all-pages"] + options)
        #expect(result.exitCode == 0, "\(result.err)")
        let secrets = { (request: RecordedRequest?) in
            ["Authorization", "X-Api-Key"].compactMap { request?.headers[$0] }
        }
        #expect(secrets(server.requests.first).count == 1)
        #expect(other.requests.count == 1 && secrets(other.requests.first).isEmpty)
    }

    @Test func fileStaysWhenNothingIsRead() async throws {
        server.route("GET", "/gone") { _ in .status(404) }
        let path = try folder.write(Data("precious".utf8), to: "list")
        let result = try await LatProcess.run([server.url("/gone"), "--all-pages", "-o", path])
        #expect(result.exitCode != 0 && folder.read("list") == Data("precious".utf8))
    }

    @Test func fileStaysWhenNothingIsReadByARow() async throws {
        server.route("GET", "/gone") { _ in .status(404) }
        _ = try folder.writeTable(
            """
            { domains: { d: { baseURL: "\(server.baseURL)" } },
              servers: { gone: { domain: "d", path: "gone", method: "GET" } } }
            """)
        try folder.write(Data("precious".utf8), to: "list")
        let result = try await LatProcess.run(["start", "gone", "--all-pages", "-o", "list"], in: folder.path)
        #expect(result.exitCode != 0 && folder.read("list") == Data("precious".utf8), "\(result.err)")
    }

    @Test func itemsAreLinesWhereTheRuleNamesThem() async throws {
        for rule in ["link=next,items=data", "cursor=next,parameter=page,items=data"] {
            let result = try await LatProcess.run([server.url("/items"), "--pages", rule])
            #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
            #expect(result.text == [item, "1", item, "2", item, "3"].map { $0 + "\n" }.joined())
        }
    }

    @Test func pagesAreLinesWhereNothingNamesTheItems() async throws {
        let result = try await LatProcess.run([server.url("/items"), "--all-pages"])
        let lines = (1...3).map { #"{"data":[\#(item),\#($0)],"next":\#($0 < 3 ? "\($0 + 1)" : "null")}"# + "\n" }
        #expect(result.exitCode == 0 && result.text == lines.joined(), "\(result.text)\(result.err)")
        let two = try await LatProcess.run([server.url("/items"), "--max-pages", "2"])
        #expect(two.exitCode == 0 && two.text == lines.prefix(2).joined())
    }

    @Test func whatWasPrintedBeforeAnErrorStays() async throws {
        let result = try await LatProcess.run([server.url("/broken"), "--pages", "link=next,items=."])
        #expect(result.exitCode == 1 && result.text == "1\n2\n" && result.err.contains("the server answered 500"))
        let path = folder.path(of: "out.jsonl")
        let file = try await LatProcess.run([server.url("/broken"), "--all-pages", "-o", path])
        #expect(file.exitCode == 1 && file.text == "" && folder.read("out.jsonl") == Data("[1,2]\n".utf8))
    }

    @Test func bodyOfTheFailingPageIsShown() async throws {
        let result = try await LatProcess.run([server.url("/broken"), "--all-pages"])
        #expect(
            result.exitCode == 1 && result.text == "[1,2]\n" && result.err.hasPrefix("{\"x\": 1}\nlat: "),
            "\(result.err)")
    }

    @Test(arguments: [[], ["start"]]) func pagesBeforeAnInterruptionStayInTheFile(_ command: [String]) async throws {
        server.route("GET", "/slow") { request in
            request.query("page") == nil
                ? .json("[1]").header("Link", "</slow?page=2>; rel=next") : MockReply.json("[2]").stalling(.start)
        }
        _ = try folder.writeTable(
            """
            { domains: { d: { baseURL: "\(server.baseURL)" } },
              servers: { slow: { domain: "d", path: "slow", method: "GET" } } }
            """)
        let call = command.isEmpty ? [server.url("/slow")] : command + ["slow"]
        let process = try LatProcess(call + ["--all-pages", "-o", "out.jsonl"], in: folder.path)
        try await eventually("the second page") { server.requestCount == 2 }
        process.send(signal: SIGINT)
        #expect(await process.result.exitCode == 130)
        #expect(folder.read("out.jsonl") == Data("[1]\n".utf8))
    }

    @Test(arguments: ["events", "lines", "ws"]) func liveCommandsHaveNoPages(_ command: String) async throws {
        for options in [["--all-pages"], ["--pages", "link"], ["--max-pages", "2"]] {
            let result = try await LatProcess.run([command, server.url("/items")] + options)
            #expect(result.exitCode == 2 && result.err.contains("unknown option \(options[0])"), "\(result.err)")
        }
        let help = try await LatProcess.run([command, "--help"])
        #expect(!help.text.contains("-pages") && server.requestCount == 0)
    }

    @Test(arguments: ["link,items=data", "items=data", "link=next,items=data"])
    func linkIsTheRuleWhereNoneIsNamed(_ rule: String) async throws {
        let result = try await LatProcess.run([server.url("/items"), "--pages", rule])
        #expect(result.exitCode == 0 && result.text.split(separator: "\n").count == 6, "\(result.err)")
    }

    @Test func rowSaysHowTheListIsRead() async throws {
        _ = try folder.writeTable(
            """
            { domains: { d: { baseURL: "\(server.baseURL)" } },
              servers: { items: { domain: "d", path: "items", method: "GET",
                                  pages: { cursor: "next", parameter: "page", items: "data" } } } }
            """)
        let result = try await LatProcess.run(["start", "items", "--all-pages"], in: folder.path)
        #expect(result.exitCode == 0 && result.text.split(separator: "\n").count == 6, "\(result.err)")
        let one = try await LatProcess.run(["start", "items", "--max-pages", "1"], in: folder.path)
        #expect(one.text == "\(item)\n1\n")
    }

    @Test(arguments: [
        (["--pages", "cursor"], #"unknown value "cursor" of "pages""#),
        (["--pages", "curser=next"], #"unknown key "curser"; did you mean "cursor"?"#),
        (["--pages", "cursor=a..b"], "a name between the dots is empty"),
        (["--pages", "link=next,cursor=x"], "leave one of them"), (["--pages", ""], #"unknown value """#),
        (["--max-pages", "0"], "is not a number from 1"), (["--all-pages", "--curl"], "cannot be combined"),
        (["--all-pages", "--format", "json"], "leave it out"), (["--all-pages", "-O"], "cannot be combined"),
    ])
    func mistakeIsAUsageError(_ options: [String], _ words: String) async throws {
        let result = try await LatProcess.run([server.url("/items")] + options)
        #expect(result.exitCode == 2 && result.err.contains(words) && server.requestCount == 0, "\(result.err)")
    }

    @Test func pageWithoutTheListIsAnError() async throws {
        let result = try await LatProcess.run([server.url("/items"), "--pages", "link=next,items=items"])
        #expect(result.exitCode == 1 && result.err.contains("page 1 has no array at items"), "\(result.err)")
        server.route("GET", "/text") { _ in .text("hello") }
        let text = try await LatProcess.run([server.url("/text"), "--all-pages"])
        #expect(text.exitCode == 1 && text.err.contains("page 1 is not JSON"))
    }

    @Test func socketIsAURL() async throws {
        let path = folder.path(of: "s.sock")
        let local = try MockServer(unixSocketPath: path)
        local.fallback { request in .text("\(request.target) \(request.headers["Host"] ?? "")") }
        let result = try await LatProcess.run(["unix://\(path):/v1/x?a=b"])
        #expect(result.exitCode == 0 && result.text == "/v1/x?a=b localhost", "\(result.err)")
        let verbose = try await LatProcess.run(["unix://\(path):/v1/x", "-v"])
        #expect(verbose.err.contains("> GET /v1/x HTTP/1.1\n> Host: localhost\n"), "\(verbose.err)")
        let probe = try await LatProcess.run(["probe", "unix://\(path)"])
        #expect(probe.exitCode == 0, "\(probe.err)")
        let typo = try await LatProcess.run(["unix:/run/x.sock"])
        #expect(typo.exitCode == 2 && typo.err.contains("did you mean unix:///run/x.sock?"), "\(typo.err)")
    }

    @Test(arguments: [
        (#"{"a.b":[1],"a":{"b":[2]}}"#, "a.b", ["1"]), (#"{"a":{"b":[2]},"a":{"b":[3]}}"#, "a.b", ["3"]),
        ("\u{FEFF} [ {\"x\" : [ ] } , -1e5,\"\\\\\" , null]", "", [#"{"x":[]}"#, "-1e5", #""\\""#, "null"]),
        (#"{"\u0061":[[1, 2],{}]}"#, "a", ["[1,2]", "{}"]), ("[]", "", []), ("[[]]", "", ["[]"]),
        (#"{"a": [true,false , "]"]}"#, "a", ["true", "false", "\"]\""]),
    ])
    func itemsAreFoundAsTheyAreWritten(_ json: String, _ path: String, _ items: [String]) throws {
        let text = try #require(JSONText(Data(json.utf8)))
        let list = try #require(text.value(at: path).flatMap(text.elements))
        #expect(list.map(text.compact) == items)
    }

    @Test func wrongPathsHaveNoItems() throws {
        let text = try #require(JSONText(Data(#"{"a": {"b": 1}}"#.utf8)))
        #expect(text.value(at: "a.c") == nil && text.value(at: "a.b.c") == nil)
        #expect(text.value(at: "a").flatMap(text.elements) == nil && JSONText(Data("x".utf8)) == nil)
    }
}
