import Testing

@testable import HTTPCore

/// ``HTTPRequest/Server``.
@Suite struct ServerTests {
    @Test(arguments: [
        ("https://API.Example.org/users?a=b", "api.example.org", 443, "https"), ("http://h", "h", 80, "http"),
        ("HTTP://user:p@h:8080?q", "h", 8_080, "http"), ("wss://[2001:DB8::1]:1/", "[2001:db8::1]", 1, "wss"),
        ("ws://h/a", "h", 80, "ws"), ("unix:///run/a%3Ab.sock:/v1?x", "/run/a:b.sock", nil, "unix"),
        ("ftp://h/", "h", nil, "ftp"), ("https://h:99999999999999999999/", "h", nil, "https"),
    ])
    func serverIsReadFromTheURL(_ url: String, _ address: String, _ port: Int?, _ scheme: String) {
        let server = HTTPRequest("GET", url).server
        #expect(server?.address == address && server?.port == port && server?.scheme == scheme)
    }

    @Test(arguments: ["", "/users", "users", "//h/a", "mailto:a@b", "http://"])
    func textWithoutSchemeAndHostHasNone(_ text: String) {
        #expect(HTTPRequest.Server(text) == nil)
    }
}
