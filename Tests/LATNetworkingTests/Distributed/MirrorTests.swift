import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct Save: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "save/{id}")
    var id = 1
    var a = "b"
}

@Suite(.timeLimit(.minutes(1))) struct MirrorTests {
    private func manager(
        _ first: String, _ mirrors: String..., domain: String = "",
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        let list = mirrors.map { "\"\($0)\"" }.joined(separator: ", ")
        return try .make(.make(first, domain: "mirrors: [\(list)], \(domain)"), change)
    }

    @Test func firstAddressIsUsedWhileItResponds() async throws {
        let first = try MockServer.answering(#""first""#)
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(first.url("/a"), second.url("/b"))
        for _ in 1...3 { #expect(try await Get<String>().startRequest(on: manager) == "first") }
        #expect(second.acceptedConnections == 0)
    }

    @Test func nextAddressIsUsedWhenConnectingFails() async throws {
        let closed = try ClosedPort()
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(closed.url("/a"), second.url("/b?k=v"))
        let reply = try await Get<String>().reply(on: manager)
        #expect(reply.model == "second")
        #expect(reply.response.url == second.url("/b/x?k=v"))
        _ = try await Save().startRequest(on: manager)
        #expect(second.requests.map { "\($0.method) \($0.target)" } == ["GET /b/x?k=v", "POST /b/save/1?k=v"])
        #expect(second.requests.last?.json == ["a": "b"])
    }

    @Test func unsentPostGoesToTheNextAddress() async throws {
        let closed = try ClosedPort()
        let second = try MockServer.answering()
        let manager = try manager(closed.url("/a"), second.url("/b"))
        _ = try await Save().startRequest(on: manager)
        #expect(second.requests.map { "\($0.method) \($0.target)" } == ["POST /b/save/1"])
        #expect(second.requests.last?.json == ["a": "b"])
    }

    @Test func timeoutOrUnknownHostUsesTheNextAddress() async throws {
        let full = try FullBacklogListener()
        let second = try MockServer.answering(#""second""#)
        let hangs = try manager(full.url(), second.url(), domain: #"connectTimeout: "150ms""#)
        #expect(try await Get<String>().startRequest(on: hangs) == "second")
        // The resolver itself refuses a label of more than 63 bytes, without a DNS query.
        let unknown = "http://" + String(repeating: "a", count: 64) + ".invalid"
        #expect(try await Get<String>().startRequest(on: manager(unknown, second.url())) == "second")
    }

    @Test func failedAddressIsSkippedForATime() async throws {
        let port = try ReservedPort()
        let first = try MockServer.answering(#""first""#, port: port.port)
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(first.url(), second.url())
        first.stop()
        #expect(try await Get<String>().startRequest(on: manager) == "second")
        let again = try MockServer.answering(#""first""#, port: port.port)
        for _ in 1...3 { #expect(try await Get<String>().startRequest(on: manager) == "second") }
        #expect(again.acceptedConnections == 0)
        // When the second address fails as well, the skipped first one is tried.
        second.stop()
        #expect(try await Get<String>().startRequest(on: manager) == "first")
        // The first address responded, so it is preferred again.
        #expect(try await Get<String>().startRequest(on: manager) == "first")
        #expect(again.requestCount == 2)
    }

    @Test func failedAddressIsUsedAgainAfterTheTime() async throws {
        let port = try ReservedPort()
        let first = try MockServer.answering(#""first""#, port: port.port)
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(first.url(), second.url()) { $0.mirrorMemory = .milliseconds(50) }
        first.stop()
        #expect(try await Get<String>().startRequest(on: manager) == "second")
        let again = try MockServer(port: port.port)
        again.fallback { _ in .json(#""first""#) }
        try await callUntilAnswered(by: "first", manager)
    }

    /// Two real servers: calls go to the second while the first is stopped, and return after its restart.
    @Test(.needs("nginx"))
    func callsReturnToARestartedServer() async throws {
        let second = try Nginx(answering: #""second""#)
        let first = try Nginx(answering: #""first""#)
        try await first.waitUntilReady()
        try await second.waitUntilReady()
        let manager = try manager(first.url, second.url) { $0.mirrorMemory = .milliseconds(50) }
        #expect(try await Get<String>().startRequest(on: manager) == "first")
        try await first.stop()
        #expect(try await Get<String>().startRequest(on: manager) == "second")
        let again = try Nginx(answering: #""first""#, port: first.port)
        try await again.waitUntilReady()
        try await callUntilAnswered(by: "first", manager)
    }

    /// Calls until the named server responds.
    private func callUntilAnswered(by name: String, _ manager: CentralRequestManager) async throws {
        try await eventually("a response of \(name)") { try await Get<String>().startRequest(on: manager) == name }
    }

    @Test func changedRowForgetsFailedAddresses() async throws {
        let port = try ReservedPort()
        let first = try MockServer.answering(#""first""#, port: port.port)
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(first.url(), second.url())
        first.stop()
        #expect(try await Get<String>().startRequest(on: manager) == "second")
        let again = try MockServer(port: port.port)
        again.fallback { _ in .json(#""first""#) }
        let url = first.url()
        let mirrors = [second.url("/other")]
        try manager.updateDomains { table throws(NetworkError) in
            var row = DomainTable.DomainRow(baseURL: url)
            row.mirrors = mirrors
            try table.setDomain("d", row)
        }
        #expect(try await Get<String>().startRequest(on: manager) == "first")
    }

    @Test func sentRequestGoesToNoMirror() async throws {
        let first = try MockServer()
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(first.url(), second.url())
        let replies: [(MockReply, NetworkError.Kind)] = [
            (.status(500), .httpStatus), (.status(503), .httpStatus), (.noReply, .connectionLost),
            (.json("{}").stalling(.beforeHead), .timeout(.total)), (.raw("what is this\r\n\r\n"), .protocolViolation),
        ]
        for (reply, kind) in replies {
            first.fallback { _ in reply }
            let call = kind == .timeout(.total) ? Get<String>().timeout(.milliseconds(300)) : Get<String>().call
            #expect(await failure { try await call.startRequest(on: manager) }?.kind == kind)
        }
        #expect(second.acceptedConnections == 0)
    }

    @Test func errorNamesTheFirstAddressWhenAllFail() async throws {
        let closed = [try ClosedPort(), try ClosedPort(), try ClosedPort()]
        let manager = try manager(closed[0].url(), closed[1].url(), closed[2].url())
        let error = await failure { try await Get<String>().startRequest(on: manager) }
        #expect(error?.kind == .connect)
        #expect(error?.attempts == 3)
        #expect(error?.request?.url == closed[0].url("/x"))
    }

    @Test func providersAreAskedForEachAddress() async throws {
        let closed = try ClosedPort()
        let second = try MockServer.answering()
        let urls = Log<String>()
        let manager = try manager(closed.url(), second.url()) {
            $0.headerProvider = { request in
                urls.append(request.url)
                return ["X-Attempt": "\(urls.count)"]
            }
        }
        _ = try await Get<JSONValue>().startRequest(on: manager)
        #expect(urls.elements == [closed.url("/x"), second.url("/x")])
        #expect(second.requests.first?.headers["X-Attempt"] == "2")
    }

    @Test func environmentHasItsOwnMirrors() async throws {
        let closed = try ClosedPort()
        let production = try MockServer.answering(#""production""#)
        let staging = try MockServer.answering(#""staging""#)
        let manager = try manager(
            production.url(), production.url("/mirror"),
            domain: #"environments: { one: "\#(closed.url())", two: ["\#(closed.url())", "\#(staging.url())"] }"#)
        try manager.updateDomains { $0.environment = "one" }
        #expect(await failure { try await Get<String>().startRequest(on: manager) }?.kind == .connect)
        try manager.updateDomains { $0.environment = "two" }
        #expect(try await Get<String>().startRequest(on: manager) == "staging")
        #expect(production.acceptedConnections == 0)
    }

    /// A body that can be read once is not offered to a second address, but the dead one is remembered.
    @Test func nextStreamGoesToTheAddressThatAnswers() async throws {
        struct Upload: RequestEntity {
            static let route = Route("POST", domain: "d", path: "x")
            var files: [UploadFile]

            static func reading(_ text: String) -> Upload {
                let chunks = AsyncStream<Data> { continuation in
                    continuation.yield(Data(text.utf8))
                    continuation.finish()
                }
                return Upload(files: [UploadFile(name: "f", fileName: "f.bin", stream: chunks)])
            }
        }
        let closed = try ClosedPort()
        let second = try MockServer.answering()
        let manager = try manager(closed.url(), second.url())
        let error = await #expect(throws: NetworkError.self) {
            _ = try await Upload.reading("once").startRequest(on: manager)
        }
        #expect(error?.kind == .connect)
        #expect(second.requestCount == 0)
        _ = try await Upload.reading("again").startRequest(on: manager)
        #expect(second.requests.map { $0.text.contains("again") } == [true])
    }

    @Test func concurrentCallsFindTheMirror() async throws {
        let closed = try ClosedPort()
        let second = try MockServer.answering(#""second""#)
        let manager = try manager(closed.url(), second.url())
        try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<100 { group.addTask { try await Get<String>().startRequest(on: manager) } }
            for try await answer in group { #expect(answer == "second") }
        }
        #expect(second.requestCount == 100)
    }
}
