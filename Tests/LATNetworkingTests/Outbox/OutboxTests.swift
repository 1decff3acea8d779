import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Adding, sending, handlers and ends of entries.
@Suite(.timeLimit(.minutes(2))) struct OutboxTests {
    private let directory: TemporaryDirectory
    private let server: MockServer
    private let central: CentralRequestManager

    init() throws {
        directory = try TemporaryDirectory()
        let server = try MockServer()
        self.server = server
        central = try .make { $0.baseURL = server.baseURL }
    }

    private var folder: String { directory.path(of: "outbox") }

    private func open(_ change: (inout Outbox.Configuration) -> Void = { _ in }) throws -> Outbox {
        var configuration = Outbox.Configuration()
        configuration.firstWait = .milliseconds(20)
        configuration.longestWait = .milliseconds(200)
        change(&configuration)
        return try Outbox(folder: folder, manager: central, configuration: configuration)
    }

    @Test func addedEntryIsSentAndGone() async throws {
        server.enqueue(.status(201))
        let outbox = try open()
        let answers = Log<String>()
        outbox.handle("print") { entry, result in answers.append("\(entry.id) \(try result.get().status)") }
        var request = HTTPRequest("POST", "/readings?x=1", headers: ["X-Own": "a"], body: .json(["celsius": 21]))
        request.tag = "reading"
        let id = try await outbox.add(request, handler: "print")
        try await outbox.waitUntilSent()
        let sent = try #require(server.requests.first)
        #expect(sent.method == "POST" && sent.path == "/readings" && sent.headers["X-Own"] == "a")
        #expect(String(decoding: sent.body, as: UTF8.self) == #"{"celsius":21}"#)
        #expect(sent.headers["Idempotency-Key"]?.count == 32)
        #expect(answers.elements == ["\(id) 201"])
        #expect(try await outbox.entries.isEmpty)
        #expect(try await outbox.load.sent == 1)
        await outbox.close()
    }

    @Test func killedProcessLosesNoAddedEntry() async throws {
        server.fallback { _ in .status(204) }
        let child = try RoleProcess("add", [folder, server.url("/numbers")], of: "OutboxRoles")
        var text = ""
        while text.split(separator: "\n").count < 20 { text += child.read() }
        child.kill()
        while case let more = child.read(), !more.isEmpty { text += more }
        let added = text.split(separator: "\n").count
        let outbox = try open()
        try await outbox.waitUntilSent()
        let numbers = server.requests.map { String(decoding: $0.body, as: UTF8.self) }
        // One more may have been on the disk when the process died.
        #expect(numbers == (0..<numbers.count).map(String.init) && [added, added + 1].contains(numbers.count))
        await outbox.close()
    }
}
