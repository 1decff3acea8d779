import FoundationEssentials
import LATNetworking
import LATTesting
import ResponseCache
import TestSupport
import Testing

/// The SDK's own policies, under which the app decides how long a response is valid.
@Suite(.timeLimit(.minutes(2))) struct CachePolicyTests {
    private func get(
        _ manager: CentralRequestManager, _ url: String, _ policy: CachePolicy? = nil
    ) async throws -> HTTPResponse {
        try await manager.startRequest("GET", url, cache: policy)
    }

    @Test func networkOnlyNeitherReadsNorWrites() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=3600"])
        let manager = try CentralRequestManager.caching(.networkOnly)
        #expect(try await get(manager, server.url()).text == "1")
        #expect(try await get(manager, server.url()).text == "2")
        #expect(try await manager.cache.usage().entryCount == 0)
    }

    @Test func writeOnlyWritesAndCacheOnlyReads() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.writeOnly)
        #expect(await failure { try await get(manager, server.url(), .cacheOnly) }?.kind == .cache)
        #expect(try await get(manager, server.url()).source == .network)
        #expect(try await get(manager, server.url()).text == "2")
        let cached = try await get(manager, server.url(), .cacheOnly)
        #expect(cached.text == "2")
        #expect(cached.source == .memoryCache)
        #expect(cached.headers["Count"] == "2")
        #expect(server.requestCount == 2)
    }

    @Test func cacheElseNetworkSendsNothingUntilExpiry() async throws {
        let server = try MockServer.counting(["Cache-Control": "no-cache"])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.fixed(.seconds(60))), clock)
        #expect(try await get(manager, server.url()).text == "1")
        clock.advance(by: 59.999)
        #expect(try await get(manager, server.url()).source == .memoryCache)
        #expect(server.requestCount == 1)
        clock.advance(by: 0.001)
        // An entry is expired at exactly its expiry time.
        #expect(try await get(manager, server.url()).text == "2")
    }

    @Test func slidingTimeToLiveCountsFromTheLastUse() async throws {
        let server = try MockServer.counting()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.sliding(.seconds(60))), clock)
        for _ in 0..<4 {
            #expect(try await get(manager, server.url()).text == "1")
            clock.advance(by: 40)
        }
        clock.advance(by: 20)
        #expect(try await get(manager, server.url()).text == "2")
    }

    @Test func foreverTimeToLiveNeverExpires() async throws {
        let server = try MockServer.counting()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever), clock)
        #expect(try await get(manager, server.url()).text == "1")
        clock.advance(by: 1e9)
        #expect(try await get(manager, server.url()).text == "1")
    }

    @Test func expiredEntryStaysExpiredWhenClockGoesBack() async throws {
        let server = try MockServer.counting()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.fixed(.seconds(60))), clock)
        #expect(try await get(manager, server.url()).text == "1")
        clock.advance(by: 100)
        server.fallback { _ in .status(500) }
        #expect(await failure { try await get(manager, server.url()) }?.kind == .httpStatus)
        clock.advance(by: -90)
        server.count()
        let count = server.requestCount
        #expect(try await get(manager, server.url()).source == .network)
        #expect(server.requestCount == count + 1)
        // An entry stored in the future has an unknown age.
        clock.advance(by: -1_000)
        #expect(try await get(manager, server.url()).source == .network)
    }

    /// A call that accepts only a young response does not expire it for those that accept an older one.
    @Test(arguments: [CachePolicy.cacheElseNetwork(.fixed(.seconds(300))), .http])
    func shortTimeToLiveExpiresNothingForOthers(policy: CachePolicy) async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=300"])
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(policy, clock) { $0.retries = 0 }
        #expect(try await get(manager, server.url()).text == "1")
        clock.advance(by: 60)
        server.fallback { _ in .status(503) }
        let short = CachePolicy.cacheElseNetwork(.fixed(.seconds(5)))
        #expect(await failure { try await get(manager, server.url(), short) }?.kind == .httpStatus)
        #expect(try await get(manager, server.url()).source == .memoryCache)
        // Of the short one it stays expired when the clock is set back.
        clock.advance(by: -58)
        #expect(await failure { try await get(manager, server.url(), short) }?.kind == .httpStatus)
        #expect(try await get(manager, server.url()).source == .memoryCache)
    }

    @Test func onlySuccessesAreStored() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever))
        for reply in [MockReply.status(404), .status(500), .text("part", status: 206), .status(304)] {
            server.enqueue(reply)
            _ = try await manager.send(HTTPRequest("GET", server.url()))
        }
        server.enqueue(.text("cut").announcingLength(100))
        #expect(await failure { try await get(manager, server.url()) } != nil)
        #expect(try await manager.cache.usage().entryCount == 0)
        server.enqueue(.text("whole"))
        #expect(try await get(manager, server.url()).text == "whole")
        #expect(try await get(manager, server.url()).source == .memoryCache)
    }

    @Test func postIsStoredOnlyWhenAllowed() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever))
        func post(_ body: String, isAsked: Bool) async throws -> String? {
            var request = HTTPRequest("POST", server.url(), body: .text(body))
            request.cachesUnsafeMethods = isAsked
            return try await manager.send(request).text
        }
        #expect(try await post("a", isAsked: false) == "1")
        #expect(try await post("a", isAsked: false) == "2")
        #expect(try await post("a", isAsked: true) == "3")
        #expect(try await post("a", isAsked: true) == "3")
        #expect(try await post("b", isAsked: true) == "4")
        #expect(try await get(manager, server.url()).text == "5")
    }

    @Test func networkElseCacheServesStaleOnFailure() async throws {
        let server = try MockServer.counting()
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.networkElseCache, clock) { $0.retries = 1 }
        let url = server.url()
        #expect(try await get(manager, url).text == "1")
        #expect(try await get(manager, url).text == "2")
        clock.advance(by: 1e6)
        server.fallback { _ in .status(503) }
        #expect(try await get(manager, url).source == .stale)
        server.fallback { _ in .status(404) }
        #expect(await failure { try await get(manager, url) }?.response?.status == 404)
        server.stop()
        let stale = try await get(manager, url)
        #expect(stale.source == .stale)
        #expect(stale.text == "2")
        #expect(await failure { try await get(manager, url + "other") }?.kind == .connect)
    }

    @Test func redirectsAndFinalResponseAreOneEntry() async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in .redirect(to: "/b") }
        server.route("GET", "/b") { _ in .text("there") }
        let store = MemoryStore()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) { $0.cacheStore = store }
        _ = try await get(manager, server.url("/a"))
        let cached = try await get(manager, server.url("/a"))
        #expect(cached.source == .memoryCache)
        #expect(cached.text == "there")
        #expect(cached.url == server.url("/b"))
        #expect(cached.redirects == [.init(url: server.url("/a"), status: 302)])
        #expect(server.requestCount == 2)
        // The entry is not the response of `/a` itself, so `.http` does not use it.
        #expect(try await get(manager, server.url("/a"), .http).source == .network)
        // Nor does a call that would not have come there.
        var request = HTTPRequest("GET", server.url("/a"))
        for (limit, source) in [(nil, .network), (0, nil), (1, .memoryCache)] as [(Int?, HTTPResponse.Source?)] {
            request.redirects = limit.map { .follow(limit: $0) } ?? RedirectPolicy.none
            let found = try? await manager.send(request).source
            #expect(found == source)
        }
        // Nor does another manager that follows none.
        let other = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            ($0.cacheStore, $0.redirects) = (store, RedirectPolicy.none)
        }
        #expect(try await other.send(HTTPRequest("GET", server.url("/a"))).status == 302)
        #expect(try await other.cache.explain(server.url("/a")).verdict == .fetches(.redirected))
    }

    /// What a redirect depends on, its target need not name.
    @Test func fieldsOfRedirectsSelectTheResponse() async throws {
        let server = try MockServer()
        server.route("GET", "/") { .redirect(to: "/" + ($0.headers["Lang"] ?? "")).header("Vary", "Lang, *") }
        for language in ["/de", "/en"] { server.route("GET", language) { _ in .text(language) } }
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever))
        for language in ["de", "en", "de"] {
            let response = try await manager.startRequest("GET", server.url("/"), headers: ["Lang": language])
            #expect(response.text == "/" + language)
        }
        #expect(server.requestCount == 4)
    }

    @Test func parameterOrderDoesNotChangeTheKey() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            $0.volatileParameters = ["nonce"]
        }
        #expect(try await get(manager, server.url("/?a=1&b=2&nonce=x")).text == "1")
        #expect(try await get(manager, server.url("/?b=2&nonce=y&a=1#part")).text == "1")
        #expect(try await get(manager, server.url("/?b=2&a=2")).text == "2")
        #expect(try await get(manager, server.url("/?a=1&a=2")).text == "3")
        #expect(try await get(manager, server.url("/?a=2&a=1")).text == "4")
    }

    @Test func partitionsDoNotShareEntries() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) { $0.cachePartition = "ada" }
        #expect(try await get(manager, server.url()).text == "1")
        manager.cache.partition = "bob"
        #expect(try await get(manager, server.url()).text == "2")
        manager.cache.partition = "ada"
        #expect(try await get(manager, server.url()).text == "1")
        try await manager.cache.remove(.partition("ada"))
        #expect(try await get(manager, server.url()).text == "3")
    }
}
