import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct HeaderProviderTests {
    private struct NoToken: Error {}

    private func server() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .text("ok\n") }
        return server
    }

    /// The engine writes the field for credentials, unless there is one.
    @Test(arguments: [true, false]) func authenticationOfACallReplacesLowerFields(hasInterceptor: Bool) async throws {
        let server = try MockServer { .text($0.headers["Authorization"] ?? "none") }
        let manager = try CentralRequestManager.make {
            $0.headers = ["authorization": "manager"]
            $0.headerProvider = { _ in ["Authorization": "provider"] }
            if hasInterceptor { $0.interceptors = [PassingInterceptor()] }
        }
        var request = HTTPRequest("GET", server.url("/x"))
        #expect(try await manager.send(request).text == "provider")
        request.authentication = .bearer(token: "call")
        #expect(try await manager.send(request).text == "Bearer call")
        request.headers["Authorization"] = "own"
        #expect(try await manager.send(request).text == "own")
    }

    /// Such a provider filled the stack of its thread, which ended the process.
    @Test func providerThatIsAskedWithinItselfFailsTheCall() async throws {
        let server = try server()
        let own = OwnManager()
        func get(_ change: (inout CentralRequestManager.Configuration) -> Void) async throws -> NetworkError? {
            let manager = try CentralRequestManager.make(change)
            own.manager.withLock { $0 = manager }
            defer { own.manager.withLock { $0 = nil } }
            return await failure { try await manager.startRequest("GET", server.url("/x")) }
        }
        let login = server.url("/login")
        let errors = [
            try await get { $0.headerProvider = { _ in ["X": try await own.text(login)] } },
            try await get { $0.parameterProvider = { _ in ["x": try await own.text(login)] } },
            try await get { $0.authenticator = FetchingAuthenticator(own: own, login: login) },
        ]
        for error in errors {
            #expect(error?.kind == .provider && error?.message.contains("makes calls with its own manager") == true)
            #expect(error?.message.contains("threw") == false, "\(error?.message ?? "")")
        }
        #expect(server.requestCount == 0)
        // One that knows its own calls goes on.
        let manager = try CentralRequestManager.make {
            $0.headerProvider = { $0.url == login ? [:] : ["X": try await own.text(login)] }
        }
        own.manager.withLock { $0 = manager }
        try await manager.startRequest("GET", server.url("/x"))
        own.manager.withLock { $0 = nil }
        #expect(server.requests.map(\.path) == ["/login", "/x"])
    }

    private final class OwnManager: Sendable {
        let manager = Mutex<CentralRequestManager?>(nil)

        func text(_ url: String) async throws -> String {
            let manager = manager.withLock { $0 }
            return try await manager?.startRequest("GET", url).status.description ?? ""
        }
    }

    private struct FetchingAuthenticator: Authenticator {
        let own: OwnManager
        let login: String

        func apply(to request: inout HTTPRequest) async throws { request.headers["X"] = try await own.text(login) }
        func refresh() async throws {}
    }

    private struct PassingInterceptor: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse { try await next(request) }
    }

    @Test func callWinsOverProviderAndProviderOverDefaults() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make {
            $0.headers = ["A": "default", "B": "default", "C": "default", "D": "default"]
            $0.headerProvider = { _ in
                await Task.yield()
                return ["b": "provider", "C": "provider", "E": "provider"]
            }
        }
        _ = try await manager.startRequest("GET", server.url(), headers: ["c": "call", "F": "call"])
        let headers = try #require(server.requests.first?.headers)
        #expect(headers[values: "A"] == ["default"])
        #expect(headers[values: "B"] == ["provider"])
        #expect(headers[values: "C"] == ["call"])
        #expect(headers[values: "D"] == ["default"])
        #expect(headers[values: "E"] == ["provider"])
        #expect(headers[values: "F"] == ["call"])
    }

    @Test func nilRemovesAFieldAtEveryLevel() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make {
            $0.headers = ["A": "default", "B": "default", "C": "default", "User-Agent": nil]
            $0.headerProvider = { _ in ["A": nil, "B": nil, "P": "provider", "Q": "provider"] }
        }
        _ = try await manager.startRequest(
            "GET", server.url(), headers: ["b": "call", "C": nil, "p": nil, "Accept": nil, "Host": "named.example"])
        let headers = try #require(server.requests.first?.headers)
        #expect(headers["A"] == nil)
        #expect(headers["B"] == "call")
        #expect(headers["C"] == nil)
        #expect(headers["P"] == nil)
        #expect(headers["Q"] == "provider")
        #expect(headers["User-Agent"] == nil)
        #expect(headers["Accept"] == nil)
        #expect(headers["Host"] == "named.example")
    }

    @Test func providerAppliesToEveryFormOfCall() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make { $0.headerProvider = { _ in ["X-P": "1"] } }
        _ = try await manager.startRequest("GET", server.url())
        _ = try await manager.send(HTTPRequest("GET", server.url()))
        for try await _ in try await manager.stream("GET", server.url()).body {}
        let recorder = CallRecorder()
        manager.startRequest("GET", server.url(), into: recorder)
        await recorder.end()
        #expect(server.requests.map { $0.headers["X-P"] } == ["1", "1", "1", "1"])
    }

    @Test func providerSeesTheRequest() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url("/api")
            $0.headerProvider = { request in
                ["X-Seen": "\(request.method) \(request.url) \(request.headers["X-Own"] ?? "")"]
            }
        }
        _ = try await manager.startRequest("GET", "x", parameters: ["q": 1], headers: ["X-Own": "own"])
        #expect(server.requests.first?.headers["X-Seen"] == "GET \(server.url("/api/x?q=1")) own")
    }

    @Test func throwingProviderFailsTheCallUnsent() async throws {
        let server = try server()
        let manager = try CentralRequestManager.make { $0.headerProvider = { _ in throw NoToken() } }
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.kind == .provider)
        #expect(error?.underlying is NoToken)
        #expect(error?.request?.url == server.url())
        #expect(await failure { try await manager.send(HTTPRequest("GET", server.url())) }?.kind == .provider)
        #expect(await failure { try await manager.stream("GET", server.url()) }?.kind == .provider)
        let recorder = CallRecorder()
        manager.startRequest("GET", server.url(), into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .provider)
        #expect(recorder.error?.underlying is NoToken)
        #expect(server.acceptedConnections == 0)
    }

    /// Only the caller cancels a call.
    @Test func cancellationByTheProviderIsAnError() async throws {
        let server = try server()
        let byHeaders = try CentralRequestManager.make { $0.headerProvider = { _ in throw CancellationError() } }
        let byParameters = try CentralRequestManager.make { $0.parameterProvider = { _ in throw CancellationError() } }
        for manager in [byHeaders, byParameters] {
            let error = await failure { try await manager.startRequest("GET", server.url()) }
            #expect(error?.kind == .provider && error?.underlying is CancellationError)
        }
    }

    @Test func providerIsAskedPerAttemptNotPerHop() async throws {
        let server = try server()
        server.enqueue(.noReply, .noReply)
        server.route("GET", "/hop") { _ in .redirect(to: "/end") }
        let counts = Log<Int>()
        let counter: HeaderProvider = { _ in
            counts.append(counts.count + 1)
            return ["X-Attempt": "\(counts.count)"]
        }
        let manager = try CentralRequestManager.make { $0.headerProvider = counter }
        var request = HTTPRequest("GET", server.url("/hop"))
        request.retries = 3
        let response = try await manager.send(request)
        #expect(response.redirects.count == 1)
        #expect(counts.count == 3)
        #expect(server.requests.map { $0.headers["X-Attempt"] } == ["1", "2", "3", "3"])
    }

    @Test func slowProviderDelaysNoOtherCall() async throws {
        let server = try server()
        let gate = Event()
        let manager = try CentralRequestManager.make {
            $0.headerProvider = { request in
                if request.url.hasSuffix("slow") { await gate.wait() }
                return [:]
            }
        }
        let url = server.url("/slow")
        let slow = Task { try await manager.startRequest("GET", url).status }
        #expect(try await manager.startRequest("GET", server.url("/fast")).status == 200)
        gate.happen()
        #expect(try await slow.value == 200)
        #expect(server.requests.map(\.path) == ["/fast", "/slow"])
    }

    @Test func cancellingDuringTheProviderEndsTheCall() async throws {
        let server = try server()
        let isAsked = Event()
        let manager = try CentralRequestManager.make {
            $0.headerProvider = { _ in
                isAsked.happen()
                try await Task.sleep(for: .seconds(60))
                return [:]
            }
        }
        let recorder = CallRecorder()
        let task = manager.startRequest("GET", server.url(), into: recorder)
        await isAsked.wait()
        task.cancel()
        await recorder.end()
        #expect(recorder.error?.kind == .cancelled)
        let url = server.url()
        let call = Task { try await manager.startRequest("GET", url) }
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        #expect(server.acceptedConnections == 0)
    }

    @Test func providerMayUseTheSameManager() async throws {
        let server = try server()
        server.route("GET", "/token") { _ in .text("t1") }
        let managers = Log<CentralRequestManager>()
        let manager = try CentralRequestManager.make {
            $0.maxConnectionsPerHost = 1
            $0.headerProvider = { request in
                guard !request.url.hasSuffix("/token"), let manager = managers.elements.first else { return [:] }
                let token = try await manager.startRequest("GET", server.url("/token")).text
                return ["Authorization": "Bearer \(token ?? "")"]
            }
        }
        managers.append(manager)
        defer { managers.removeAll() }
        _ = try await manager.startRequest("GET", server.url("/x"))
        #expect(server.requests.last?.headers["Authorization"] == "Bearer t1")
    }

    @Test func invalidHeadersFromAnySourceAreRefused() async throws {
        let server = try server()
        for (name, value) in [("X-A", "b\r\nX-Injected: 1"), ("X\r\nB", "b"), ("", "b"), ("X A", "b"), ("X", "a\0b")] {
            let byCall = try CentralRequestManager.make()
            let byDefault = try CentralRequestManager.make { $0.headers = HTTPHeaders([(name, value)]) }
            let byProvider = try CentralRequestManager.make {
                $0.headerProvider = { _ in HTTPHeaders([(name, value)]) }
            }
            for error in [
                await failure {
                    try await byCall.startRequest("GET", server.url(), headers: HTTPHeaders([(name, value)]))
                },
                await failure { try await byDefault.startRequest("GET", server.url()) },
                await failure { try await byProvider.startRequest("GET", server.url()) },
            ] {
                #expect(error?.kind == .invalidRequest, "\(name): \(value)")
            }
        }
        #expect(server.acceptedConnections == 0)
    }
}
