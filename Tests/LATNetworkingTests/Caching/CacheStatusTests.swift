import FoundationEssentials
import HTTPCore
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATClient

/// `Cache-Status` (RFC 9211): what other caches say, and what this one says when it is asked to.
@Suite struct CacheStatusTests {
    private let clock = TestClock()

    private func status(_ values: String...) -> [HTTPResponse.CacheStatus] {
        var response = HTTPResponse(status: 200, url: "http://a.example")
        for value in values { response.headers.append("Cache-Status", value) }
        return response.cacheStatus
    }

    @Test func membersOfAllLinesAreRead() throws {
        let all = status(
            #"OriginCache; hit; ttl=1100; collapsed=?0, "CDN, Inc. Here"; fwd=uri-miss; fwd-status=304"#,
            #"Edge;fwd=stale;stored;ttl=-412;key="a b";detail=memory"#)
        #expect(
            all == [
                .init(cache: "OriginCache", isHit: true, timeToLive: 1_100, isCollapsed: false),
                .init(cache: "CDN, Inc. Here", forward: "uri-miss", forwardStatus: 304),
                .init(cache: "Edge", forward: "stale", timeToLive: -412, isStored: true, key: "a b", detail: "memory"),
            ])
        #expect(all.first?.description == "OriginCache: hit, fresh for 1100 s")
        #expect(all.compactMap(\.field).flatMap { status($0) } == all)
    }

    @Test(arguments: ["", "A; hit=", "\"A", "A B", "A;ttl=1.2.3", String(repeating: "(", count: 5_000)])
    func unreadableFieldSaysNothing(_ value: String) { #expect(status(value).isEmpty) }

    @Test func parametersOfOtherTypesAreIgnored() {
        #expect(
            status("A; hit=1; ttl=\"x\"; fwd=3; stored=yes; unknown=1, 5, (a b)") == [.init(cache: "A")])
    }

    @Test func ownMemberComesAfterThoseOfServers() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.caching(.http, clock) { $0.cacheStatus = "app" }
        func get(_ field: String? = nil) async throws -> [String] {
            var request = HTTPRequest("GET", server.url("/a"))
            if let field { request.headers["Cache-Control"] = field }
            let response = try await manager.send(request)
            return response.headers[values: "Cache-Status"]
        }
        server.enqueue(
            .text("a").header("Cache-Control", "max-age=60").header("ETag", "\"a\"").header("Cache-Status", "CDN; hit"))
        #expect(try await get() == ["CDN; hit", "\"app\";fwd=uri-miss;fwd-status=200"])
        clock.advance(by: 20)
        #expect(try await get() == ["CDN; hit", "\"app\";hit;ttl=40"])
        clock.advance(by: 50)
        #expect(try await get("max-stale=100") == ["CDN; hit", "\"app\";hit;ttl=-10"])
        server.enqueue(.status(304))
        #expect(try await get() == ["CDN; hit", "\"app\";fwd=stale;fwd-status=304"])
        server.enqueue(.text("b"))
        #expect(try await get("no-cache") == ["\"app\";fwd=request;fwd-status=200"])
        #expect(try await get("only-if-cached") == ["\"app\";detail=\"only-if-cached\""])
    }

    @Test func appPoliciesSayWhatTheyDid() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.fixed(.seconds(60))), clock)
        func get() async throws -> String? {
            var request = HTTPRequest("GET", server.url("/a"))
            request.cacheStatus = "app"
            return try await manager.startRequest(request).headers["Cache-Status"]
        }
        #expect(try await get() == "\"app\";fwd=uri-miss;fwd-status=200")
        #expect(try await get() == "\"app\";hit")
        clock.advance(by: 100)
        #expect(try await get() == "\"app\";fwd=stale;fwd-status=200")
        // Nobody else asked for the field.
        #expect(try await manager.startRequest("GET", server.url("/a")).headers["Cache-Status"] == nil)
    }

    /// A request that was sent is no hit (RFC 9211 §2.1).
    @Test func responseInsteadOfAFailureIsNoHit() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.caching(.http, clock) { ($0.cacheStatus, $0.retries) = ("app", 0) }
        server.enqueue(.text("a").header("Cache-Control", "max-age=1, stale-if-error=60"), .status(503))
        func get() async throws -> String? {
            try await manager.startRequest("GET", server.url("/a")).headers["Cache-Status"]
        }
        _ = try await get()
        clock.advance(by: 11)
        #expect(try await get() == "\"app\";fwd=stale;fwd-status=503;ttl=-10")
        server.stop()
        #expect(try await get() == "\"app\";fwd=stale;ttl=-10")
    }

    @Test func reasonsAreThoseOfTheStandard() {
        func forward(_ verdict: CacheExplanation.Verdict) -> String? {
            CacheDecision.status(200, .network, verdict, remaining: nil, "app").forward
        }
        #expect(forward(.fetches(.nothingStored)) == "uri-miss")
        #expect(forward(.fetches(.otherVariant(fields: ["accept"]))) == "vary-miss")
        #expect(forward(.fetches(.requestNoCache)) == "request")
        #expect(forward(.fetches(.range)) == "partial")
        #expect(forward(.fetches(.policy)) == "bypass")
        #expect(forward(.bypasses(.method("PUT"))) == "method")
        #expect(forward(.bypasses(.requestBody)) == "bypass")
        #expect(forward(.revalidates(.expired(seconds: 3))) == "stale")
        #expect(forward(.fetches(.bodyLost)) == "miss")
    }

    @Test func nameMustBeASCII() {
        #expect(throws: NetworkError.self) { try CentralRequestManager.make { $0.cacheStatus = "缓存" } }
    }
}
