import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

/// `lat outbox` on a folder that a program has filled.
@Suite(.timeLimit(.minutes(2))) struct OutboxProcessTests {
    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer()
        server.fallback { _ in .status(200) }
    }

    private var folder: String { directory.path(of: "outbox") }

    private func fill(_ paths: [String]) async throws {
        var configuration = Outbox.Configuration()
        configuration.limit = 0
        let outbox = try Outbox(
            folder: folder, manager: CentralRequestManager(), configuration: configuration)
        for path in paths {
            try await outbox.add(HTTPRequest("POST", server.url(path), body: .text(path)), group: "g")
        }
        await outbox.close()
    }

    private func run(_ arguments: String...) async throws -> LatProcess.Result {
        try await LatProcess.run(["outbox"] + arguments)
    }

    @Test func entriesAreListedSentRetriedAndDropped() async throws {
        server.route("POST", "/bad") { _ in .status(422) }
        try await fill(["/one", "/bad", "/two"])
        let list = try await run("list", folder)
        #expect(list.exitCode == 0 && list.text.contains("1  waiting  POST  \(server.url("/one"))  group g"))
        #expect(list.text.contains("3 waiting, 0 dead") && list.text.contains("no process sends"))
        let sent = try await run("send", folder)
        #expect(sent.exitCode == 1 && sent.err.contains("1: 200") && sent.err.contains("2: "))
        #expect(server.requests.map(\.path) == ["/one", "/bad", "/two"])
        let dead = try JSONValue(parsing: await run("list", folder, "--dead", "--format", "json").out)
        #expect(dead["dead"].int == 1 && dead["entries"][0]["id"].int == 2 && dead["entries"][0]["status"].int == 422)
        #expect(dead["entries"][0]["state"].string == "refused")
        #expect(try await run("retry", folder, "2").text == "retried 1 entry\n")
        #expect(try await run("list", folder).text.contains("1 waiting, 0 dead"))
        #expect(try await run("drop", folder, "2").text == "dropped 1 entry\n")
        let again = try await run("drop", folder, "2")
        #expect(again.exitCode == 1 && again.err.contains("no entry 2"))
        #expect(try await run("drop", folder, "--dead").text == "dropped 0 entries\n")
    }

    /// lat has no handlers, so it does not wait for them.
    @Test func entryWithAHandlerIsSentAndStays() async throws {
        server.route("POST", "/bad") { _ in .status(422) }
        var configuration = Outbox.Configuration()
        configuration.limit = 0
        let outbox = try Outbox(folder: folder, manager: CentralRequestManager(), configuration: configuration)
        try await outbox.add(HTTPRequest("POST", server.url("/x")), handler: "later")
        try await outbox.add(HTTPRequest("POST", server.url("/bad")))
        await outbox.close()
        let sent = try await run("send", folder)
        #expect(sent.exitCode == 1 && sent.text.contains("0 waiting, 1 answered, with a handler to run, 1 dead"))
        #expect(try await run("retry", folder, "--all").text == "retried 1 entry\n")
        let accepted = try await run("retry", folder, "1", "2")
        #expect(accepted.exitCode == 1 && accepted.text == "retried 1 entry\n")
        #expect(accepted.err.contains("is not sent again"))
    }

    @Test func unreadableFolderIsNotTakenForAMissingOne() async throws {
        #expect(symlink("loop", directory.path(of: "loop")) == 0)
        let result = try await run("list", directory.path(of: "loop"))
        #expect(result.exitCode == 2 && result.err.contains("cannot be read: Too many levels"), "\(result.err)")
    }

    @Test func unreachableServerLeavesEntriesWaiting() async throws {
        try await fill(["/x"])
        server.stop()
        let result = try await run("send", folder, "--timeout", "300ms")
        #expect(result.exitCode == 3 && result.text.contains("1 waiting"))
    }

    @Test(arguments: [
        (["outbox"], "the action is missing; write lat outbox list FOLDER"),
        (["outbox", "show"], "lat outbox knows no \"show\"; write list, retry, drop or send"),
        (["outbox", "list"], "FOLDER is missing; write lat outbox list FOLDER"),
        (["outbox", "drop", "/tmp"], "name the entries by their ID, or select them with --dead or --all"),
        (["outbox", "drop", "/tmp", "x"], "\"x\" is not the number of an entry; lat outbox list shows them"),
        (["outbox", "list", "/nowhere"], "there is no outbox in /nowhere"),
    ])
    func unusableLineIsExplained(_ arguments: [String], _ message: String) async throws {
        let result = try await LatProcess.run(arguments)
        #expect(result.exitCode == 2 && result.err.contains(message), "\(result.err)")
    }
}
