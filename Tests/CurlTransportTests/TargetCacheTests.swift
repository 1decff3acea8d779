import CLibcurl
import HTTPCore
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct TargetCacheTests {
    /// The components of a target, for comparison.
    private struct Parts: Equatable {
        var texts: [String?]

        init(_ target: Target) {
            let parts = [
                CURLUPART_URL, CURLUPART_SCHEME, CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_HOST, CURLUPART_PORT,
                CURLUPART_PATH, CURLUPART_QUERY, CURLUPART_FRAGMENT,
            ]
            texts = parts.map { part in
                var text: UnsafeMutablePointer<CChar>?
                guard curl_url_get(target.handle, part, &text, 0) == CURLUE_OK, let text else { return nil }
                defer { curl_free(text) }
                return String(cString: text)
            }
            texts += [target.url, target.scheme, target.host, target.origin]
        }
    }

    private static let authorities = [
        "http://a.example", "https://a.example:8443", "HTTP://User:p%40ss@Host.Example:80", "https://[::1]:443",
        "http://127.1", "http://b\u{FC}cher.example", "http:///a.example", "http:/a.example", "a.example",
    ]
    private static let pieces = [
        "/", "/", "/", "a", "B", "7", ".", "..", "/./", "/../", "//", "-", "_", "~", "=", "&", "?", "?", "#", "%2F",
        "%2f",
        "%2e", "%20", "%", " ", "\u{E9}", "+", ",", ":", "@", ";", "\\", "|", "index.html", "q=1", "a.b",
    ]

    @Test func cachedTargetEqualsFullyParsedOne() throws {
        var random = SeededGenerator(seed: 4711)
        var fromBase = 0
        for round in 0..<6000 {
            let authority = Self.authorities[round % Self.authorities.count]
            let count = Int.random(in: 0...7, using: &random)
            let rest = (0..<count).map { _ in Self.pieces.randomElement(using: &random) ?? "" }.joined()
            let url = "\(authority)\(round % 3 == 0 ? "/" : "")\(rest)"
            let cache = TargetCache(capacity: 8)
            _ = try? cache.target(for: authority + "/first?q=2")
            let parsed = try? Target(url)
            let cached = try? cache.target(for: url)
            #expect(parsed.map(Parts.init) == cached.map(Parts.init), "\(url)")
            if let base = try? TargetBase(Target(authority + "/first?q=2"), text: authority + "/first?q=2"),
                base.target(for: url) != nil
            {
                fromBase += 1
            }
        }
        // Guards against a test that compares nothing.
        #expect(fromBase > 300)
    }

    @Test func baseRejectsOtherAuthorities() throws {
        let base = try #require(TargetBase(Target("http://a.example/x"), text: "http://a.example/x"))
        #expect(base.target(for: "http://a.example/y?z=1")?.url == "http://a.example/y?z=1")
        for url in [
            "http://a.example.org/y", "http://a.example:80/y", "http://a.example@b.example/y", "http://a.exampl/y",
        ] {
            #expect(base.target(for: url) == nil)
        }
    }

    @Test func equivalentURLsHaveTheirOwnTargets() throws {
        let cache = TargetCache(capacity: 8)
        #expect(try cache.target(for: "http://a.example/caf\u{E9}").url == "http://a.example/caf%C3%A9")
        #expect(try cache.target(for: "http://a.example/cafe\u{301}").url == "http://a.example/cafe%CC%81")
    }

    @Test func cacheIsBoundedByBytes() throws {
        let cache = TargetCache(capacity: 1000, byteCapacity: 10_000)
        for index in 0..<200 {
            _ = try cache.target(for: "http://a.example/\(index)/" + String(repeating: "x", count: 1000))
            #expect(cache.size.bytes <= 20_000)
        }
        #expect(cache.size.count > 5)
        let long = "http://a.example/" + String(repeating: "x", count: 5000)
        #expect(try cache.target(for: long) !== cache.target(for: long))
    }

    @Test func bodySizeHintIsTheLastSize() throws {
        let target = try Target("http://a.example/")
        #expect(target.bodySizeHint == 0)
        target.noteBodySize(1024)
        #expect(target.bodySizeHint == 1024)
        target.noteBodySize(1 << 30)
        #expect(target.bodySizeHint == 0)
    }
}
