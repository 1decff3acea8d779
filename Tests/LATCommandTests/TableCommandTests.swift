import LATFleet
import LATNetworking
import TestSupport
import Testing

@testable import lat

@Suite struct TableCommandTests {
    private func start(_ arguments: String...) throws -> StartCommand {
        try #require(try Invocation(["start"] + arguments).command as? StartCommand)
    }

    private func domains(_ arguments: String...) throws -> DomainsCommand {
        try #require(try Invocation(["domains"] + arguments).command as? DomainsCommand)
    }

    @Test func shortestCommandsHaveOnlyDefaults() throws {
        let command = try start("user.detail")
        #expect(command.server == "user.detail" && command.parameters.isEmpty && command.headers.isEmpty)
        #expect(command.timeout == nil && command.output == nil && !command.isVerbose && command.format == .text)
        #expect(command.table.path == "Config/domains.json5" && command.table.environment == nil)
        #expect(try domains("check").action == .check && domains("list").action == .list)
    }

    @Test func optionsAreParsed() throws {
        let command = try start(
            "-p", "id:=42", "user.detail", "--table", "t.json5", "--environment=dev", "-H", "X: y", "--timeout", "2s",
            "-o", "out", "-v", "--format", "json")
        #expect(command.parameters == ["id": 42] && command.headers["X"] == "y" && command.table.path == "t.json5")
        #expect(command.table.environment == "dev" && command.timeout == .seconds(2) && command.output == "out")
        #expect(command.isVerbose && command.format == .json)
        let explain = try domains("explain", "user.detail", "--table=t.json5", "--format=json")
        #expect(explain.action == .explain("user.detail") && explain.table.path == "t.json5")
        #expect(try domains("check", "t.json5").table.path == "t.json5" && explain.format == .json)
    }

    @Test(arguments: [
        (["start"], "ROW is missing; write lat start ROW, such as lat start user.detail -p id=42"),
        (["start", "http://h/"], "\"http://h/\" is a URL, not a row of the table; write lat request GET http://h/"),
        (["start", "a", "--table", ""], "--table \"\" names no file; write --table FILE"),
        (["start", "a", "--tabel", "t"], "unknown option --tabel; did you mean --table?"),
        (["start", "a", "--format", "xml"], "--format \"xml\" is unknown; write text or json"),
        (["domains"], "the action is missing; write lat domains check, list, explain NAME, diff, push or pull"),
        (["domains", "chekc"], "lat domains knows no \"chekc\"; did you mean check?"),
        (
            ["domains", "x"],
            "lat domains knows no \"x\"; write lat domains check, list, explain NAME, diff, push or pull"
        ),
        (["domains", "explain"], "NAME is missing; write lat domains explain NAME, or a URL in its place"),
        (["domains", "list", "x"], "\"x\" is one argument too many; lat domains --help shows the usage"),
        (
            ["domains", "check", "a", "--table", "b"],
            "\"a\" is one argument too many; lat domains --help shows the usage"
        ),
        (["domians"], "unknown command \"domians\"; did you mean \"domains\"?"),
    ])
    func mistakesNameTheNextStep(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(message)) { try Invocation(arguments) }
    }

    private static let withoutRedis =
        "this lat was built without Redis; build it with swift build --traits Fleet --product lat"

    @Test(arguments: [["fleet", "status"], ["domains", "push"], ["domains", "pull"], ["domains", "diff"]])
    func buildWithoutRedisNamesTheTrait(_ words: [String]) async throws {
        let arguments = words + ["--fleet", "redis://127.0.0.1:1"]
        let command = try Invocation(arguments).command
        let fleet = try #require((command as? FleetCommand)?.fleet ?? (command as? DomainsCommand)?.fleet)
        #expect(throws: UsageError(Self.withoutRedis)) { try fleet.made(isAvailable: false) }
        if Fleet.isAvailable { try await fleet.made().shutdown() }
    }

    @Test(.disabled(if: Fleet.isAvailable, "this build has Redis"))
    func processWithoutRedisNamesTheTrait() async throws {
        let result = try await LatProcess.run(["fleet", "status", "--fleet", "redis://127.0.0.1:1"])
        #expect(result.exitCode == 2 && result.text == "" && result.err.contains(Self.withoutRedis))
    }
}
