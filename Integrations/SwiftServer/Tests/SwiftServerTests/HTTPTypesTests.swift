import HTTPTypes
import LATHTTPTypes
import LATNetworking
import Testing

private typealias Head = HTTPTypes.HTTPRequest
private typealias OwnRequest = LATNetworking.HTTPRequest

@Suite struct HTTPTypesTests {
    private let fields: HTTPFields = {
        var fields = HTTPFields()
        for (name, value) in [("X-B", "1"), ("Accept", "a/b"), ("x-b", "2"), ("X-B", ""), ("Cookie", "a=1")] {
            if let name = HTTPField.Name(name) { fields.append(HTTPField(name: name, value: value)) }
        }
        return fields
    }()

    @Test(arguments: [
        ("https", "example.org", "/a/b?c=d&e"), ("http", "[::1]:8080", "/"), ("https", "h:1", "/%2F?"),
    ])
    func requestComesBackWithoutLoss(_ scheme: String, _ authority: String, _ path: String) throws {
        let head = Head(method: .patch, scheme: scheme, authority: authority, path: path, headerFields: fields)
        let own = try OwnRequest(head)
        #expect(own.url == "\(scheme)://\(authority)\(path)" && own.method == .patch)
        #expect(own.headers.map(\.name) == ["X-B", "Accept", "x-b", "X-B", "Cookie"])
        #expect(own.headers[values: "x-b"] == ["1", "2", ""])
        #expect(try Head(own) == head)
        #expect(try Head(own).headerFields.map(\.name.rawName) == fields.map(\.name.rawName))
    }

    @Test(arguments: [("Brew", "Brew"), ("get", "GET"), ("PROPFIND", "PROPFIND")])
    func onlyStandardMethodsChangeTheirCase(_ name: String, _ shown: String) throws {
        let method = try #require(Head.Method(name))
        let head = Head(method: method, scheme: "https", authority: "h", path: "/")
        #expect(try Head(OwnRequest(head)).method.rawValue == shown)
    }

    @Test func pathJoinsTheBase() throws {
        let head = Head(method: .get, scheme: nil, authority: nil, path: "/a?b")
        #expect(try OwnRequest(head).url == "/a?b")
        #expect(try OwnRequest(head, base: "http://h/v1/").url == "http://h/v1/a?b")
        #expect(try Head(OwnRequest("GET", "/a?b")) == head)
        #expect(try Head(OwnRequest("GET", "http://u:p@h?q#f")).pseudoHeaderFields.path?.value == "/?q")
        #expect(try Head(OwnRequest("GET", "http://u:p@h?q#f")).authority == "h")
    }

    /// The path of a request that a service passes on is a stranger's.
    @Test(arguments: ["/../b", "/a/..", "/a/%2e%2E/b", "/a/.%2e?c"]) func pathDoesNotLeaveTheBase(_ path: String) {
        let head = Head(method: .get, scheme: nil, authority: nil, path: path)
        let error = #expect(throws: NetworkError.self) { try OwnRequest(head, base: "http://h/v1") }
        #expect(error?.kind == .invalidRequest)
    }

    @Test func dotsWithinASegmentAreNone() throws {
        for path in ["/a..b", "/...", "/.hidden?x=/../"] {
            let head = Head(method: .get, scheme: nil, authority: nil, path: path)
            #expect(try OwnRequest(head, base: "http://h/v1").url == "http://h/v1\(path)")
        }
    }

    @Test func responseComesBackWithoutLoss() throws {
        let head = HTTPTypes.HTTPResponse(
            status: HTTPTypes.HTTPResponse.Status(code: 299, reasonPhrase: "Quite OK"), headerFields: fields)
        let own = LATNetworking.HTTPResponse(head, body: ResponseBody(.init("x".utf8)), url: "http://h/")
        #expect(own.status == 299 && own.reason == "Quite OK" && own.text == "x")
        let back = try HTTPTypes.HTTPResponse(own)
        #expect(back == head && back.status.reasonPhrase == "Quite OK")
    }

    @Test func badNamesValuesAndTunnelsAreErrors() {
        func message(_ body: () throws -> Void) -> String {
            (#expect(throws: NetworkError.self) { try body() })?.message ?? ""
        }
        var request = OwnRequest("GET", "http://h/")
        request.headers["a b"] = "1"
        #expect(message { _ = try Head(request) }.contains("\"a b\""))
        request.headers = ["a": "1\n2"]
        #expect(message { _ = try Head(request) }.contains("the field a "))
        let tunnel = Head(method: .connect, scheme: nil, authority: "h:1", path: nil)
        #expect(message { _ = try OwnRequest(tunnel) }.contains("tunnel"))
        let asterisk = Head(method: .options, scheme: "https", authority: "h", path: "*")
        #expect(message { _ = try OwnRequest(asterisk) }.contains("\"*\""))
    }
}
