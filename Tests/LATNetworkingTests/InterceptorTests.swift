import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// An interceptor that calls a closure.
private struct Step: Interceptor {
    typealias Next = @Sendable (HTTPRequest) async throws -> HTTPResponse
    let handle: @Sendable (HTTPRequest, Next) async throws -> HTTPResponse

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        try await withoutActuallyEscaping(next) { next in try await handle(request, next) }
    }
}

@Suite(.timeLimit(.minutes(1))) struct InterceptorTests {
    private struct Refusal: Error {}

    @Test func firstInterceptorIsOutermost() async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["X-Way"] ?? "") }
        let way = Log<String>()
        func stage(_ name: String) -> Step {
            Step { request, next in
                var request = request
                request.headers["X-Way"] = (request.headers["X-Way"] ?? "") + name
                way.append("\(name) in")
                let response = try await next(request)
                way.append("\(name) out")
                return response
            }
        }
        let manager = try CentralRequestManager.make { $0.interceptors = [stage("a"), stage("b"), stage("c")] }
        #expect(try await manager.startRequest("GET", server.url()).text == "abc")
        #expect(way.elements == ["a in", "b in", "c in", "c out", "b out", "a out"])
    }

    @Test func interceptorMayRespondItself() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make {
            $0.interceptors = [
                Step { request, _ in
                    HTTPResponse(
                        status: request.url.hasSuffix("no") ? 404 : 200, headers: ["X-Canned": "1"],
                        body: ResponseBody(Data("canned".utf8)), url: request.url, source: .simulated)
                }
            ]
        }
        let response = try await manager.startRequest("GET", server.url("/x"))
        #expect(response.text == "canned")
        #expect(response.source == .simulated)
        #expect(response.timings.total == nil)
        #expect(await failure { try await manager.startRequest("GET", server.url("/no")) }?.response?.text == "canned")
        var lines: [String] = []
        for try await line in try await manager.stream("GET", server.url("/x")).body.lines { lines.append(line) }
        #expect(lines == ["canned"])
        #expect(server.acceptedConnections == 0)
    }

    @Test func interceptorMayCallNextTwice() async throws {
        let server = try MockServer()
        server.enqueue(.status(401), .text("welcome"))
        let manager = try CentralRequestManager.make {
            $0.interceptors = [
                Step { request, next in
                    let response = try await next(request)
                    guard response.status == 401 else { return response }
                    var request = request
                    request.headers["Authorization"] = "Bearer fresh"
                    return try await next(request)
                }
            ]
        }
        let response = try await manager.startRequest("POST", server.url(), body: .text("body"))
        #expect(response.text == "welcome")
        #expect(server.requests.map(\.text) == ["body", "body"])
        #expect(server.requests.map { $0.headers["Authorization"] } == [nil, "Bearer fresh"])
    }

    @Test func interceptorMayCallNextConcurrently() async throws {
        let server = try MockServer()
        server.fallback { .text($0.path) }
        let manager = try CentralRequestManager.make {
            $0.interceptors = [
                Step { request, next in
                    async let first = next(request)
                    async let second = next(request)
                    let answers = try await [first, second]
                    return answers[0]
                }
            ]
        }
        #expect(try await manager.startRequest("GET", server.url("/x")).text == "/x")
        #expect(server.requestCount == 2)
    }

    @Test func throwingInterceptorFailsTheCall() async throws {
        let manager = try CentralRequestManager.make { $0.interceptors = [Step { _, _ in throw Refusal() }] }
        let error = await failure { try await manager.startRequest("GET", "http://127.0.0.1:1/") }
        #expect(error?.kind == .provider)
        #expect(error?.underlying is Refusal)
    }

    @Test func interceptorSeesOnlyTheFinalResponse() async throws {
        let server = try MockServer()
        server.enqueue(.noReply, .redirect(to: "/end"))
        server.route("GET", "/end") { _ in .text("end") }
        let seen = Log<Int>()
        let manager = try CentralRequestManager.make {
            $0.retries = 1
            $0.interceptors = [
                Step { request, next in
                    let response = try await next(request)
                    seen.append(response.status)
                    return response
                }
            ]
        }
        #expect(try await manager.startRequest("GET", server.url("/start")).text == "end")
        #expect(seen.elements == [200])
        #expect(server.requestCount == 3)
    }

    @Test func interceptorSeesTheManagersHeaders() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("") }
        let seen = Log<String?>()
        let manager = try CentralRequestManager.make {
            $0.headers = ["X-Default": "1"]
            $0.interceptors = [
                Step { request, next in
                    seen.append(request.headers["X-Default"])
                    return try await next(request)
                }
            ]
        }
        _ = try await manager.startRequest("GET", server.url())
        #expect(seen.elements == ["1"])
        #expect(server.requests.first?.headers["X-Default"] == "1")
    }

    private struct Canned: Transport {
        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            HTTPResponse(status: 200, body: ResponseBody(Data(request.url.utf8)), url: request.url, source: .simulated)
        }
    }

    @Test func customTransportReplacesTheEngine() async throws {
        let manager = try CentralRequestManager.make {
            $0.transport = Canned()
            $0.baseURL = "http://h/api"
        }
        #expect(try await manager.startRequest("GET", "x", parameters: ["a": 1]).text == "http://h/api/x?a=1")
        #expect(await manager.gauges == nil)
        let recorder = CallRecorder()
        manager.startRequest("GET", "y", into: recorder)
        await recorder.end()
        #expect(recorder.response?.text == "http://h/api/y")
        await manager.shutdown()
    }
}
