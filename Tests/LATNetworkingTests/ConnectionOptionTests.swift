import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing

/// Connection and body settings of managers, rows and calls, as they reach the engine.
@Suite(.timeLimit(.minutes(1))) struct ConnectionOptionTests {
    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.fallback { _ in .text("{}") }
    }

    @Test func invalidOptionsAreRefusedByName() {
        let changes: [(String, (inout CentralRequestManager.Configuration) -> Void)] = [
            ("connectionSource", { $0.connectionSource = .interface("eth99") }),
            ("nameResolver", { $0.nameResolver = .https("http://dns.example/") }),
            ("netrc", { $0.netrc = .file("/no/such/netrc") }), ("hsts", { $0.hsts = .file("/no/such/hsts") }),
            ("altSvc", { $0.altSvc = .file("/no/such/alt-svc") }), ("maxReceiveRate", { $0.maxReceiveRate = 0 }),
        ]
        for (name, change) in changes {
            let error = #expect(throws: NetworkError.self) { _ = try CentralRequestManager.make(change) }
            #expect(error?.kind == .invalidRequest && error?.message.contains(name) == true, "\(name)")
        }
    }

    // MARK: Credentials

    @Test func netrcCredentialsStayWithTheirHost() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine localhost login ada password pw\n".utf8), to: "netrc")
        server.route("GET", "/away") { [server] _ in .redirect(to: server.url("/there")) }
        let manager = try CentralRequestManager.make { $0.netrc = .file(file) }
        let answer = try await manager.startRequest("GET", "http://localhost:\(server.port)/away")
        #expect(answer.redirects.count == 1)
        #expect(server.requests.map { $0.headers["Authorization"] } == ["Basic YWRhOnB3", nil])
        // A redirect to the host named in the file carries its credentials.
        server.route("GET", "/home") { [server] _ in .redirect(to: "http://localhost:\(server.port)/there") }
        _ = try await manager.startRequest("GET", server.url("/home"))
        #expect(server.requests.suffix(2).map { $0.headers["Authorization"] } == [nil, "Basic YWRhOnB3"])
    }

    @Test func netrcDefaultDoesNotFollowARedirect() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("default login ada password pw\n".utf8), to: "netrc")
        server.route("GET", "/away") { [server] _ in .redirect(to: "http://localhost:\(server.port)/on") }
        server.route("GET", "/on") { [server] _ in .redirect(to: "http://localhost:\(server.port)/there") }
        let manager = try CentralRequestManager.make { $0.netrc = .file(file) }
        _ = try await manager.startRequest("GET", server.url("/away"))
        #expect(server.requests.map { $0.headers["Authorization"] } == ["Basic YWRhOnB3", nil, nil])
    }

    // MARK: HSTS

    @Test func redirectToAnHSTSHostUsesTLS() throws {
        var rule = RedirectRule(secrets: .standard)
        rule.effectiveURL = { $0.replacing("http://safe.example", with: "https://safe.example") }
        var request = HTTPRequest("GET", "https://safe.example/a", headers: ["Authorization": "x"])
        let response = HTTPResponse(
            status: 302, headers: ["Location": "http://safe.example/b"], body: .empty, url: "https://safe.example/a")
        let next = try #require(try rule.next(after: response, to: request))
        #expect(next.url == "https://safe.example/b")
        #expect(next.headers["Authorization"] == "x")
        // Without HSTS, the redirect would leave TLS, so it is refused.
        rule.effectiveURL = { $0 }
        request.headers = [:]
        #expect(throws: NetworkError.self) { try rule.next(after: response, to: request) }
    }

    @Test(.needsNginx)
    func redirectToAPreloadedHostUsesTLS() async throws {
        let port = try #require(Servers.nginxTLS?.split(separator: ":").last)
        server.route("GET", "/go") { _ in .redirect(to: "http://localhost:\(port)/1k.bin") }
        let manager = try CentralRequestManager.make {
            $0.hstsPreload = ["localhost"]
            $0.tls.caFile = Servers.authority
        }
        let answer = try await manager.startRequest("GET", server.url("/go"))
        #expect(answer.url == "https://localhost:\(port)/1k.bin")
        #expect(answer.data.count == 1024)
    }

    // MARK: Prewarming

    @Test func prewarmingOpensConnections() async throws {
        let (other, table) = (
            try MockServer(), try DomainTable(json5: #"{ domains: { shop: { baseURL: "\#(server.url("/api"))" } } }"#)
        )
        other.fallback { _ in .text("other") }
        let manager = try CentralRequestManager.make { $0.domains = table }
        try await manager.prewarm("shop", connections: 2)
        try await manager.prewarm(other.url("/any"))
        #expect(await manager.gauges?.sockets == 3)
        for _ in 0..<3 { _ = try await manager.startRequest("GET", server.url("/api/a")) }
        _ = try await manager.startRequest("GET", other.url())
        #expect((server.acceptedConnections, other.acceptedConnections) == (2, 1))
    }

    @Test func unknownDomainIsNotPrewarmed() async throws {
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(json5: #"{ domains: { shop: { baseURL: "http://127.0.0.1" } } }"#)
        }
        let error = await failure { try await manager.prewarm("shopp") }
        #expect(error?.kind == .unknownName)
        #expect(error?.message.contains("\"shop\"") == true)
        let none = try CentralRequestManager.make()
        #expect(await failure { try await none.prewarm("shop") }?.kind == .unknownName)
    }

    // MARK: Compression

    private static let text = String(repeating: "compressible ", count: 400)

    @Test func rowCompressesBodies() async throws {
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: """
                    {
                      domains: { here: { baseURL: "\(server.url())", contentCoding: "gzip" } },
                      servers: {
                        send: { domain: "here", path: "/send", method: "POST" },
                        plain: { domain: "here", path: "/plain", method: "POST", contentCoding: null },
                      },
                    }
                    """)
        }
        _ = try await Send(text: Self.text).reply(on: manager)
        _ = try await Plain(text: Self.text).reply(on: manager)
        _ = try await Plain(text: Self.text).contentCoding(.gzip).reply(on: manager)
        _ = try await Send(text: Self.text).contentCoding(.identity).reply(on: manager)
        #expect(server.requests.map { $0.headers["Content-Encoding"] } == ["gzip", nil, "gzip", nil])
        #expect(server.requests[0].body.count < 200 && server.requests[1].body.count > 5000)
    }

    private struct Send: RequestEntity, Encodable {
        typealias Model = JSONValue
        static let route = Route(server: "send")
        var text: String
    }

    private struct Plain: RequestEntity, Encodable {
        typealias Model = JSONValue
        static let route = Route(server: "plain")
        var text: String
    }

    @Test func signerSeesTheCompressedBody() async throws {
        let digests = Log<String?>()
        let manager = try CentralRequestManager.make { $0.signer = DigestSigner(digests: digests) }
        var request = HTTPRequest("POST", server.url(), body: .text(Self.text))
        request.contentCoding = .gzip
        _ = try await manager.send(request)
        let sent = try #require(server.requests.first)
        #expect(sent.headers["Content-Encoding"] == "gzip")
        #expect(digests.elements == [CanonicalRequest.digest(of: sent.body)])
    }

    private struct DigestSigner: RequestSigner {
        let digests: Log<String?>

        func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
            digests.append(digest)
            return [:]
        }
    }

    @Test func redirectKeepsTheCompressedBody() async throws {
        server.route("POST", "/old") { [server] _ in .redirect(to: server.url("/new"), status: 307) }
        let manager = try CentralRequestManager.make()
        var request = HTTPRequest("POST", server.url("/old"), body: .text(Self.text))
        request.contentCoding = .gzip
        _ = try await manager.send(request)
        #expect(server.requests.map { $0.headers["Content-Encoding"] } == ["gzip", "gzip"])
        #expect(server.requests[0].body == server.requests[1].body)
        server.route("POST", "/see") { [server] _ in .redirect(to: server.url("/new"), status: 303) }
        request.url = server.url("/see")
        _ = try await manager.send(request)
        #expect(server.requests.last?.headers["Content-Encoding"] == nil)
    }

    // MARK: Calls

    @Test func callSetsTrailersAndRates() async throws {
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { here: { baseURL: "\(server.url())" } },
                      servers: { send: { domain: "here", path: "/send", method: "POST" } } }
                    """)
        }
        _ = try await Send(text: "x").trailers(HTTPRequest.Trailers(["X-Sum"]) { ["X-Sum": "7"] })
            .maxRate(receive: 1 << 20, send: 1 << 20).reply(on: manager)
        #expect(server.requests.first?.trailers["X-Sum"] == "7")
        let error = await failure { try await Send(text: "x").maxRate(send: -1).reply(on: manager) }
        #expect(error?.kind == .invalidRequest)
    }
}
