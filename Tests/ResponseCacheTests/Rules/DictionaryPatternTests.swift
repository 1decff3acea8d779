import FoundationEssentials
import HTTPCore
import LATTesting
import Platform
import ResponseCache
import TestSupport
import Testing

/// The URL patterns of `Use-As-Dictionary` (RFC 9842 §2.1.1): what is understood means the same as in the URL Pattern Standard.
@Suite struct DictionaryPatternTests {
    private static let base = "https://a.example/app/v1/main.js"

    private func matches(_ pattern: String, _ url: String) throws -> Bool? {
        let base = try #require(CanonicalURL(Self.base))
        return DictionaryPattern(pattern, at: base).map { pattern in
            CanonicalURL("https://a.example\(url)").map { pattern.matches($0) } ?? false
        }
    }

    @Test(
        arguments: [
            ("/app/*/main.js", "/app/v2/main.js", true), ("/app/*/main.js", "/app/v2/x/main.js?a=1", true),
            ("/app/*/main.js", "/app//main.js", true), ("/app/*/main.js", "/app/main.js", false),
            ("/app/*/main.js", "/app/v2/main.jsx", false), ("/app/*/main.js", "/App/v2/main.js", false),
            ("/app/:version/main.js", "/app/v2/main.js", true), ("/app/:version/main.js", "/app/v2/x/main.js", false),
            ("/app/:version/main.js", "/app//main.js", false), ("/a/:b.:c", "/a/x.y.z", true),
            ("/a/:b.:c", "/a/x", false), ("/.a*", "/.ab", true), ("/a*.", "/ab.", true),
            ("/*", "/", true), ("/*a*b*c", "/abcabd", false), ("/*a*b*c", "/aabbcc", true),
            // A relative one begins in the folder of the response.
            ("main.*", "/app/v1/main.css", true), ("main.*", "/app/v2/main.css", false), ("*", "/app/v1/", true),
            ("*", "/app/", false), (":file", "/app/v1/x", true), (":file", "/app/v1/x/y", false),
            ("https://a.example/b*", "/bc", true),
            // Without a query, every query matches.
            ("/a", "/a?b", true), ("/a?", "/a", true), ("/a?", "/a?b", false), ("/a?v=*", "/a?v=1", true),
            ("/a?v=*", "/a", false), ("/a?v=:x", "/a?v=1/2", true), ("/a?v=:x", "/a?v=", false),
            ("/d%C3%BCsseldorf", "/düsseldorf", true), ("/a;b=1,2@c", "/a;b=1,2@c", true),
        ])
    func patternMatches(pattern: String, url: String, expected: Bool) throws {
        #expect(try matches(pattern, url) == expected)
    }

    @Test(
        arguments: [
            "", "?v=*", "//b.example/*", "https://b.example/*", "https://*.example/a", "http://a.example/*", "/a/(.*)",
            "/a/(\\d+)", "/{a}", "/{a}?", "/a\\*", "/a+", "/:a+", "/:a*", "/**", "/*?b", "/:a?", "/a?b?c", "/a#b",
            "/:1",
            "/:", "/a:8080:", "/:a/:a", "/a/../b", "/./a", "/.*", "/..:x", "/a/%2e*", ".", "/a b", "/ü", "/a|b",
            "/a\"b",
            "/" + String(repeating: "a", count: 1_024),
        ])
    func otherPatternIsNotUnderstood(pattern: String) throws {
        #expect(try matches(pattern, "/a") == nil)
    }

    /// A pattern may have been chosen so that a matcher that tries all ways takes exponential time.
    @Test func manyWildcardsTakeLittleTime() throws {
        let pattern = "/" + String(repeating: "*a", count: 200)
        #expect(try matches(pattern, "/" + String(repeating: "a", count: 2_000)) == true)
        #expect(try matches(pattern + "b", "/" + String(repeating: "a", count: 2_000)) == false)
    }

    /// Random patterns and URLs of few characters, which often match.
    private static func samples(_ count: Int) -> [(pattern: String, url: String)] {
        var generator = SeededGenerator(seed: 9_842)
        func text(_ parts: [String], _ length: Int) -> String {
            (0..<Int.random(in: 0...length, using: &generator)).map { _ in
                parts.randomElement(using: &generator) ?? ""
            }.joined()
        }
        return (0..<count).map { _ in
            let head = ["/", "/", "/", "", "https://a.example/"].randomElement(using: &generator) ?? ""
            return (
                head + text(["a", "b", "/", "*", ":x", ":y", "*", "?", "a", ".", "+", "v1/", "main.js", "%20"], 8),
                "/" + text(["a", "b", "/", "app/v1/", "a", "?", "v1/", "main.js", "%20", ";"], 8)
            )
        }
    }

    /// The matcher agrees with an implementation of the whole standard.
    @Test(.needsPython) func understoodPatternMeansTheSame() throws {
        let samples = Self.samples(20_000)
        let folder = try TemporaryDirectory()
        let lines = samples.map { pattern, url in
            JSONValue.array([.string(pattern), .string(Self.base), .string("https://a.example\(url)")]).description
        }
        let file = try folder.write(Data(lines.joined(separator: "\n").utf8), to: "patterns.json")
        let verdicts = try PythonScript.run("dictionaries.py", ["patterns", file]).split(whereSeparator: \.isNewline)
        try #require(verdicts.count == samples.count)
        var counts = (matching: 0, other: 0)
        for ((pattern, url), verdict) in zip(samples, verdicts) {
            // What the standard resolves is not resolved here.
            guard let own = try matches(pattern, url), !url.contains("//") else { continue }
            #expect("\(own)" == verdict, "\(pattern) and \(url)")
            if own { counts.matching += 1 } else { counts.other += 1 }
        }
        #expect(counts.matching > 300 && counts.other > 3_000, "\(counts)")
    }
}
