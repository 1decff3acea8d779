import FoundationEssentials
import LATTesting
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// What holds entries, and the ends of handlers and of outboxes.
@Suite(.timeLimit(.minutes(2))) struct OutboxEndTests {
    private let fixture: OutboxFixture

    init() throws { fixture = try OutboxFixture() }

    private var server: MockServer { fixture.server }

    private func post(_ text: String) -> HTTPRequest { HTTPRequest("POST", "/\(text)", body: .text(text)) }

    // MARK: Held

    private struct Save: RequestEntity, Encodable {
        static let route = Route(server: "reading.save")
        var id: Int
    }

    @Test func limitedRowLeavesPlacesToOthers() async throws {
        let table = """
            { domains: { station: { baseURL: '\(server.baseURL)' } },
              servers: { 'reading.save': { domain: 'station', path: 'r/{id}', method: 'POST',
                limits: { maxConcurrentRequests: 1 } } } }
            """
        let central = try CentralRequestManager.make {
            $0.domains = try? DomainTable(json5: table)
            $0.baseURL = server.baseURL
        }
        server.route("POST", "/r/1") { _ in .status(200).stalling(.start) }
        var configuration = Outbox.Configuration()
        configuration.limit = 2
        let outbox = try Outbox(folder: fixture.folder, manager: central, configuration: configuration)
        var ids: [Int64] = []
        for id in 1...6 { ids.append(try await Save(id: id).enqueue(on: central)) }
        try await server.waitForRequests(1)
        // One of the row is being sent and the next one waits for it, so one of the two places is free.
        for number in 0..<3 { try await outbox.add(post("other\(number)")) }
        try await server.waitForRequests(4)
        #expect(server.requests.map(\.path) == ["/r/1", "/other0", "/other1", "/other2"])
        try await outbox.drop(ids[0])
        try await outbox.waitUntilSent()
        #expect(server.requests.map(\.path).suffix(5) == ["/r/2", "/r/3", "/r/4", "/r/5", "/r/6"])
        await outbox.close()
    }

    @Test func missingRowIsToldOnce() async throws {
        let attempts = Mutex(0)
        let central = try CentralRequestManager.make { configuration in
            configuration.domains = try? DomainTable(
                json5: "{ domains: { station: { baseURL: 'http://127.0.0.1:1' } } }")
            configuration.outcomeObservers = [{ _, _ in attempts.withLock { $0 += 1 } }]
        }
        let outbox = try fixture.open(central)
        var changes = outbox.changes.makeAsyncIterator()
        let id = try await Save(id: 1).enqueue(on: central)
        var reason: String?
        while reason == nil, let change = await changes.next() {
            if case .failed(_, let error) = change { reason = error.message }
        }
        #expect(try await outbox.entry(id)?.reason == reason && reason?.contains("reading.save") == true)
        for count in 2...3 {
            try await outbox.sendNow()
            try await eventually { attempts.withLock { $0 } >= count }
        }
        #expect(try await outbox.load.failed == 1)
        #expect(try await outbox.entry(id)?.attempts == 0)
        await outbox.close()
        while let change = await changes.next() { if case .failed = change { Issue.record("it is told again") } }
    }

    @Test func conflictAfterACrashIsRepeated() async throws {
        server.enqueue(.status(200).stalling(.start), .status(409), .status(200))
        let adder = try fixture.open { $0.limit = 0 }
        try await adder.add(HTTPRequest("POST", server.url("/x")))
        await adder.close()
        let child = try RoleProcess("send", [fixture.folder, server.url(), "0"], of: "OutboxRoles")
        try await server.waitForRequests(1)
        child.kill()
        // The dead process may have had its request processed, which the 409 is about.
        let outbox = try fixture.open { $0.firstWait = .milliseconds(5) }
        try await outbox.waitUntilSent()
        #expect(try await outbox.entries.isEmpty)
        #expect(server.requestCount == 3)
        await outbox.close()
    }

    /// The server has processed the request, and redirects to a place where nothing listens.
    private static let lostResult = MockReply.redirect(to: "http://127.0.0.1:1/result", status: 303)

    @Test func processedRequestIsAnAttempt() async throws {
        server.fallback { _ in Self.lostResult }
        let outbox = try fixture.open {
            $0.firstWait = .milliseconds(5)
            $0.maxAttempts = 2
        }
        let id = try await outbox.add(post("x"))
        try await outbox.waitUntilSent()
        let entry = try #require(try await outbox.entry(id))
        #expect(entry.state == .givenUp && entry.attempts == 2 && server.requestCount == 2)
        await outbox.close()
    }

    @Test(arguments: ["http://127.0.0.1:1", nil]) func conflictAfterALostResultIsRepeated(origin: String?) async throws
    {
        // The result that another origin has is not that of the server.
        let other = try MockServer()
        other.fallback { _ in .status(200) }
        let lost = MockReply.redirect(to: (origin ?? other.baseURL) + "/result", status: 303)
        server.enqueue(lost, .status(409), .status(200))
        let outbox = try fixture.open { $0.firstWait = .milliseconds(5) }
        try await outbox.add(post("x"))
        try await outbox.waitUntilSent()
        #expect(try await outbox.entries.isEmpty)
        #expect(server.requestCount == 3)
        await outbox.close()
    }

    @Test func nobodyIsRungWithoutASender() async throws {
        let adder = try fixture.open { $0.limit = 0 }
        try await adder.add(post("x"))
        #expect(!fixture.directory.contents.contains("outbox/bell"))
        let sender = try fixture.open()
        try await sender.waitUntilSent()
        try await adder.add(post("y"))
        #expect(fixture.directory.contents.contains("outbox/bell"))
        try await adder.waitUntilSent()
        #expect(server.requests.map(\.path) == ["/x", "/y"])
        await sender.close()
        await adder.close()
    }

    @Test func ownAuthorityOfTheRowIsUsedAfterAWait() async throws {
        let certificates = try #require(TestCertificates.shared)
        let reserved = try MockServer()
        let port = reserved.port
        reserved.stop()
        let table = """
            { domains: { station: { baseURL: 'https://localhost:\(port)', tls: { caFile: '\(certificates.path("ca.pem"))' } } },
              servers: { 'reading.save': { domain: 'station', path: 'r/{id}', method: 'GET' } } }
            """
        let central = try CentralRequestManager.make {
            $0.domains = try? DomainTable(json5: table)
            $0.reachability.failureTTL = .milliseconds(20)
            $0.reachability.ttl = .milliseconds(20)
        }
        let outbox = try Outbox(folder: fixture.folder, manager: central, configuration: OutboxChaosTests.configuration)
        var changes = outbox.changes.makeAsyncIterator()
        try await Save(id: 1).enqueue(on: central)
        while let change = await changes.next() { if case .failed = change { break } }
        // The probe of the address does not know the authority of the row, so its handshake fails.
        let secure = try await TLSServer(port: port)
        try await outbox.waitUntilSent()
        #expect(try await outbox.entries.isEmpty)
        #expect(try await outbox.load.sent == 1 && secure.port == port)
        await outbox.close()
    }

    // MARK: Ends

    @Test func acceptedEntryIsNotRetried() async throws {
        let outbox = try fixture.open()
        let id = try await outbox.add(post("x"), handler: "later")
        try await eventually { try await outbox.entry(id)?.state == .answered }
        let error = await #expect(throws: NetworkError.self) { try await outbox.retry(id) }
        #expect(error?.kind == .unsupported && error?.message.contains("\"later\"") == true)
        #expect(server.requestCount == 1)
        await outbox.close()
    }

    @Test func keyOfADeadLetterIsRefused() async throws {
        server.enqueue(.status(422))
        let outbox = try fixture.open()
        let request = HTTPRequest("POST", "/x", headers: ["Idempotency-Key": "own"])
        let id = try await outbox.add(request)
        try await outbox.waitUntilSent()
        let error = await #expect(throws: NetworkError.self) { try await outbox.add(request) }
        #expect(error?.outboxFailure == .deadLetter(id: id))
        #expect(error?.message.contains("entry \(id)") == true && error?.message.contains("422") == true)
        try await outbox.retry(id)
        try await outbox.waitUntilSent()
        #expect(try await outbox.add(request) > id)
        await outbox.close()
    }

    @Test func closeWaitsForTheRunningHandler() async throws {
        let outbox = try fixture.open()
        let gate = Waiter<Void>()
        let began = Mutex(false)
        let ended = Mutex(false)
        outbox.handle("h") { _, _ in
            began.withLock { $0 = true }
            _ = try? await gate.uncancelledValue()
            ended.withLock { $0 = true }
        }
        try await outbox.add(post("x"), handler: "h")
        try await eventually { began.withLock { $0 } }
        let closing = Task {
            await outbox.close()
            return ended.withLock { $0 }
        }
        // It is closed when nothing can be added any more.
        let more = post("y")
        try await eventually {
            do { _ = try await outbox.add(more) } catch { return true }; return false
        }
        gate.end(.success(()))
        #expect(await closing.value)
        // The handler has done its work, so it is not called again.
        let next = try fixture.open { $0.limit = 0 }
        #expect(try await next.entries([.answered]).isEmpty)
        await next.close()
    }

    /// An entry may be dropped, or the outbox closed, before its call runs.
    @Test func cancelledCallRunsNoInterceptor() async throws {
        let intercepted = Mutex(0)
        struct Counting: Interceptor {
            let count: @Sendable () -> Void
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                count()
                return try await next(request)
            }
        }
        let central = try CentralRequestManager.make { configuration in
            configuration.baseURL = server.baseURL
            configuration.interceptors = [Counting { intercepted.withLock { $0 += 1 } }]
        }
        let request = post("x")
        let (result, isTransient) = await Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await central.result { () throws(NetworkError) in
                try central.call(request)
            } begin: { _ in
            }
        }.value
        let failure = #expect(throws: NetworkError.self) { try result.get() }
        #expect(failure?.kind == .cancelled && !isTransient)
        #expect(intercepted.withLock { $0 } == 0 && server.requestCount == 0)
    }

    @Test func handlerMayCloseItsOutbox() async throws {
        let outbox = try fixture.open()
        let shared = Mutex<Outbox?>(outbox)
        let hasClosed = Waiter<Void>()
        outbox.handle("h") { _, _ in
            await shared.withLock { $0 }?.close()
            hasClosed.end(.success(()))
        }
        try await outbox.add(post("x"), handler: "h")
        // Not only when the outbox waits no more for its handlers, which it does for ten seconds.
        var steps = 0
        while hasClosed.result == nil, steps < 1_000 {
            steps += 1
            try await Task.sleep(for: .milliseconds(2))
        }
        #expect(hasClosed.result != nil)
        await outbox.close()
        shared.withLock { $0 = nil }
    }
}
