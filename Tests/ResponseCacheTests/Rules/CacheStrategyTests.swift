import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

@Suite struct CacheStrategyTests {
    private let start = Date(timeIntervalSince1970: 1_800_000_000)

    private func entry(_ headers: HTTPHeaders, status: Int = 200) -> CacheEntry {
        CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://a/", status: status, headers: headers,
            requestTime: start, responseTime: start)
    }

    private func decide(
        _ headers: HTTPHeaders = [:], stored: HTTPHeaders, after seconds: Double = 0
    ) -> CacheStrategy {
        CacheStrategy(
            HTTPRequest("GET", "http://a/", headers: headers), entries: [entry(stored)],
            at: start.addingTimeInterval(seconds))
    }

    @Test func freshEntryAnswersAndStaleIsValidated() throws {
        let stored: HTTPHeaders = ["Cache-Control": "max-age=60", "ETag": "\"a\"", "Last-Modified": "x"]
        guard case .answer(let answer) = decide(stored: stored, after: 30) else {
            Issue.record("not answered")
            return
        }
        #expect(answer.age == 30)
        #expect(!answer.isStale)
        guard case .forward(let forward) = decide(stored: stored, after: 60) else {
            Issue.record("not forwarded")
            return
        }
        #expect(forward.isConditional)
        #expect(forward.request.headers["If-None-Match"] == "\"a\"")
        #expect(forward.request.headers["If-Modified-Since"] == "x")
        #expect(forward.candidate != nil)
    }

    @Test func appsConditionsAreForwardedUnchanged() {
        for condition in ["If-Match", "If-Unmodified-Since", "If-Range", "If-None-Match", "If-Modified-Since"] {
            let decision = decide(
                [condition: "\"x\""], stored: ["Cache-Control": "max-age=60", "ETag": "\"a\""], after: 99)
            guard case .forward(let forward) = decision else {
                Issue.record("not forwarded")
                continue
            }
            #expect(!forward.isConditional)
            #expect(forward.request.headers.count == 1)
            #expect(forward.request.headers[condition] == "\"x\"")
        }
    }

    @Test(arguments: [200, 404, 410, 301])
    func conditionsApplyToStoredSuccessesOnly(_ status: Int) {
        let stored = entry(["Cache-Control": "max-age=60", "ETag": "\"a\""], status: status)
        for (name, value) in [
            ("If-None-Match", "*"), ("If-None-Match", "\"a\""), ("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"),
        ] {
            let request = HTTPRequest("GET", "http://a/", headers: [name: value])
            guard case .answer(let answer) = CacheStrategy(request, entries: [stored], at: start) else {
                Issue.record("not answered")
                continue
            }
            #expect(answer.form == (status == 200 ? .notModified : .whole), "\(name)")
        }
    }

    @Test func onlyIfCachedNeverGoesToTheNetwork() {
        for stored in [["Cache-Control": "no-store"], ["Cache-Control": "max-age=1"]] as [HTTPHeaders] {
            guard case .gatewayTimeout = decide(["Cache-Control": "only-if-cached"], stored: stored, after: 9) else {
                Issue.record("not refused")
                continue
            }
        }
    }

    @Test func staleIfErrorLimitsUseAfterErrors() {
        let request = HTTPRequest("GET", "http://a/")
        func mayStandIn(_ control: String, after seconds: Double) -> Bool {
            CacheStrategy.mayStandIn(
                entry(["Cache-Control": control]), for: request, at: start.addingTimeInterval(seconds))
        }
        #expect(mayStandIn("max-age=1, stale-if-error=9", after: 10))
        #expect(!mayStandIn("max-age=1, stale-if-error=9", after: 10.1))
        #expect(!mayStandIn("max-age=1, stale-if-error=9, must-revalidate", after: 2))
        #expect(!mayStandIn("max-age=1, stale-if-error=9, no-cache", after: 2))
        #expect(!mayStandIn("max-age=1", after: 2))
        #expect(!mayStandIn("max-age=1, stale-if-error=9", after: -1))
    }

    @Test func notModifiedKeepsContentFields() {
        let old = entry([
            "A": "1", "B": "1", "Age": "50", "Content-Length": "5", "Content-Encoding": "br", "Date": "x",
            "Vary": "accept",
        ])
        let new = ValidationRule.freshened(
            old,
            by: [
                "A": "2", "Content-Length": "0", "Content-Encoding": "gzip", "Connection": "C", "C": "1", "Vary": "*",
                "Transfer-Encoding": "chunked",
            ], requestTime: start.addingTimeInterval(9), responseTime: start.addingTimeInterval(10))
        #expect(new.headers["A"] == "2")
        #expect(new.headers["B"] == "1")
        #expect(new.headers["Content-Length"] == "5")
        #expect(new.headers["Content-Encoding"] == "br")
        #expect(new.headers["Vary"] == "accept")
        #expect(new.headers["Date"] == HTTPDate.format(start.addingTimeInterval(10)))
        for name in ["Age", "C", "Connection", "Transfer-Encoding"] { #expect(!new.headers.contains(name)) }
        #expect(new.responseTime == start.addingTimeInterval(10))
    }

    @Test func sharedCacheKeepsAConfirmedEntryForItsOwnTime() {
        var old = entry(["Cache-Control": "max-age=1, s-maxage=5000000", "ETag": "x"])
        old.retainUntil = start
        let new = ValidationRule.freshened(old, by: ["ETag": "x"], requestTime: start, responseTime: start, .shared)
        #expect(new.retainUntil.map { $0 > start.addingTimeInterval(5_000_000) } == true)
    }

    @Test func partsAndUnfinishedBodiesAreNotStored() {
        let request = HTTPRequest("GET", "http://a/")
        func isStorable(_ status: Int, _ headers: HTTPHeaders = ["Cache-Control": "max-age=9"]) -> Bool {
            StorageRule.refusal(
                of: HTTPResponse(status: status, headers: headers, url: request.url), to: request) == nil
        }
        #expect(isStorable(200))
        #expect(!isStorable(206))
        #expect(!isStorable(304))
        #expect(!isStorable(101))
        #expect(!isStorable(200, [:]))
        #expect(isStorable(200, ["ETag": "x"]))
        #expect(!isStorable(200, ["Cache-Control": "max-age=9", "Vary": "*"]))
        let response = HTTPResponse(status: 200, headers: ["Content-Length": "5"], url: request.url)
        #expect(StorageRule.isComplete(response, byteCount: 5, method: .get))
        #expect(!StorageRule.isComplete(response, byteCount: 4, method: .get))
        #expect(StorageRule.isComplete(response, byteCount: 0, method: .head))
    }

    @Test func timeToLiveEndsExactly() {
        var entry = entry([:])
        entry.lastUse = start.addingTimeInterval(50)
        func isAlive(_ timeToLive: CachePolicy.TimeToLive, _ seconds: Double) -> Bool {
            TimeToLiveRule.miss(entry, timeToLive, at: start.addingTimeInterval(seconds)) == nil
        }
        #expect(isAlive(.fixed(.milliseconds(1_500)), 1.4))
        #expect(!isAlive(.fixed(.milliseconds(1_500)), 1.5))
        #expect(isAlive(.sliding(.seconds(10)), 59))
        #expect(!isAlive(.sliding(.seconds(10)), 60))
        #expect(!isAlive(.fixed(.seconds(100)), -1))
        #expect(isAlive(.forever, -1))
        entry.isExpired = true
        #expect(!isAlive(.fixed(.seconds(100)), 1))
    }
}
