import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct CookieTests {
    private let places = CookiePlaces()

    private func configuration(_ server: MockServer) -> EngineConfiguration { places.configuration(server) }

    private func server() throws -> MockServer { try places.server() }

    private func url(_ server: MockServer, _ host: String, _ path: String = "/", set cookies: String...) -> String {
        places.url(server, host, path, set: cookies)
    }

    /// The request that answers a challenge carries the cookie that the challenge has set.
    @Test func authenticatedRequestCarriesNewCookie() async throws {
        let server = try MockServer()
        server.fallback { request in
            guard request.headers["Authorization"] == nil else {
                return .text(request.headers["Cookie"] ?? "")
            }
            var reply = MockReply.text("", status: 401)
            reply.headers.append("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")
            reply.headers.append("Set-Cookie", "round=1")
            return reply
        }
        try await withTransport(configuration(server)) { transport async throws in
            let request = HTTPRequest("GET", url(server, "a.example.org")).with {
                $0.authentication = .digest(user: "u", password: "p")
            }
            #expect(try await transport.answer(to: request).text == "round=1")
        }
    }

    /// A head has room for tens of thousands, and each is compared with those of the jar on the engine's thread.
    @Test func responseSetsAsManyCookiesAsADomainHas() async throws {
        let server = try MockServer()
        server.fallback { _ in
            var reply = MockReply.text("x")
            for index in 0..<400 {
                let domain = index < 200 ? "" : "; Domain=example.org"
                reply.headers.append("Set-Cookie", "c\(index)=1\(domain)")
            }
            return reply
        }
        try await withTransport(configuration(server)) { transport async throws in
            #expect(try await transport.get(url(server, "a.example.org")).headers[values: "Set-Cookie"].count == 400)
            #expect(try await transport.cookies?.all().count == 180)
        }
    }

    @Test func noCookiesAreKeptByDefault() async throws {
        let server = try server()
        try await withTransport { transport async throws in
            #expect(transport.cookies == nil)
            let response = try await transport.get(server.url("/?set=a%3D1"))
            #expect(response.headers["Set-Cookie"] == "a=1")
            #expect(try await transport.get(server.url()).text == "")
        }
    }

    @Test func severalCookiesAreSentInOneField() async throws {
        let server = try server()
        try await withTransport(configuration(server)) { transport async throws in
            let response = try await transport.get(
                url(server, "a.example.org", set: "a=1; Path=/", "b=2, and more; Path=/", "c=; Path=/"))
            #expect(response.headers[values: "Set-Cookie"].count == 3)
            let sent = try await transport.get(url(server, "a.example.org")).text ?? ""
            #expect(Set(sent.split(separator: ";").map { $0.drop { $0 == " " } }) == ["a=1", "b=2, and more", "c="])
            // A handle that was reset sends them too.
            let post = HTTPRequest(
                "POST", url(server, "a.example.org"), body: .stream { AsyncStream { $0.finish() } })
            for _ in 0..<2 {
                #expect(try await transport.answer(to: post).text == sent)
                #expect(try await transport.get(url(server, "a.example.org")).text == sent)
            }
        }
    }

    /// RFC 6265 §5.1.3, §5.1.4, §5.2, §5.3.
    @Test(arguments: [
        ("h=1", ["a.example.org/": true, "b.example.org/": false, "example.org/": false]),
        ("d=1; Domain=example.org", ["a.example.org/": true, "b.example.org/": true, "example.org/": true]),
        ("d=1; Domain=.Example.ORG", ["b.example.org/": true, "other.net/": false]),
        ("p=1; Path=/docs", ["a.example.org/docs": true, "a.example.org/docs/x": true, "a.example.org/docsx": false]),
        ("p=1; Path=/docs/", ["a.example.org/docs": false, "a.example.org/docs/": true, "a.example.org/docs/x": true]),
        ("n=1; SameSite=None", ["a.example.org/": false]), ("l=1; SameSite=Lax", ["a.example.org/": true]),
        ("f=1; Domain=other.net", ["a.example.org/": false, "other.net/": false]),
        ("s=1; Domain=b.example.org", ["a.example.org/": false, "b.example.org/": false]),
        ("z=1; Secure", ["a.example.org/": false]), ("m=1; Max-Age=0", ["a.example.org/": false]),
        ("m=1; Max-Age=1000; Expires=Thu, 01 Jan 1970 00:00:01 GMT", ["a.example.org/": true]),
        ("e=1; Expires=Thu, 01 Jan 1970 00:00:01 GMT", ["a.example.org/": false]),
        ("e=1; Expires=Wed, 01 Jan 2098 00:00:00 GMT", ["a.example.org/": true]),
        ("e=1; Expires=Thu, 01-Jan-70 00:00:10 GMT", ["a.example.org/": false]),
        ("e=1; Expires=Sun, 01-Jan-69 00:00:10 GMT", ["a.example.org/": true]),
        ("t=1; Domain=org", ["a.example.org/": false, "example.org/": false]),
    ])
    func cookieIsSentToMatchingURLsOnly(_ cookie: String, _ places: [String: Bool]) async throws {
        let server = try server()
        try await withTransport(configuration(server)) { transport async throws in
            _ = try await transport.get(url(server, "a.example.org", set: cookie))
            for (place, isSent) in places {
                let slash = place.firstIndex(of: "/") ?? place.endIndex
                let text = try await transport.get(url(server, String(place[..<slash]), String(place[slash...]))).text
                #expect(text?.isEmpty == !isSent, "\(cookie) at \(place): \(text ?? "")")
            }
        }
    }

    @Test func publicSuffixIsRefused() async throws {
        let server = try server()
        try await withTransport(configuration(server)) { transport async throws in
            _ = try await transport.get(
                url(server, "shop.co.uk", set: "bad=1; Domain=co.uk", "worse=1; Domain=uk", "good=1; Domain=shop.co.uk")
            )
            #expect(try await transport.get(url(server, "evil.co.uk")).text == "")
            #expect(try await transport.get(url(server, "shop.co.uk")).text == "good=1")
            let jar = try #require(transport.cookies)
            #expect(try await jar.all().map(\.name) == ["good"])
        }
    }

    @Test func ownCookiesAreAddedAndNilSendsNone() async throws {
        let server = try server()
        try await withTransport(configuration(server)) { transport async throws in
            let plain = HTTPRequest("GET", url(server, "a.example.org"))
            _ = try await transport.get(url(server, "a.example.org", set: "jar=1"))
            let own = plain.with { $0.headers = ["cookie": "own=2"] }
            let without = plain.with { $0.headers = ["Cookie": nil] }
            for _ in 0..<2 {
                #expect(try await transport.answer(to: own).text == "jar=1; own=2")
                #expect(try await transport.answer(to: without).text == "")
                #expect(try await transport.answer(to: plain).text == "jar=1")
            }
            _ = try await transport.answer(
                to: HTTPRequest("GET", url(server, "a.example.org", set: "no=1"), headers: ["Cookie": nil]))
            #expect(try await transport.answer(to: plain).text == "jar=1")
        }
    }

    @Test func jarCanBeListedSetAndCleared() async throws {
        let server = try server()
        try await withTransport(configuration(server)) { transport async throws in
            let jar = try #require(transport.cookies)
            #expect(try await jar.all().isEmpty)
            let expires = Date(timeIntervalSince1970: 4_000_000_000)
            let cookies = [
                Cookie(
                    "s", "1", domain: "a.example.org", path: "/p", expires: expires, isSecure: true, isHTTPOnly: true),
                Cookie("t", "x=y z", domain: "example.org", includesSubdomains: true),
                Cookie("e", "", domain: "other.net"),
            ]
            for cookie in cookies { try await jar.set(cookie) }
            #expect(Set(try await jar.all()) == Set(cookies))
            #expect(try await transport.get(url(server, "b.example.org")).text == "t=x=y z")
            try await jar.set(Cookie("t", "2", domain: "example.org", includesSubdomains: true))
            #expect(try await transport.get(url(server, "b.example.org")).text == "t=2")
            try await jar.remove(cookies[1])
            #expect(try await transport.get(url(server, "b.example.org")).text == "")
            #expect(Set(try await jar.all().map(\.name)) == ["s", "e"])
            try await jar.removeAll()
            #expect(try await jar.all().isEmpty)
            for bad in [
                Cookie("", "1", domain: "a.example.org"), Cookie("a", "1\r\nX: y", domain: "a.example.org"),
                Cookie("a", "1", domain: ""), Cookie("a", "1", domain: "a.example.org", path: "x"),
                Cookie("a", "1", domain: "a.example.org", sameSite: .noRestriction),
                Cookie("a\tb", "1", domain: "a.example.org"), Cookie("__Secure-a", "1", domain: "a.example.org"),
            ] {
                let error = try await failure { try await jar.set(bad) }
                #expect(error.kind == .invalidRequest, "\(bad)")
            }
            #expect(!"\(cookies[1])".contains("x=y"))
        }
    }

    @Test func transportsHaveSeparateJars() async throws {
        let server = try server()
        try await withTransport(configuration(server)) { first async throws in
            try await withTransport(configuration(server)) { second async throws in
                _ = try await first.get(url(server, "a.example.org", set: "a=1"))
                #expect(try await first.get(url(server, "a.example.org")).text == "a=1")
                #expect(try await second.get(url(server, "a.example.org")).text == "")
            }
        }
    }

    @Test func jarFailsAfterShutdown() async throws {
        let server = try server()
        let transport = try CurlTransport(configuration: configuration(server))
        let jar = try #require(transport.cookies)
        await transport.shutdown()
        #expect(try await failure { try await jar.all() }.kind == .shutDown)
    }
}
