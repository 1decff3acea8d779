import Testing

@testable import HTTPCore

@Suite struct UnixAddressTests {
    @Test(arguments: [
        ("unix:///run/docker.sock", "/run/docker.sock", "/", "unix:///run/docker.sock"),
        ("unix:///run/docker.sock:", "/run/docker.sock", "/", "unix:///run/docker.sock"),
        ("unix:///run/docker.sock:/v1.44/x?a=b:c#d", "/run/docker.sock", "/v1.44/x?a=b:c#d", "unix:///run/docker.sock"),
        ("UNIX:///a", "/a", "/", "unix:///a"), ("unix:///a?q=1", "/a", "/?q=1", "unix:///a"),
        ("unix:///a%3Ab%20c:/x", "/a:b c", "/x", "unix:///a%3Ab%20c"), ("unix:///a:?q", "/a", "/?q", "unix:///a"),
    ])
    func partsAreRead(_ url: String, _ socket: String, _ target: String, _ origin: String) throws {
        let address = try UnixAddress(url)
        #expect(address.socketPath == socket && address.target == target && address.origin == origin)
        #expect(address.url == "http://localhost\(target)")
        #expect(try UnixAddress(address.at(target)) == address)
    }

    @Test(
        arguments: [
            ("unix:/run/a.sock", "has 1 slash after unix:", "unix:///run/a.sock"),
            ("unix:a", "has 0 slashes", "unix:///a"), ("unix://h/a", "has the host \"h\"", "unix:///h/a"),
            ("unix:////a", "has 4 slashes", "unix:///a"),
            ("unix://u:secret@/run/a.sock:/x", "has a user", "unix:///run/a.sock:/x"),
            ("unix://u:se/cr@et@h", "has a user", "unix:///h"),
            ("unix:///a:v1", "no slash after the colon", "unix:///a:/v1"),
            ("unix:///", "names a folder", nil), ("unix:///run/:/x", "names a folder", nil),
            ("unix:///a%00", "has a NUL", nil), ("http://h/", "does not begin", nil),
            ("unix:///\(String(repeating: "x", count: 107))", "108 bytes, of which Linux allows 107", nil),
        ] as [(String, String, String?)])
    func mistakeHasAReason(_ url: String, _ reason: String, _ suggestion: String?) {
        let problem = #expect(throws: UnixAddress.Problem.self) { try UnixAddress(url) }
        #expect(problem?.reason.contains(reason) == true, "\(problem?.reason ?? "none")")
        #expect(problem?.suggestion == suggestion)
    }

    @Test(arguments: [
        ("unix:///a", "x", "unix:///a:/x"), ("unix:///a:", "/x", "unix:///a:/x"), ("unix:///a:/", "x", "unix:///a:/x"),
        ("unix:///a:/v1/", "/x?q", "unix:///a:/v1/x?q"), ("unix:///a?k=1", "x?q", "unix:///a:/x?k=1&q"),
        ("unix:///a", "?q", "unix:///a?q"), ("unix:///a", "", "unix:///a"),
    ])
    func pathIsJoinedAfterTheColon(_ base: String, _ path: String, _ url: String) {
        #expect(URLParts.join(base, path) == url)
    }
}
