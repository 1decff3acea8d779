import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

@Suite struct FreshnessTests {
    private let start = Date(timeIntervalSince1970: 1_800_000_000)

    private func freshness(
        _ headers: HTTPHeaders, status: Int = 200, delay: Double = 0, after seconds: Double = 0, isExpired: Bool = false
    ) -> Freshness {
        var entry = CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://a/", status: status, headers: headers,
            requestTime: start.addingTimeInterval(-delay), responseTime: start)
        entry.isExpired = isExpired
        return Freshness(of: entry, control: CacheControl(headers), at: start.addingTimeInterval(seconds))
    }

    @Test func ageFollowsDateAgeFieldAndResidence() {
        let date = HTTPDate.format(start.addingTimeInterval(-10))
        #expect(freshness(["Date": date]).age == 10)
        #expect(freshness(["Date": date, "Age": "30"], delay: 2, after: 5).age == 37)
        #expect(freshness(["Date": HTTPDate.format(start.addingTimeInterval(99)), "Age": "x"], after: 5).age == 5)
        #expect(freshness([:], delay: 3, after: 4).age == 7)
    }

    @Test func responseIsStaleAtEndOfLifetime() {
        #expect(freshness(["Cache-Control": "max-age=60"], after: 59.999).isFresh)
        #expect(!freshness(["Cache-Control": "max-age=60"], after: 60).isFresh)
        #expect(freshness(["Cache-Control": "max-age=60"], after: 75).staleness == 15)
    }

    @Test func maxAgePrecedesExpiresAndHeuristic() {
        let later = HTTPDate.format(start.addingTimeInterval(100))
        let before = HTTPDate.format(start.addingTimeInterval(-1_000))
        let date = HTTPDate.format(start)
        #expect(freshness(["Cache-Control": "max-age=5, s-maxage=9", "Expires": later]).lifetime == 5)
        #expect(freshness(["Expires": later, "Date": date, "Last-Modified": before]).lifetime == 100)
        #expect(freshness(["Expires": "0", "Last-Modified": before]).lifetime == 0)
        #expect(freshness(["Date": date, "Last-Modified": before]).lifetime == 100)
        #expect(freshness(["Date": date, "Last-Modified": before], status: 403).lifetime == 0)
        #expect(freshness(["Last-Modified": later]).lifetime == 0)
    }

    @Test func futureAndMarkedEntriesAreNotFresh() {
        #expect(!freshness(["Cache-Control": "max-age=60"], after: -1).isFresh)
        #expect(!freshness(["Cache-Control": "max-age=60"], isExpired: true).isFresh)
    }
}
