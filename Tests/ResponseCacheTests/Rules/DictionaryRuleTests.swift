import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

/// Which stored response is the dictionary of which request (RFC 9842), as values.
@Suite struct DictionaryRuleTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)
    private static let tag = DictionaryRule.tag(url("/"), .everybody, credentials: nil, version: 1)

    private static func url(_ path: String, _ origin: String = "https://a.example") -> CanonicalURL {
        guard let url = CanonicalURL(origin + path) else { preconditionFailure("\(origin)\(path) is no URL") }
        return url
    }

    private func entry(
        _ path: String, _ use: String, _ control: String = "max-age=60", at seconds: Double = 0, tag: String = tag,
        version: UInt64? = 1
    ) -> CacheEntry {
        let time = Self.start.addingTimeInterval(seconds)
        var entry = CacheEntry(
            key: CacheKey(primary: path), method: "GET", url: "https://a.example\(path)", status: 200,
            headers: ["Cache-Control": control, "Use-As-Dictionary": use], requestTime: time, responseTime: time)
        entry.tags = [tag]
        entry.version = version.map { StoredVersion($0) }
        return entry
    }

    private func dictionary(_ size: Int = 10, _ number: UInt8 = 0) -> CompressionDictionary {
        CompressionDictionary(Data(count: size), digest: [number], of: "https://a.example/")
    }

    /// The paths of the dictionaries for a request, the best first.
    private func choices(
        _ entries: [CacheEntry], for path: String, after seconds: Double = 0, tags: [String] = [tag]
    ) -> [String] {
        var shelf = DictionaryShelf()
        for tag in Set(entries.flatMap(\.tags)) { shelf.add(entries.filter { $0.tags.contains(tag) }, for: tag) }
        let now = Self.start.addingTimeInterval(seconds)
        return shelf.choices(for: Self.url(path), tags: tags, at: now).map { $0.entry.key.primary }
    }

    @Test func fieldIsRead() throws {
        func use(_ values: String...) -> DictionaryRule.Use? {
            DictionaryRule.Use(HTTPHeaders(values.map { ("Use-As-Dictionary", $0) }), at: Self.url("/a/b"))
        }
        let whole = use("match=\"/a/*\", match-dest=(\"script\"), id=\"x \\\"y\\\"\", type=raw")
        #expect(whole?.match == "/a/*" && whole?.id == "x \"y\"")
        #expect(use("match=\"/a/*\"", "id=\"x\"")?.id == "x" && use("match=\"/a/*\", later=1")?.id == "")
        for wrong in [
            "", "match", "match=/a", "match=a", "id=\"x\"", "match=\"/(.*)\"", "match=\"/a\", type=delta",
            "match=\"/a\", type=\"raw\"", "match=\"/a\", id=x", "match=\"/a\",", "match=(\"/a\")",
            "match=\"/a\", id=\"\(String(repeating: "x", count: 1_025))\"",
        ] { #expect(use(wrong) == nil, "\(wrong)") }
    }

    @Test func longestMatchThenNewestIsChosen() {
        let entries = [
            entry("/short", "match=\"/*\"", at: 3), entry("/old", "match=\"/a/*\"", at: 1),
            entry("/new", "match=\"/a/*\"", at: 2), entry("/other", "match=\"/b/*\"", at: 4),
        ]
        #expect(choices(entries, for: "/a/x", after: 5) == ["/new", "/old", "/short"])
        #expect(choices(entries.reversed(), for: "/a/x", after: 5) == ["/new", "/old", "/short"])
        #expect(choices(entries, for: "/c", after: 5) == ["/short"])
    }

    @Test(
        arguments: [
            ("max-age=60", 59, true), ("max-age=60", 60, false), ("max-age=60, stale-while-revalidate=60", 100, true),
            ("max-age=60, stale-while-revalidate=60", 120, false), ("max-age=60, no-cache", 0, false),
            ("max-age=60, must-revalidate, stale-while-revalidate=60", 61, false),
            ("max-age=60, stale-if-error=600", 61, false),
        ])
    func onlyUsableResponseIsOffered(control: String, seconds: Double, isUsable: Bool) {
        let found = choices([entry("/a", "match=\"/*\"", control)], for: "/b", after: seconds)
        #expect(found == (isUsable ? ["/a"] : []))
    }

    @Test func everySenderHasItsOwn() {
        let url = Self.url("/x")
        var alice = RequestIdentity.everybody
        alice.partition = "alice"
        var empty = RequestIdentity.everybody
        empty.partition = ""
        let other = Self.url("/x", "https://a.example:8443")
        let tags = [
            DictionaryRule.tag(url, .everybody, credentials: nil, version: 1),
            DictionaryRule.tag(url, .everybody, credentials: "c0ffee", version: 1),
            DictionaryRule.tag(url, alice, credentials: nil, version: 1),
            DictionaryRule.tag(url, empty, credentials: nil, version: 1),
            DictionaryRule.tag(url, .everybody, credentials: nil, version: 2),
            DictionaryRule.tag(other, .everybody, credentials: nil, version: 1),
            DictionaryRule.tag(Self.url("/x", "http://a.example"), .everybody, credentials: nil, version: 1),
        ]
        #expect(Set(tags).count == tags.count && tags.allSatisfy(DictionaryRule.isTag) && tags[0] == Self.tag)
        let entries = tags.enumerated().map { entry("/\($0)", "match=\"/*\"", tag: $1) }
        for (place, tag) in tags.enumerated() { #expect(choices(entries, for: "/x", tags: [tag]) == ["/\(place)"]) }
    }

    @Test func dictionaryIsOfferedOnlyForWholeDecodedGetOverTLS() {
        func mayOffer(_ url: String, _ change: (inout HTTPRequest) -> Void = { _ in }) -> Bool {
            var request = HTTPRequest("GET", url)
            change(&request)
            return CanonicalURL(url).map { DictionaryRule.mayOffer(request, to: $0) } ?? false
        }
        let url = "https://a.example/x"
        for url in [url, "http://127.0.0.1:80/x", "http://localhost/x", "http://[::1]:8080/x"] {
            #expect(mayOffer(url))
        }
        for url in ["http://a.example/x", "http://10.0.0.1/x", "http://localhost.example/x"] { #expect(!mayOffer(url)) }
        #expect(!mayOffer(url) { $0.method = .head })
        #expect(!mayOffer(url) { $0.method = .post })
        #expect(!mayOffer(url) { $0.body = .text("x") })
        #expect(!mayOffer(url) { $0.decompresses = false })
        for field in ["Range", "Accept-Encoding", "Available-Dictionary"] {
            #expect(!mayOffer(url) { $0.headers[field] = "x" }, "\(field)")
        }
        #expect(!mayOffer(url) { $0.headers["Cache-Control"] = "no-store" })
        #expect(mayOffer(url) { $0.headers["Cache-Control"] = "no-cache" })
    }

    @Test func onlyContentServesAsDictionary() {
        var request = HTTPRequest("GET", "https://a.example/x")
        var response = HTTPResponse(status: 200, url: request.url)
        response.headers = ["Content-Encoding": "gzip"]
        #expect(DictionaryRule.hasContent(response, to: request))
        request.decompresses = false
        #expect(!DictionaryRule.hasContent(response, to: request))
        response.headers = [:]
        #expect(DictionaryRule.hasContent(response, to: request))
        for status in [206, 404] {
            response.status = status
            #expect(!DictionaryRule.hasContent(response, to: request))
        }
    }

    @Test func contentIsThatOfTheStoredVersion() {
        var shelf = DictionaryShelf()
        let first = entry("/a", "match=\"/*\"")
        shelf.add([first], for: Self.tag)
        let content = dictionary()
        shelf.keep(content, of: first)
        #expect(shelf.content(of: first) === content)
        // A 304 renews the response and keeps the content.
        let confirmed = entry("/a", "match=\"/*\"", at: 50)
        shelf.note(confirmed)
        #expect(shelf.content(of: confirmed) === content)
        #expect(shelf.choices(for: Self.url("/b"), tags: [Self.tag], at: Self.start.addingTimeInterval(100)).count == 1)
        // What failed is not offered again, and another response is.
        content.noteFailure()
        #expect(shelf.choices(for: Self.url("/b"), tags: [Self.tag], at: Self.start).isEmpty)
        for replacement in [entry("/a", "match=\"/*\"", version: 2), entry("/a", "match=\"/*\"", at: 7, version: nil)] {
            shelf.note(replacement)
            #expect(shelf.content(of: replacement) == nil)
            #expect(
                shelf.choices(for: Self.url("/b"), tags: [Self.tag], at: Self.start.addingTimeInterval(8)).count == 1)
        }
        // One that is no dictionary any more.
        shelf.note(entry("/a", "none"))
        #expect(shelf.choices(for: Self.url("/b"), tags: [Self.tag], at: Self.start).isEmpty)
    }

    /// What the store does not list yet is known, and newer than what it lists.
    @Test func notedResponseIsKnownBeforeTheStoreIsAsked() {
        var shelf = DictionaryShelf()
        shelf.note(entry("/a", "match=\"/*\"", at: 5, version: nil))
        #expect(!shelf.knows(Self.tag))
        shelf.add([entry("/a", "match=\"/old\"")], for: Self.tag)
        #expect(shelf.knows(Self.tag))
        let choices = shelf.choices(for: Self.url("/b"), tags: [Self.tag], at: Self.start.addingTimeInterval(6))
        #expect(choices.map(\.use.match) == ["/*"])
    }

    /// Entries of some stores come with their bodies, which must not stay when the store has removed them.
    @Test func bodiesStayInTheStore() {
        var shelf = DictionaryShelf()
        var one = entry("/1", #"match="/app/*""#)
        one.attachedBody = Data(count: 100)
        shelf.add([one], for: Self.tag)
        shelf.note(one)
        shelf.keep(dictionary(), of: one)
        let known = shelf.choices(for: Self.url("/app/x"), tags: [Self.tag], at: Self.start)
        #expect(known.map { $0.entry.attachedBody } == [nil] && shelf.content(of: one) != nil)
        shelf.forget(one)
        #expect(shelf.choices(for: Self.url("/app/x"), tags: [Self.tag], at: Self.start).isEmpty)
        #expect(!shelf.knows(Self.tag) && shelf.content(of: one) == nil)
    }

    @Test func limitsAreKept() {
        var shelf = DictionaryShelf(byteLimit: 100)
        let entries = (0..<100).map { entry("/\($0)", "match=\"/*\"", at: Double($0)) }
        shelf.add(entries, for: Self.tag)
        let choices = shelf.choices(for: Self.url("/x"), tags: [Self.tag], at: Self.start.addingTimeInterval(50))
        #expect(choices.map(\.entry.key.primary).allSatisfy { Int($0.dropFirst()).map { $0 >= 36 } ?? false })
        for number in 0..<3 { shelf.keep(dictionary(40, UInt8(number)), of: entries[number]) }
        #expect(shelf.content(of: entries[0]) == nil && shelf.content(of: entries[1])?.digest == [1])
        shelf.keep(dictionary(40), of: entries[3])
        #expect(shelf.content(of: entries[2]) == nil && shelf.content(of: entries[1]) != nil)
        shelf.keep(dictionary(101), of: entries[4])
        #expect([1, 3, 4].allSatisfy { shelf.content(of: entries[$0]) == nil })
        for number in 0..<DictionaryShelf.limits.tags { shelf.add([], for: "\(number)") }
        #expect(!shelf.knows(Self.tag))
    }
}
