import Testing

@testable import LATClient

/// The examples of RFC 3986 §5.4, with the base `http://a/b/c/d;p?q`. As usual for http, an empty path becomes `/`.
@Suite struct URLReferenceTests {
    @Test(arguments: [
        ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"),
        ("//g", "http://g/"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y#s"),
        ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
        ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"),
        ("../../g", "http://a/g"),
    ])
    func normalExamplesAreResolved(_ reference: String, _ url: String) {
        #expect(URLReference.resolve(reference, against: "http://a/b/c/d;p?q") == url)
    }

    @Test(arguments: [
        ("../../../g", "http://a/g"), ("../../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"), ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"), ("g;x=1/./y", "http://a/b/c/g;x=1/y"), ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"), ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("g#s/./x", "http://a/b/c/g#s/./x"), ("g#s/../x", "http://a/b/c/g#s/../x"),
    ])
    func abnormalExamplesAreResolved(_ reference: String, _ url: String) {
        #expect(URLReference.resolve(reference, against: "http://a/b/c/d;p?q") == url)
    }

    @Test(arguments: [
        ("https://b/x", "http://a/", "https://b/x"), ("HTTP://B/x", "http://a/", "http://B/x"),
        ("//b:8080/x", "https://a/", "https://b:8080/x"), ("x y/é", "http://a/b/", "http://a/b/x%20y/%C3%A9"),
        ("x%20y", "http://a/b/", "http://a/b/x%20y"), ("?a=b c", "http://a/p?old", "http://a/p?a=b%20c"),
        ("x", "http://a", "http://a/x"), ("x", "http://u:p@a/b", "http://u:p@a/x"),
        ("http://[::1]:8080/x", "http://a/", "http://[::1]:8080/x"),
    ])
    func realisticLocationsAreResolved(_ reference: String, _ base: String, _ url: String) {
        #expect(URLReference.resolve(reference, against: base) == url)
    }

    @Test(arguments: ["http://", "http://h:99999/", "http://[::1/"])
    func malformedReferenceIsNil(_ reference: String) {
        #expect(URLReference.resolve(reference, against: "http://a/b") == nil)
    }

    @Test(arguments: [
        ("HTTP://H/x?q", "http://h:80"), ("https://u:p@h:8443/", "https://h:8443"),
        ("http://[FE80::1%25Eth0]:8080/x", "http://[fe80::1%25Eth0]:8080"),
        ("https://[fe80::1%2]/", "https://[fe80::1%252]:443"),
    ])
    func originKeepsTheZoneOfAnAddress(_ url: String, _ origin: String) {
        #expect(URLReference.origin(of: url) == origin)
        #expect(URLReference.origin(of: origin) == origin)
    }

    @Test func fragmentOfTheReferenceWinsOverTheBases() {
        // RFC 9110 §10.2.2.
        #expect(URLReference.resolve("/x", against: "http://a/b#f") == "http://a/x#f")
        #expect(URLReference.resolve("/x#g", against: "http://a/b#f") == "http://a/x#g")
    }
}
