import FoundationEssentials
import LATTesting
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(1))) struct RedirectCredentialTests {
    private let secrets: HTTPHeaders = [
        "authorization": "Bearer t", "X-API-Key": "k", "Cookie": "c=1", "X-Auth-Token": "a",
        "Proxy-Authorization": "Basic p", "X-Mine": "m", "X-Plain": "1",
    ]

    @Test func secretsStayWithTheirOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        let manager = try CentralRequestManager.make { $0.secrets.insert(header: "x-mine") }
        first.route("GET", "/here") { _ in .redirect(to: "/same") }
        first.route("GET", "/same") { _ in .redirect(to: second.url("/there")) }
        second.route("GET", "/there") { _ in .redirect(to: first.url("/back")) }
        first.route("GET", "/back") { _ in .text("end") }
        _ = try await manager.startRequest("GET", first.url("/here"), headers: secrets)
        for path in ["/here", "/same"] {
            let request = try #require(first.requests.first { $0.path == path })
            for (name, value) in secrets where name != "Proxy-Authorization" {
                #expect(request.headers[name] == value, "\(path) \(name)")
            }
            #expect(request.headers["Proxy-Authorization"] == nil, "only a proxy may get this field")
        }
        let there = try #require(second.requests.first)
        let back = try #require(first.requests.last)
        for request in [there, back] {
            for name in ["Authorization", "X-Api-Key", "Cookie", "X-Auth-Token", "Proxy-Authorization", "X-Mine"] {
                #expect(request.headers[name] == nil, "\(request) \(name)")
            }
            #expect(request.headers["X-Plain"] == "1")
        }
        #expect(there.headers["Host"] == "127.0.0.1:\(second.port)")
    }

    /// What an interceptor has seen is dropped like other fields, and not sent as a removal.
    @Test func hostOfAnInterceptedRequestIsDropped() async throws {
        struct Passing: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse { try await next(request) }
        }
        for headers: HTTPHeaders in [[:], ["X-App": "1"]] {
            let (first, second) = (try MockServer(), try MockServer())
            let manager = try CentralRequestManager.make {
                $0.interceptors = [Passing()]
                $0.headers = headers
            }
            first.route("GET", "/here") { _ in .redirect(to: second.url("/there")) }
            second.route("GET", "/there") { _ in .text("end") }
            _ = try await manager.startRequest("GET", first.url("/here"), headers: ["Host": "a.example"])
            #expect(first.requests.first?.headers["Host"] == "a.example")
            #expect(second.requests.first?.headers["Host"] == "127.0.0.1:\(second.port)")
        }
    }

    @Test func managersSecretsStayWithTheirOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.route("GET", "/a") { _ in .redirect(to: second.url("/b")) }
        second.route("GET", "/b") { _ in .text("end") }
        let manager = try CentralRequestManager.make {
            $0.headers = ["X-Api-Key": "k", "X-Plain": "1"]
            $0.headerProvider = { _ in ["Authorization": "Bearer t"] }
        }
        _ = try await manager.startRequest("GET", first.url("/a"))
        #expect(first.requests.first?.headers["Authorization"] == "Bearer t")
        #expect(first.requests.first?.headers["X-Api-Key"] == "k")
        #expect(second.requests.first?.headers["Authorization"] == nil)
        #expect(second.requests.first?.headers["X-Api-Key"] == nil)
        #expect(second.requests.first?.headers["X-Plain"] == "1")
    }

    @Test(arguments: [Authentication.basic(user: "u", password: "p"), .bearer(token: "t")])
    func authenticationStaysWithItsOrigin(_ authentication: Authentication) async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.route("GET", "/a") { _ in .redirect(to: "/same") }
        first.route("GET", "/same") { _ in .redirect(to: second.url("/b")) }
        second.route("GET", "/b") { _ in .text("end") }
        let manager = try CentralRequestManager.make()
        var request = HTTPRequest("GET", first.url("/a"))
        request.authentication = authentication
        _ = try await manager.send(request)
        #expect(first.requests.allSatisfy { $0.headers["Authorization"] != nil })
        #expect(first.requestCount == 2)
        #expect(second.requests.first?.headers["Authorization"] == nil)
    }

    @Test func digestIsChallengedOncePerOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.fallback { request in
            guard request.headers["Authorization"]?.hasPrefix("Digest ") == true else {
                return .text("who?", status: 401).header(
                    "WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")
            }
            return .redirect(to: request.path == "/a" ? "/b" : second.url("/c"))
        }
        second.fallback { _ in .text("end") }
        let manager = try CentralRequestManager.make()
        var request = HTTPRequest("GET", first.url("/a"))
        request.authentication = .digest(user: "u", password: "p")
        for _ in 0..<2 { #expect(try await manager.send(request).text == "end") }
        #expect(first.requests.map(\.path) == ["/a", "/a", "/b", "/a", "/b"])
        let counts = first.requests.map { request in
            request.headers["Authorization"]?.firstRange(of: "nc=").flatMap { range in
                Int(request.headers["Authorization"]?[range.upperBound...].prefix(8) ?? "", radix: 16)
            }
        }
        #expect(counts == [nil, 1, 2, 3, 4])
        #expect(second.requests.map { $0.headers["Authorization"] } == [nil, nil])
    }

    @Test func userInfoStaysWithItsOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.route("GET", "/a") { _ in .redirect(to: "/same") }
        first.route("GET", "/same") { _ in .redirect(to: second.url("/b")) }
        second.route("GET", "/b") { _ in .text("end") }
        _ = try await CentralRequestManager.make().send(
            HTTPRequest("GET", "http://u:p@127.0.0.1:\(first.port)/a"))
        #expect(first.requests.map { $0.headers["Authorization"] } == ["Basic dTpw", "Basic dTpw"])
        #expect(second.requests.first?.headers["Authorization"] == nil)
    }

    @Test func ownHostFieldStaysWithItsOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.route("GET", "/a") { _ in .redirect(to: second.url("/b")) }
        second.route("GET", "/b") { _ in .text("end") }
        _ = try await CentralRequestManager.make().startRequest(
            "GET", first.url("/a"), headers: ["Host": "virtual.example"])
        #expect(first.requests.first?.headers["Host"] == "virtual.example")
        #expect(second.requests.first?.headers["Host"] == "127.0.0.1:\(second.port)")
    }

    // MARK: The rule as a pure value

    private func next(
        _ status: Int, from url: String, to location: String, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) throws -> HTTPRequest? {
        var request = HTTPRequest("GET", url)
        request.headers = secrets
        request.authentication = .basic(user: "u", password: "p")
        change(&request)
        let response = HTTPResponse(status: status, headers: ["Location": location], url: url)
        return try RedirectRule(secrets: .standard).next(after: response, to: request)
    }

    @Test(arguments: [
        ("https://h/a", "http://h/b"), ("https://h/a", "http://other/b"), ("HTTPS://h/a", "HTTP://h/b"),
        ("https://h/a", "http://h:443/b"),
    ])
    func redirectFromHTTPSToHTTPIsRefused(_ url: String, _ location: String) {
        let error = #expect(throws: NetworkError.self) { try next(302, from: url, to: location) }
        #expect(error?.kind == .redirect)
        #expect(error?.message.contains("https") == true)
    }

    @Test(arguments: [
        ("http://h/a", "http://h:80/b", true), ("http://h:80/a", "//h/b", true), ("http://H/a", "http://h/b", true),
        ("https://h/a", "https://h:443/b", true), ("http://h/a", "b", true), ("http://h/a", "?q", true),
        ("http://h/a", "http://h:81/b", false), ("http://h/a", "https://h/b", false),
        ("http://h/a", "http://h.evil/b", false), ("http://h/a", "//g/b", false), ("http://h/a", "http://h@g/b", false),
        ("http://h/a", "http://sub.h/b", false), ("http://h/a", "http://h./b", false),
    ])
    func originIsSchemeHostAndPort(_ url: String, _ location: String, _ isSame: Bool) throws {
        let request = try #require(try next(302, from: url, to: location))
        #expect((request.headers["Authorization"] != nil) == isSame)
        #expect((request.authentication != nil) == isSame)
        #expect(request.headers["X-Plain"] == "1")
    }

    /// A request that is composed anew loses the same properties as the next hop of a redirect.
    @Test(arguments: [("http://h/b", true), ("http://g/b", false)])
    func strippedRequestKeepsNothingOfItsOrigin(_ url: String, _ isSame: Bool) {
        var request = HTTPRequest("GET", url, headers: ["Authorization": "a", "X-Plain": "1"])
        request.authentication = .basic(user: "u", password: "p")
        request.tls.pins = ["sha256//AAAA"]
        request.tls = .init(minimumVersion: .v1_3)
        request.context.rowHeaders = ["X-Row-Key": "k", "X-Row": "1"]
        request.context.rowSecrets = Secrets(headers: ["X-Row-Key"])
        let before = request
        RedirectRule(secrets: .standard).strip(&request, from: "http://h/a", defaults: ["X-Api-Key": "m", "X-M": "1"])
        guard !isSame else { return #expect(request == before) }
        #expect(request.authentication == nil && request.tls.pins == nil && !request.tls.isSet)
        #expect(request.context.rowHeaders == ["X-Row": "1"])
        // A removal keeps out what the manager or an outer level would add.
        #expect(request.headers == ["X-Plain": "1", "X-Api-Key": nil, "X-Row-Key": nil, "Authorization": nil])
    }

    @Test(arguments: [.hard, .soft, .off, nil] as [HTTPRequest.TLS.Revocation?])
    func checkForRevocationGoesToOtherOrigins(_ revocation: HTTPRequest.TLS.Revocation?) {
        var request = HTTPRequest("GET", "https://g/b")
        request.tls.revocation = revocation
        request.tls.crlFile = "lists.pem"
        request.tls.crlURL = "http://h/list"
        RedirectRule(secrets: .standard).strip(&request, from: "https://h/a", defaults: [:])
        var kept = HTTPRequest.TLS()
        if revocation != .off { kept.revocation = revocation }
        #expect(request.tls == kept)
    }

    @Test(arguments: [200, 204, 300, 304, 305, 306, 400])
    func otherStatusesAreNotFollowed(_ status: Int) throws {
        #expect(try next(status, from: "http://h/a", to: "/b").map(\.url) == nil)
    }

    @Test func contentFieldsAreRemovedWithTheBody() throws {
        let request = try next(303, from: "http://h/a", to: "/b") {
            $0.method = .put
            $0.body = .text("x")
            $0.headers["content-type"] = "a/b"
            $0.headers["Content-Encoding"] = "gzip"
            $0.headers["Content-Length"] = "1"
        }
        #expect(request?.method == .get)
        #expect(request.map { $0.body == nil } == true)
        for name in ["Content-Type", "Content-Encoding", "Content-Length"] { #expect(request?.headers[name] == nil) }
    }
}
