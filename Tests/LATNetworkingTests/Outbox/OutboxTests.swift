import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

/// Adding, sending, handlers and ends of entries.
@Suite(.timeLimit(.minutes(2))) struct OutboxTests {
    private let fixture: OutboxFixture

    init() throws { fixture = try OutboxFixture() }

    private var directory: TemporaryDirectory { fixture.directory }
    private var server: MockServer { fixture.server }
    private var central: CentralRequestManager { fixture.central }
    private var folder: String { fixture.folder }

    private func open(_ change: (inout Outbox.Configuration) -> Void = { _ in }) throws -> Outbox {
        try fixture.open {
            $0.firstWait = .milliseconds(20)
            $0.longestWait = .milliseconds(200)
            change(&$0)
        }
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

    // MARK: Order

    private var bodies: [String] { server.requests.map { String(decoding: $0.body, as: UTF8.self) } }

    private func post(_ text: String) -> HTTPRequest { HTTPRequest("POST", "/\(text)", body: .text(text)) }

    @Test func groupIsSentInOrderAcrossFailures() async throws {
        let failures = Mutex(["a1": 2, "a3": 1])
        server.fallback { request in
            let text = String(decoding: request.body, as: UTF8.self)
            let fails = failures.withLock { failures in
                defer { failures[text]? -= 1 }
                return failures[text] ?? 0 > 0
            }
            return .status(fails ? 500 : 200)
        }
        let outbox = try open { $0.limit = 8 }
        for number in 1...4 {
            for group in ["a", "b"] { try await outbox.add(post("\(group)\(number)"), group: group) }
        }
        try await outbox.waitUntilSent()
        #expect(bodies.filter { $0.hasPrefix("a") } == ["a1", "a1", "a1", "a2", "a3", "a3", "a4"])
        #expect(bodies.filter { $0.hasPrefix("b") } == ["b1", "b2", "b3", "b4"])
        let keys = Dictionary(grouping: server.requests, by: \.path).values.map {
            Set($0.map { $0.headers["Idempotency-Key"] })
        }
        #expect(keys.count == 8 && keys.allSatisfy { $0.count == 1 })
        await outbox.close()
    }

    @Test func newestReplacesTheWaitingOne() async throws {
        let holds = server
        holds.enqueue(.status(200).stalling(.start))
        let outbox = try open { $0.limit = 1 }
        var changes = outbox.changes.makeAsyncIterator()
        try await outbox.add(post("first"), supersedes: "position")
        try await server.waitForRequests(1)
        // The one that is being sent stays.
        let second = try await outbox.add(post("second"), supersedes: "position")
        try await outbox.add(post("other"), group: "g", supersedes: "position")
        let third = try await outbox.add(post("third"), supersedes: "position")
        #expect(try await outbox.entry(second) == nil)
        var superseded: Int64?
        while superseded == nil, let change = await changes.next() {
            if case .superseded(let entry) = change { superseded = entry.id }
        }
        #expect(superseded == second)
        #expect(try await outbox.entry(third)?.state == .waiting)
        let entries = try await outbox.entries
        #expect(entries.map(\.address) == ["/first", "/other", "/third"])
        try await outbox.drop(entries[0].id)
        server.fallback { _ in .status(200) }
        try await outbox.waitUntilSent()
        #expect(bodies == ["first", "other", "third"])
        await outbox.close()
    }

    @Test func newValueIsNotSentBesideAnOldOne() async throws {
        server.enqueue(.status(200).stalling(.start))
        let outbox = try open()
        let old = try await outbox.add(post("old"), supersedes: "k")
        try await server.waitForRequests(1)
        try await outbox.add(post("new"), supersedes: "k")
        try await outbox.add(post("other"))
        try await server.waitForRequests(2)
        #expect(bodies == ["old", "other"])
        try await outbox.drop(old)
        try await outbox.waitUntilSent()
        #expect(bodies == ["old", "other", "new"])
        await outbox.close()
    }

    @Test func sameKeyTwiceInABatchKeepsTheBody() async throws {
        var request = HTTPRequest("POST", "/x", body: .data(Data(repeating: 7, count: 100_000)))
        request.idempotencyKey = "own"
        let outbox = try open()
        let ids = try await outbox.add([Outbox.Item(request), Outbox.Item(request)])
        try await outbox.waitUntilSent()
        #expect(ids[0] == ids[1] && server.requests.map(\.body.count) == [100_000])
        #expect(directory.contents.filter { $0.hasPrefix("outbox/bodies/") }.isEmpty)
        await outbox.close()
    }

    @Test func higherPriorityGoesFirst() async throws {
        var later = Outbox.Configuration()
        later.limit = 0
        let adder = try Outbox(folder: folder, manager: central, configuration: later)
        for (text, priority) in [("low", RequestPriority.low), ("normal", .normal), ("high", .high)] {
            try await adder.add(post(text), priority: priority)
        }
        await adder.close()
        let outbox = try open { $0.limit = 1 }
        try await outbox.waitUntilSent()
        #expect(bodies == ["high", "normal", "low"])
        await outbox.close()
    }

    // MARK: Ends

    @Test func refusalIsADeadLetterWithItsResponse() async throws {
        server.enqueue(.json(#"{"error": "no such sensor"}"#, status: 422), .status(200), .status(201))
        let results = Log<String>()
        let outbox = try open()
        outbox.handle("print") { _, result in
            if case .failure(let error) = result {
                results.append("\(error.response?.status ?? 0)")
            } else {
                results.append("ok")
            }
        }
        let id = try await outbox.add(post("one"), group: "g", handler: "print")
        try await outbox.add(post("two"), group: "g", handler: "print")
        try await outbox.waitUntilSent()
        try await eventually { results.count == 2 }
        let entry = try #require(try await outbox.entry(id))
        #expect(
            entry.state == .refused && entry.status == 422 && entry.attempts == 1
                && entry.reason?.contains("422") == true)
        #expect(try await outbox.response(to: id)?.json()["error"].string == "no such sensor")
        #expect(try await outbox.load.dead == 1)
        try await outbox.retry(id)
        try await outbox.waitUntilSent()
        #expect(results.elements == ["422", "ok", "ok"] && bodies == ["one", "two", "one"])
        #expect(try await outbox.entries.isEmpty)
        await #expect(throws: NetworkError.self) { try await outbox.retry(id) }
        await outbox.close()
    }

    @Test func manyEntriesAreChangedAtOnce() async throws {
        let isRefusing = Mutex(true)
        server.fallback { _ in .status(isRefusing.withLock { $0 } ? 422 : 200) }
        let outbox = try open()
        let ids = try await outbox.add((1...600).map { Outbox.Item(post("\($0)")) })
        try await eventually { try await outbox.load.dead == 600 }
        let count = server.requestCount
        isRefusing.withLock { $0 = false }
        #expect(try await outbox.drop(Array(ids[..<300]) + [ids[0], 9_999]) == Array(ids[..<300]))
        #expect(try await outbox.retry(Array(ids[200...])) == Array(ids[300...]))
        try await outbox.waitUntilSent()
        #expect(server.requestCount == count + 300)
        #expect(try await outbox.retry([]).isEmpty)
        #expect(try await outbox.drop(ids).isEmpty)
        #expect(try await outbox.entries.isEmpty)
        await outbox.close()
    }

    @Test func expiredEntryIsNotSent() async throws {
        let time = Mutex(OutboxClock.Reading(boot: "1", uptime: 0, wall: 1_000))
        let outbox = try Outbox(folder: folder, manager: central) { time.withLock { $0 } }
        var later = Outbox.Configuration()
        later.limit = 0
        let adder = try Outbox(folder: folder, manager: central, configuration: later) { time.withLock { $0 } }
        await outbox.close()
        let id = try await adder.add(post("old"), expires: .seconds(60), handler: "h")
        let other = try await adder.add(post("other"), expires: .seconds(600))
        // The system's clock is set back by days; two minutes pass.
        time.withLock { $0 = .init(boot: "1", uptime: 120_000, wall: -400_000_000) }
        await adder.close()
        let results = Log<NetworkError.Kind>()
        let sender = try Outbox(folder: folder, manager: central) { time.withLock { $0 } }
        sender.handle("h") { _, result in if case .failure(let error) = result { results.append(error.kind) } }
        try await sender.waitUntilSent()
        try await eventually { results.count == 1 }
        #expect(results.elements == [.timeout(.deadline)] && bodies == ["other"])
        #expect(try await sender.entry(id)?.state == .expired)
        #expect(try await sender.entry(other) == nil)
        await sender.close()
    }

    @Test func attemptsAreLimited() async throws {
        server.fallback { _ in .status(500) }
        let outbox = try open { $0.maxAttempts = 3 }
        let id = try await outbox.add(post("x"))
        try await outbox.waitUntilSent()
        let entry = try #require(try await outbox.entry(id))
        #expect(entry.state == .givenUp && entry.attempts == 3 && server.requestCount == 3)
        await outbox.close()
    }

    @Test func whatIsDueDuringACommitIsSent() async throws {
        server.enqueue(.status(500), .status(503), .status(200))
        var configuration = Outbox.Configuration()
        configuration.firstWait = .milliseconds(20)
        // Each look at the clock is seconds after the one before, so every wait has passed when its end is recorded.
        let time = Mutex<Int64>(0)
        let outbox = try Outbox(folder: folder, manager: central, configuration: configuration) {
            time.withLock { time in
                time += 10_000
                return .init(boot: "1", uptime: time, wall: time)
            }
        }
        try await outbox.add(post("x"))
        // Nothing but the outbox's own timer gives it a turn.
        try await server.waitForRequests(3)
        await outbox.close()
    }

    @Test func retryAfterHoldsAllOfTheServer() async throws {
        server.enqueue(.status(503).header("Retry-After", "3600"))
        let outbox = try open { $0.limit = 1 }
        var changes = outbox.changes.makeAsyncIterator()
        let id = try await outbox.add(post("one"))
        while let change = await changes.next() { if case .failed = change { break } }
        try await outbox.add(post("two"))
        let entry = try #require(try await outbox.entry(id))
        #expect(try #require(entry.nextAttempt).timeIntervalSinceNow > 3_000 && server.requestCount == 1)
        try await outbox.sendNow()
        try await outbox.waitUntilSent()
        #expect(bodies.sorted() == ["one", "one", "two"])
        await outbox.close()
    }

    @Test func failedHandlerIsCalledAgain() async throws {
        struct Failure: Error {}
        let calls = Log<Int>()
        let outbox = try open()
        outbox.handle("h") { _, result in
            calls.append(try result.get().status)
            if calls.count < 3 { throw Failure() }
        }
        try await outbox.add(post("x"), handler: "h")
        try await outbox.waitUntilSent()
        #expect(calls.elements == [200, 200, 200] && server.requestCount == 1)
        await outbox.close()
    }

    @Test func answerWaitsForItsHandler() async throws {
        server.enqueue(.json(#"{"number": 7}"#, status: 201).header("Set-Cookie", "a=b"))
        do {
            let outbox = try open()
            let id = try await outbox.add(post("x"), handler: "later")
            try await eventually { try await outbox.entry(id)?.state == .answered }
            await outbox.close()
        }
        // The program starts again, and registers the handler.
        let outbox = try open()
        let answers = Log<String>()
        outbox.handle("later") { _, result in
            let response = try result.get()
            answers.append(
                "\(response.status) \(try response.json()["number"].int ?? 0) \(response.headers["Set-Cookie"] ?? "-")")
        }
        try await outbox.waitUntilSent()
        #expect(answers.elements == ["201 7 -"] && server.requestCount == 1)
        await outbox.close()
    }

    @Test func handlerMayRetryItsEntry() async throws {
        server.enqueue(.status(422), .status(422), .status(200))
        let outbox = try open()
        let results = Log<String>()
        let shared = Mutex<Outbox?>(outbox)
        outbox.handle("h") { entry, result in
            guard case .failure = result, let outbox = shared.withLock({ $0 }) else { return results.append("sent") }
            results.append("refused")
            try await outbox.retry(entry.id)
            // The handler returns after the entry has ended again.
            try await eventually { try await outbox.entry(entry.id)?.status != nil }
        }
        try await outbox.add(post("x"), handler: "h")
        try await outbox.waitUntilSent()
        #expect(results.elements == ["refused", "refused", "sent"])
        shared.withLock { $0 = nil }
        await outbox.close()
    }

    @Test func unreachableServerCountsAsNoAttempt() async throws {
        let outbox = try open { $0.maxAttempts = 1 }
        var changes = outbox.changes.makeAsyncIterator()
        // Nothing listens on port 1.
        let id = try await outbox.add(HTTPRequest("POST", "http://127.0.0.1:1/x"))
        var isWaiting = false
        while !isWaiting, let change = await changes.next() {
            if case .died = change { break }
            if case .failed = change { isWaiting = true }
        }
        let entry = try #require(try await outbox.entry(id))
        #expect(isWaiting && entry.state == .waiting && entry.attempts == 0)
        await outbox.close()
    }

    // MARK: Rows

    private struct Save: RequestEntity, Encodable {
        static let route = Route(server: "reading.save")
        var id: Int
        var celsius: Double
        var at = Date(timeIntervalSince1970: 0)
    }

    @Test func rowAndTokenAreThoseOfTheSending() async throws {
        let token = Mutex("old")
        let central = try CentralRequestManager.make { configuration in
            configuration.domains = try? DomainTable(
                json5: "{ domains: { station: { baseURL: 'http://127.0.0.1:1' } } }")
            configuration.headerProvider = { _ in ["Authorization": "Bearer \(token.withLock { $0 })"] }
        }
        let outbox = try Outbox(folder: folder, manager: central)
        var changes = outbox.changes.makeAsyncIterator()
        let id = try await Save(id: 7, celsius: 21.5).header("X-Own", "a").enqueue(on: central, group: "g")
        var reason = ""
        while let change = await changes.next() {
            if case .failed(_, let error) = change {
                reason = error.message
                break
            }
        }
        #expect(reason.contains("reading.save"))
        #expect(try await outbox.entry(id)?.reason?.contains("reading.save") == true)
        token.withLock { $0 = "new" }
        let table = """
            { domains: { station: { baseURL: '\(server.baseURL)' } },
              servers: { 'reading.save': { domain: 'station', path: 'readings/{id}', method: 'PUT' } } }
            """
        try central.updateDomains { $0 = try DomainTable(json5: table) }
        try await outbox.sendNow()
        try await outbox.waitUntilSent()
        let request = try #require(server.requests.first)
        #expect(request.method == "PUT" && request.path == "/readings/7")
        #expect(request.headers["Authorization"] == "Bearer new" && request.headers["X-Own"] == "a")
        #expect(try JSONValue(parsing: request.body)["celsius"].double == 21.5)
        await outbox.close()
    }

    @Test func envelopeDecidesOnSuccess() async throws {
        server.enqueue(.json(#"{"code": 9, "message": "no"}"#), .json(#"{"code": 0, "data": {}}"#))
        let table = """
            { domains: { station: { baseURL: '\(server.baseURL)', envelope: { code: 'code', message: 'message', data: 'data', success: [0] } } },
              servers: { 'reading.save': { domain: 'station', path: 'r/{id}', method: 'POST' } } }
            """
        let central = try CentralRequestManager.make { $0.domains = try? DomainTable(json5: table) }
        let outbox = try Outbox(folder: folder, manager: central)
        let id = try await Save(id: 1, celsius: 1).enqueue(on: central, group: "g")
        try await Save(id: 2, celsius: 2).enqueue(on: central, group: "g")
        try await outbox.waitUntilSent()
        #expect(try await outbox.entries.map(\.id) == [id])
        #expect(try await outbox.entry(id)?.state == .refused)
        await outbox.close()
    }

    @Test func managerWithoutOutboxSaysSo() async throws {
        let error = await #expect(throws: NetworkError.self) { try await Save(id: 1, celsius: 1).enqueue(on: central) }
        #expect(error?.kind == .unsupported && error?.message.contains("Outbox(folder:manager:)") == true)
    }
}
