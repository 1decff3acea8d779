import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct NoToken: Error {}

private struct Fetch: RequestEntity, Encodable {
    static let route = Route("GET", domain: "d", path: "x")
    var a = 1
}

private struct Save: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "x")
    var a = 1
}

/// A resolver that replays calls that end with 401.
private struct Replay: FailureResolver {
    func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
        error.response?.status == 401 ? .replay : .deliver
    }
}

@Suite(.timeLimit(.minutes(1))) struct ProviderAttemptTests {
    @Test func bothProvidersAreAskedForEachRetry() async throws {
        let server = try MockServer.answering()
        server.enqueue(.noReply, .noReply)
        let headerCounter = Counter()
        let nonces = Counter()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.headerProvider = { _ in ["X-Attempt": "\(headerCounter.next())"] }
            $0.parameterProvider = { _ in ["nonce": nonces.next()] }
        }
        _ = try await Fetch().retries(3).startRequest(on: manager)
        #expect(server.requests.map { $0.headers["X-Attempt"] } == ["1", "2", "3"])
        #expect(server.requests.map(\.query) == ["a=1&nonce=1", "a=1&nonce=2", "a=1&nonce=3"])
    }

    @Test func bothProvidersAreAskedForEachReplay() async throws {
        let server = try MockServer.answering()
        server.enqueue(.status(401))
        let headerCounter = Counter()
        let nonces = Counter()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.headerProvider = { _ in ["X-Attempt": "\(headerCounter.next())"] }
            $0.parameterProvider = { _ in ["nonce": nonces.next(), "a": 9] }
            $0.resolver = Replay()
        }
        _ = try await Save().startRequest(on: manager)
        #expect(server.requests.map { $0.headers["X-Attempt"] } == ["1", "2"])
        #expect(server.requests.map(\.json) == [["a": 1, "nonce": 1], ["a": 1, "nonce": 2]])
    }

    @Test func replayedCentralCallGetsFreshParameters() async throws {
        let server = try MockServer.answering()
        server.enqueue(.status(401))
        let nonces = Counter()
        let manager = try CentralRequestManager.make {
            $0.parameterProvider = { _ in ["nonce": nonces.next(), "a": 9] }
            $0.resolver = Replay()
        }
        _ = try await manager.startRequest("GET", server.url("/x?own=1"), parameters: ["a": 1])
        _ = try await manager.startRequest("POST", server.url("/x"))
        #expect(server.requests.map(\.query).prefix(2) == ["own=1&a=1&nonce=1", "own=1&a=1&nonce=2"])
        #expect(server.requests.last?.json?["a"].int == 9)
    }

    @Test func streamWithParameterProviderIsSentOnce() async throws {
        let server = try MockServer.answering()
        server.enqueue(.noReply)
        let manager = try CentralRequestManager.make {
            $0.parameterProvider = { _ in ["nonce": 1] }
            $0.retries = 2
        }
        let chunks = AsyncStream<Data> { continuation in
            continuation.yield(Data("once".utf8))
            continuation.finish()
        }
        let error = await failure {
            try await manager.startRequest("PUT", server.url("/x"), body: .stream(chunks))
        }
        #expect(error?.kind == .connectionLost)
        #expect(server.requests.map(\.text) == ["once"])
    }

    @Test func providersErrorIsTheUnderlyingError() async throws {
        let server = try MockServer.answering()
        let byHeader = try CentralRequestManager.make(.make(server.url())) {
            $0.headerProvider = { _ in throw NoToken() }
        }
        let byParameter = try CentralRequestManager.make(.make(server.url())) {
            $0.parameterProvider = { _ in throw NoToken() }
        }
        for (manager, word) in [(byHeader, "header"), (byParameter, "parameter")] {
            for error in [
                await failure { try await Fetch().startRequest(on: manager) },
                await failure { try await Fetch().retries(3).startRequest(on: manager) },
                await failure { try await manager.startRequest("GET", server.url()) },
            ] {
                #expect(error?.kind == .provider)
                #expect(error?.underlying is NoToken)
                #expect(error?.message.contains(word) == true)
                #expect(error?.request != nil)
            }
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func unencodableProviderParametersAreRefused() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.parameterProvider = { _ in ["bad": Double.nan] }
        }
        let error = await failure { try await Fetch().startRequest(on: manager) }
        #expect(error?.kind == .invalidRequest || error?.kind == .provider)
        #expect(error?.message.contains("bad") == true, "\(error?.message ?? "")")
        #expect(server.acceptedConnections == 0)
    }

    /// The request's timeout ends a provider that hangs, and the error mentions the provider.
    @Test(.timeLimit(.minutes(1)))
    func hangingProviderEndsWithTheTimeout() async throws {
        let server = try MockServer.answering()
        // Longer than the test's time limit, so a call that waits for the provider fails the test.
        let hang: @Sendable () async throws -> Void = { try await Task.sleep(for: .seconds(3_600)) }
        let byHeader = try CentralRequestManager.make(.make(server.url())) {
            $0.headerProvider = { _ in
                try await hang()
                return [:]
            }
        }
        let byParameter = try CentralRequestManager.make(.make(server.url())) {
            $0.parameterProvider = { _ in
                try await hang()
                return [:]
            }
        }
        for manager in [byHeader, byParameter] {
            let error = await failure { try await Fetch().timeout(.milliseconds(200)).startRequest(on: manager) }
            #expect(error?.kind == .timeout(.total))
            #expect(error?.message.contains("provider") == true)
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func cancellingDuringAProviderEndsTheCall() async throws {
        let server = try MockServer.answering()
        let isAsked = Event()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.parameterProvider = { _ in
                isAsked.happen()
                try await Task.sleep(for: .seconds(60))
                return [:]
            }
        }
        let kinds = Log<NetworkError.Kind?>()
        let done = Event()
        let handle = Fetch().startRequest(on: manager) { _, _, error in
            kinds.append(error?.kind)
            done.happen()
        }
        await isAsked.wait()
        handle.cancel()
        await done.wait()
        #expect(kinds.elements == [.cancelled])
        #expect(server.acceptedConnections == 0)
    }

    /// The provider sees method, URL with query, and body, as for a central call.
    @Test func headerProviderSeesTheEntitysRequest() async throws {
        let server = try MockServer.answering()
        let seen = Log<HTTPRequest>()
        let manager = try CentralRequestManager.make(.make(server.url("/api"))) {
            $0.headerProvider = { request in
                seen.append(request)
                return [:]
            }
        }
        _ = try await Fetch().header("X-Own", "own").startRequest(on: manager)
        _ = try await Save().startRequest(on: manager)
        #expect(seen.elements.map(\.url) == [server.url("/api/x?a=1"), server.url("/api/x")])
        #expect(seen.elements.map(\.method) == [.get, .post])
        #expect(seen.elements.first?.headers["X-Own"] == "own")
        #expect(seen.elements.last?.body != nil)
    }

    @Test
    func interceptorSeesTheEntitysRequest() async throws {
        struct Watch: Interceptor {
            let log: Log<HTTPRequest>
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                log.append(request)
                return try await next(request)
            }
        }
        let server = try MockServer.answering()
        let seen = Log<HTTPRequest>()
        let manager = try CentralRequestManager.make(.make(server.url("/api"), domain: #"headers: { A: "1" }"#)) {
            $0.interceptors = [Watch(log: seen)]
        }
        _ = try await Save().startRequest(on: manager)
        let request = try #require(seen.elements.first)
        #expect(request.url == server.url("/api/x"))
        #expect(request.headers["A"] == "1")
        #expect(request.body != nil)
    }

    @Test func interceptorMayChangeTheURL() async throws {
        struct Detour: Interceptor {
            let url: String
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                var request = request
                request.url = url
                return try await next(request)
            }
        }
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make("http://127.0.0.1:1")) {
            $0.interceptors = [Detour(url: server.url("/elsewhere"))]
        }
        _ = try await Save().startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/elsewhere"])
    }
}
