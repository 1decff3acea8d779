import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

/// `manager.cache.explain` predicts what the request does.
@Suite(.timeLimit(.minutes(2))) struct CacheExplainTests {
    /// Generates random requests and responses.
    private struct Draw {
        var generator: SeededGenerator

        mutating func pick<Value>(_ values: [Value]) -> Value {
            values[Int(generator.next() % UInt64(values.count))]
        }

        mutating func answer() -> MockReply {
            var reply = MockReply.text("body", status: pick([200, 200, 200, 200, 404, 503, 206, 302, 500]))
            let control = pick([
                nil, "max-age=60", "max-age=5, stale-if-error=600", "no-cache",
                "no-store", "max-age=30, must-revalidate", "public", "private", "must-understand, max-age=9",
            ])
            if let control { reply = reply.header("Cache-Control", control) }
            if let tag = pick([nil, "\"a\""]) { reply = reply.header("ETag", tag) }
            if let vary = pick([nil, nil, "Accept-Language", "Accept-Language, X-A", "*"]) {
                reply = reply.header("Vary", vary)
            }
            return reply
        }

        mutating func request(_ url: String) -> HTTPRequest {
            var request = HTTPRequest(pick(Array(repeating: "GET", count: 12) + ["HEAD", "HEAD", "POST"]), url)
            if let control = pick([
                nil, nil, nil, nil, nil, nil, nil, nil, "no-cache", "no-store", "max-age=0", "max-age=20",
                "min-fresh=20", "max-stale", "max-stale=30",
                "only-if-cached",
            ]) {
                request.headers["Cache-Control"] = control
            }
            if let language = pick([nil, "de", "fr"]) { request.headers["Accept-Language"] = language }
            if let token = pick([nil, nil, "1", "2"]) { request.headers["Authorization"] = token }
            if let range = pick([nil, nil, nil, nil, nil, "bytes=0-1", "lines=1"]) { request.headers["Range"] = range }
            if let tag = pick([nil, nil, nil, nil, nil, "\"a\"", "\"b\""]) { request.headers["If-None-Match"] = tag }
            request.cachePartition = pick([nil, nil, nil, "ada"])
            request.cachesUnsafeMethods = pick([true, false])
            request.cachePolicy = pick([
                .http, .http, .http, .http, .cacheOnly, .cacheElseNetwork(.fixed(.seconds(20))),
                .cacheElseNetwork(.sliding(.seconds(20))), .networkElseCache, .writeOnly, .networkOnly, nil,
            ])
            request.redirects = RedirectPolicy.none
            return request
        }
    }

    /// Each request of a random run is explained, then sent.
    @Test(arguments: 1...8) func verdictMatchesTheActualRequest(seed: Int) async throws {
        var draw = Draw(generator: SeededGenerator(seed: UInt64(seed)))
        let server = try MockServer()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock)
        var seen = Set<String>()
        for step in 0..<250 {
            let answer = draw.answer()
            server.fallback { request in
                let isAsked = request.headers["If-None-Match"] != nil && request.headers["If-None-Match"] != "\"b\""
                return isAsked ? .status(304).header("ETag", "\"a\"") : answer
            }
            let request = draw.request(server.url(draw.pick(["/a", "/b"])))
            let explanation = try await manager.cache.explain(request)
            let before = manager.cache.statistics
            let asked = server.requestCount
            let response = try? await manager.send(request)
            let sent = server.requestCount - asked
            let context = Comment("seed \(seed), step \(step)\n\(explanation)")
            seen.insert("\(explanation.verdict)".prefix { $0 != "(" }.description)
            switch explanation.verdict {
            case .answers:
                #expect(sent == 0, context)
                #expect(response?.source == .memoryCache, context)
            case .answersStale:
                #expect(sent == 0, context)
                #expect(response?.source == .stale, context)
            case .fails:
                #expect(sent == 0, context)
                #expect(request.cachePolicy == .cacheOnly ? response == nil : response?.status == 504, context)
            case .revalidates:
                #expect(sent >= 1, context)
                #expect(server.requests.dropFirst(asked).first?.headers["If-None-Match"] == "\"a\"", context)
            case .fetches, .answersFirst, .bypasses:
                #expect(sent >= 1, context)
                #expect(response?.source == .network || explanation.standsIn, context)
            }
            // Afterwards `explain` reports a refusal and finds a stored response.
            let after = try await manager.cache.explain(request)
            let statistics = manager.cache.statistics
            if statistics.notStored > before.notStored {
                #expect(after.lastRefusal?.time == clock.now, context)
            }
            if statistics.stored > before.stored {
                #expect(after.stored.contains { $0.entry.responseTime == clock.now }, context)
            }
            clock.advance(by: draw.pick([0, 0, 1, 1, 4, 11, 25]))
        }
        #expect(seen.isSuperset(of: ["answers", "bypasses", "fails", "fetches", "revalidates"]))
    }

    @Test func backgroundRefreshIsReported() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=10, stale-while-revalidate=30"])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock)
        _ = try await manager.startRequest("GET", server.url())
        clock.advance(by: 20)
        let explanation = try await manager.cache.explain(server.url())
        #expect(explanation.verdict == .answersStale(isRefreshed: true))
        #expect(try await manager.startRequest("GET", server.url()).source == .stale)
        _ = try await server.waitForRequests(2)
    }

    @Test func policyAndItsSourceAreReported() async throws {
        struct Cities: RequestEntity {
            typealias Model = String
            static let route = Route("GET", server: "cities")
        }
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let manager = try CentralRequestManager.caching(.http) {
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { main: { baseURL: "\(server.url(""))" } },
                      servers: { cities: { domain: "main", path: "cities", cache: "cacheElseNetwork", ttl: "5m" } } }
                    """)
        }
        #expect(try await manager.cache.explain(server.url("/cities")).policySource == .manager)
        let own = try await manager.cache.explain(server.url("/cities"), cache: .cacheOnly)
        #expect(own.policySource == .call)
        #expect(own.verdict == .fails(.nothingStored))
        let row = try await manager.cache.explain(Cities())
        #expect(row.policySource == .row)
        #expect(row.policy == .cacheElseNetwork(.fixed(.seconds(300))))
        #expect(row.url == server.url("/cities"))
        #expect(try await manager.cache.explain(Cities().cache(.http)).policySource == .call)
        #expect(server.requestCount == 0)
    }

    @Test func providersAndHeadersAreApplied() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60", "Vary": "X-A"])
        let manager = try CentralRequestManager.caching(.http) {
            $0.headers = ["X-A": "1"]
            $0.immediateHeaderProvider = { _ in ["Authorization": "Bearer 1"] }
            $0.credentialOrigins = [server.url("")]
        }
        _ = try await manager.startRequest("GET", server.url())
        let explanation = try await manager.cache.explain(server.url())
        #expect(explanation.verdict == .answers)
        #expect(explanation.hasCredentials)
        var other = HTTPRequest("GET", server.url(), headers: ["X-A": "2"])
        #expect(
            try await manager.cache.explain(other).verdict == .fetches(.otherVariant(fields: ["credentials", "x-a"])))
        other.headers = ["Authorization": nil]
        #expect(try await manager.cache.explain(other).verdict == .fetches(.otherCredentials))
        other.cachePartition = "ada"
        let elsewhere = try await manager.cache.explain(other)
        #expect(elsewhere.verdict == .fetches(.nothingStored))
        #expect(elsewhere.others.count == 1)
        #expect(elsewhere.description.contains("1 response of this URL: without a partition"))
        #expect(server.requestCount == 1)
    }

    @Test func reasonsForNotStoringAreRemembered() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.caching(.http) { $0.cacheStore = MemoryStore(byteLimit: 500) }
        let url = server.url()
        func refusal(_ reply: MockReply) async throws -> CacheRefusal? {
            server.enqueue(reply)
            _ = try? await manager.startRequest("GET", url)
            return try await manager.cache.explain(url).lastRefusal?.reason
        }
        #expect(try await refusal(.text("a").header("Cache-Control", "no-store")) == .noStore)
        #expect(try await refusal(.text("a")) == .noFreshness)
        #expect(try await refusal(.text("a").header("Vary", "*")) == .variesOnEverything)
        #expect(try await refusal(.status(302)) == .noFreshness)
        let large = MockReply.text(String(repeating: "a", count: 600)).header("Cache-Control", "max-age=9")
        #expect(try await refusal(large) == .tooLarge(limit: 500))
        #expect(manager.cache.statistics.notStored == 5)
        #expect(manager.cache.statistics.stored == 0)
    }

    @Test func explainingChangesNothing() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.sliding(.seconds(60))), clock)
        _ = try await manager.startRequest("GET", server.url())
        clock.advance(by: 59)
        #expect(try await manager.cache.explain(server.url()).verdict == .answers)
        clock.advance(by: 1)
        #expect(try await manager.cache.explain(server.url()).verdict == .fetches(.expired(seconds: 0)))
        clock.advance(by: -1)
        // `explain` neither marked the entry as expired nor counted as a use.
        #expect(try await manager.startRequest("GET", server.url()).source == .memoryCache)
        #expect(manager.cache.statistics.lookups == 2)
    }

    /// Keeps what the cache decided.
    private struct Decisions: RequestAccessory {
        let all = Log<CacheExplanation.Verdict>()

        func handle(_ event: CallEvent) {
            if case .cache(let decision) = event.kind { all.append(decision) }
        }
    }

    @Test func storedResponseThatTheEnvelopeRejectsIsNamed() async throws {
        struct Order: RequestEntity {
            typealias Model = JSONValue
            static let route = Route("GET", server: "order")
        }
        let server = try MockServer()
        server.fallback { _ in .json("{\"code\": 7}").header("Cache-Control", "max-age=60") }
        let decisions = Decisions()
        let manager = try CentralRequestManager.caching(.http) {
            $0.accessories = [decisions]
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { main: { baseURL: "\(server.url(""))", envelope: { code: "code", success: [0] } } },
                      servers: { order: { domain: "main", path: "order" } } }
                    """)
        }
        _ = try await manager.startRequest("GET", server.url("/order"))
        _ = try? await Order().startRequest(on: manager)
        #expect(server.requestCount == 2)
        #expect(decisions.all.elements.contains(.fetches(.refused(.businessFailure))), "\(decisions.all.elements)")
        #expect(!decisions.all.elements.contains(.fetches(.bodyLost)))
    }

    @Test func lastRefusalNamesItsReason() async throws {
        struct Order: RequestEntity {
            typealias Model = JSONValue
            static let route = Route("GET", server: "order")
        }
        let server = try MockServer()
        server.fallback { _ in
            .json("{\"code\": 7}").header("Cache-Control", "max-age=60")
        }
        let manager = try CentralRequestManager.caching(.http) {
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { main: { baseURL: "\(server.url(""))", envelope: { code: "code", success: [0] } } },
                      servers: { order: { domain: "main", path: "order" } } }
                    """)
        }
        _ = try? await Order().startRequest(on: manager)
        #expect(try await manager.cache.explain(Order()).lastRefusal?.reason == .businessFailure)
        do {
            _ = try await manager.stream("GET", server.url("/left"))
        }
        #expect(try await manager.cache.explain(server.url("/left")).lastRefusal?.reason == .notReadToEnd)
        _ = try await manager.stream("GET", server.url("/left")).body.collect(upTo: 100)
        let kept = try await manager.cache.explain(server.url("/left"))
        #expect(kept.stored.count == 1 && kept.verdict == .answers)
        let bare = HTTPRequest("PUT", server.url("/left"), body: .text("x"))
        #expect(try await manager.cache.explain(bare).verdict == .bypasses(.method("PUT")))
    }

    @Test func respondingInterceptorIsAnError() async throws {
        struct Answering: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                guard request.url.hasSuffix("own") else { return try await next(request) }
                return HTTPResponse(status: 200, url: request.url)
            }
        }
        let manager = try CentralRequestManager.caching(.http) { $0.interceptors = [Answering()] }
        let error = await failure { try await manager.cache.explain("http://127.0.0.1:1/own") }
        #expect(error?.kind == .cache)
        #expect(try await manager.cache.explain("http://127.0.0.1:1/").verdict == .fetches(.nothingStored))
    }
}
