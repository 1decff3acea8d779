import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

private struct Search: RequestEntity, Encodable {
    typealias Model = [String: Int]
    static let route = Route(server: "search")
    var query = "swift"
}

private struct Save: RequestEntity, Encodable {
    static let route = Route(server: "save")
    var book = 1
}

/// `error.request` is a value that can be sent again. The providers are then asked again.
@Suite(.timeLimit(.minutes(1))) struct ResendTests {
    /// No other test gets the server's port while it is stopped.
    private let port: ReservedPort
    private let server: MockServer
    private let nonces = Counter()

    init() throws {
        port = try ReservedPort()
        server = try MockServer.answering(port: port.port)
    }

    private func manager(
        domain: String = "", _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        let table = try DomainTable.make(
            server.url("/api"), domain: domain,
            servers: """
                search: { domain: "d", path: "search", method: "GET", headers: { "X-Row": "row" },
                          parameters: { lang: "en" } },
                save: { domain: "d", path: "save", method: "POST", headers: { "X-Row": "row" } },
                """)
        return try .make(table) { [nonces] in
            $0.headers = ["X-Manager": "m"]
            $0.headerProvider = { _ in ["X-Nonce": "\(nonces.next())"] }
            change(&$0)
        }
    }

    /// Resends an error's request and checks what the server gets.
    private func check(
        _ error: NetworkError?, _ manager: CentralRequestManager, kind: NetworkError.Kind,
        target: String = "/api/search?lang=en&query=swift", sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        #expect(error?.kind == kind, sourceLocation: sourceLocation)
        let request = try #require(error?.request, sourceLocation: sourceLocation)
        #expect(request.headers["X-Nonce"] == nil, sourceLocation: sourceLocation)
        let before = server.requests
        server.fallback { _ in .json("{}") }
        #expect(try await manager.send(request).status == 200, sourceLocation: sourceLocation)
        let sent = try #require(server.requests.last, sourceLocation: sourceLocation)
        #expect(server.requestCount == before.count + 1, sourceLocation: sourceLocation)
        #expect(Self.sorted(sent.target) == target, sourceLocation: sourceLocation)
        #expect(sent.headers["X-Row"] == "row" && sent.headers["X-Manager"] == "m", sourceLocation: sourceLocation)
        let nonce = try #require(sent.headers["X-Nonce"], sourceLocation: sourceLocation)
        #expect(!before.contains { $0.headers["X-Nonce"] == nonce }, sourceLocation: sourceLocation)
        // Sending does not change the value.
        #expect(request == error?.request, sourceLocation: sourceLocation)
        #expect(try await manager.send(request).status == 200, sourceLocation: sourceLocation)
    }

    private static func sorted(_ target: String) -> String {
        let parts = target.split(separator: "?", maxSplits: 1)
        guard parts.count == 2 else { return target }
        return parts[0] + "?" + parts[1].split(separator: "&").sorted().joined(separator: "&")
    }

    // MARK: After each kind of failure

    @Test func timedOutRequestCanBeResent() async throws {
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager()
        let call = Task { await failure { try await Search().timeout(.seconds(2)).startRequest(on: manager) } }
        try await server.waitForRequests(1)
        try await check(await call.value, manager, kind: .timeout(.total))
    }

    @Test func requestPastItsDeadlineCanBeResent() async throws {
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager()
        let call = Task { await failure { try await Search().deadline(.seconds(2)).startRequest(on: manager) } }
        try await server.waitForRequests(1)
        try await check(await call.value, manager, kind: .timeout(.deadline))
    }

    @Test func cancelledRequestCanBeResent() async throws {
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager()
        let call = Task { await failure { try await Search().startRequest(on: manager) } }
        try await server.waitForRequests(1)
        manager.cancelRequests(.all)
        try await check(await call.value, manager, kind: .cancelled)
    }

    @Test func requestOfACancelledHandleCanBeResent() async throws {
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager()
        let errors = Log<NetworkError?>()
        let isOver = Event()
        let task = Search().startRequest(on: manager) { _, _, error in
            errors.append(error)
            isOver.happen()
        }
        try await server.waitForRequests(1)
        task.cancel()
        await isOver.wait()
        try await check(errors.elements[0], manager, kind: .cancelled)
    }

    @Test func requestOfARefusedConnectionCanBeResent() async throws {
        server.stop()
        let manager = try manager()
        let error = await failure { try await Search().startRequest(on: manager) }
        #expect(error?.kind == .connect)
        let again = try MockServer.answering(port: port.port)
        #expect(try await manager.send(try #require(error?.request)).status == 200)
        let sent = try #require(again.requests.first)
        #expect(Self.sorted(sent.target) == "/api/search?lang=en&query=swift")
        #expect(sent.headers["X-Row"] == "row" && sent.headers["X-Nonce"] == "2")
    }

    @Test func requestOfALostConnectionCanBeResent() async throws {
        server.fallback { _ in .noReply }
        let manager = try manager()
        let error = await failure { try await Search().startRequest(on: manager) }
        try await check(error, manager, kind: .connectionLost)
    }

    @Test(arguments: [401, 404, 503]) func requestWithErrorStatusCanBeResent(_ status: Int) async throws {
        server.fallback { _ in .status(status) }
        let manager = try manager { $0.retries = 1 }
        let error = await failure { try await Search().startRequest(on: manager) }
        try await check(error, manager, kind: .httpStatus)
    }

    @Test func requestWithBusinessFailureCanBeResent() async throws {
        server.fallback { _ in .json(#"{"status": 7, "message": "no"}"#) }
        let manager = try manager(domain: #"envelope: { code: "status", message: "message", success: [1] }"#)
        let error = await failure { try await Search().startRequest(on: manager) }
        try await check(error, manager, kind: .business(code: "7"))
    }

    @Test func requestWithDecodingFailureCanBeResent() async throws {
        server.fallback { _ in .json(#"{"count": "many"}"#) }
        let manager = try manager()
        let error = await failure { try await Search().startRequest(on: manager) }
        try await check(error, manager, kind: .decoding(path: "count"))
    }

    @Test func requestOfAThrowingProviderCanBeResent() async throws {
        struct NoToken: Error {}
        let isReady = Atomic(false)
        let manager = try manager { [nonces] in
            $0.headerProvider = { _ in
                guard isReady.load(ordering: .relaxed) else { throw NoToken() }
                return ["X-Nonce": "\(nonces.next())"]
            }
        }
        let error = await failure { try await Search().startRequest(on: manager) }
        isReady.store(true, ordering: .relaxed)
        try await check(error, manager, kind: .provider)
    }

    @Test func requestOfAFailedRenewalCanBeResent() async throws {
        struct Session: Authenticator {
            struct Refused: Error {}

            func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "t" }
            func refresh() async throws { throw Refused() }
        }
        server.fallback { _ in .status(401) }
        let manager = try manager { $0.authenticator = Session() }
        let error = await failure { try await Search().startRequest(on: manager) }
        #expect(error?.request?.headers["Authorization"] == nil)
        try await check(error, manager, kind: .authentication)
        #expect(server.requests.last?.headers["Authorization"] == "t")
    }

    @Test func requestOfAFailedRedirectCanBeResent() async throws {
        let closed = try ClosedPort()
        server.fallback { _ in .redirect(to: closed.url("/x"), status: 307) }
        let manager = try manager()
        let error = await failure { try await Search().startRequest(on: manager) }
        #expect(error?.url == closed.url("/x"))
        try await check(error, manager, kind: .connect)
    }

    @Test(.needsNginx)
    func requestOfAFailedHandshakeCanBeResent() async throws {
        let base = try #require(Servers.nginxTLS)
        let wary = try CentralRequestManager.make()
        let error = await failure { try await wary.startRequest("GET", base + "/1k.bin", parameters: ["q": 1]) }
        guard case .tls = error?.kind else {
            Issue.record("\(String(describing: error))")
            return
        }
        let request = try #require(error?.request)
        let trusting = try CentralRequestManager.make { $0.tls.caFile = Servers.authority }
        let response = try await trusting.send(request)
        #expect(response.data.count == 1_024 && response.url == base + "/1k.bin?q=1")
    }

    // MARK: Content

    @Test func entityBodyIsSentOnce() async throws {
        server.fallback { _ in .status(500) }
        let manager = try manager()
        let error = await failure { try await Save().startRequest(on: manager) }
        try await check(error, manager, kind: .httpStatus, target: "/api/save")
        #expect(server.requests.map(\.json) == [["book": 1], ["book": 1], ["book": 1]])
    }

    @Test func queryIsNotDuplicated() async throws {
        server.fallback { _ in .status(500) }
        let manager = try manager(domain: #"mirrors: ["\#(server.url("/mirror"))"]"#) {
            $0.parameterProvider = { _ in ["common": "c"] }
        }
        let error = await failure { try await Search().startRequest(on: manager) }
        #expect(server.requests.map { Self.sorted($0.target) } == ["/api/search?common=c&lang=en&query=swift"])
        try await check(error, manager, kind: .httpStatus)
    }

    @Test func mirrorFailureKeepsTheOriginalURL() async throws {
        server.stop()
        let closed = try ClosedPort()
        let manager = try manager(domain: #"mirrors: ["\#(closed.url("/mirror"))"]"#)
        let error = await failure { try await Search().startRequest(on: manager) }
        #expect(error?.kind == .connect && error?.attempts == 2)
        let again = try MockServer.answering(port: port.port)
        #expect(try await manager.send(try #require(error?.request)).status == 200)
        #expect(again.requests.map { Self.sorted($0.target) } == ["/api/search?lang=en&query=swift"])
    }

    private struct Passing: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            request.headers["X-Interceptor"] = "\((request.headers["X-Interceptor"] ?? ""))i"
            return try await next(request)
        }
    }

    @Test func interceptorChangesAreNotDuplicated() async throws {
        server.fallback { _ in .status(500) }
        let manager = try manager { $0.interceptors = [Passing()] }
        let error = await failure { try await Search().startRequest(on: manager) }
        try await check(error, manager, kind: .httpStatus)
        #expect(server.requests.allSatisfy { $0.headers["X-Interceptor"] == "i" })
    }

    @Test func centralCallKeepsAllItsSettings() async throws {
        server.fallback { _ in .status(500) }
        let manager = try manager()
        let error = await failure {
            try await manager.startRequest(
                "POST", server.url("/x"), parameters: ["q": 1], body: .text("1 book"), timeout: .seconds(60),
                headers: ["X-Own": "o", "X-Manager": nil], tag: "t")
        }
        let request = try #require(error?.request)
        #expect(request.tag == "t" && request.timeout == .seconds(60))
        server.fallback { _ in .json("{}") }
        _ = try await manager.send(request)
        #expect(server.requests.map(\.target) == ["/x?q=1", "/x?q=1"])
        #expect(server.requests.map(\.text) == ["1 book", "1 book"])
        #expect(server.requests.allSatisfy { $0.headers["X-Own"] == "o" && $0.headers["X-Manager"] == nil })
        #expect(server.requests.map { $0.headers["X-Nonce"] } == ["1", "2"])
    }

    @Test func resentRequestCanBeCancelled() async throws {
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try manager()
        let first = Task { await failure { try await Search().tag("t").startRequest(on: manager) } }
        try await server.waitForRequests(1)
        manager.cancelRequests(.tag("t"))
        let request = try #require(await first.value?.request)
        let second = Task { await failure { try await manager.send(request) } }
        try await server.waitForRequests(2)
        #expect(manager.cancelRequests(.tag("t")) == 1)
        #expect(await second.value?.kind == .cancelled)
        #expect(await second.value?.request == request)
    }
}
