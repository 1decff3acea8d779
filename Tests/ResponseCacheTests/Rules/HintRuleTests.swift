import Foundation
import HTTPCore
import Testing

@testable import ResponseCache

/// What the rules tell a store about an entry: its tags, and until when it is of use.
@Suite struct HintRuleTests {
    private func end(_ headers: HTTPHeaders, _ policy: CachePolicy = .http, servesStale: Bool = false) -> Double? {
        let entry = Make.entry("a", headers: headers)
        return RetentionRule.end(of: entry, under: policy, servesStale: servesStale)?.timeIntervalSince(Make.start)
    }

    @Test func tagsComeFromBothFields() {
        var headers = HTTPHeaders([
            ("Cache-Tag", "news, front page,news"), ("Surrogate-Key", "a  b"), ("cache-tag", "c"),
        ])
        #expect(InvalidationRule.tags(of: headers) == ["news", "front page", "c", "a", "b"])
        headers = [
            "Cache-Tag": (0..<200).map { "t\($0)" }.joined(separator: ",") + "," + String(repeating: "x", count: 1_025)
        ]
        #expect(InvalidationRule.tags(of: headers).count == 100)
        #expect(InvalidationRule.tags(of: [:]).isEmpty)
    }

    @Test func freshAnswerIsRetainedWhileItIsOfUse() {
        // One second has passed between request and answer (RFC 9111 §4.2.3).
        #expect(end(["Cache-Control": "max-age=60"]) == 59)
        #expect(end(["Cache-Control": "max-age=60", "Age": "20"]) == 39)
        #expect(end(["Cache-Control": "max-age=60, stale-while-revalidate=100"]) == 159)
        #expect(end(["Cache-Control": "max-age=60, stale-while-revalidate=5, stale-if-error=600"]) == 659)
        #expect(end(["Cache-Control": "no-cache"]) == 0)
        // A stale one that can be confirmed saves its body.
        #expect(end(["Cache-Control": "max-age=60", "ETag": "\"1\""]) == 59 + RetentionRule.confirmableTime)
        #expect(end(["Cache-Control": "max-age=60"], servesStale: true) == nil)
    }

    @Test func ownPoliciesRetainByTheirTimeToLive() {
        #expect(end([:], .cacheElseNetwork(.fixed(.seconds(90)))) == 90)
        for policy in [
            CachePolicy.cacheElseNetwork(.forever), .cacheElseNetwork(.sliding(.seconds(1))), .networkElseCache,
            .cacheThenNetwork, .writeOnly,
        ] { #expect(end(["Cache-Control": "max-age=1"], policy) == nil) }
    }

    @Test func answerReplacesWhatItsServerWasAskedAbout() {
        var candidate = Make.entry("a", variant: "en")
        #expect(CacheReplacement(of: candidate, by: Make.entry("a", variant: "en")) == .anything)
        candidate.version = StoredVersion(3)
        #expect(CacheReplacement(of: candidate, by: Make.entry("a", variant: "en")) == .version(StoredVersion(3)))
        #expect(CacheReplacement(of: candidate, by: Make.entry("a", variant: "de")) == .anything)
    }
}
