import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

/// What a 304 and a HEAD say about a stored response (RFC 9111 §4.3).
@Suite struct ValidationRuleTests {
    private let start = Date(timeIntervalSince1970: 1_800_000_000)

    private func entry(_ headers: HTTPHeaders) -> CacheEntry {
        CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://a/", status: 200, headers: headers,
            requestTime: start, responseTime: start)
    }

    private func coded(_ tag: String, _ coding: String = "gzip") -> CacheEntry {
        entry(["ETag": tag, "Content-Encoding": coding])
    }

    /// The stored tag, its coding, and the tag of the 304.
    @Test(arguments: [
        ("W/\"x\"", "gzip", "\"x\""), ("\"x\"", "gzip", "W/\"x\""), ("\"x\"", "gzip", "\"x\""),
        ("\"x-gzip\"", "gzip", "\"x\""), ("\"x--gzip\"", "gzip", "\"x\""), ("W/\"x-gzip\"", "gzip", "\"x\""),
        ("\"x-br\"", "br", "\"x\""), ("\"x-zstd\"", "ZSTD", "W/\"x\""), ("\"-gzip\"", "gzip", "\"\""),
    ])
    func notModifiedConfirmsTheOnlyTag(own: String, coding: String, tag: String) {
        #expect(ValidationRule.confirms(["ETag": tag], coded(own, coding), isOnlyTag: true))
    }

    @Test(arguments: [
        ("\"1\"", "gzip", "\"2\""), ("W/\"1\"", "gzip", "\"2\""), ("\"x-gzip\"", "br", "\"x\""),
        ("\"xgzip\"", "gzip", "\"x\""), ("\"x\"", "gzip", "\"x-gzip\""), ("\"x-gzip\"", "gzip", "\"\""),
        ("x-gzip", "gzip", "x"), ("\"x-gzip\"", "gzip", "\"y\""),
    ])
    func notModifiedWithOtherTagConfirmsNothing(own: String, coding: String, tag: String) {
        #expect(!ValidationRule.confirms(["ETag": tag], coded(own, coding), isOnlyTag: true))
    }

    @Test func suffixNeedsTheCodingOfTheBody() {
        #expect(!ValidationRule.confirms(["ETag": "\"x\""], entry(["ETag": "\"x-gzip\""]), isOnlyTag: true))
    }

    /// With several tags in the request, a strong tag of the 304 selects only an equal one (§4.3.4).
    @Test func strongTagAmongSeveralMustBeEqual() {
        #expect(!ValidationRule.confirms(["ETag": "\"x\""], coded("W/\"x\"")))
        #expect(!ValidationRule.confirms(["ETag": "\"x\""], coded("\"x-gzip\"")))
        #expect(ValidationRule.confirms(["ETag": "W/\"x\""], coded("\"x\"")))
        #expect(ValidationRule.confirms(["ETag": "\"x\""], coded("\"x\"")))
    }

    @Test func confirmedEntryKeepsItsOwnTag() {
        func freshened(_ entry: CacheEntry) -> HTTPHeaders {
            ValidationRule.freshened(
                entry, by: ["etag": "\"x\"", "Cache-Control": "max-age=9"], requestTime: start, responseTime: start
            ).headers
        }
        let stored = freshened(coded("W/\"x\""))
        #expect(stored[values: "ETag"] == ["W/\"x\""] && stored["Cache-Control"] == "max-age=9")
        #expect(freshened(entry([:]))["ETag"] == "\"x\"")
    }

    private func verdict(_ head: HTTPHeaders, on stored: HTTPHeaders) -> ValidationRule.HeadVerdict {
        ValidationRule.verdict(of: HTTPResponse(status: 200, headers: head, url: "http://a/"), on: entry(stored))
    }

    /// A server that does not compress for HEAD, Caddy, and Caddy in front of an app without validators.
    @Test func headOfACompressedResponseOutdatesNothing() {
        let coded: HTTPHeaders = ["ETag": "W/\"x\"", "Last-Modified": "a", "Content-Encoding": "gzip"]
        #expect(verdict(["ETag": "\"x\"", "Last-Modified": "a", "Content-Length": "5000"], on: coded) == .confirmed)
        let caddy: HTTPHeaders = ["ETag": "\"x\"", "Content-Encoding": "gzip", "Content-Length": "312"]
        #expect(
            verdict(["ETag": "\"x\"", "Content-Encoding": "gzip", "Content-Length": "23"], on: caddy) == .confirmed)
        let bare: HTTPHeaders = ["Content-Encoding": "gzip"]
        #expect(verdict(["Content-Encoding": "gzip", "Content-Length": "23"], on: bare) == .unknown)
        #expect(verdict(["Content-Length": "5000"], on: bare) == .unknown)
    }

    @Test func headWithOtherFactsOutdatesTheEntry() {
        let plain: HTTPHeaders = ["ETag": "\"x\"", "Last-Modified": "a", "Content-Length": "5"]
        #expect(verdict(plain, on: plain) == .confirmed && verdict([:], on: plain) == .confirmed)
        for (name, value) in [("ETag", "\"y\""), ("ETag", "W/\"x\""), ("Last-Modified", "b"), ("Content-Length", "6")] {
            var head = plain
            head[name] = value
            #expect(verdict(head, on: plain) == .outdated, "\(name): \(value)")
        }
        #expect(verdict(["ETag": "\"x\""], on: ["Content-Encoding": "gzip"]) == .outdated)
        #expect(verdict(["ETag": "\"y\""], on: ["ETag": "W/\"x\"", "Content-Encoding": "gzip"]) == .outdated)
        #expect(verdict(["Content-Length": "5"], on: [:]) == .outdated)
        let moved = HTTPResponse(status: 404, url: "http://a/")
        #expect(ValidationRule.verdict(of: moved, on: entry(plain)) == .outdated)
    }
}
