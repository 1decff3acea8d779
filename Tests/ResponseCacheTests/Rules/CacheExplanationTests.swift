import FoundationEssentials
import HTTPCore
import Testing

@testable import ResponseCache

/// The reasons that the rules give, and their texts.
@Suite struct CacheExplanationTests {
    private let start = Make.start

    private func entry(_ headers: HTTPHeaders, _ names: [String] = [], of request: HTTPRequest) -> CacheEntry {
        var entry = Make.entry("k", variant: VaryRule.variant(names, of: request) ?? "", headers: headers)
        entry.varyFields = names
        entry.requestTime = start
        return entry
    }

    private func explain(
        _ entries: [CacheEntry], of request: HTTPRequest = HTTPRequest("GET", "http://h/k"),
        policy: CachePolicy = .http, after seconds: Double, others: [CacheEntry] = [],
        identity: RequestIdentity = .everybody, refusal: CacheExplanation.Refusal? = nil
    ) -> CacheExplanation {
        CacheExplanation(
            CacheExplanation.Question(request, identity, policy, from: .manager), entries: entries, others: others,
            lastRefusal: refusal, at: start + seconds)
    }

    @Test func verdictNamesTheReason() {
        let plain = HTTPRequest("GET", "http://h/k")
        func verdict(
            _ request: HTTPHeaders = [:], stored: HTTPHeaders, after seconds: Double
        ) -> CacheExplanation.Verdict {
            explain(
                [entry(stored, of: plain)], of: HTTPRequest("GET", "http://h/k", headers: request), after: seconds
            ).verdict
        }
        let fresh: HTTPHeaders = ["Cache-Control": "max-age=60"]
        #expect(verdict(stored: fresh, after: 59) == .answers)
        #expect(verdict(stored: fresh, after: 60) == .fetches(.expired(seconds: 0)))
        #expect(verdict(stored: fresh.merging(["ETag": "\"a\""]), after: 72) == .revalidates(.expired(seconds: 12)))
        #expect(verdict(stored: fresh, after: -1) == .fetches(.fromTheFuture))
        #expect(verdict(["Cache-Control": "no-cache"], stored: fresh, after: 1) == .fetches(.requestNoCache))
        #expect(verdict(["Cache-Control": "max-age=0"], stored: fresh, after: 1) == .fetches(.requestNoCache))
        #expect(verdict(["Cache-Control": "no-store"], stored: fresh, after: 1) == .fetches(.requestNoStore))
        #expect(
            verdict(["Cache-Control": "max-age=5"], stored: fresh, after: 9)
                == .fetches(.olderThanWanted(seconds: 4)))
        #expect(verdict(["Cache-Control": "min-fresh=9"], stored: fresh, after: 55) == .fetches(.notFreshEnough))
        #expect(verdict(["Cache-Control": "max-stale"], stored: fresh, after: 99) == .answersStale(isRefreshed: false))
        #expect(
            verdict(["Cache-Control": "only-if-cached"], stored: fresh, after: 61)
                == .fails(.expired(seconds: 1)))
        #expect(verdict(["If-Match": "x"], stored: fresh, after: 1) == .fetches(.condition))
        #expect(verdict(["Range": "lines=1-2"], stored: fresh, after: 1) == .fetches(.range))
        #expect(verdict(stored: ["Cache-Control": "no-cache", "ETag": "x"], after: 1) == .revalidates(.noCache))
        #expect(verdict(stored: ["Content-Type": "a/b"], after: 1) == .fetches(.refused(.noFreshness)))
    }

    @Test func differencesOfVariantsAreNamed() throws {
        let german = HTTPRequest("GET", "http://h/k", headers: ["Accept-Language": "de"])
        let french = HTTPRequest("GET", "http://h/k", headers: ["Accept-Language": "fr"])
        let stored = entry(["Cache-Control": "max-age=60", "Vary": "Accept-Language"], ["accept-language"], of: german)
        #expect(explain([stored], of: german, after: 1).verdict == .answers)
        let other = explain([stored], of: french, after: 1)
        #expect(other.verdict == .fetches(.otherVariant(fields: ["accept-language"])))
        #expect(other.stored.first?.miss == .otherVariant(fields: ["accept-language"]))
        #expect(other.description.contains("Vary: the request differs in accept-language"))
        #expect(
            explain([stored], of: french, policy: .cacheOnly, after: 1).verdict
                == .fails(.otherVariant(fields: ["accept-language"])))
    }

    @Test func credentialsAreReportedButNotShown() {
        let request = HTTPRequest("GET", "http://h/k", headers: ["Authorization": "Bearer secret"])
        let identity = RequestIdentity(
            of: request, partition: nil, secrets: .standard, cookies: nil, key: { Data("key".utf8) })
        var stored = entry(["Cache-Control": "max-age=60"], of: request)
        stored.varyFields = identity.varyFields([], of: stored.headers)
        stored.key.variant = VaryRule.variant(stored.varyFields, of: request, identity) ?? ""
        #expect(explain([stored], after: 1).verdict == .fetches(.otherCredentials))
        let own = explain([stored], of: request, after: 1, identity: identity)
        #expect(own.verdict == .answers)
        #expect(own.hasCredentials)
        #expect(!own.description.contains("secret"))
    }

    @Test func everyRefusalAndMissHasItsOwnText() {
        let refusals: [CacheRefusal] = [
            .policy, .method("POST"), .requestBody, .noKey, .requestNoStore, .noStore, .status(500),
            .notUnderstood(status: 299), .variesOnEverything, .noFreshness, .businessFailure, .unjudgedStream,
            .incomplete, .notReadToEnd, .invalidated, .tooLarge(limit: 9), .queueFull, .storeFailed,
        ]
        #expect(Set(refusals.map(\.description)).count == refusals.count)
        let misses: [CacheMiss] = [
            .nothingStored, .policy, .requestNoStore, .requestNoCache, .noCache, .otherVariant(fields: ["a", "b"]),
            .otherCredentials, .older, .redirected, .refused(.noStore), .expired(seconds: 1),
            .olderThanWanted(seconds: 1), .notFreshEnough, .markedExpired, .fromTheFuture, .condition, .range,
            .bodyLost,
        ]
        #expect(Set(misses.map(\.description)).count == misses.count)
        let times = [0, 1.9, 119, 120, 7_199, 7_200, 172_800].map { CacheMiss.text($0) }
        #expect(times == ["0 seconds", "1 second", "119 seconds", "2 minutes", "119 minutes", "2 hours", "2 days"])
    }

    @Test func descriptionListsEverything() {
        let request = HTTPRequest("GET", "http://h/k")
        var stored = entry(["Cache-Control": "max-age=60", "ETag": "\"a\""], of: request)
        stored.bodyByteCount = 1_234
        var other = Make.entry("x", url: "http://h/k", partition: "alice")
        other.method = "GET"
        let explanation = explain(
            [stored], of: request, after: 72, others: [other],
            refusal: CacheExplanation.Refusal(reason: .noStore, time: start + 60))
        let text = """
            request     GET http://h/k
            policy      http, of the manager
            verdict     the stored response is revalidated: it expired 12 seconds ago
            stored      200, 1234 bytes, in memory, 72 seconds old, was valid for 60 seconds
                        not used: it expired 12 seconds ago
                        Cache-Control: max-age=60
                        ETag: "a"
            elsewhere   1 response of this URL: in the partition alice
            not stored  a response 12 seconds ago: the response says no-store
            """
        #expect(explanation.description == text)
        #expect(explanation.stored.first?.expiry(at: explanation.time) == start + 60)
    }
}
