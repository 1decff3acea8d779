import Foundation
import HTTPCore
import Testing

@testable import ResponseCache

/// What the rules tell a store about an entry: its tags, its retention time and what it may replace.
@Suite struct HintRuleTests {
    private func end(_ headers: HTTPHeaders, _ policy: CachePolicy = .http, servesStale: Bool = false) -> Double? {
        let entry = Make.entry("a", headers: headers)
        return RetentionRule.end(of: entry, under: policy, servesStale: servesStale)?.timeIntervalSince(Make.start)
    }

    @Test func tagsComeFromBothFields() {
        var headers = HTTPHeaders([
            ("Cache-Tag", "news, front page,news"), ("Surrogate-Key", "a  b"), ("cache-tag", "c"),
        ])
        #expect(InvalidationRule.tags(of: headers, at: "http://a.example") == ["news", "front page", "c", "a", "b"])
        headers = [
            "Cache-Tag": (0..<200).map { "t\($0)" }.joined(separator: ",") + "," + String(repeating: "x", count: 1_025)
        ]
        #expect(InvalidationRule.tags(of: headers, at: "http://a.example").count == 100)
        #expect(InvalidationRule.tags(of: [:], at: "http://a.example").isEmpty)
    }

    @Test func freshResponseIsRetainedWhileUseful() {
        // One second has passed between request and response (RFC 9111 §4.2.3).
        #expect(end(["Cache-Control": "max-age=60"]) == 59)
        #expect(end(["Cache-Control": "max-age=60", "Age": "20"]) == 39)
        #expect(end(["Cache-Control": "max-age=60, stale-while-revalidate=100"]) == 159)
        #expect(end(["Cache-Control": "max-age=60, stale-while-revalidate=5, stale-if-error=600"]) == 659)
        #expect(end(["Cache-Control": "no-cache"]) == 0)
        // With a validator, a 304 saves the body of a stale response.
        #expect(end(["Cache-Control": "max-age=60", "ETag": "\"1\""]) == 59 + RetentionRule.revalidationTime)
        #expect(end(["Cache-Control": "max-age=60"], servesStale: true) == nil)
    }

    @Test func onlyFixedTimeToLiveLimitsRetention() {
        #expect(end([:], .cacheElseNetwork(.fixed(.seconds(90)))) == 90)
        for policy in [
            CachePolicy.cacheElseNetwork(.forever), .cacheElseNetwork(.sliding(.seconds(1))), .networkElseCache,
            .cacheThenNetwork, .writeOnly,
        ] { #expect(end(["Cache-Control": "max-age=1"], policy) == nil) }
    }

    @Test func responseReplacesValidatedVersionOnly() {
        var candidate = Make.entry("a", variant: "en")
        #expect(CacheReplacement(of: candidate, by: Make.entry("a", variant: "en")) == .anything)
        candidate.version = StoredVersion(3)
        #expect(CacheReplacement(of: candidate, by: Make.entry("a", variant: "en")) == .version(StoredVersion(3)))
        #expect(CacheReplacement(of: candidate, by: Make.entry("a", variant: "de")) == .anything)
    }
}
