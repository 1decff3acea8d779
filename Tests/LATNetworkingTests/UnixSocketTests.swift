import DomainTables
import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient
@testable import LATSealing

/// Servers on Unix domain sockets, by their addresses.
@Suite(.timeLimit(.minutes(1))) struct UnixSocketTests {
    private let folder: TemporaryDirectory
    private var path: String { folder.path(of: "s.sock") }

    init() throws { folder = try TemporaryDirectory() }

    private func server() throws -> MockServer {
        let server = try MockServer(unixSocketPath: path)
        server.fallback { request in .json(#"{"path": "\#(request.target)"}"#) }
        return server
    }

    @Test func managerHasItsBaseURLOnASocket() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make { $0.baseURL = "unix://\(path):/v1.44" }
        let response = try await manager.startRequest("GET", "/containers/json", parameters: ["all": 1])
        #expect(try response.json()["path"].string == "/v1.44/containers/json?all=1")
        #expect(response.url == "unix://\(path):/v1.44/containers/json?all=1")
        // As of curl with --unix-socket.
        #expect(server.requests[0].headers["Host"] == "localhost")
    }

    @Test func domainHasItsBaseURLOnASocket() async throws {
        let server = try server()
        let table = try DomainTable.make(
            "unix://\(path):/v1", servers: #"s: { domain: "d", path: "users/{id}", method: "GET" }"#)
        let manager = try CentralRequestManager.make(table)
        let reply = try await manager.startRequest(server: "s", parameters: ["id": "a b"])
        #expect(reply.model["path"].string == "/v1/users/a%20b" && server.requestCount == 1)
        #expect(table.explain("s").contains("unix://\(path):/v1/users/{id}"))
        #expect(table.explain("unix://\(path):/v1/users/7").contains("users/{id}"))
    }

    @Test func socketIsTheMirrorOfAServerAndTheOtherWayRound() async throws {
        let closed = try ClosedPort()
        let server = try server()
        let table = try DomainTable.make(closed.url(""), domain: #"mirrors: ["unix://\#(path):/m"]"#)
        let manager = try CentralRequestManager.make(table)
        #expect(try await Get<JSONValue>().startRequest(on: manager)["path"].string == "/m/x")
        let other = try MockServer.answering(#"{"path": "tcp"}"#)
        let away = try DomainTable.make(
            "unix://\(folder.path(of: "none.sock"))", domain: #"mirrors: ["\#(other.url())"]"#)
        #expect(
            try await Get<JSONValue>().startRequest(on: try CentralRequestManager.make(away))["path"].string == "tcp")
        #expect(server.requestCount == 1)
    }

    @Test func redirectsStayOnTheSocket() async throws {
        let server = try MockServer(unixSocketPath: path)
        server.route("GET", "/relative") { _ in .redirect(to: "x") }
        server.route("GET", "/absolute") { _ in .redirect(to: "http://localhost/x") }
        server.route("GET", "/x") { _ in .text("here") }
        let manager = try CentralRequestManager.make { $0.baseURL = "unix://\(path)" }
        for way in ["/relative", "/absolute"] {
            let response = try await manager.startRequest("GET", way, headers: ["Authorization": "t"])
            #expect(response.text == "here" && response.url == "unix://\(path):/x")
            #expect(server.requests.last?.headers["Authorization"] == "t")
        }
    }

    @Test func redirectToAnotherServerLeavesTheSocketWithoutSecrets() async throws {
        let other = try MockServer { _ in .text("other") }
        let there = other.url("/y")
        let server = try MockServer(unixSocketPath: path)
        server.fallback { _ in .redirect(to: there) }
        let manager = try CentralRequestManager.make()
        let response = try await manager.startRequest("GET", "unix://\(path)", headers: ["Authorization": "t"])
        #expect(response.text == "other" && other.requests[0].headers["Authorization"] == nil)
    }

    @Test func serverCannotLeadToASocket() async throws {
        let socket = try server()
        let target = "unix://\(path):/secret"
        let server = try MockServer()
        server.route("GET", "/redirect") { _ in .redirect(to: target) }
        server.route("GET", "/pages") { _ in .text("1").header("Link", "<\(target)>; rel=next") }
        server.route("GET", "/job") { _ in .status(202).header("Location", target) }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let redirect = await failure { _ = try await manager.startRequest("GET", "/redirect") }
        let pages = await failure { for try await _ in manager.pages("GET", "/pages") {} }
        let job = await failure { _ = try await manager.poll("GET", "/job") }
        #expect(redirect?.kind == .redirect && pages?.kind == .protocolViolation && job?.kind == .protocolViolation)
        #expect(socket.requestCount == 0)
    }

    @Test func credentialsBelongToTheirSocket() async throws {
        let (first, other) = (try server(), folder.path(of: "other.sock"))
        let second = try MockServer(unixSocketPath: other)
        second.fallback { _ in .text("x") }
        let manager = try CentralRequestManager.make {
            $0.baseURL = "unix://\(path)"
            $0.headerProvider = { _ in ["Authorization": "secret"] }
        }
        for _ in 0..<2 {
            _ = try await manager.startRequest("GET", "/a")
            _ = try await manager.startRequest("GET", "unix://\(other):/a")
        }
        #expect(first.requests.allSatisfy { $0.headers["Authorization"] == "secret" })
        #expect(second.requests.allSatisfy { $0.headers["Authorization"] == nil } && second.requestCount == 2)
    }

    @Test func cookiesBelongToTheirSocket() async throws {
        let (first, other) = (try server(), folder.path(of: "S.sock"))
        first.fallback { _ in
            MockReply.text("").header("Set-Cookie", "a=1; Path=/v1; Secure").header(
                "Set-Cookie", "b=2; Domain=localhost; Path=/")
        }
        let second = try MockServer(unixSocketPath: other)
        let tcp = try MockServer.answering("x")
        let jar = folder.path(of: "jar")
        let manager = try CentralRequestManager.make { $0.cookies = .file(jar) }
        for _ in 0..<2 {
            _ = try await manager.startRequest("GET", "unix://\(path):/v1/a")
            _ = try? await manager.startRequest("GET", "unix://\(other):/v1/a")
            _ = try await manager.startRequest("GET", tcp.url().replacing("127.0.0.1", with: "localhost"))
            var request = HTTPRequest("GET", "http://localhost/v1/a")
            request.unixSocketPath = other
            _ = try? await manager.send(request)
        }
        _ = try await manager.startRequest("GET", "unix://\(path):/w")
        let sent = first.requests.map { $0.headers["Cookie"] ?? "" }
        #expect(sent == ["", "a=1; b=2", "b=2"], "\(sent)")
        #expect((second.requests + tcp.requests).allSatisfy { $0.headers["Cookie"] == nil } && second.requestCount == 4)
        let cookies = try await manager.cookies?.all() ?? []
        #expect(Set(cookies.map(\.domain)).count == 1 && cookies.first?.domain.hasPrefix("unix:/") == true)
    }

    @Test func netrcNamesTheSocket() async throws {
        let (first, other) = (try server(), folder.path(of: "S.sock"))
        let second = try MockServer(unixSocketPath: other)
        let netrc = try folder.write(
            Data("machine localhost login l password p\nmachine unix:\(path) login a password b\ndefault login d".utf8),
            to: "netrc")
        let manager = try CentralRequestManager.make { $0.netrc = .file(netrc) }
        _ = try await manager.startRequest("GET", "unix://\(path):/a")
        _ = try? await manager.startRequest("GET", "unix://\(other):/a")
        #expect(first.requests.map { $0.headers["Authorization"] } == ["Basic YTpi"])
        #expect(second.requests.map { $0.headers["Authorization"] } == [nil])
    }

    @Test func cacheKnowsTheSocket() async throws {
        let server = try server()
        let other = folder.path(of: "other.sock")
        let second = try MockServer(unixSocketPath: other)
        second.fallback { _ in .json(#"{"path": "second"}"#) }
        let manager = try CentralRequestManager.make { $0.cachePolicy = .cacheElseNetwork(.forever) }
        for _ in 0..<2 { _ = try await manager.startRequest("GET", "unix://\(path):/a") }
        let response = try await manager.startRequest("GET", "unix://\(other):/a")
        #expect(try server.requestCount == 1 && response.json()["path"].string == "second")
    }

    @Test func socketIsProbed() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make(.make("unix://\(path):/v1"))
        #expect(await manager.reachability.probe("d").isReachable)
        #expect(await manager.reachability.probe("unix://\(path):/x").isReachable)
        server.stop()
        let report = await manager.reachability.report(of: "unix://\(path):/x", isFresh: true)
        #expect(!report.status.isReachable && report.error?.message.contains(path) == true)
    }

    @Test func blockedPrivateAddressesIncludeSockets() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make { $0.blocksPrivateAddresses = true }
        let error = await failure { _ = try await manager.startRequest("GET", "unix://\(path):/x") }
        #expect(error?.kind == .addressBlocked(.unixSocket) && server.requestCount == 0)
    }

    @Test func mistakeAndMissingSocketAreErrors() async throws {
        let manager = try CentralRequestManager.make()
        let typo = await failure { _ = try await manager.startRequest("GET", "unix:/run/a.sock") }
        #expect(typo?.kind == .invalidRequest && typo?.message.contains("did you mean unix:///run/a.sock?") == true)
        let user = await failure { _ = try await manager.startRequest("GET", "unix://ada:secret@/run/a.sock:/x") }
        #expect(user?.message.contains("did you mean unix:///run/a.sock:/x?") == true)
        #expect(user?.message.contains("secret") == false, "\(user?.message ?? "")")
        let missing = await failure { _ = try await manager.startRequest("GET", "unix://\(path):/x") }
        #expect(missing?.kind == .connect && missing?.message.contains(path) == true, "\(missing?.message ?? "")")
    }

    @Test func tableFromASourceNamesNoSocket() throws {
        let table = Array(#"{ domains: { d: { baseURL: "unix:///run/a.sock" } } }"#.utf8)
        let reading = DomainTableFile.read(table, name: "t", files: .none)
        #expect(reading.diagnostics.first?.message.contains("names the socket") == true)
        #expect(DomainTableFile.read(table, name: "t").diagnostics.isEmpty)
    }

    @Test func signerSeesWhatTheServerSees() {
        let request = HTTPRequest("GET", "unix:///run/a.sock:/x/../y?z")
        #expect(request.wireTarget == "/y?z" && request.wireHost == "localhost")
    }

    @Test func curlCommandConnectsToTheSocket() {
        var request = HTTPRequest("GET", "unix:///run/a b.sock:/x?y")
        #expect(CurlCommand(.log).text(of: request).contains("--unix-socket '/run/a b.sock' 'http://localhost/x?y'"))
        request = HTTPRequest("GET", "http://h/x")
        request.unixSocketPath = "/run/a.sock"
        #expect(CurlCommand(.log).text(of: request).contains("--unix-socket '/run/a.sock' 'http://h/x'"))
    }

    @Test(.needsPython) func realServerIsReadOverItsSocket() async throws {
        let server = try await PythonScript("jobs.py", [path])
        defer { _ = server }
        let manager = try CentralRequestManager.make { $0.baseURL = "unix://\(path):/v1" }
        var numbers: [Int] = []
        for try await page in manager.pages("GET", "items") {
            numbers += try page.json()["data"].array?.compactMap(\.int) ?? []
            #expect(try page.json()["host"].string == "localhost")
        }
        #expect(numbers == [10, 11, 20, 21, 30, 31])
    }
}
