import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(1))) struct AddressTests {
    @Test(arguments: [
        // Base URL and path: exactly one slash between them; the base's path and query are kept.
        ("http://h", "x", "http://h/x"), ("http://h", "/x", "http://h/x"), ("http://h/", "x", "http://h/x"),
        ("http://h/", "/x", "http://h/x"), ("http://h//", "//x", "http://h/x"),
        ("http://h/api", "x", "http://h/api/x"), ("http://h/api", "/x", "http://h/api/x"),
        ("http://h/api/", "x", "http://h/api/x"), ("http://h/api/", "/x/", "http://h/api/x/"),
        ("http://h:8080/api", "x", "http://h:8080/api/x"), ("http://[::1]:80", "x", "http://[::1]:80/x"),
        ("http://h", "", "http://h"), ("http://h/api/", "", "http://h/api/"),
        ("http://h/api", "?q=1", "http://h/api?q=1"), ("http://h/api?k=v", "?q=1", "http://h/api?k=v&q=1"),
        ("http://h/api?k=v", "x", "http://h/api/x?k=v"), ("http://h/api/?k=v", "/x", "http://h/api/x?k=v"),
        ("http://h/api?k=v", "x?q=1", "http://h/api/x?k=v&q=1"),
        ("http://h/api?k=v", "x#f", "http://h/api/x?k=v#f"),
        ("http://h/api?k=v#base", "x?q=1#f", "http://h/api/x?k=v&q=1#f"),
        ("http://h/api", "a b/é/%20", "http://h/api/a b/é/%20"),
        ("http://h/api", "redirect?to=http://other/", "http://h/api/redirect?to=http://other/"),
        // A network-path reference (`//host`) is a path here, never another host.
        ("http://h/api", "//evil/x", "http://h/api/evil/x"),
        ("http://h/api", "../x", "http://h/api/../x"),
        // An absolute URL is used unchanged, whatever the case of its scheme.
        ("http://h/api", "http://other/x", "http://other/x"), ("http://h/api", "HTTPS://other/x", "HTTPS://other/x"),
        ("http://h/api", "ftp://other/x", "ftp://other/x"),
    ])
    func pathIsJoinedToTheBase(_ base: String, _ path: String, _ url: String) {
        #expect(RequestBuilder.absoluteURL(path, base: base) == url)
    }

    @Test func joinedURLIsSent() async throws {
        let server = try MockServer()
        server.fallback { .text($0.target) }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url("/api/v1/?key=k") }
        #expect(try await manager.startRequest("GET", "/users/7?x=y").text == "/api/v1/users/7?key=k&x=y")
        #expect(
            try await manager.startRequest("GET", "users", parameters: ["a": 1]).text == "/api/v1/users?key=k&a=1")
        #expect(try await manager.startRequest("GET", "a b/ü/%20").text == "/api/v1/a%20b/%C3%BC/%20?key=k")
        #expect(try await manager.startRequest("GET", server.url("/whole")).text == "/whole")
        #expect(try await manager.send(HTTPRequest("GET", "sent")).text == "/api/v1/sent?key=k")
        for try await line in try await manager.stream("GET", "streamed").body.lines {
            #expect(line == "/api/v1/streamed?key=k")
        }
    }

    @Test func newBaseURLAppliesToTheNextCall() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.fallback { _ in .text("first").delayed(by: .milliseconds(50)) }
        second.fallback { _ in .text("second") }
        let manager = try CentralRequestManager.make { $0.baseURL = first.baseURL }
        #expect(manager.baseURL == first.baseURL)
        let inFlight = Task { try await manager.startRequest("GET", "x").text }
        try await first.waitForRequests(1)
        manager.baseURL = second.baseURL + "/"
        #expect(try await manager.startRequest("GET", "x").text == "second")
        #expect(try await inFlight.value == "first")
        manager.baseURL = nil
        #expect(await failure { try await manager.startRequest("GET", "x") }?.kind == .invalidRequest)
    }

    @Test func uppercaseSchemeIsAccepted() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "") }
        let manager = try CentralRequestManager.make { $0.baseURL = "http://127.0.0.1:1/api" }
        let text = try await manager.startRequest("GET", "HTTP://127.0.0.1:\(server.port)/x").text
        #expect(text == "127.0.0.1:\(server.port)")
    }

    @Test func nonASCIIHostIsSentAsIDNA() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "") }
        let manager = try CentralRequestManager.make {
            $0.resolve = ["xn--bcher-kva.example:\(server.port)": "127.0.0.1"]
        }
        let response = try await manager.startRequest("GET", "http://bücher.example:\(server.port)/größe")
        #expect(response.text == "xn--bcher-kva.example:\(server.port)")
        #expect(server.requests.first?.target == "/gr%C3%B6%C3%9Fe")
    }

    @Test func resolveSettingOverridesDNS() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "") }
        let manager = try CentralRequestManager.make { $0.resolve = ["api.test:\(server.port)": "127.0.0.1"] }
        #expect(
            try await manager.startRequest("GET", "http://api.test:\(server.port)/").text == "api.test:\(server.port)")
    }

    @Test(arguments: [
        "", "x", "/x", "//h/x", "ftp://h/x", "file:///etc/passwd", "http://", "http://h:99999/",
        "http://h:port/", "http://[::1/", "http://h/\r\nX: 1", "http://h/\u{0}", "javascript:alert(1)", "http://h h/",
    ])
    func nonHTTPAddressIsRefused(_ url: String) async throws {
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("GET", url) }
        #expect(error?.kind == .invalidRequest)
        let recorder = CallRecorder()
        manager.startRequest("GET", url, into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .invalidRequest)
    }

    @Test func fragmentIsNotSent() async throws {
        let server = try MockServer()
        server.fallback { .text($0.target) }
        let manager = try CentralRequestManager.make()
        let response = try await manager.startRequest("GET", server.url("/x?a=1#part"))
        #expect(response.text == "/x?a=1")
    }

    @Test func percentEscapesAreKept() async throws {
        let server = try MockServer()
        server.fallback { .text($0.target) }
        let manager = try CentralRequestManager.make()
        for path in ["/%20%2F%2e", "/a%20b?c=%25&d=%zz", "/a%"] {
            let expected = path.hasSuffix("%") ? path + "25" : path.replacing("%zz", with: "%25zz")
            // libcurl 8 writes the hex digits of an escape in uppercase, which is equivalent (RFC 3986 §2.1).
            let sent = try await manager.startRequest("GET", server.url(path)).text
            #expect(sent?.uppercased() == expected.uppercased())
        }
    }
}
