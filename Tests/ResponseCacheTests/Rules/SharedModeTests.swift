import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

/// The rules of a shared cache, by clause (RFC 9111 §3.5, §5.2.2.7 to §5.2.2.10).
@Suite struct SharedModeTests {
    private let cache = RuleCache()
    private let user: HTTPHeaders = ["Authorization": "ada"]

    private func keeps(_ control: String, _ mode: CacheMode, asked: HTTPHeaders = [:]) -> Bool {
        cache.entry(["Cache-Control": control], asked: asked, mode) != nil
    }

    // MARK: private (§5.2.2.7)

    @Test func privateResponsesAreOnlyInPrivateCaches() throws {
        #expect(keeps("private, max-age=60", .private))
        #expect(!keeps("private, max-age=60", .shared))
        #expect(!keeps("private, max-age=60, s-maxage=60, public", .shared))
        // Another manager may have stored it in the same store.
        let entry = try #require(cache.entry(["Cache-Control": "private, max-age=60"], .private))
        #expect(cache.answer(entry, .private) != nil && cache.answer(entry, .shared) == nil)
    }

    @Test func privateFieldsStayOutOfSharedCaches() throws {
        let headers: HTTPHeaders = ["Cache-Control": #"private="A, b", max-age=60"#, "A": "1", "B": "2", "C": "3"]
        let shared = try #require(cache.entry(headers, .shared))
        #expect(!shared.headers.contains("a") && !shared.headers.contains("b") && shared.headers["c"] == "3")
        let own = try #require(cache.entry(headers, .private))
        #expect(own.headers["a"] == "1" && own.headers["b"] == "2")
        // Fields that a private cache stored in the same store are withheld.
        let answer = try #require(cache.answer(own, .shared))
        let response = StoredResponseCoding.response(answer, to: cache.request(), .shared)
        #expect(!response.headers.contains("a") && response.headers["c"] == "3")
        #expect(StoredResponseCoding.response(answer, to: cache.request()).headers["a"] == "1")
    }

    // MARK: proxy-revalidate (§5.2.2.8)

    @Test func proxyRevalidateAppliesToSharedOnly() throws {
        let entry = try #require(
            cache.entry(["Cache-Control": "max-age=1, proxy-revalidate, stale-if-error=60"], .shared))
        let asked: HTTPHeaders = ["Cache-Control": "max-stale"]
        #expect(cache.answer(entry, asked: asked, after: 9, .shared) == nil)
        #expect(cache.answer(entry, asked: asked, after: 9, .private) != nil)
        #expect(!cache.mayStandIn(entry, after: 9, .shared) && cache.mayStandIn(entry, after: 9, .private))
    }

    // MARK: public (§5.2.2.9)

    @Test func publicIsSharedAcrossCredentials() throws {
        let entry = try #require(cache.entry(["Cache-Control": "public, max-age=60"], asked: user, .shared))
        for asked in [user, ["Authorization": "bob"], [:]] {
            #expect(cache.answer(entry, asked: asked, .shared) != nil)
        }
    }

    // MARK: s-maxage (§5.2.2.10)

    @Test(arguments: ["max-age=9, s-maxage=60", "s-maxage=60", "s-maxage=60, max-age=0"])
    func sharedMaxAgeOverridesMaxAge(control: String) throws {
        let headers: HTTPHeaders = ["Cache-Control": control, "Expires": "0", "ETag": "\"a\""]
        let entry = try #require(cache.entry(headers, .shared))
        #expect(cache.answer(entry, after: 30, .shared) != nil && cache.answer(entry, after: 60, .shared) == nil)
        #expect(cache.answer(entry, after: 30, .private) == nil)
    }

    @Test func shortSharedMaxAgeOverridesLongMaxAge() throws {
        let entry = try #require(cache.entry(["Cache-Control": "max-age=60, s-maxage=9"], .shared))
        #expect(cache.answer(entry, after: 30, .shared) == nil && cache.answer(entry, after: 30, .private) != nil)
    }

    @Test func staleSharedMaxAgeIsNotUsed() throws {
        let entry = try #require(cache.entry(["Cache-Control": "s-maxage=1, stale-if-error=60"], .shared))
        #expect(cache.answer(entry, asked: ["Cache-Control": "max-stale"], after: 9, .shared) == nil)
        #expect(!cache.mayStandIn(entry, after: 9, .shared))
    }

    // MARK: Authorization (§3.5)

    @Test(arguments: ["max-age=60", "max-age=60, proxy-revalidate", "max-age=60, immutable"])
    func authorizedResponsesAreNotShared(control: String) throws {
        #expect(!keeps(control, .shared, asked: user) && keeps(control, .private, asked: user))
        #expect(keeps(control, .shared))
        // An entry that a private cache stored is not used either, even for the same user.
        let own = try #require(cache.entry(["Cache-Control": control], asked: user, .private))
        #expect(cache.answer(own, asked: user, .private) != nil && cache.answer(own, asked: user, .shared) == nil)
    }

    @Test(arguments: ["max-age=60, must-revalidate", "public, max-age=60", "s-maxage=60"])
    func threeDirectivesShareAuthorizedResponses(control: String) throws {
        let entry = try #require(cache.entry(["Cache-Control": control], asked: user, .shared))
        for asked in [user, ["Authorization": "bob"], [:]] {
            #expect(cache.answer(entry, asked: asked, .shared) != nil)
        }
    }

    @Test func mustRevalidateDoesNotShareAcrossCookies() throws {
        let control: HTTPHeaders = ["Cache-Control": "max-age=60, must-revalidate"]
        for asked: HTTPHeaders in [["Cookie": "ada"], ["Cookie": "ada", "Authorization": "ada"]] {
            let entry = try #require(cache.entry(control, asked: asked, .shared))
            #expect(cache.answer(entry, asked: asked, .shared) != nil)
            #expect(cache.answer(entry, asked: ["Cookie": "bob"], .shared) == nil)
            #expect(cache.answer(entry, .shared) == nil)
        }
    }

    // MARK: Set-Cookie (§7.3)

    /// A cookie is for the user who asked, unless the server says that the response is for all.
    @Test func cookiesOfOneUserAreNotShared() throws {
        func stored(_ control: String, _ mode: CacheMode) -> CacheEntry? {
            cache.entry(["Cache-Control": control, "Set-Cookie": "session=1"], mode)
        }
        #expect(stored("max-age=60", .shared) == nil && stored("max-age=60, must-revalidate", .shared) == nil)
        for control in ["public, max-age=60", "s-maxage=60"] { #expect(stored(control, .shared) != nil) }
        // An entry that a private cache stored is not used either.
        let own = try #require(stored("max-age=60", .private))
        #expect(cache.answer(own, .private) != nil && cache.answer(own, .shared) == nil)
    }

    @Test func confirmationSharesNoFieldsOfOneUser() throws {
        let entry = try #require(cache.entry(["Cache-Control": "max-age=60", "ETag": "\"a\"", "A": "1"], .shared))
        let personal: HTTPHeaders = ["Cache-Control": #"max-age=60, private="a""#, "A": "2", "Set-Cookie": "session=1"]
        let confirmed = ValidationRule.freshened(
            entry, by: personal, requestTime: cache.start, responseTime: cache.start, .shared)
        #expect(!confirmed.headers.contains("A") && !confirmed.headers.contains("Set-Cookie"))
        #expect(cache.answer(confirmed, .shared) != nil)
    }

    // MARK: Heuristics (§4.2.2)

    @Test(arguments: CacheMode.allCases) func heuristicAppliesWithoutExplicitFreshness(mode: CacheMode) throws {
        let modified = HTTPDate.format(cache.start.addingTimeInterval(-1_000))
        let entry = try #require(cache.entry(["Last-Modified": modified], mode))
        #expect(cache.answer(entry, after: 99, mode) != nil && cache.answer(entry, after: 101, mode) == nil)
        let timed = try #require(cache.entry(["Last-Modified": modified, "Cache-Control": "s-maxage=0"], mode))
        #expect((cache.answer(timed, after: 50, mode) != nil) == (mode == .private))
    }
}

/// A cache of the pure rules, without a store.
struct RuleCache {
    let start = Date(timeIntervalSince1970: 1_800_000_000)

    func request(_ headers: HTTPHeaders = [:]) -> HTTPRequest { HTTPRequest("GET", "http://a/", headers: headers) }

    private func identity(_ request: HTTPRequest) -> RequestIdentity {
        RequestIdentity(of: request, partition: nil, secrets: .standard, cookies: nil, key: { Data([7]) })
    }

    /// The entry for a response; `nil` when it is not stored.
    func entry(
        _ headers: HTTPHeaders, status: Int = 200, asked: HTTPHeaders = [:], _ mode: CacheMode = .private
    ) -> CacheEntry? {
        let request = request(asked)
        let response = HTTPResponse(status: status, headers: headers, url: request.url)
        guard StorageRule.refusal(of: response, to: request, mode) == nil, let url = CanonicalURL(request.url) else {
            return nil
        }
        return StoredResponseCoding.entry(
            response, to: request, identity(request), url: url, primary: "k",
            varyFields: VaryRule.fields(of: headers), requestTime: start, responseTime: start, mode)
    }

    func decide(
        _ entries: [CacheEntry], asked: HTTPHeaders = [:], after seconds: Double = 0, _ mode: CacheMode = .private
    ) -> CacheStrategy {
        let request = request(asked)
        return CacheStrategy(
            request, identity(request), entries: entries, at: start.addingTimeInterval(seconds), mode)
    }

    func answer(
        _ entry: CacheEntry, asked: HTTPHeaders = [:], after seconds: Double = 0, _ mode: CacheMode = .private
    ) -> CacheStrategy.Answer? {
        guard case .answer(let answer) = decide([entry], asked: asked, after: seconds, mode) else { return nil }
        return answer
    }

    func mayStandIn(_ entry: CacheEntry, after seconds: Double, _ mode: CacheMode) -> Bool {
        CacheStrategy.mayStandIn(entry, for: request(), at: start.addingTimeInterval(seconds), mode)
    }
}
