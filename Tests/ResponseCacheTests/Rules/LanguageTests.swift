import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

/// Variants by language, and equivalent lists of preferences (RFC 9111 §4.1).
@Suite struct LanguageTests {
    private let cache = RuleCache()

    private func entry(_ language: String?, asked: HTTPHeaders, vary: String = "Accept-Language") throws -> CacheEntry {
        var headers: HTTPHeaders = ["Cache-Control": "max-age=60", "Vary": vary]
        if let language { headers["Content-Language"] = language }
        return try #require(cache.entry(headers, asked: asked))
    }

    private func isFound(_ entry: CacheEntry, _ accept: String) -> Bool {
        cache.answer(entry, asked: ["Accept-Language": accept]) != nil
    }

    @Test(arguments: [
        "de, en", "EN, De", " en ,de", "en;q=1, de;q=1.0", "de; q=1.000,en",
    ])
    func equivalentListsAreTheSameVariant(accept: String) throws {
        #expect(isFound(try entry(nil, asked: ["Accept-Language": "en, de"]), accept))
    }

    @Test(arguments: ["Accept-Encoding", "Accept-Charset"])
    func otherListsWithoutOrderAreNormalized(field: String) throws {
        let entry = try entry(nil, asked: [field: "a, b;q=0.5"], vary: field)
        #expect(cache.answer(entry, asked: [field: "B;q=0.500 ,A"]) != nil)
        #expect(cache.answer(entry, asked: [field: "a, b;q=0.6"]) == nil)
        #expect(cache.answer(entry, asked: [field: "a, b;x=0.5"]) == nil)
    }

    @Test func orderOfUnknownListsCounts() throws {
        let entry = try entry(nil, asked: ["Foo": "1, 2"], vary: "Foo")
        #expect(cache.answer(entry, asked: ["Foo": "1,2"]) != nil && cache.answer(entry, asked: ["Foo": "2, 1"]) == nil)
    }

    @Test(arguments: ["fr;q=0.5, de;q=1.0", "de", "de, *;q=0.1", "DE", "de, de-CH;q=0.1"])
    func preferredLanguageIsFound(accept: String) throws {
        #expect(isFound(try entry("de", asked: ["Accept-Language": "en, de"]), accept))
    }

    @Test(arguments: [
        "fr, de;q=0.9", "fr, de", "*", "de;q=0", "de-CH, de;q=0.8", "deu", "", "de;q=2", "de;q=x", "fr;q=0.5",
    ])
    func nonPreferredLanguageIsNotFound(accept: String) throws {
        #expect(!isFound(try entry("de", asked: ["Accept-Language": "en, de"]), accept))
    }

    @Test func rangeFindsItsRegionsUnlessRefused() throws {
        let swiss = try entry("de-CH", asked: ["Accept-Language": "de-CH"])
        #expect(isFound(swiss, "de, en;q=0.5") && !isFound(swiss, "de, de-CH;q=0.1"))
    }

    @Test func noneOrSeveralLanguagesAreNotFound() throws {
        for language in [nil, "de, en"] {
            #expect(!isFound(try entry(language, asked: ["Accept-Language": "en, de"]), "de"))
        }
    }

    @Test func otherVaryFieldsMustMatch() throws {
        let asked: HTTPHeaders = ["Accept-Language": "en, de", "Foo": "1"]
        let entry = try entry("de", asked: asked, vary: "Accept-Language, Foo")
        for (value, isFound) in [("1", true), ("2", false)] {
            #expect((cache.answer(entry, asked: ["Accept-Language": "de", "Foo": value]) != nil) == isFound)
        }
        // Credentials must match too.
        let own = try self.entry("de", asked: ["Accept-Language": "en, de", "Authorization": "ada"])
        #expect(cache.answer(own, asked: ["Accept-Language": "de", "Authorization": "bob"]) == nil)
        #expect(cache.answer(own, asked: ["Accept-Language": "de", "Authorization": "ada"]) != nil)
    }

    @Test func exactVariantIsPreferred() throws {
        var exact = try entry("de", asked: ["Accept-Language": "de"])
        exact.reason = "exact"
        let other = try entry("de", asked: ["Accept-Language": "en, de"])
        guard case .answer(let answer) = cache.decide([other, exact], asked: ["Accept-Language": "de"]) else {
            Issue.record("not answered")
            return
        }
        #expect(answer.entry.reason == "exact")
    }
}
