import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// Features of calls that also apply to a WebSocket.
@Suite(.timeLimit(.minutes(2))) struct WebSocketCallTests {
    private let server: MockServer

    init() throws { server = try MockServer() }

    struct JoinRoom: RequestEntity, Encodable {
        static let route = Route("GET", server: "chat.room")
        var id: Int
        var since = "now"
    }

    @Test(arguments: ["http", "ws"]) func rowsAreAddresses(_ scheme: String) async throws {
        server.fallback { request in .webSocket(.text(request.target)) }
        let manager = try CentralRequestManager.make(
            "\(scheme)://127.0.0.1:\(server.port)/v1", domain: #"headers: { "X-Row": "1" }"#,
            servers: #""chat.room": { domain: "d", path: "rooms/{id}" }"#)
        let entity = try await JoinRoom(id: 7).webSocket(on: manager)
        #expect(try await entity.all() == [.text("/v1/rooms/7?since=now")])
        let row = try await manager.webSocket(server: "chat.room", parameters: ["id": 8])
        #expect(try await row.all() == [.text("/v1/rooms/8")])
        let path = try await manager.webSocket(Route("GET", domain: "d", path: "lobby"))
        #expect(try await path.all() == [.text("/v1/lobby")])
        #expect(server.requests.allSatisfy { $0.headers["X-Row"] == "1" })
        let post = await failure { _ = try await manager.webSocket(Route("POST", domain: "d", path: "x")) }
        #expect(post?.kind == .invalidRequest && post?.message.contains("POST") == true)
    }

    @Test(arguments: ["http", "ws"]) func baseURLIsAnAddress(_ scheme: String) async throws {
        server.fallback { request in .webSocket(.text(request.headers["Authorization"] ?? "none")) }
        let manager = try CentralRequestManager.make {
            $0.baseURL = "\(scheme)://127.0.0.1:\(server.port)/base"
            $0.headerProvider = { _ in ["Authorization": "Bearer 1"] }
        }
        #expect(try await manager.webSocket("room").all() == [.text("Bearer 1")])
        #expect(server.requests.first?.path == "/base/room")
    }

    @Test func domainMayBeOnASocket() async throws {
        let folder = try TemporaryDirectory()
        let path = folder.path(of: "s.sock")
        let server = try MockServer(unixSocketPath: path)
        server.fallback { request in .webSocket(.text(request.target + " " + (request.headers["Host"] ?? ""))) }
        let manager = try CentralRequestManager.make(
            "unix://\(path):/v1", servers: #""chat.room": { domain: "d", path: "rooms/{id}" }"#)
        #expect(try await JoinRoom(id: 7).webSocket(on: manager).all() == [.text("/v1/rooms/7?since=now localhost")])
        let row = try await manager.webSocket(server: "chat.room", parameters: ["id": 8])
        #expect(try await row.all() == [.text("/v1/rooms/8 localhost")])
        #expect(try await manager.webSocket("unix://\(path):/x").all() == [.text("/x localhost")])
        let based = try CentralRequestManager.make { $0.baseURL = "unix://\(path)" }
        #expect(try await based.webSocket("room").all() == [.text("/room localhost")])
    }

    @Test func tokenIsRenewedOnce() async throws {
        server.fallback { request in
            request.headers["Authorization"] == "Bearer new" ? .webSocket(.text("in")) : .status(401)
        }
        let renewals = Log<Int>()
        let manager = try CentralRequestManager.make {
            $0.authenticator = Tokens(renewals: renewals)
        }
        #expect(try await manager.webSocket(server.url("/")).all() == [.text("in")])
        #expect(renewals.count == 1 && server.requestCount == 2)
    }

    @Test func digestIsAnsweredBeforeTheUpgrade() async throws {
        server.fallback { request in
            request.headers["Authorization"]?.hasPrefix("Digest ") == true
                ? .webSocket(.text("in"), .echo(1))
                : .status(401).header("WWW-Authenticate", #"Digest realm="r", nonce="n", qop="auth""#)
        }
        let manager = try CentralRequestManager.make()
        var request = HTTPRequest("GET", server.url("/"))
        request.authentication = .digest(user: "ada", password: "love")
        let socket = try await manager.webSocket(request)
        try await socket.send("x")
        #expect(try await socket.all() == [.text("in"), .text("x")])
    }

    @Test func cookiesGoBothWays() async throws {
        server.enqueue(
            .webSocket(.text("a")).header("Set-Cookie", "session=1; Path=/"), .webSocket(.text("b")))
        let manager = try CentralRequestManager.make { $0.cookies = .memory }
        _ = try await manager.webSocket(server.url("/")).all()
        _ = try await manager.webSocket(server.url("/")).all()
        #expect(server.requests.map { $0.headers["Cookie"] } == [nil, "session=1"])
    }

    @Test func addressGuardHolds() async throws {
        let manager = try CentralRequestManager.make { $0.blocksPrivateAddresses = true }
        let error = await failure { _ = try await manager.webSocket(server.url("/")) }
        guard case .addressBlocked = error?.kind else { throw TestFailure("\(String(describing: error))") }
        #expect(server.acceptedConnections == 0)
    }

    @Test func interceptorsSeeTheHandshake() async throws {
        server.enqueue(.webSocket(.text("a")))
        let manager = try CentralRequestManager.make { $0.interceptors = [Marker()] }
        #expect(try await manager.webSocket(server.url("/")).all() == [.text("a")])
        #expect(server.requests.first?.headers["X-Mark"] == "websocket")
    }

    @Test func socketsHoldUpNoRequest() async throws {
        server.route("GET", "/socket") { _ in .webSocket { [.text($0.text)] } }
        server.route("GET", "/get") { _ in .text("x") }
        let manager = try CentralRequestManager.make {
            $0.maxConnectionsPerHost = 1
            $0.maxConnections = 1
        }
        var sockets: [WebSocket] = []
        for _ in 0..<5 { sockets.append(try await manager.webSocket(server.url("/socket"))) }
        for _ in 0..<20 { #expect(try await manager.startRequest("GET", server.url("/get")).text == "x") }
        #expect(server.acceptedConnections == 6)
        for socket in sockets { #expect(try await socket.close().isClean) }
    }

    @Test func optionsAreChecked() async throws {
        let manager = try CentralRequestManager.make()
        let options = [
            WebSocketOptions(messageLimit: -1), WebSocketOptions(sendBuffer: 0), WebSocketOptions(missedPongs: 0),
            WebSocketOptions(openTimeout: .zero), WebSocketOptions(pingInterval: .zero),
            WebSocketOptions(closeTimeout: .zero),
        ]
        for options in options {
            let error = await failure { _ = try await manager.webSocket(server.url("/"), options: options) }
            #expect(error?.kind == .invalidRequest)
        }
    }

    private struct Tokens: Authenticator {
        let renewals: Log<Int>

        func apply(to request: inout HTTPRequest) async throws {
            request.headers["Authorization"] = renewals.count == 0 ? "Bearer old" : "Bearer new"
        }

        func refresh() async throws { renewals.append(1) }
    }

    private struct Marker: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            request.headers["X-Mark"] = request.headers["Upgrade"]
            return try await next(request)
        }
    }
}
