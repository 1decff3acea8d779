import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(1))) struct ListPageTests {
    /// Seven numbers, three on a page.
    private static func items(from start: Int) -> JSONValue {
        .array((start..<max(start, min(start + 3, 7))).map { .int(Int64($0)) })
    }

    private static func server() throws -> MockServer {
        let server = try MockServer()
        server.route("*", "/link") { request in
            let start = Int(request.query("start") ?? "0") ?? 0
            let reply = MockReply.json("\(items(from: start))")
            return start < 6 ? reply.header("Link", "</link?q=%2C&start=\(start + 3)>; rel=\"next\"") : reply
        }
        server.route("*", "/x") { request in
            let number = request.query("page").flatMap { Int($0) }.map { "\(($0 - 1) * 3)" }
            let start = request.query("cursor") ?? request.query("offset") ?? number ?? "0"
            let next = (Int(start) ?? 0) + 3
            let page: JSONValue = [
                "data": items(from: Int(start) ?? 0), "next": next < 7 ? .string("/x?cursor=\(next)") : .null,
                "meta": ["cursor": next < 7 ? .int(Int64(next)) : ""],
            ]
            return .json("\(page)")
        }
        return server
    }

    private func numbers(_ pages: Paging.Pages<HTTPResponse>, at path: String? = nil) async throws -> [Int] {
        var all: [Int] = []
        for try await page in pages {
            let json = try page.json()
            all += (path.map { json[$0] ?? .null } ?? json).array?.compactMap(\.int) ?? []
        }
        return all
    }

    @Test func linkFieldsAreFollowed() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let pages = manager.pages("GET", "/link", parameters: ["q": ","])
        #expect(try await numbers(pages) == Array(0..<7))
        #expect(server.requests.map(\.query) == ["q=%2C", "q=%2C&start=3", "q=%2C&start=6"])
        // Each iteration begins again.
        #expect(try await numbers(pages) == Array(0..<7))
    }

    @Test(arguments: [
        Paging.address(at: "next"), .cursor(at: "meta.cursor"), .number(items: "data"), .offset(items: "data"),
    ])
    func everyStyleReadsTheWholeList(_ paging: Paging) async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        #expect(try await numbers(manager.pages("GET", "/x", paging), at: "data") == Array(0..<7))
        #expect(try await numbers(manager.pages("GET", "/x", paging.limit(2)), at: "data") == Array(0..<6))
        var quiet = paging
        quiet.prefetches = false
        #expect(try await numbers(manager.pages("GET", "/x", quiet), at: "data") == Array(0..<7))
    }

    @Test(arguments: [
        #"{ cursor: "meta.cursor" }"#, #"{ address: "next" }"#, #"{ number: "page", items: "data" }"#,
        #"{ offset: "offset", items: "data" }"#,
    ])
    func rowSaysHowTheListIsRead(_ pages: String) async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make(.make(server.url(), domain: "pages: \(pages)"))
        var all: [Int] = []
        for try await page in Get<JSONValue>().pages(on: manager) {
            all += page.model["data"].array?.compactMap(\.int) ?? []
        }
        #expect(all == Array(0..<7))
    }

    /// A server that keeps responses by their keys responds to an equal key with an equal page.
    @Test(arguments: ["key", "\"key\""], [true, false])
    func eachPageHasAKeyOfItsOwn(_ key: String, _ isEntity: Bool) async throws {
        let server = try MockServer()
        let kept = Box<[String: Int]>([:])
        let failed = Box(false)
        server.fallback { request in
            let number = request.json?["cursor"]?.string.flatMap { Int($0) } ?? 1
            if number == 2, !failed.value {
                failed.change { $0 = true }
                return .status(503)
            }
            let key = request.headers["Idempotency-Key"] ?? ""
            kept.change { $0[key] = $0[key] ?? number }
            let page = kept.value[key] ?? 0
            return .json(#"{"data":[\#(page)],"next":"\#(page < 3 ? "\(page + 1)" : "")"}"#)
        }
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
        }
        var numbers: [Int] = []
        if isEntity {
            for try await page in PostList().idempotencyKey(key).pages(.cursor(at: "next"), on: manager) {
                numbers += page.model["data"].array?.compactMap(\.int) ?? []
            }
        } else {
            let pages = manager.pages(
                "POST", server.url("/x"), .cursor(at: "next"), parameters: ["q": 1], headers: ["Idempotency-Key": key])
            numbers = try await self.numbers(pages, at: "data")
        }
        #expect(numbers == [1, 2, 3])
        let keys = server.requests.compactMap { $0.headers["Idempotency-Key"] }
        let quote = key == "key" ? "" : "\""
        #expect(keys == [key] + ["key-2", "key-2", "key-3"].map { quote + $0 + quote })
    }

    private struct PostList: RequestEntity, Encodable {
        static let route = Route("POST", domain: "d", path: "x")
        var q = 1
    }

    @Test func onePageIsRequestedAhead() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        var pages = manager.pages("GET", "/link").makeAsyncIterator()
        _ = try await pages.next()
        try await server.waitForRequests(2)
        var paging = Paging.link
        paging.prefetches = false
        var others = manager.pages("GET", "/link", paging).makeAsyncIterator()
        _ = try await others.next()
        #expect(server.requestCount <= 3)
        #expect(try await pages.next() != nil)
    }

    @Test func lookaheadPaysWhileTheAppWorks() {
        var lookahead = Lookahead()
        lookahead.note(work: nil, wait: 50_000_000)
        #expect(lookahead.pays)
        lookahead.note(work: 4_000_000, wait: 50_000_000)
        #expect(!lookahead.pays)
        lookahead.note(work: 40_000_000, wait: 10_000_000)
        #expect(lookahead.pays)
        // A page without work in between does not stop it at once, several do.
        lookahead.note(work: 0, wait: 50_000_000)
        lookahead.note(work: 0, wait: 50_000_000)
        #expect(lookahead.pays)
        lookahead.note(work: 0, wait: 50_000_000)
        lookahead.note(work: 0, wait: 50_000_000)
        #expect(!lookahead.pays)
    }

    @Test func loopIsAnErrorAfterThePageThatNamesIt() async throws {
        let server = try MockServer { request in
            .text("x").header("Link", "</\(request.path == "/a" ? "b" : "a")>; rel=next")
        }
        var seen: [String] = []
        let error = await failure {
            for try await page in try CentralRequestManager.make().pages("GET", server.url("/a")) {
                seen.append(page.url)
            }
        }
        #expect(seen == [server.url("/a"), server.url("/b")])
        #expect(error?.kind == .protocolViolation)
        #expect(error?.message.contains("page 2 names page 1 as the next one (\(server.url("/a")))") == true)
    }

    @Test(arguments: [Paging.number(), .offset()])
    func serverThatIgnoresTheParameterIsALoop(_ paging: Paging) async throws {
        let server = try MockServer.answering("[1]")
        let error = await failure {
            for try await _ in try CentralRequestManager.make().pages("GET", server.url(), paging) {}
        }
        #expect(error?.kind == .protocolViolation && error?.message.contains("the last 10 pages are the same") == true)
    }

    @Test func pagesWithTheSameContentAreRead() async throws {
        let server = try MockServer { request in .json(request.query("page") == "4" ? "[]" : "[0, 0]") }
        let manager = try CentralRequestManager.make()
        #expect(try await numbers(manager.pages("GET", server.url(), .number())) == [0, 0, 0, 0, 0, 0])
    }

    @Test func pageOfAnotherShapeSaysWhatIsMissing() async throws {
        let server = try MockServer.answering(#"{"items": [1]}"#)
        let manager = try CentralRequestManager.make()
        let error = await failure { for try await _ in manager.pages("GET", server.url(), .number()) {} }
        #expect(error?.kind == .decoding(path: "") && error?.message.contains("its JSON is no array") == true)
    }

    @Test func otherOriginGetsNoCredentials() async throws {
        let second = try MockServer()
        let first = try MockServer()
        let back = first.url("/back")
        let there = second.url("/there")
        second.fallback { _ in .text("2").header("Link", "<\(back)>; rel=next") }
        first.fallback { request in
            request.path == "/back" ? .text("3") : .text("1").header("Link", "<\(there)>; rel=next")
        }
        let manager = try CentralRequestManager.make {
            $0.headers["X-API-Key"] = "manager"
            $0.headerProvider = { _ in ["Cookie": "provider"] }
        }
        var count = 0
        for try await _ in manager.pages("GET", first.url("/a"), headers: ["Authorization": "call", "X-Plain": "1"]) {
            count += 1
        }
        #expect(count == 3)
        for (request, isFirst) in [(first.requests[0], true), (second.requests[0], false), (first.requests[1], false)] {
            for name in ["X-API-Key", "Cookie", "Authorization"] {
                #expect((request.headers[name] != nil) == isFirst, "\(name) of \(request.path)")
            }
            #expect(request.headers["X-Plain"] == "1")
        }
    }

    /// The requests of a list whose server leads elsewhere by a redirect.
    @Test(arguments: [true, false], [true, false])
    func redirectedPageLeavesTheOriginToo(_ isFirstPage: Bool, _ hasBase: Bool) async throws {
        let (first, second) = (try MockServer(), try MockServer())
        let there = second.url("/there")
        second.fallback { request in
            request.path == "/there" ? .text("1").header("Link", "</next>; rel=next") : .text("2")
        }
        first.fallback { request in
            request.path == "/1" && !isFirstPage
                ? .text("0").header("Link", "</moved>; rel=next") : .redirect(to: there)
        }
        let manager = try CentralRequestManager.make {
            if hasBase { $0.baseURL = first.url() }
            $0.headers["X-API-Key"] = "manager"
            $0.headerProvider = { _ in ["Cookie": "provider"] }
            $0.parameterProvider = { _ in ["api_key": "provided"] }
        }
        for try await _ in manager.pages("GET", first.url("/1"), headers: ["Authorization": "call"]) {}
        #expect(second.requests.map(\.path) == ["/there", "/next"])
        for request in second.requests {
            for name in ["X-API-Key", "Cookie", "Authorization"] { #expect(request.headers[name] == nil, "\(request)") }
            #expect(!request.target.contains("provided"), "\(request.target)")
        }
    }

    @Test func addressThatIsNoURLDoesNotEndTheList() async throws {
        let server = try MockServer.answering(#"{"next": "http://[bad/x"}"#)
        let manager = try CentralRequestManager.make()
        let error = await failure { for try await _ in manager.pages("GET", server.url(), .address(at: "next")) {} }
        #expect(error?.kind == .decoding(path: "next") && error?.message.contains("not a URL") == true)
    }

    @Test(arguments: ["http:///2", "http://[x", "unix:///run/a.sock:/2", "http://h:x/2"])
    func linkThatIsNoURLDoesNotEndTheList(_ link: String) async throws {
        let server = try MockServer { _ in .text("1").header("Link", "<\(link)>; rel=next") }
        var count = 0
        let error = await failure {
            for try await _ in try CentralRequestManager.make().pages("GET", server.url()) { count += 1 }
        }
        #expect(error?.kind == .protocolViolation && count == 1)
        #expect(error?.message.contains("its field Link has \"\(link)\", which is not a URL") == true)
    }

    @Test func parametersOfTheProviderDoNotPileUp() async throws {
        let server = try MockServer()
        let number = Counter()
        let pages = Counter()
        server.fallback { request in
            let next = pages.next()
            let query = (request.query ?? "").split(separator: "&").filter { !$0.hasPrefix("page=") }.joined(
                separator: "&")
            return next > 4 ? .text("x") : .text("x").header("Link", "</?\(query)&page=\(next)>; rel=next")
        }
        let manager = try CentralRequestManager.make {
            $0.parameterProvider = { _ in ["nonce": number.next(), "a b": 1, "x": ["y": 2], "own": "provided"] }
        }
        for try await _ in manager.pages("GET", server.url("/"), parameters: ["own": "mine"]) {}
        #expect(server.requestCount == 5)
        for (index, request) in server.requests.enumerated() {
            let names = request.queryItems.map(\.name)
            #expect(Set(names).count == names.count, "\(request.target)")
            #expect(request.query("own") == "mine" && request.query("a b") == "1" && request.query("x[y]") == "2")
            #expect(request.query("nonce") == "\(index + 1)")
        }
    }

    @Test func longNumbersOfACursorKeepTheirDigits() async throws {
        let cursors = [
            "12345678901234567890123456789012345678901234567890", "1.50", "100000000000000000000", "1e2", "-0", "7",
        ]
        for cursor in cursors {
            let count = Counter()
            let server = try MockServer { _ in
                count.next() > 1
                    ? .json(#"{"a": [1, "2"], "next": null}"#) : .json(#"{"a": [1, "3\"4"], "next": \#(cursor)}"#)
            }
            for try await _ in try CentralRequestManager.make().pages("GET", server.url(), .cursor(at: "next")) {}
            #expect(server.requests.last?.query("cursor") == cursor)
        }
    }

    @Test func nullSwitchesTheRuleOfADomainOff() async throws {
        let server = try Self.server()
        let table = try DomainTable.make(
            server.url(), domain: #"pages: { cursor: "meta.cursor" }"#,
            servers: #"s: { domain: "d", path: "x", method: "GET", pages: null }"#)
        var count = 0
        // Without a rule the links count, of which there are none.
        for try await _ in try CentralRequestManager.make(table).pages(server: "s") { count += 1 }
        #expect(count == 1 && table.explain("s").contains("pages"))
    }

    @Test func relationOfTheRowIsFollowed() async throws {
        let count = Counter()
        let server = try MockServer { _ in
            .json("[]").header("Link", count.next() > 2 ? "</x>; rel=self" : "</x?n=\(count.value)>; rel=\"older\"")
        }
        let manager = try CentralRequestManager.make(
            .make(server.url(), domain: #"pages: { link: "Older", items: "." }"#))
        var pages = 0
        for try await _ in Get<JSONValue>().pages(on: manager) { pages += 1 }
        #expect(pages == 3)
    }

    @Test func bodyIsSentWithEachPage() async throws {
        let server = try MockServer { request in
            .json(#"{"next": \#(request.json?["cursor"].string == nil ? "7" : "null")}"#)
        }
        let manager = try CentralRequestManager.make()
        for try await _ in manager.pages(
            "QUERY", server.url(), .cursor(at: "next"), parameters: ["q": "x"], body: .json)
        {}
        #expect(server.requests.map(\.text) == [#"{"q":"x"}"#, #"{"cursor":"7","q":"x"}"#])
    }

    /// Its entries have expired or are not for this user. Findings: clients-end-lists-at-an-empty-page.
    @Test(arguments: [Paging.link, .cursor(at: "cursor", parameter: "page"), .address(at: "next")])
    func emptyPageThatNamesTheNextOneIsNoEnd(_ paging: Paging) async throws {
        let server = try MockServer { request in
            let page = request.query("page").flatMap { Int($0) } ?? 1
            let items = [[1, 2], [], [], [3]][page - 1].map { "\($0)" }.joined(separator: ", ")
            guard page < 4 else { return .json(#"{ "data": [\#(items)] }"#) }
            return .json(#"{ "data": [\#(items)], "cursor": \#(page + 1), "next": "/?page=\#(page + 1)" }"#)
                .header("Link", "</?page=\(page + 1)>; rel=next")
        }
        let manager = try CentralRequestManager.make()
        #expect(try await numbers(manager.pages("GET", server.url(), paging), at: "data") == [1, 2, 3])
        #expect(server.requestCount == 4)
    }

    @Test func numbersAtTheirLimitEndTheList() async throws {
        let server = try MockServer.answering("[1, 2]")
        let manager = try CentralRequestManager.make()
        for paging in [Paging.number(first: .max), .offset(first: .max - 1)] {
            #expect(try await numbers(manager.pages("GET", server.url(), paging)) == [1, 2])
        }
        #expect(try await numbers(manager.pages("GET", server.url(), .number().limit(0))) == [])
    }

    @Test func unencryptedNextPageIsRefused() throws {
        var walk = PageWalk(.link)
        let page = HTTPResponse(status: 200, headers: ["Link": "<http://h/2>; rel=next"], url: "https://h/1")
        guard case .broken(let error) = try walk.advance(after: page) else { throw Failure() }
        #expect(error.kind == .redirect)
        var lenient = PageWalk(.link, allowsInsecure: true)
        guard case .more = try lenient.advance(after: page) else { throw Failure() }
        #expect(lenient.step.hasLeftOrigin)
    }

    /// One list is one row of one server: another one must not get its cursor, and it must not get the other's secrets.
    @Test(arguments: [#""link""#, #"{ cursor: "meta.cursor" }"#], [true, false])
    func tableThatChangesCountsForTheNextList(_ pages: String, prefetches: Bool) async throws {
        func text(_ server: MockServer, _ key: String) -> String {
            DomainTable.text(
                server.url(), domain: #"secretHeaders: ["X-Api-Key"], headers: { "X-Api-Key": "\#(key)" }"#,
                servers: #"s: { domain: "d", method: "GET", path: "x", pages: \#(pages) }"#)
        }
        let (old, new) = (try Self.server(), try Self.server())
        old.route("GET", "/x") { request in
            let start = Int(request.query("cursor") ?? "0") ?? 0
            let reply = MockReply.json(#"{ "meta": { "cursor": \#(start < 6 ? "\(start + 3)" : "\"\"") } }"#)
            return start < 6 ? reply.header("Link", "</x?cursor=\(start + 3)>; rel=next") : reply
        }
        let manager = try CentralRequestManager.make(DomainTable(json5: text(old, "old"), environment: nil))
        var count = 0
        for try await _ in manager.pages(server: "s") {
            count += 1
            let table = try DomainTable(json5: text(new, "new"), environment: nil)
            try manager.updateDomains { $0 = table }
        }
        #expect(count == 3 && old.requests.map { $0.headers["X-Api-Key"] } == ["old", "old", "old"])
        #expect(new.requests.isEmpty)
        for try await _ in manager.pages(server: "s") { break }
        #expect(new.requests.first?.headers["X-Api-Key"] == "new")
    }

    @Test func baseURLThatChangesCountsForTheNextList() async throws {
        let (old, new) = (try Self.server(), try Self.server())
        let manager = try CentralRequestManager.make { $0.baseURL = old.url() }
        for try await _ in manager.pages("GET", "/x", .cursor(at: "meta.cursor")) { manager.baseURL = new.url() }
        #expect(old.requestCount == 3 && new.requests.isEmpty)
    }

    private struct Failure: Error {}

    @Test func cancelledLoopEndsTheRequestAhead() async throws {
        let server = try MockServer()
        server.fallback { request in
            request.path == "/a"
                ? .text("x").header("Link", "</b>; rel=next") : MockReply.text("never").stalling(.start)
        }
        let manager = try CentralRequestManager.make()
        for try await _ in manager.pages("GET", server.url("/a")) {
            try await server.waitForRequests(2)
            break
        }
        try await eventually { manager.runningRequests() == 0 }
    }
}
