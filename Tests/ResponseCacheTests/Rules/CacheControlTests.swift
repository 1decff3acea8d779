import HTTPCore
import ResponseCache
import Testing

@Suite struct CacheControlTests {
    private func control(_ lines: String...) -> CacheControl {
        CacheControl(HTTPHeaders(lines.map { ("Cache-Control", $0) }))
    }

    /// Work that grows with the square of the size would take minutes.
    @Test func largeFieldsAreRead() {
        let many = 100_000
        let control = CacheControl([
            "Cache-Control": String(repeating: "a,", count: many) + "max-age=" + String(repeating: "9", count: 1 << 20)
        ])
        #expect(control.maxAge == 0x1p53)
        let names = (0..<many).map { "n\($0)" }
        let quoted = CacheControl(["Cache-Control": "no-cache=\"\(names.joined(separator: ","))\""])
        #expect(quoted.noCacheFields.count == many)
        let vary = VaryRule.fields(of: ["Vary": names.joined(separator: ",")])
        #expect(vary.count == many && VaryRule.variant(vary, of: HTTPRequest("GET", "http://a.test/")) != nil)
        #expect(VaryRule.fields(of: ["Vary": names.joined(separator: ",") + ",*"]) == ["*"])
    }

    @Test func namesIgnoreCaseAndUnknownAreSkipped() {
        let control = control("Max-Age=60, foo, bar=\"a, no-store\"", "NO-CACHE ,, immutable")
        #expect(control.maxAge == 60)
        #expect(control.noCache)
        #expect(control.immutable)
        #expect(!control.noStore)
    }

    @Test(
        arguments: [
            ("max-age=60", 60.0), ("max-age=\"60\"", 60), ("max-age=060", 60), ("max-age=1, max-age=9", 1),
            ("max-age=-1", nil), ("max-age=1.5", nil), ("max-age", nil), ("max-age=", nil), ("max-age =1", nil),
            ("max-age= 1", nil), ("max-age='1'", nil), ("max-age=\"", nil), ("max-age=99999999999999999999", 0x1p53),
        ] as [(String, Double?)])
    func secondsMustBeDigits(_ text: String, _ seconds: Double?) {
        #expect(control(text).maxAge == seconds ?? 0)
    }

    @Test func noCacheMayNameFields() {
        #expect(control("no-cache=\"Set-Cookie, x\"").noCacheFields == ["set-cookie", "x"])
        #expect(!control("no-cache=\"a\"").noCache)
        #expect(control("no-cache=\"\"").noCache)
        #expect(control("no-cache=\"a\", no-cache").noCache)
        // With white space around "=" the names are invalid, and the whole response counts.
        for text in ["no-cache =\"a\"", "no-cache= \"a\"", "no-cache=\t\"a\""] {
            #expect(control(text).noCache && control(text).noCacheFields.isEmpty)
        }
        #expect(
            control("private= \"Set-Cookie\"").isPrivate && control("private= \"Set-Cookie\"").privateFields.isEmpty)
    }

    @Test func pragmaCountsWithoutCacheControlOnly() {
        #expect(CacheControl(request: ["Pragma": "x, No-Cache"]).noCache)
        #expect(!CacheControl(request: ["Pragma": "no-cache", "Cache-Control": "max-age=1"]).noCache)
        #expect(!CacheControl(["Pragma": "no-cache"]).noCache)
    }

    @Test func requestDirectivesAreParsed() {
        #expect(control("max-stale").maxStale == Double.infinity)
        #expect(control("max-stale=5, min-fresh=2, only-if-cached").maxStale == 5)
        #expect(control("min-fresh=2").minFresh == 2)
        #expect(control("stale-if-error=7, stale-while-revalidate=x").staleIfError == 7)
        #expect(control("stale-while-revalidate=x").staleWhileRevalidate == 0)
    }

    /// Very many names of fields, and as many fields.
    @Test(.timeLimit(.minutes(1))) func manyWithheldFieldsAreRemoved() throws {
        let names = (0..<60_000).map { "x-\($0)" }
        var headers = HTTPHeaders(names.map { ($0, "1") })
        headers.append("Cache-Control", "max-age=60, no-cache=\"\(names.joined(separator: ","))\"")
        let cache = RuleCache()
        let entry = try #require(cache.entry(headers))
        let answer = try #require(cache.answer(entry))
        #expect(
            StoredResponseCoding.response(answer, to: cache.request()).headers.map(\.name) == ["Cache-Control", "Age"])
    }
}
