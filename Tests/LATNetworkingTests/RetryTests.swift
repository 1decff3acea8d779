import FoundationEssentials
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(1))) struct RetryTests {
    private func server(failing count: Int) throws -> MockServer {
        let server = try MockServer()
        server.enqueue([MockReply](repeating: .noReply, count: count))
        server.fallback { _ in .text("ok") }
        return server
    }

    @Test(arguments: ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND", "QUERY"])
    func idempotentRequestIsRetried(_ method: String) async throws {
        let server = try server(failing: 2)
        let manager = try CentralRequestManager.make { $0.retries = 2 }
        #expect(try await manager.startRequest(method, server.url()).status == 200)
        #expect(server.requestCount == 3)
    }

    @Test func lastFailureCountsTheAttempts() async throws {
        let server = try server(failing: 5)
        let manager = try CentralRequestManager.make { $0.retries = 2 }
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.kind == .connectionLost)
        #expect(error?.attempts == 3)
        #expect(server.requestCount == 3)
    }

    /// In every form, and in the errors that are made of a response that needed several attempts.
    @Test func refusalsCountTheAttempts() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.retries = 2
            $0.retryPolicy.firstWait = .zero
        }
        let url = server.url()
        #expect(await failure { try await manager.stream("GET", url) }?.attempts == 3)
        #expect(await failure { try await Get<JSONValue>().startRequest(on: manager) }?.attempts == 3)
        let (errors, stop) = AsyncStream.makeStream(of: NetworkError.self)
        manager.startRequest("GET", url, success: { _, _ in stop.finish() }, failure: { stop.yield($1) })
        #expect(await errors.first { _ in true }?.attempts == 3)
        let directory = try TemporaryDirectory()
        let download = await failure { try await manager.download(url, to: directory.path(of: "a")).value }
        #expect(download?.attempts == 3)
        // A response that is delivered is no error, but one that is made of it knows.
        let response = try await manager.send(HTTPRequest("GET", url))
        #expect(response.status == 503)
        #expect(await failure { try response.json() }?.attempts == 3)
    }

    @Test(arguments: ["GET", "POST"]) func judgeIsAskedOnceAboutEachAnswer(_ method: String) async throws {
        let server = try MockServer { _ in .status(503) }
        let asked = Box(0)
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 2, firstWait: .zero) { _, _ in
                asked.change { $0 += 1 }
                return true
            }
        }
        #expect(await failure { try await manager.startRequest(method, server.url()) }?.attempts == 3)
        // Nothing follows the last answer.
        #expect(asked.value == 2)
    }

    @Test(arguments: ["POST", "PATCH", "LOCK"])
    func nonIdempotentRequestIsSentOnce(_ method: String) async throws {
        let server = try server(failing: 1)
        let manager = try CentralRequestManager.make { $0.retries = 3 }
        let error = await failure { try await manager.startRequest(method, server.url(), body: .text("x")) }
        #expect(error?.kind == .connectionLost)
        #expect(error?.attempts == 1)
        #expect(server.requestCount == 1)
    }

    @Test func requestsRetriesWinOverTheManagers() async throws {
        let server = try server(failing: 10)
        let eager = try CentralRequestManager.make { $0.retries = 3 }
        var request = HTTPRequest("GET", server.url())
        request.retries = 0
        #expect(await failure { try await eager.send(request) }?.attempts == 1)
        let plain = try CentralRequestManager.make()
        request.retries = 1
        #expect(await failure { try await plain.send(request) }?.attempts == 2)
        #expect(server.requestCount == 3)
    }

    @Test(arguments: [408, 429, 500, 502, 503, 504])
    func transientStatusIsRetriedByDefault(_ status: Int) async throws {
        let server = try MockServer()
        server.fallback { _ in .status(status) }
        let manager = try CentralRequestManager.make {
            $0.retries = 2
            $0.retryPolicy.firstWait = .milliseconds(1)
        }
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.response?.status == status)
        #expect(error?.attempts == 3 && error.map { "\($0)".contains(" (after 3 attempts) [GET ") } == true)
        #expect(server.requestCount == 3)
        #expect(await failure { try await manager.startRequest("POST", server.url()) }?.kind == .httpStatus)
        #expect(server.requestCount == 4)
    }

    @Test(arguments: [400, 404, 409, 501, 505])
    func otherStatusIsNotRetried(_ status: Int) async throws {
        let server = try MockServer()
        server.fallback { _ in .status(status) }
        let manager = try CentralRequestManager.make { $0.retries = 3 }
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.kind == .httpStatus)
        #expect(server.requestCount == 1)
    }

    /// The clock of this machine may be wrong.
    @Test func dateOfTheServerIsTheClockOfItsRetryAfter() {
        var response = HTTPResponse(
            status: 503, headers: ["Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"], url: "http://h")
        #expect(response.retryAfter(at: 784_111_700) == .seconds(77))
        response.headers["Date"] = "Sun, 06 Nov 1994 08:49:30 GMT"
        #expect(response.retryAfter(at: 784_111_700) == .seconds(7))
        response.headers["Date"] = "today"
        #expect(response.retryAfter(at: 784_111_700) == .seconds(77))
    }

    /// A field that says nothing does not make the status one that is retried.
    @Test(arguments: FlowStateTests.unusable)
    func unusableRetryAfterRepeatsNothing(_ text: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .status(503).header("Retry-After", text) }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, statuses: [502])
        }
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.kind == .httpStatus)
        #expect(server.requestCount == 1)
    }

    @Test func oneShotStreamIsSentOnce() async throws {
        let server = try server(failing: 5)
        let manager = try CentralRequestManager.make { $0.retries = 3 }
        let once = AsyncStream<Data> {
            $0.yield(Data("x".utf8)); $0.finish()
        }
        #expect(
            await failure { try await manager.startRequest("PUT", server.url(), body: .stream(once)) }?.attempts == 1)
        #expect(server.requestCount + server.abandonedRequests.count == 1)
    }

    @Test func replayableBodyIsSentWholeEachTime() async throws {
        let server = try server(failing: 2)
        let manager = try CentralRequestManager.make { $0.retries = 2 }
        _ = try await manager.startRequest(
            "PUT", server.url(),
            body: .stream {
                AsyncStream {
                    $0.yield(Data("again".utf8)); $0.finish()
                }
            })
        #expect(server.requests.map(\.text) == ["again", "again", "again"])
    }

    @Test func refusedConnectionIsRetried() async throws {
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make { $0.retries = 2 }
        let error = await failure { try await manager.startRequest("GET", closed.url()) }
        #expect(error?.kind == .connect)
        #expect(error?.attempts == 3)
    }

    @Test func cancellingDuringTheWaitEndsTheCall() async throws {
        let stage = RetryStage(
            policy: RetryPolicy(retries: 5, firstWait: .seconds(600), longestWait: .seconds(600)))
        let hasFailed = Event()
        let call = Task {
            try await stage.intercept(HTTPRequest("GET", "http://h/")) { _ in
                hasFailed.happen()
                throw NetworkError(.connect, message: "refused")
            }
        }
        await hasFailed.wait()
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
    }

    @Test(arguments: [
        (NetworkError.Kind.dns, true), (.connect, true), (.connectionLost, true), (.timeout(.connect), true),
        (.timeout(.total), false), (.timeout(.idle), false), (.tls(.expired), false), (.httpStatus, false),
        (.cancelled, false), (.invalidRequest, false), (.bodyTooLarge, false), (.protocolViolation, false),
        (.provider, false), (.shutDown, false), (.redirect, false),
    ])
    func onlyConnectionFailuresAreRetried(_ kind: NetworkError.Kind, _ isWorth: Bool) {
        let error = NetworkError(kind, message: "")
        let state = RetryState(policy: RetryPolicy(), retries: 1)
        #expect(state.isWorthRepeating(.failure(error), HTTPRequest("GET", "http://h/")) == isWorth)
        #expect(!state.isWorthRepeating(.failure(error), HTTPRequest("POST", "http://h/")))
    }

    @Test func waitStaysWithinTheLongest() async throws {
        let waits = Log<Duration>()
        let stage = RetryStage(
            policy: RetryPolicy(retries: 40, firstWait: .milliseconds(1), longestWait: .milliseconds(4)),
            clock: CallClock(now: { .zero }, sleep: { waits.append($0) }))
        let attempts = Log<Int>()
        let error = await failure {
            try await stage.intercept(HTTPRequest("GET", "http://h/")) { _ in
                attempts.append(attempts.count)
                throw NetworkError(.connect, message: "refused")
            }
        }
        #expect(attempts.count == 41)
        #expect(error?.attempts == 41)
        // Without `longestWait`, doubling 40 times would reach years.
        #expect(!waits.elements.isEmpty && waits.elements.allSatisfy { $0 <= .milliseconds(4) })
    }

    @Test func waitsMayBeEndless() async throws {
        let waits = Log<Duration>()
        let stage = RetryStage(
            policy: RetryPolicy(retries: 40, firstWait: .seconds(Int64.max), longestWait: .seconds(Int64.max)),
            clock: CallClock(now: { .zero }, sleep: { waits.append($0) }))
        let error = await failure {
            try await stage.intercept(HTTPRequest("GET", "http://h/")) { _ in
                throw NetworkError(.connect, message: "refused")
            }
        }
        #expect(error?.attempts == 41 && waits.count <= 40)
    }
}
