import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import HTTPCore
@testable import LATClient
@testable import LATKit
@testable import LATTransfers

@Suite(.timeLimit(.minutes(2))) struct ObservingTests {
    /// An accessory that records the names of its callbacks for each call.
    private final class Recorder: RequestAccessory {
        private let entries = Mutex<[UInt64: [String]]>([:])

        var calls: [[String]] { entries.withLock { Array($0.values) } }

        func willStart(_ call: ObservedCall) { add("willStart", call) }
        func didStart(_ call: ObservedCall) { add("didStart", call) }
        func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { add("willFinish", call) }
        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { add("didFinish", call) }

        private func add(_ name: String, _ call: ObservedCall) {
            entries.withLock { $0[call.id, default: []].append(name) }
        }
    }

    private struct Fetch: RequestEntity {
        typealias Model = Int
        static let route = Route("GET", url: "/text")
    }

    private final class Presenter: ActivityIndicator.Presenter {
        private let shown = Log<String>()
        let isDismissed = Event()

        var entries: [String] { shown.elements }

        func show(_ tip: String?) { shown.append("show \(tip ?? "")") }

        func dismiss() {
            shown.append("dismiss")
            isDismissed.happen()
        }
    }

    /// The credentials have no name in an echo, a path or a reason.
    @Test(arguments: [RequestLog.Format.summary, .full, .curl, .json])
    func echoedCredentialsAreNotLogged(format: RequestLog.Format) async throws {
        let server = try MockServer()
        server.fallback { request in
            .text("you sent \(request.headers["Authorization"] ?? "") and \(request.headers["X-Api-Key"] ?? "")")
                .header("X-Echo", request.headers["X-Api-Key"] ?? "")
        }
        let entries = Log<String>()
        let manager = try CentralRequestManager.make {
            $0.headerProvider = { _ in ["X-Api-Key": "CANARY-provided-7"] }
            $0.accessories = [RequestLog(format) { entries.append($0) }]
        }
        var request = HTTPRequest("POST", server.url("/CANARY-provided-7/x?q=1"), body: .text("a=CANARY-provided-7"))
        request.authentication = .bearer(token: "CANARY-bearer-7")
        let echo = try await manager.startRequest(request).text
        #expect(echo == "you sent Bearer CANARY-bearer-7 and CANARY-provided-7")
        #expect(!entries.elements.isEmpty)
        for entry in entries.elements { #expect(!entry.contains("CANARY"), "\(entry)") }
    }

    /// Calls of every kind, with every kind of end, in random order.
    @Test(arguments: 0..<4)
    func accessoryGetsAllFourCallbacksInOrder(_ seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let server = try MockServer()
        server.route("GET", "/text") { _ in .text("no number") }
        server.route("GET", "/lost") { _ in .noReply }
        server.route("GET", "/refused") { _ in .status(401) }
        server.route("GET", "/slow") { _ in MockReply.text("").stalling(.start) }
        server.route("GET", "/big") { _ in .pattern(byteCount: 300_000) }
        server.fallback { _ in .text("1") }
        let recorder = Recorder()
        let presenter = Presenter()
        let indicator = ActivityIndicator(presenter, delay: .zero, minimum: .zero)
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.accessories = [recorder, indicator]
            $0.duplicates = seed.isMultiple(of: 2) ? .coalesce : .allow
            $0.retries = 1
            $0.retryPolicy.firstWait = .milliseconds(1)
            $0.limits.maxConcurrentRequests = 6
        }
        let kinds = (0..<120).map { _ in Int.random(in: 0..<10, using: &generator) }
        await withTaskGroup(of: Void.self) { group in
            for kind in kinds {
                group.addTask {
                    switch kind {
                    case 0: _ = try? await manager.startRequest("GET", "/")
                    case 1: _ = try? await manager.startRequest("GET", "/lost")
                    case 2: _ = try? await manager.startRequest("GET", "/refused")
                    case 3: _ = try? await manager.startRequest("GET", "/", headers: ["A": "\r\n"])
                    case 4: _ = try? await Fetch().startRequest(on: manager)
                    case 5: _ = try? await manager.startRequest("GET", "/slow", timeout: .milliseconds(20))
                    case 6:
                        let work = Task { try await manager.startRequest("GET", "/slow", timeout: .seconds(5)) }
                        work.cancel()
                        _ = await work.result
                    case 7:
                        let recorder = CallRecorder()
                        let task = manager.startRequest("GET", "/", into: recorder)
                        if task.key.utf8.last.map({ $0.isMultiple(of: 2) }) ?? false { task.cancel() }
                        await recorder.end()
                    case 8:
                        guard let stream = try? await manager.stream("GET", "/big") else { return }
                        do { for try await _ in stream.body {} } catch {}
                    default:
                        // The stream is released before its end.
                        _ = try? await manager.stream("GET", "/big")
                    }
                }
            }
        }
        // `didFinish` of a closure call comes after its closure.
        try await eventually { recorder.calls.allSatisfy { $0.count >= 4 } }
        #expect(recorder.calls.allSatisfy { $0 == ["willStart", "didStart", "willFinish", "didFinish"] })
        #expect(recorder.calls.count <= kinds.count && recorder.calls.count > kinds.count / 2)
        try await eventually("a hidden indicator") { indicator.count == 0 && presenter.entries.last == "dismiss" }
        #expect(manager.runningRequests() == 0)
    }

    @Test func didFinishComesAfterTheClosure() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("1") }
        let log = Log<String>()
        let isOver = Event()
        struct Teller: RequestAccessory {
            let log: Log<String>
            let isOver: Event

            func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { log.append("will") }
            func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
                log.append("did")
                isOver.happen()
            }
        }
        let manager = try CentralRequestManager.make { $0.accessories = [Teller(log: log, isOver: isOver)] }
        manager.startRequest("GET", server.url(), success: { _, _ in log.append("closure") }, failure: { _, _ in })
        await isOver.wait()
        #expect(log.elements == ["will", "closure", "did"])
    }

    @Test func eventsReportEveryStep() async throws {
        let server = try MockServer()
        server.enqueue(.noReply, .text("ok"))
        let manager = try CentralRequestManager.make {
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
            $0.headers = ["X-App": "demo"]
        }
        var events = manager.events.makeAsyncIterator()
        _ = try await manager.startRequest("GET", server.url(), tag: "t")
        var names: [String] = []
        var offsets: [Duration] = []
        while let event = await events.next() {
            #expect(event.call.tag == "t")
            offsets.append(event.offset)
            switch event.kind {
            case .started: names.append("started")
            case .sending(let number, let request):
                #expect(request.headers["X-App"] == "demo")
                names.append("sending \(number)")
            case .failed(let number, let error): names.append("failed \(number) \(error.kind)")
            case .retrying: names.append("retrying")
            case .answered(let number, let response): names.append("answered \(number) \(response.status)")
            case .finished: names.append("finished")
            case .composed(let sources): #expect(sources["x-app"] == .manager)
            default: names.append("other")
            }
            if names.last == "finished" { break }
        }
        #expect(
            names == [
                "started", "sending 1", "failed 1 connectionLost", "retrying", "sending 2", "answered 2 200",
                "finished",
            ])
        #expect(offsets == offsets.sorted())
    }

    private struct Genre: KnownValues {
        var rawValue: String
        static let novel = Self(rawValue: "novel")
        static let knownValues: [Self] = [.novel]
    }

    private struct Level: KnownValues {
        var rawValue: Int
        static let knownValues = [Self(rawValue: 1)]
    }

    private struct Book: Decodable, Sendable {
        var genres: [Genre]
        var level: Level?
    }

    private struct FetchBook: RequestEntity {
        typealias Model = Book
        static let route = Route(server: "book")
    }

    /// What the events say is not documented, until so many calls have ended.
    private func undocumented(
        _ manager: CentralRequestManager, calls: Int = 1,
        _ body: (CentralRequestManager) async throws -> Void = { _ = try? await FetchBook().startRequest(on: $0) }
    ) async throws -> [String] {
        let events = manager.events
        try await body(manager)
        var (found, ended): ([String], Int) = ([], 0)
        for await event in events {
            switch event.kind {
            case .undocumentedStatus(let status): found.append("\(status)")
            case .unknownValue(let type, let value): found.append("\(type) \(value)")
            case .finished:
                ended += 1
                if ended == calls { return found }
            default: break
            }
        }
        return found
    }

    @Test(arguments: [
        ([200], "{ statuses: [200] }", []), ([201], "{ statuses: [200] }", ["201"]),
        ([201], "{ statuses: ['2XX'] }", []),
        ([404], "{ statuses: [200, '5XX'] }", ["404"]), ([201], "{ parameters: { q: 'string?' } }", []),
        // An attempt that is repeated, and its repetition.
        ([503, 200], "{ statuses: [200] }", ["503"]), ([302, 200], "{ statuses: [200] }", []),
    ]) func undocumentedStatusIsAnEvent(_ statuses: [Int], _ documented: String, _ expected: [String]) async throws {
        let server = try MockServer()
        for status in statuses {
            server.enqueue(MockReply.json(#"{"genres": []}"#, status: status).header("Location", "/book"))
        }
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { d: { baseURL: "\(server.baseURL)", retries: 1,
                        retry: { firstWait: "1ms", statuses: [503] } } },
                      servers: { book: { domain: "d", path: "book", method: "GET", documented: \(documented) } } }
                    """, environment: nil)
        }
        #expect(try await undocumented(manager) == expected)
    }

    @Test func statusesOfTheRowAreNotThoseOfTheAddressesThatItsResponsesName() async throws {
        let server = try MockServer()
        server.route("POST", "/jobs") { _ in .status(202).header("Location", "/jobs/7") }
        server.route("GET", "/jobs/7") { _ in .json("{}") }
        server.route("GET", "/list") { _ in
            .json("[1]", status: 201).header("Link", "<\(server.url("/more"))>; rel=\"next\"")
        }
        server.route("GET", "/more") { _ in .json("[2]") }
        let manager = try CentralRequestManager.make(
            .make(
                server.url(),
                servers: """
                    job: { domain: "d", path: "jobs", method: "POST", documented: { statuses: [202] } },
                    list: { domain: "d", path: "list", method: "GET", pages: "link", documented: { statuses: [201] } },
                    """))
        let polled = try await undocumented(manager, calls: 2) {
            _ = try await $0.poll(server: "job", .location.every(.milliseconds(1)))
        }
        #expect(polled.isEmpty)
        let walked = try await undocumented(manager, calls: 2) { manager in
            for try await _ in manager.pages(server: "list") {}
        }
        #expect(walked.isEmpty)
    }

    @Test func unknownValueIsAnEvent() async throws {
        let server = try MockServer()
        server.enqueue(.json(#"{"genres": ["novel", "opera", "opera"], "level": 7}"#))
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { d: { baseURL: "\(server.baseURL)" } },
                      servers: { book: { domain: "d", path: "book", method: "GET" } } }
                    """, environment: nil)
        }
        #expect(try await undocumented(manager) == ["Genre \"opera\"", "Level 7"])
    }

    @Test func unknownValueIsJSONAndBounded() async throws {
        let accents = String(repeating: "\u{301}", count: 500)
        let server = try MockServer.answering(#"{"genres": ["a\"b\n", "e\#(accents)"]}"#)
        let entries = Log<String>()
        var log = RequestLog(.full) { entries.append($0) }
        log.bodyLimit = 50
        let manager = try CentralRequestManager.make(
            .make(server.url(), servers: #"book: { domain: "d", path: "book", method: "GET" }"#)
        ) { [log] in $0.accessories = [log] }
        let found = try await undocumented(manager)
        try #require(found.count == 2)
        #expect(found[0] == #"Genre "a\"b\n""#)
        #expect(found[1].unicodeScalars.count == "Genre ".count + 202)
        // A log shows no more of it than of a body.
        let lines = entries.elements.filter { $0.contains("has no value") }
        #expect(lines.count == 2 && lines.allSatisfy { $0.utf8.count < 150 }, "\(lines)")
    }

    @Test func unknownValueIsToldOnceAndBeforeTheEndOfItsCall() async throws {
        let server = try MockServer.answering(#"{"genres": ["opera"], "state": "done", "next": "/book"}"#)
        let manager = try CentralRequestManager.make(
            .make(server.url(), servers: #"book: { domain: "d", path: "book", method: "GET" }"#))
        // The second call begins after everything that the first one tells.
        let shown = try await undocumented(manager, calls: 2) { manager in
            _ = try await FetchBook().poll(.location, on: manager) { _ in true }
            _ = try await manager.startRequest("GET", server.url("/book"))
        }
        #expect(shown == ["Genre \"opera\""])
        // The result of a job is decoded within its call, also where the status says that it is one.
        let result = try await undocumented(manager, calls: 2) { manager in
            _ = try await FetchBook().poll(.location, on: manager)
            _ = try await manager.startRequest("GET", server.url("/book"))
        }
        #expect(result == ["Genre \"opera\""])
        let fetched = try await undocumented(manager, calls: 3) { manager in
            _ = try await FetchBook().poll(.status(at: "state", done: ["done"]).result(at: "next"), on: manager)
            _ = try await manager.startRequest("GET", server.url("/book"))
        }
        #expect(fetched == ["Genre \"opera\""])
    }

    @Test func eventsEndWithTheManager() async throws {
        var manager: CentralRequestManager? = try CentralRequestManager.make()
        let events = try #require(manager?.events)
        var iterator = events.makeAsyncIterator()
        manager = nil
        _ = consume events
        #expect(await iterator.next() == nil)
    }

    // MARK: Indicator

    @Test func indicatorIsDismissedAfterTheLastCall() async throws {
        let clock = VirtualClock()
        let presenter = Presenter()
        let indicator = ActivityIndicator(
            presenter, delay: .milliseconds(300), minimum: .milliseconds(500), tip: { _ in nil },
            clock: clock.callClock)
        let first = indicator.show("a")
        let second = indicator.show("b")
        indicator.dismiss(first)
        indicator.dismiss(first)
        #expect(indicator.count == 1)
        await clock.waitForSleepers(1)
        clock.advance(by: .milliseconds(300))
        try await eventually { !presenter.entries.isEmpty }
        indicator.dismiss(second)
        await clock.waitForSleepers(1)
        clock.advance(by: .milliseconds(500))
        await presenter.isDismissed.wait()
        #expect(presenter.entries == ["show b", "dismiss"])
    }

    // MARK: Trace

    @Test func traceHasASpanForEachAttempt() async throws {
        let server = try MockServer()
        server.enqueue(.noReply, .text("ok"), .text("plain"))
        let manager = try CentralRequestManager.make {
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
        }
        let parent = try #require(TraceParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
        try await TraceParent.$current.withValue(parent) {
            _ = try await manager.startRequest("GET", server.url())
        }
        let sent = server.requests.compactMap { $0.headers["traceparent"].flatMap { TraceParent($0) } }
        #expect(sent.count == 2)
        #expect(Set(sent.map(\.traceID)) == [parent.traceID])
        #expect(Set(sent.map(\.spanID) + [parent.spanID]).count == 3)
        #expect(sent.allSatisfy { $0.isSampled })
        _ = try await manager.startRequest("GET", server.url())
        #expect(server.requests.last?.headers["traceparent"] == nil)
    }

    @Test(arguments: [
        "", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b71692033311-01",
    ])
    func invalidTraceParentIsIgnored(_ text: String) { #expect(TraceParent(text) == nil) }

    @Test func laterTraceParentVersionIsRead() {
        let text = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more"
        #expect(TraceParent(text)?.description == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
        #expect(TraceParent(TraceParent().description) != nil)
    }

    // MARK: Log

    private func log(
        _ format: RequestLog.Format, _ reply: MockReply = .text("answer"), limit: Int = 4_096,
        _ call: (CentralRequestManager, String) async throws -> Void
    ) async throws -> [String] {
        let server = try MockServer()
        server.fallback { _ in reply }
        let entries = Log<String>()
        var log = RequestLog(format) { entries.append($0) }
        log.bodyLimit = limit
        let manager = try CentralRequestManager.make { [log] in $0.accessories = [log] }
        try? await call(manager, server.url("/x"))
        return entries.elements.map { $0.replacing(server.baseURL, with: "BASE") }
    }

    @Test func summaryIsOneLine() async throws {
        let entries = try await log(.summary) { manager, url in
            _ = try await manager.startRequest("GET", url, parameters: ["q": "a", "token": "SECRET"], tag: "t")
        }
        #expect(entries.count == 1)
        #expect(entries[0].hasPrefix("GET BASE/x?q=a&token=*** -> 200 in "))
        #expect(entries[0].hasSuffix("6 bytes, network [t]"))
    }

    @Test func secretsAreNotLoggedInAnyFormat() async throws {
        for format in [RequestLog.Format.summary, .full, .curl, .json] {
            let reply = MockReply.json(#"{"access_token":"SECRET","name":"Ada"}"#).header("Set-Cookie", "s=SECRET")
            let entries = try await log(format, reply) { manager, url in
                let user = url.replacing("://", with: "://user:SECRET@")
                _ = try await manager.startRequest(
                    "POST", user + "?password=SECRET&user[token]=SECRET", parameters: ["password": "SECRET", "a": 1],
                    body: .json,
                    headers: ["Authorization": "SECRET", "X-Api-Key": "SECRET", "Cookie": "SECRET", "X-Plain": "seen"])
            }
            let text = entries.joined(separator: "\n")
            #expect(!text.contains("SECRET"), "\(format)")
            #expect(text.contains("POST") || format == .curl)
            if format != .summary, format != .json { #expect(text.contains("seen")) }
        }
    }

    @Test(
        arguments: [
            "access_token", "accessToken", "ACCESS-TOKEN", "access%5Ftoken", "%61ccess_token", "%2561ccess_token",
            "user[access_token]", "user%5Baccess_token%5D", "a[b][accessToken]", "password[0]", "secret[value]",
            "user.password",
        ])
    func everySpellingOfASecretNameIsHidden(_ name: String) async throws {
        for format in [RequestLog.Format.summary, .full, .curl, .json] {
            let reply = MockReply.json(#"{"accessToken":"SECRET","user":{"Access_Token":"SECRET"}}"#, status: 201)
                .header("Location", "/next?\(name)=SECRET&page=2").header("Content-Location", "/x?\(name)=SECRET")
            let plain = name[...].percentDecoded()[...].percentDecoded()
            let entries = try await log(format, reply) { manager, url in
                _ = try await manager.startRequest(
                    "POST", url + "?\(name)=SECRET", parameters: [plain: "SECRET", "page": 2],
                    files: [UploadFile(name: plain, value: "SECRET")],
                    headers: ["Referer": url + "?\(name)=SECRET"])
                _ = try await manager.startRequest("POST", url, body: .json([plain: "SECRET", "page": "2"]))
            }
            let text = entries.joined(separator: "\n")
            #expect(entries.count >= 2, "both calls are logged")
            #expect(!text.contains("SECRET"), "\(format): \(text)")
            if format == .full { #expect(text.contains("Location: BASE/next?") || text.contains("page=2")) }
        }
    }

    @Test func formFieldsAndAuthenticatorTokensAreHidden() async throws {
        struct Session: Authenticator {
            func apply(to request: inout HTTPRequest) async throws { request.headers["X-Session"] = "SECRET" }
            func refresh() async throws {}
        }
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let entries = Log<String>()
        for format in [RequestLog.Format.full, .curl] {
            let manager = try CentralRequestManager.make {
                $0.accessories = [RequestLog(format) { entries.append($0) }]
                $0.authenticator = Session()
            }
            _ = try await manager.startRequest(
                "POST", server.url("/x"), body: .data(Data("user=a&password=SECRET".utf8)),
                headers: ["Content-Type": "application/x-www-form-urlencoded"])
        }
        let text = entries.elements.joined()
        #expect(!text.contains("SECRET") && text.contains("user=a"), "\(text)")
    }

    @Test func managersListIsTheLogs() async throws {
        let server = try MockServer()
        let entries = Log<String>()
        let manager = try CentralRequestManager.make {
            $0.accessories = [RequestLog(.full) { entries.append($0) }]
            $0.secrets.insert(header: "X-Mine")
            $0.secrets.insert(parameter: "pin_code")
        }
        server.fallback { _ in .text("ok") }
        _ = try await manager.startRequest(
            "GET", server.url("/x"), parameters: ["pinCode": "SECRET", "q": "seen"], headers: ["X-Mine": "SECRET"])
        let text = entries.elements.joined()
        #expect(!text.contains("SECRET") && text.contains("q=seen") && text.contains("X-Mine: ***"))
    }

    @Test func curlCommandIsQuotedForTheShell() async throws {
        let entries = try await log(.curl) { manager, url in
            _ = try await manager.startRequest("PUT", url, body: .text("it's"), headers: ["A": "b'c"])
        }
        #expect(entries.count == 1)
        #expect(entries[0].contains("curl -X PUT "))
        #expect(entries[0].contains(#"-H 'A: b'\''c'"#))
        #expect(entries[0].contains(#"--data-raw 'it'\''s'"#))
        #expect(entries[0].hasSuffix("'BASE/x'"))
    }

    @Test func longBodiesAreCutAndStreamsNotLogged() async throws {
        let long = String(repeating: "é", count: 3_000)
        let entries = try await log(.full, .text(long), limit: 1_000) { manager, url in
            _ = try await manager.startRequest("GET", url)
        }
        #expect(entries.last?.contains("(6000 bytes in all)") == true || entries.last?.hasSuffix("…") == true)
        #expect((entries.last?.utf8.count ?? 0) < 1_500)
        let streamed = try await log(.full, .pattern(byteCount: 500_000)) { manager, url in
            let response = try await manager.stream("GET", url)
            #expect(try await response.body.collect(upTo: 1 << 20).count == 500_000)
        }
        #expect(streamed.contains { $0.hasSuffix("(streamed)") })
        let binary = try await log(.full, .pattern(byteCount: 5_000)) { manager, url in
            _ = try await manager.startRequest("GET", url)
        }
        #expect(binary.last?.utf8.contains(0) == false)
    }

    @Test func logIsOffByDefault() {
        #expect(CentralRequestManager.Configuration().accessories.isEmpty)
    }
}
