import Testing

@testable import LATTesting

@Suite struct RecordedRequestTests {
    private func request(_ target: String) -> RecordedRequest {
        let head = RequestHead(
            method: "GET", target: target, minorVersion: 1, headers: [:], framing: .none, keepsConnection: true,
            expectsContinue: false)
        return RecordedRequest(head: head, connection: 1, indexOnConnection: 0)
    }

    @Test(arguments: [
        ("/a/b%20c?d=e", "/a/b%20c", "d=e"), ("/", "/", nil), ("/?", "/", ""), ("*", "*", nil),
        ("http://host:80/p?q", "/p", "q"), ("http://host", "", nil), ("http://host?q", "", "q"),
        ("/?u=http://x/y?z", "/", "u=http://x/y?z"), ("host:443", "host:443", nil),
    ])
    func targetIsSplitIntoPathAndQuery(target: String, path: String, query: String?) {
        #expect(request(target).path == path)
        #expect(request(target).query == query)
    }

    @Test func queryItemsAreDecodedInOrder() {
        let items = request("/?b=2&a=%31+x%2B&b=&flag&&k%5Bx%5D=%E4%B8%AD&p=100%&q=a=b").queryItems
        #expect(
            items == [
                .init("b", "2"), .init("a", "1 x+"), .init("b", ""), .init("flag", nil), .init("k[x]", "中"),
                .init("p", "100%"), .init("q", "a=b"),
            ])
        #expect(request("/?b=2&b=3").query("b") == "2")
    }

    @Test func routesMatchSegmentBySegment() {
        let user = RoutePattern(method: "GET", path: "/users/{id}/files/*")
        #expect(user.match(method: "GET", path: "/users/a%2Fb/files/x/y%20z") == ["id": "a/b", "*": "x/y z"])
        #expect(user.match(method: "POST", path: "/users/1/files/x") == nil)
        #expect(user.match(method: "GET", path: "/users/1/files") == nil)
        #expect(user.match(method: "GET", path: "/users/1") == nil)
        #expect(user.match(method: "GET", path: "/users//files/x") == nil)
        #expect(RoutePattern(method: "GET", path: "/users/{id}").match(method: "GET", path: "/users/") == nil)
        let plain = RoutePattern(method: "*", path: "/a b")
        #expect(plain.match(method: "ANY", path: "/a%20b") == [:])
        #expect(plain.match(method: "ANY", path: "/a%20b/") == nil)
        #expect(RoutePattern(method: "*", path: "*").match(method: "OPTIONS", path: "*") == ["*": "*"])
        #expect(RoutePattern(method: "*", path: "/*").match(method: "GET", path: "/") == ["*": ""])
        #expect(RoutePattern(method: "GET", path: "/").match(method: "GET", path: "/") == [:])
    }
}
