import FoundationEssentials
import HTTPCore
import ResponseCache
import Testing

@Suite struct KeyRuleTests {
    private func key(
        _ url: String, _ rule: KeyRule = KeyRule(), method: String = "GET", body: String? = nil
    ) throws -> String {
        let url = try #require(CanonicalURL(url))
        return try #require(rule.primary(method: method, url: url, body: body.map { Data($0.utf8) }))
    }

    @Test(arguments: [
        ("http://A.example", "http://a.example/"), ("HTTP://a.example:80/", "http://a.example/"),
        ("https://a.example:443/x#y", "https://a.example/x"),
        ("http://a.example/?b=1&a=2", "http://a.example/?a=2&b=1"),
        ("http://a.example/a b", "http://a.example/a%20b"), ("http://a.example:/", "http://a.example/"),
    ])
    func equivalentURLsHaveOneKey(_ a: String, _ b: String) throws {
        let keys = [try key(a), try key(b)]
        #expect(keys[0] == keys[1])
    }

    @Test func differentRequestsHaveDifferentKeys() throws {
        var keys = [
            try key("http://a/"), try key("https://a/"), try key("http://a:8080/"), try key("http://a/?"),
            try key("http://a/x"), try key("http://a/X"), try key("http://a/?a=1&a=2"), try key("http://a/?a=2&a=1"),
            try key("http://a/?a"), try key("http://a/?a="), try key("http://u:p@a/"),
            try key("http://a/", method: "HEAD"),
            try key("http://a/", method: "POST", body: ""), try key("http://a/", method: "POST", body: "x"),
            try key("http://a/", KeyRule(partition: "u")), try key("http://a/", KeyRule(partition: "")),
            try key("http://a/", KeyRule(version: 2)),
        ]
        #expect(keys.allSatisfy { $0.count == 64 })
        let count = keys.count
        keys = Array(Set(keys))
        #expect(keys.count == count)
    }

    @Test func volatileParametersAreIgnored() throws {
        let rule = KeyRule(volatileParameters: ["t", "a[b]"])
        let pairs = [
            (try key("http://a/?t=1&x=1&a%5Bb%5D=2", rule), try key("http://a/?x=1", rule)),
            (
                try key("http://a/", rule, method: "POST", body: #"{"x": 1, "t": 2}"#),
                try key("http://a/", rule, method: "POST", body: #"{"t":3,"x":1}"#)
            ),
            (
                try key("http://a/", rule, method: "POST", body: "t=1&x=1"),
                try key("http://a/", rule, method: "POST", body: "x=1")
            ),
        ]
        for pair in pairs { #expect(pair.0 == pair.1) }
        // Bytes that are not UTF-8 stay apart.
        let url = try #require(CanonicalURL("http://a/"))
        let bodies: [Data] = [Data([0x61, 0x3D, 0xFF]), Data([0x61, 0x3D, 0xFE])]
        #expect(Set(bodies.map { rule.primary(method: "POST", url: url, body: $0) }).count == 2)
        let others = Set([try key("http://a/?tt=1", rule), try key("http://a/?tt=2", rule)])
        #expect(others.count == 2)
    }

    private func key(of body: String, _ contentType: String = "application/json") throws -> String? {
        let url = try #require(CanonicalURL("http://a/"))
        return KeyRule().primary(method: "QUERY", url: url, body: Data(body.utf8), contentType: contentType)
    }

    @Test(arguments: [
        (#"{"a":1,"b":[true,null]}"#, "{ \"b\" : [true, null],\n\"a\" : 1.0 }"), (#"["\u0041\n"]"#, #"["A\u000a"]"#),
        ("1e2", "100"), (#"{"é":1}"#, #"{"\u00e9":1}"#), ("{}", " { } "),
    ])
    func equalJSONHasOneKey(_ a: String, _ b: String) throws {
        #expect(try key(of: a) == key(of: b))
        #expect(try key(of: a, "application/vnd.x+json") == key(of: b, "application/vnd.x+json"))
        #expect(try key(of: a, "text/plain") != key(of: b, "text/plain"))
    }

    @Test(
        arguments: [
            (#"{"q":"\ud800\u0301"}"#, #"{"q":"\ud801\u0301"}"#), (#"["a=1&ts=5"]"#, #"["a=1&ts=6"]"#),
            (#"{"q":"\ud800"}"#, #"{"q":"\ud801"}"#), ("1e-400", "2e-400"), (#"{"a":1,"a":2}"#, #"{"a":2}"#),
            (
                #"{"q":123456789012345678901234567890123456789012345}"#,
                #"{"q":123456789012345678901234567890123456789012346}"#
            ),
        ])
    func volatileNamesMakeNoJSONEqual(_ a: String, _ b: String) throws {
        for names in [[], ["ts"]] as [Set<String>] {
            let rule = KeyRule(volatileParameters: names)
            let (one, other) = (Data(a.utf8), Data(b.utf8))
            #expect(rule.comparable(one, "application/json") != rule.comparable(other, "application/json"))
        }
        let rule = KeyRule(volatileParameters: ["ts"])
        let (one, other) = (Data(#" {"ts": 1, "a": 1}"#.utf8), Data(#"{"a":1.0,"ts":2}"#.utf8))
        #expect(rule.comparable(one, "application/json") == rule.comparable(other, "application/json"))
    }

    @Test func differentJSONHasDifferentKeys() throws {
        let deep = { String(repeating: "[", count: 400) + $0 + String(repeating: "]", count: 400) }
        let bodies = [
            "1", "\"1\"", "[1]", "[1,2]", "[2,1]", "{}", "[]", "null", #"{"a":1}"#, #"{"a":"1"}"#, #"{"a":{}}"#,
            // Repeated members, two spellings of a character, unpaired surrogates, many digits, many levels.
            #"{"a":1,"a":2}"#, #"{"a":2,"a":1}"#, #"{"a":3,"a":2}"#, "{\"\u{e9}\":1}", "{\"e\u{301}\":1}",
            #"{"\ud800":1}"#, #"{"\ud801":1}"#,
            #"["\ud800"]"#, #"["\ud801"]"#, "0.1", "0.1000000000000000055", "9007199254740993", "9007199254740992",
            "1.00000000000000000000000000000000000000000000001", "1.00000000000000000000000000000000000000000000002",
            ##"{"#":"1"}"##, #"{"":[]}"#, deep("1"), deep("2"), "{", "not JSON",
        ]
        #expect(Set(try bodies.map { try key(of: $0) }).count == bodies.count)
    }

    /// An object without a media type loses its volatile members, and nothing else.
    @Test func objectOfAnyTypeIsComparedWithoutVolatileMembers() {
        let rule = KeyRule(volatileParameters: ["n"])
        func text(_ body: String) -> Data { rule.comparable(Data(body.utf8), nil) }
        #expect(text(#"{"n":1,"a":1}"#) == text(#"{"a":1,"n":2}"#))
        #expect(text(#"{"n":1,"a":1,"a":2}"#) != text(#"{"n":1,"a":2}"#))
        #expect(text(#"{"n":1,"a":0.1}"#) != text(#"{"n":1,"a":0.1000000000000000055}"#))
    }

    @Test(arguments: ["", "a", "ftp://a/", "http:///x", "http:a", "/x"])
    func invalidURLIsRejected(_ text: String) { #expect(CanonicalURL(text) == nil) }

    @Test func variantDependsOnFieldsInVary() {
        var one = HTTPRequest("GET", "http://a/", headers: ["Accept": "a/b", "X": "1"])
        var two = one
        two.headers["X"] = "2"
        #expect(VaryRule.variant(["accept"], of: one) == VaryRule.variant(["accept"], of: two))
        #expect(VaryRule.variant(["accept", "x"], of: one) != VaryRule.variant(["accept", "x"], of: two))
        #expect(VaryRule.variant([], of: one) == "")
        #expect(VaryRule.fields(of: ["Vary": "B, a,b"]) == ["a", "b"])
        #expect(VaryRule.fields(of: ["Vary": "a, *"]) == ["*"])
        // The stored coding of a body distinguishes variants too, and so do credentials that are not in a header field.
        #expect(VaryRule.fields(of: ["Content-Encoding": "gzip"]) == [":coding"])
        two = one
        two.decompresses = false
        #expect(VaryRule.variant([":coding"], of: one) != VaryRule.variant([":coding"], of: two))
        one.authentication = .bearer(token: "a")
        two = one
        two.authentication = .bearer(token: "b")
        #expect(VaryRule.variant(["authorization"], of: one) != VaryRule.variant(["authorization"], of: two))
    }
}
