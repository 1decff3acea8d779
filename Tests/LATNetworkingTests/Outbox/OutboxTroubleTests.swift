import Dispatch
import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Failures of the store, of targets and of other processes while entries are being sent.
@Suite(.timeLimit(.minutes(2))) struct OutboxTroubleTests {
    private let fixture: OutboxFixture

    init() throws { fixture = try OutboxFixture() }

    private var server: MockServer { fixture.server }

    private func post(_ text: String) -> HTTPRequest { HTTPRequest("POST", "/\(text)", body: .text(text)) }

    // MARK: The store

    @Test func seatIsKeptUntilEndsAreWritten() async throws {
        let outbox = try fixture.open()
        let engine = outbox.engine
        server.fallback { _ in
            // The answer needs more pages than the database has.
            engine.perform { engine in _ = try? engine.store.read { try $0.execute("PRAGMA max_page_count = 1") } }
            return .text(String(repeating: "x", count: 60_000))
        }
        try await outbox.add(post("x"), handler: "later")
        try await eventually { try await engine.value { !$0.unrecorded.isEmpty } }
        let closing = Task { await outbox.close() }
        try await eventually { try await engine.value { $0.isClosed } }
        // Another sender would send it again.
        #expect(try await engine.value { $0.isSender && !$0.unrecorded.isEmpty })
        try await engine.value { engine in try engine.store.read { try $0.execute("PRAGMA max_page_count = 100000") } }
        await closing.value
        let next = try fixture.open { $0.limit = 0 }
        #expect(try await next.entries([.answered]).count == 1 && server.requestCount == 1)
        await next.close()
    }

    /// Answers are recorded together, but not when the others do not come.
    @Test func answerDoesNotWaitForOthers() async throws {
        server.fallback { $0.path == "/fast" ? .status(200) : .status(200).delayed(by: .seconds(600)) }
        let outbox = try fixture.open()
        let changes = outbox.changes
        for text in ["slow", "slow", "slow", "fast"] { try await outbox.add(post(text)) }
        for await change in changes { if case .succeeded = change { break } }
        #expect(try await outbox.entries.count == 3)
        await outbox.close()
    }

    @Test func unreadableOutcomeIsReadAgain() async throws {
        let outbox = try fixture.open { $0.firstWait = .milliseconds(5) }
        let id = try await outbox.add(post("x"), handler: "h")
        try await eventually { try await outbox.entry(id)?.state == .answered }
        func rename(_ name: String, to other: String) async throws {
            try await outbox.engine.value { engine in
                try engine.store.write { try $0.connection.execute("ALTER TABLE \(name) RENAME TO \(other)") }
            }
        }
        try await rename("entries", to: "hidden")
        let answers = Log<Int>()
        outbox.handle("h") { _, result in answers.append(try result.get().status) }
        try await rename("hidden", to: "entries")
        try await eventually { answers.count == 1 }
        await outbox.close()
    }

    @Test func droppedEntryKeepsNoResult() async throws {
        let other = try fixture.open { $0.limit = 0 }
        let engine = other.engine
        server.fallback { _ in
            // Another process drops it before its answer arrives.
            let isDropped = DispatchSemaphore(value: 0)
            engine.perform { engine in
                _ = try? engine.drop([1])
                isDropped.signal()
            }
            isDropped.wait()
            return .status(200)
        }
        let outbox = try fixture.open()
        let calls = Log<Int64>()
        outbox.handle("h") { entry, _ in calls.append(entry.id) }
        #expect(try await outbox.add(post("x"), handler: "h") == 1)
        try await eventually { try await outbox.load.sent == 1 }
        #expect(try await outbox.engine.value { $0.results.isEmpty } && calls.elements.isEmpty)
        await outbox.close()
        await other.close()
    }

    // MARK: What is sent

    @Test func failedTargetGetsOneRequest() async throws {
        let reserved = try MockServer()
        let port = reserved.port
        reserved.stop()
        let central = try CentralRequestManager.make {
            $0.reachability.failureTTL = .milliseconds(20)
            $0.reachability.ttl = .milliseconds(20)
        }
        let outbox = try Outbox(folder: fixture.folder, manager: central, configuration: OutboxChaosTests.configuration)
        let ids = try await outbox.add(
            (0..<20).map { Outbox.Item(HTTPRequest("POST", "http://127.0.0.1:\(port)/\($0)")) })
        try await eventually {
            let load = try await outbox.load
            return load.sending == 0 && load.failed > 0
        }
        let stalling = try MockServer(port: port)
        stalling.fallback { _ in .status(200).stalling(.start) }
        try await stalling.waitForRequests(1)
        // What is sent with the first one is picked in the same turn.
        #expect(try await outbox.load.sending == 1 && stalling.requestCount == 1)
        for id in ids { try await outbox.drop(id) }
        await outbox.close()
    }

    private final class Session: Authenticator {
        private let token = Mutex("old")
        private let renewal: @Sendable () async throws -> Void

        init(_ renewal: @escaping @Sendable () async throws -> Void) { self.renewal = renewal }

        func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = token.withLock { $0 } }

        func refresh() async throws {
            try await renewal()
            token.withLock { $0 = "new" }
        }
    }

    @Test func entryOfARenewalHasAToken() async throws {
        server.fallback { .status($0.headers["Authorization"] == "new" ? 200 : 401) }
        let shared = Mutex<Outbox?>(nil)
        let entry = post("entry")
        let session = Session { _ = try await shared.withLock { $0 }?.add(entry) }
        let server = server
        let central = try CentralRequestManager.make {
            $0.baseURL = server.baseURL
            $0.authenticator = session
        }
        let outbox = try fixture.open(central)
        try await eventually { try await outbox.load.isSender }
        shared.withLock { $0 = outbox }
        #expect(try await central.send(HTTPRequest("GET", "/own")).status == 200)
        try await outbox.waitUntilSent()
        let tokens = server.requests.filter { $0.path == "/entry" }.map { $0.headers["Authorization"] }
        #expect(!tokens.isEmpty && tokens.allSatisfy { $0 != nil })
        shared.withLock { $0 = nil }
        await outbox.close()
    }

    private struct Save: RequestEntity, Encodable {
        static let route = Route(server: "reading.save")
        var id: Int
    }

    @Test func entryExpiresWhileItsRowIsLimited() async throws {
        let table = """
            { domains: { station: { baseURL: '\(server.baseURL)' } },
              servers: { 'reading.save': { domain: 'station', path: 'r/{id}', method: 'POST',
                limits: { maxConcurrentRequests: 1 } } } }
            """
        let central = try CentralRequestManager.make { $0.domains = try? DomainTable(json5: table) }
        server.route("POST", "/r/1") { _ in .status(200).stalling(.start) }
        let time = Mutex<Int64>(0)
        let outbox = try Outbox(folder: fixture.folder, manager: central) {
            let time = time.withLock { $0 }
            return .init(boot: "1", uptime: time, wall: time)
        }
        let first = try await Save(id: 1).enqueue(on: central)
        try await server.waitForRequests(1)
        let second = try await Save(id: 2).enqueue(on: central, expires: .seconds(60))
        try await eventually { try await outbox.engine.value { $0.limited == 1 } }
        time.withLock { $0 += 120_000 }
        try await outbox.sendNow()
        try await eventually { try await outbox.entry(second)?.state == .expired }
        #expect(try await outbox.entry(second)?.reason == "it expired before it could be sent")
        #expect(server.requests.map(\.path) == ["/r/1"])
        try await outbox.drop(first)
        await outbox.close()
    }

    // MARK: The seat

    @Test func senderLooksAfterALostRing() async throws {
        let notices = Mutex(0)
        let seat = try SenderSeat(fixture.directory.path(of: "."), isWanted: true, quiet: 5) { _ in
            notices.withLock { $0 += 1 }
        }
        #expect(seat.take(makingRoom: {}))
        // Nobody rings.
        try await eventually { notices.withLock { $0 } >= 5 }
        seat.leave()
    }
}
