import Testing

@testable import HTTPCore

@Suite struct URLPartsTests {
    /// What a URL consists of: scheme, user information, host, port, path, query, fragment.
    private static func parts(_ url: String) -> [String?] {
        let parts = URLParts(url)
        return [
            parts.scheme, parts.userInformation, parts.host, parts.port, parts.path, parts.query, parts.fragment,
        ].map { $0.map(String.init) }
    }

    @Test(
        arguments: [
            ("http://example.org", ["http", nil, "example.org", nil, "", nil, nil]),
            ("HTTPS://u:p@H:8443/a/b?c#d", ["HTTPS", "u:p", "H", "8443", "/a/b", "c", "d"]),
            ("http://h?q#f", ["http", nil, "h", nil, "", "q", "f"]),
            ("http://h#f?q", ["http", nil, "h", nil, "", nil, "f?q"]),
            ("http://h/?#", ["http", nil, "h", nil, "/", "", ""]),
            ("http://h:/", ["http", nil, "h", nil, "/", nil, nil]),
            ("http://[::1%25eth0]:80/x", ["http", nil, "[::1%25eth0]", "80", "/x", nil, nil]),
            ("http://a:b@[::1]/", ["http", "a:b", "[::1]", nil, "/", nil, nil]),
            ("http://a@b@c/", ["http", "a@b", "c", nil, "/", nil, nil]),
            ("http://h/x?u=http://a@b/", ["http", nil, "h", nil, "/x", "u=http://a@b/", nil]),
            ("//h:1/x", [nil, nil, "h", "1", "/x", nil, nil]),
            ("/x://y", [nil, nil, nil, nil, "/x://y", nil, nil]),
            ("?a://b", [nil, nil, nil, nil, "", "a://b", nil]),
            ("x/y", [nil, nil, nil, nil, "x/y", nil, nil]),
            ("", [nil, nil, nil, nil, "", nil, nil]),
            ("mailto:a@b", ["mailto", nil, nil, nil, "a@b", nil, nil]),
            ("file:///etc", ["file", nil, "", nil, "/etc", nil, nil]),
            ("1a://h", [nil, nil, nil, nil, "1a://h", nil, nil]),
            // libcurl takes one or three slashes for two.
            ("http:/u:p@h/x", ["http", "u:p", "h", nil, "/x", nil, nil]),
            ("ws:///h/x", ["ws", nil, "h", nil, "/x", nil, nil]),
            ("http:////h/x", ["http", nil, "", nil, "//h/x", nil, nil]),
            ("other:/h/x", ["other", nil, nil, nil, "/h/x", nil, nil]),
        ] as [(String, [String?])])
    func partsAreThoseOfRFC3986(of url: String, parts: [String?]) {
        #expect(Self.parts(url) == parts)
    }

    @Test(arguments: [
        ("http://h", true), ("x+y.z-1://", true), ("file:///x", true), ("http:///h", true), ("http:/h", false),
        ("//h/x", false), ("/x://y", false), ("1a://h", false), ("://h", false), ("h:80/x", false), ("", false),
    ])
    func absoluteBeginsWithSchemeAndSlashes(_ url: String, isAbsolute: Bool) {
        #expect(URLParts(url).isAbsolute == isAbsolute)
    }

    @Test func partsOfSliceAreItsOwn() {
        let text = "<http://u@h:1/x?y#z>"
        let parts = URLParts(text.dropFirst().dropLast())
        #expect(parts.host == "h" && parts.port == "1" && parts.pathAndQuery == "/x?y" && parts.fragment == "z")
        #expect(parts.withoutFragment == "http://u@h:1/x?y" && parts.beforePath == "http://u@h:1")
    }

    @Test(
        arguments: [
            ("http://Example.ORG", "http://example.org:80"), ("HTTPS://u@h:8443/x", "https://h:8443"),
            ("wss://h:/x", "wss://h:443"), ("redis://h", "redis://h"), ("/x", nil), ("//h", nil),
        ] as [(String, String?)])
    func originHasTheStandardPort(of url: String, origin: String?) {
        #expect(URLParts(url).origin == origin)
    }

    @Test(arguments: [
        ("http://h", "/"), ("http://h?q", "/?q"), ("http://h/a?b#c", "/a?b"), ("http://h#c", "/"), ("/a#b", "/a"),
    ])
    func targetBeginsWithASlash(of url: String, target: String) {
        #expect(URLParts(url).target == target)
    }

    @Test(arguments: [
        ("http://user:secret@h/x?token=secret#secret", "http://h/x?…"),
        ("http:/u:secret@/h\\x@y/", "http:/…"), ("http:/user:secret@h/x", "http:/h/x"), ("user:secret@h/x", "h/x"),
        ("@ada/posts", "@ada/posts"),
        ("http://user:sec/ret@h/", "http://…"), ("http://user:sec?ret@h/", "http://…"),
        ("http://user:1/secret@h", "http://user:1/secret@h"), ("http://[::1]/a@b", "http://[::1]/a@b"),
        ("http://p/http://u:secret@h/x%2Fy", "http://p/http://h/x%2Fy"),
        ("http://p/http://u:secret@h/x", "http://p/http://h/x"),
        ("http://p/http%3A//u:secret@h/x", "http://p/http%3A//h/x"), ("http://u:se//cret@h/x%2F", "http://…"),
        ("http:/HTTPS://u:secret@h:3%BCc", "http:/HTTPS://h:3%BCc"), ("http://u:se/%2F%2Fcret@h/x", "http://…"),
        ("http://p/token%3Dsecret/secret", "http://p/token%3D***"),
        ("http://h:1?secret@x", "http://…"), ("localhost:8080/x", "localhost:8080/x"), ("", ""),
    ])
    func redactedHidesUserQueryAndFragment(of url: String, redacted: String) {
        #expect(URLParts(url).redacted == redacted)
    }
}
