import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(1))) struct RedirectHandlerTests {
    private final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    @Test func handlerSeesEachHopAndItsHistory() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.route("POST", "/a") { _ in .redirect(to: "/b", status: 303) }
        first.route("GET", "/b") { _ in .redirect(to: second.url("/c"), status: 302) }
        second.route("GET", "/c") { _ in .text("end") }
        let seen = Lines()
        let manager = try CentralRequestManager.make {
            $0.redirectHandler = { hop in
                let line =
                    "\(hop.response.status) \(hop.request.method) \(hop.next.method) \(hop.hops.count)"
                    + " \(hop.changesOrigin) \(hop.next.headers["Authorization"] ?? "-")"
                seen.all.withLock { $0.append(line) }
                await Task.yield()
                return .follow(hop.next)
            }
        }
        let response = try await manager.startRequest(
            "POST", first.url("/a"), body: .text("x"), headers: ["Authorization": "t"])
        #expect(response.text == "end")
        #expect(seen.all.withLock { $0 } == ["303 POST GET 0 false t", "302 GET GET 1 true -"])
        #expect(response.redirects.map(\.status) == [303, 302])
        #expect(response.redirects.map(\.url) == [first.url("/a"), first.url("/b")])
    }

    @Test func handlerMayStopRefuseOrThrow() async throws {
        struct Odd: Error {}
        let server = try MockServer()
        server.route("GET", "/a") { _ in .redirect(to: "/b") }
        server.route("GET", "/b") { _ in .text("end") }
        let manager = try CentralRequestManager.make {
            $0.redirectHandler = { hop in
                switch hop.request.headers["X-Want"] {
                case "stop": return .stop
                case "refuse": return .refuse("not there")
                case "throw": throw Odd()
                case "cancel": throw CancellationError()
                default: return .follow(hop.next)
                }
            }
        }
        var request = HTTPRequest("GET", server.url("/a"))
        request.headers["X-Want"] = "stop"
        let stopped = try await manager.send(request)
        #expect(stopped.status == 302)
        #expect(stopped.redirects.isEmpty)
        request.headers["X-Want"] = "refuse"
        let refused = await failure { [request] in try await manager.send(request) }
        #expect(refused?.kind == .redirect)
        #expect(refused?.message.contains("not there") == true)
        #expect(refused?.response?.status == 302)
        request.headers["X-Want"] = "throw"
        let thrown = await failure { [request] in try await manager.send(request) }
        #expect(thrown?.kind == .provider)
        #expect(thrown?.underlying is Odd)
        request.headers["X-Want"] = "cancel"
        do {
            _ = try await manager.send(request)
            Issue.record("the call succeeded")
        } catch {
            #expect(error is CancellationError)
        }
        #expect(server.requests.map(\.path) == ["/a", "/a", "/a", "/a"])
        request.headers["X-Want"] = nil
        #expect(try await manager.send(request).text == "end")
    }

    @Test func handlerMayAddSecretsForTheNewOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.fallback { _ in .redirect(to: second.url("/b")) }
        second.fallback { .text($0.headers["Authorization"] ?? "-") }
        let manager = try CentralRequestManager.make {
            $0.redirectHandler = { hop in
                var next = hop.next
                next.headers["Authorization"] = "for the second"
                next.headers["X-Trace"] = "1"
                return .follow(next)
            }
        }
        let response = try await manager.startRequest("GET", first.url(), headers: ["Authorization": "for the first"])
        #expect(response.text == "for the second")
        #expect(second.requests.first?.headers["X-Trace"] == "1")
    }

    @Test func handlersURLGetsNoForeignSecrets() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.fallback { _ in .redirect(to: "/b") }
        second.fallback { .text($0.headers["Authorization"] ?? "-") }
        let manager = try CentralRequestManager.make {
            $0.redirectHandler = { hop in
                var next = hop.next
                next.url = second.url("/elsewhere")
                return .follow(next)
            }
        }
        let response = try await manager.startRequest("GET", first.url(), headers: ["Authorization": "for the first"])
        #expect(response.text == "-")
    }

    @Test func handlersURLMustKeepTLS() async throws {
        let rule = RedirectRule(secrets: .standard)
        let request = HTTPRequest("GET", "https://h/a")
        let response = HTTPResponse(status: 302, url: "https://h/a")
        #expect(throws: NetworkError.self) {
            var next = HTTPRequest("GET", "http://h/x")
            try rule.restrict(&next, from: "https://h/a", request, response)
        }
        var open = rule
        open.allowsInsecure = true
        var next = HTTPRequest("GET", "http://h/x", headers: ["Authorization": "t"])
        try open.restrict(&next, from: "https://h/a", request, response)
        #expect(next.headers["Authorization"] == nil, "http and https are different origins")
    }

    // MARK: Odd Locations

    private func next(_ location: String..., from url: String = "http://h/a/b?q#f") throws -> String? {
        var headers = HTTPHeaders()
        for value in location { headers.append("Location", value) }
        let base = String(url.prefix { $0 != "#" })
        let response = HTTPResponse(status: 302, headers: headers, url: base)
        return try RedirectRule(secrets: .standard).next(after: response, to: HTTPRequest("GET", url))?.url
    }

    @Test func redirectKeepsTheFragment() throws {
        #expect(try next("/x") == "http://h/x#f")
        #expect(try next("/x#g") == "http://h/x#g")
        #expect(try next("?y") == "http://h/a/b?y#f")
        #expect(try next("/x", from: "http://h/a") == "http://h/x")
    }

    @Test func oddLocationsAreResolvedOrRefused() throws {
        #expect(try next("//other/x") == "http://other/x#f")
        #expect(try next("http://u:p@other/x") == "http://u:p@other/x#f")
        #expect(try next("/\\other/x").flatMap { URLReference.host(of: $0) } == "h")
        #expect(try next("\\\\other/x").flatMap { URLReference.host(of: $0) } == "h")
        #expect(try next("/a b\"<>") == "http://h/a%20b%22%3C%3E#f")
        #expect(try next("x", "x") == "http://h/a/x#f")
        for location in ["https:", "http://h:0x50/", "http://a b/", "http://[::1", "http://h:99999/"] {
            let error = #expect(throws: NetworkError.self) { try next(location) }
            #expect(error?.kind == .redirect, "\(location)")
        }
    }

    @Test func firstNonEmptyLocationIsUsed() throws {
        #expect(try next("/x", "/y") == "http://h/x#f")
        #expect(try next("", "/y") == "http://h/y#f")
        #expect(try next("/x", "") == "http://h/x#f")
        #expect(try next("", "") == nil)
        #expect(try next("") == nil)
    }

    /// Compares with the behaviour of the `curl` program for the same heads.
    @Test(arguments: [
        ("Location: /x\r\nLocation: /y\r\n", "\r\n", "/x"), ("Location: \r\nLocation: /y\r\n", "\r\n", "/y"),
        ("Location: /x\n", "\n", "/x"), ("Location:    /x   \r\n", "\r\n", "/x"),
        ("Location: /a b c\r\n", "\r\n", "/a%20b%20c"), ("Location: /x?y#z\r\n", "\r\n", "/x?y"),
        ("Location: ../x\r\n", "\r\n", "/x"),
    ])
    func oddHeadsAreHandledAsByCurl(fields: String, end: String, target: String) async throws {
        let server = try MockServer()
        server.route("GET", "/t/odd") { _ in .raw("HTTP/1.1 302 Found\(end)\(fields)Content-Length: 0\(end)\(end)") }
        server.fallback { .text($0.target) }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url("/t/odd"))
        #expect(response.text == target)
        #expect(response.redirects.count == 1)
    }

    @Test func emptyLocationIsNotFollowed() async throws {
        let server = try MockServer()
        server.fallback { _ in .raw("HTTP/1.1 302 Found\r\nLocation: \r\nContent-Length: 0\r\n\r\n") }
        let response = try await CentralRequestManager.make().send(HTTPRequest("GET", server.url()))
        #expect(response.status == 302)
        #expect(server.requestCount == 1)
    }

    // MARK: With cookies, private addresses and Digest

    @Test func hopGetsTheCookiesOfItsHost() async throws {
        let server = try MockServer()
        let port = server.port
        server.route("GET", "/login") { _ in
            .redirect(to: "http://b.example.net:\(port)/set").header("Set-Cookie", "a=1; Path=/")
        }
        server.route("GET", "/set") { _ in
            .redirect(to: "http://a.example.org:\(port)/end").header("Set-Cookie", "b=2; Path=/")
        }
        server.route("GET", "/end") { .text($0.headers["Cookie"] ?? "-") }
        let manager = try CentralRequestManager.make {
            $0.cookies = .memory
            $0.resolve = ["a.example.org:\(port)": "127.0.0.1", "b.example.net:\(port)": "127.0.0.1"]
        }
        let response = try await manager.startRequest("GET", "http://a.example.org:\(port)/login")
        #expect(response.text == "a=1")
        #expect(server.requests.map { $0.headers["Cookie"] } == [nil, nil, "a=1"])
        #expect(Set(try await manager.cookies?.all().map(\.name) ?? []) == ["a", "b"])
    }

    @Test func redirectToAPrivateAddressIsRefused() async throws {
        let server = try MockServer()
        let inner = try MockServer()
        let port = server.port
        server.fallback { request in .redirect(to: request.queryItems.first { $0.name == "to" }?.value ?? "/") }
        let manager = try CentralRequestManager.make {
            $0.blocksPrivateAddresses = true
            $0.allowedPrivateAddresses = ["front.example.org"]
            $0.resolve = [
                "front.example.org:\(port)": "127.0.0.1", "inner.example.org:\(inner.port)": "127.0.0.1",
            ]
        }
        for host in ["127.0.0.1", "2130706433", "0x7f.1", "inner.example.org", "[::ffff:127.0.0.1]"] {
            let error = await failure {
                try await manager.startRequest(
                    "GET", "http://front.example.org:\(port)/", parameters: ["to": "http://\(host):\(inner.port)/"])
            }
            #expect(error?.kind == .addressBlocked(.loopback), "\(host): \(String(describing: error))")
        }
        #expect(inner.acceptedConnections == 0)
    }

    @Test func digestCredentialsStayWithTheirOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        for server in [first, second] {
            let target = second.url("/b")
            server.fallback { request in
                guard request.headers["Authorization"]?.hasPrefix("Digest") == true else {
                    return .text("who?", status: 401)
                        .header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")
                }
                return .redirect(to: target)
            }
        }
        var request = HTTPRequest("GET", first.url("/a"))
        request.authentication = .digest(user: "u", password: "p")
        let response = try await CentralRequestManager.make().send(request)
        #expect(response.status == 401)
        #expect(second.requests.map { $0.headers["Authorization"] } == [nil])
        // The first server gets the challenged request and the one that answers the challenge.
        #expect(first.requestCount == 2)
    }
}
