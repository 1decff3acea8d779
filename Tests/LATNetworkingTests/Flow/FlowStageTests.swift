import CurlTransport
import FoundationEssentials
import LATTesting
import Platform
import ResponseCache
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Deadlines, retries, barriers, limits and circuit breakers in whole calls.
@Suite(.timeLimit(.minutes(2))) struct FlowStageTests {
    private func next(
        _ events: inout AsyncStream<CallEvent>.Iterator, _ isWanted: (CallEvent.Kind) -> Bool
    ) async -> CallEvent? {
        while let event = await events.next() { if isWanted(event.kind) { return event } }
        return nil
    }

    // MARK: Retries

    @Test func retryAfterIsObeyed() async throws {
        let server = try MockServer()
        server.enqueue(
            .status(503).header("Retry-After", "0"), .status(429).header("Retry-After", "0"),
            .status(503).header("Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"), .text("ok"))
        let manager = try CentralRequestManager.make { $0.retries = 3 }
        #expect(try await manager.startRequest("GET", server.url()).text == "ok")
        #expect(server.requestCount == 4)
    }

    @Test func retryPolicySetsTheRetriedStatuses() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(502) }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 2, statuses: [502], firstWait: .milliseconds(1))
        }
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.response?.status == 502)
        #expect(server.requestCount == 3)
        #expect(await failure { try await manager.startRequest("POST", server.url()) }?.response?.status == 502)
        #expect(server.requestCount == 4)
    }

    /// Who repeats "create it if there is none" may be told that there is one: its own.
    @Test(arguments: ["If-None-Match", "If-Match"])
    func conditionThatTheFirstRequestMayHaveChangedIsNoAnswer(name: String) async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make {
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
        }
        func put() async -> NetworkError? {
            await failure {
                try await manager.startRequest("PUT", server.url("/o"), body: .text("x"), headers: [name: "*"])
            }
        }
        server.enqueue(.noReply, .status(412))
        let error = await put()
        #expect(error?.kind == .connectionLost)
        #expect(error?.message.contains("412") == true && error?.attempts == 2)
        server.enqueue(.status(502), .status(412))
        #expect(await put()?.response?.status == 502)
        // Nobody has sent it before.
        server.enqueue(.status(412))
        #expect(await put()?.response?.status == 412)
        #expect(server.requestCount == 5)
    }

    /// The engine repeats a request on another connection only when its answer is the same then.
    @Test func conditionalRequestThatIsLostOnAKeptConnectionIsNotRepeated() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make { _ in }
        func put(_ headers: HTTPHeaders) async throws -> HTTPResponse {
            server.enqueue(.text("opens a connection"), .noReply)
            _ = try await manager.startRequest("GET", server.url())
            server.fallback { _ in .text("repeated") }
            return try await manager.startRequest("PUT", server.url("/o"), body: .text("x"), headers: headers)
        }
        #expect(try await put([:]).text == "repeated")
        #expect(await failure { try await put(["If-Match": "\"1\""]) }?.kind == .connectionLost)
        #expect(server.requestCount == 5)
    }

    @Test func idempotencyKeyIsTheSameInAllAttempts() async throws {
        let server = try MockServer()
        server.enqueue(.noReply, .noReply, .text("ok"))
        let manager = try CentralRequestManager.make { $0.retries = 2 }
        var request = HTTPRequest("POST", server.url(), body: .text("1 book"))
        request.idempotencyKey = HTTPRequest.randomIdempotencyKey()
        #expect(try await manager.send(request).status == 200)
        let keys = server.requests.map { $0.headers["Idempotency-Key"] }
        #expect(keys.count == 3 && Set(keys) == [request.idempotencyKey])
        #expect(server.requests.allSatisfy { $0.text == "1 book" })
    }

    @Test func budgetLimitsRetries() async throws {
        let server = try MockServer()
        server.fallback { _ in .noReply }
        let manager = try CentralRequestManager.make {
            $0.retries = 5
            $0.retryPolicy.firstWait = .zero
            $0.retryBudget = RetryPolicy.Budget(share: 0.1, reserve: 0)
        }
        for _ in 0..<100 { _ = await failure { try await manager.startRequest("GET", server.url()) } }
        // The budget starts full, with 11 retries, and 100 requests add 10 more.
        #expect(server.requestCount >= 100 + 10 && server.requestCount <= 100 + 21)
    }

    @Test func deadlineSpansAllAttempts() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("late").stalling(.start) }
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 100, firstWait: .milliseconds(1)) { _, _ in true }
            $0.timeout = .milliseconds(100)
            $0.deadline = .seconds(2)
        }
        let start = ContinuousClock.now
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        // The last attempt's own timeout is delivered when no time is left for another attempt.
        #expect(error?.kind == .timeout(.deadline) || error?.kind == .timeout(.total))
        #expect(start.duration(to: .now) >= .milliseconds(400))
        #expect(server.requestCount >= 1)
        #expect(manager.runningRequests() == 0)
    }

    @Test func deadlineEndsAHangingInterceptor() async throws {
        let isOver = Event()
        let manager = try CentralRequestManager.make {
            $0.interceptors = [Hanging(isOver: isOver)]
        }
        var request = HTTPRequest("GET", "http://127.0.0.1/")
        request.deadline = .milliseconds(50)
        #expect(await failure { try await manager.send(request) }?.kind == .timeout(.deadline))
        isOver.happen()
    }

    private struct Hanging: Interceptor {
        let isOver: Event

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            await isOver.wait()
            return try await next(request)
        }
    }

    // MARK: Barriers

    @Test func barrierHoldsLaterCallsUntilItEnds() async throws {
        let server = try MockServer()
        server.route("GET", "/barrier") { _ in MockReply.text("").stalling(.start) }
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        var events = manager.events.makeAsyncIterator()
        var request = HTTPRequest("GET", server.url("/barrier"))
        request.isBarrier = true
        let barrier = Task { [request] in try await manager.send(request) }
        try await server.waitForRequests(1)
        let calls = (0..<5).map { _ in Task { try await manager.startRequest("GET", server.url()).status } }
        let leaving = Task { await failure { try await manager.startRequest("GET", server.url(), tag: "l") } }
        for _ in 0..<6 { _ = await next(&events) { if case .waiting(.barrier) = $0 { true } else { false } } }
        #expect(server.requestCount == 1)
        #expect(manager.cancelRequests(.tag("l")) == 1)
        #expect(await leaving.value?.kind == .cancelled)
        // A barrier that fails releases the waiting calls, too.
        barrier.cancel()
        await #expect(throws: CancellationError.self) { try await barrier.value }
        for call in calls { #expect(try await call.value == 200) }
        #expect(server.requestCount == 6)
    }

    @Test func barriersOwnRequestsAreNotHeld() async throws {
        struct AsksFirst: Interceptor {
            let manager: @Sendable () -> CentralRequestManager?
            let url: String

            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                if request.isBarrier == true { _ = try await manager()?.startRequest("GET", url) }
                return try await next(request)
            }
        }
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let box = Mutex<CentralRequestManager?>(nil)
        let manager = try CentralRequestManager.make {
            $0.interceptors = [AsksFirst(manager: { box.withLock { $0 } }, url: server.url("/first"))]
        }
        box.withLock { $0 = manager }
        var request = HTTPRequest("GET", server.url("/barrier"))
        request.isBarrier = true
        #expect(try await manager.send(request).status == 200)
        #expect(server.requests.map(\.path) == ["/first", "/barrier"])
        box.withLock { $0 = nil }
    }

    // MARK: Limits

    /// A transport that counts its concurrent requests and their maximum.
    private final class Counting: Transport {
        private let counts = Mutex((now: 0, most: 0))
        private let transport: any Transport

        init(_ transport: any Transport) { self.transport = transport }

        var most: Int { counts.withLock(\.most) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            counts.withLock { counts in
                counts.now += 1
                counts.most = max(counts.most, counts.now)
            }
            defer { counts.withLock { $0.now -= 1 } }
            return try await transport.send(request)
        }
    }

    @Test func timeoutDoesNotRunWhileWaitingForALimit() async throws {
        let server = try MockServer()
        let transport = Counting(try CurlTransport())
        let manager = try CentralRequestManager.make {
            $0.limits.maxConcurrentRequests = 3
            $0.transport = transport
        }
        server.fallback { _ in MockReply.text("ok").delayed(by: .milliseconds(200)) }
        // 40 requests of 200 ms, three at a time: the last waits longer than its timeout.
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<40 {
                group.addTask { try await manager.startRequest("GET", server.url(), timeout: .seconds(2)).status }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses.count == 40)
        #expect(transport.most == 3)
    }

    @Test func cancelledWaiterLeavesItsPlaceToTheNext() async throws {
        let server = try MockServer()
        server.route("GET", "/blocker") { _ in MockReply.text("").stalling(.start) }
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make { $0.limits.maxConcurrentRequestsPerHost = 1 }
        let blocker = Task { try await manager.startRequest("GET", server.url("/blocker")) }
        try await server.waitForRequests(1)
        var events = manager.events.makeAsyncIterator()
        let leaving = Task { await failure { try await manager.startRequest("GET", server.url("/1"), tag: "l") } }
        _ = await next(&events) { if case .waiting(.limits) = $0 { true } else { false } }
        let staying = Task { try await manager.startRequest("GET", server.url("/2")).status }
        _ = await next(&events) { if case .waiting(.limits) = $0 { true } else { false } }
        #expect(manager.cancelRequests(.tag("l")) == 1)
        #expect(await leaving.value?.kind == .cancelled)
        blocker.cancel()
        #expect(try await staying.value == 200)
        #expect(server.requests.map(\.path) == ["/blocker", "/2"])
    }

    @Test func requestsStartNoFasterThanTheRate() async throws {
        let clock = VirtualClock()
        var limits = RequestLimits()
        limits.rate = RequestLimits.RateLimit(perSecond: 2, burst: 2)
        let stage = LimitStage(limits, clock: clock.callClock)
        let starts = Log<Duration>()
        let calls = (0..<6).map { _ in
            Task {
                try await stage.intercept(HTTPRequest("GET", "http://h/")) { request in
                    starts.append(clock.now)
                    return HTTPResponse(status: 200, url: request.url)
                }
            }
        }
        try await eventually { starts.count >= 2 }
        for count in 3...6 {
            await clock.waitForSleepers(1)
            #expect(starts.count == count - 1)
            clock.advance(by: .milliseconds(501))
            try await eventually { starts.count >= count }
        }
        for call in calls { #expect(try await call.value.status == 200) }
        #expect(starts.elements.max() == .milliseconds(4 * 501))
    }

    @Test func providerMaySendWithinTheLimit() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let box = Mutex<CentralRequestManager?>(nil)
        let manager = try CentralRequestManager.make {
            $0.limits.maxConcurrentRequests = 1
            $0.headerProvider = { request in
                guard !request.url.hasSuffix("/token") else { return [:] }
                let manager = box.withLock { $0 }
                return ["X-Token": try await manager?.startRequest("GET", server.url("/token")).text]
            }
        }
        box.withLock { $0 = manager }
        #expect(try await manager.startRequest("GET", server.url("/a")).status == 200)
        #expect(server.requests.last?.headers["X-Token"] == "ok")
        box.withLock { $0 = nil }
    }

    @Test func waitForSharedLimitsIsReportedToItsEnd() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let turn = Waiter<Void>()
        let manager = try CentralRequestManager.make {
            $0.limits.maxConcurrentRequests = 5
            $0.companion = OneTurn(turn: turn)
        }
        var events = manager.events.makeAsyncIterator()
        let call = Task { try await manager.startRequest("GET", server.url()).status }
        let waiting = await next(&events) { if case .waiting(.limits) = $0 { true } else { false } }
        #expect(waiting != nil)
        turn.end(.success(()))
        let after = await next(&events) { _ in true }
        guard case .waited(.limits)? = after?.kind else {
            Issue.record("\(after as Any)")
            return
        }
        #expect(try await call.value == 200)
    }

    // MARK: Circuits

    @Test func circuitOpensAndHostIsTriedAfterThePause() async throws {
        let clock = VirtualClock()
        let policy = RequestLimits.CircuitBreakerPolicy(failures: 3, pause: .seconds(30))
        let stage = LimitStage(RequestLimits(), policy, clock: clock.callClock)
        let sent = Log<String>()
        func send(_ url: String, _ status: Int) async throws -> Int {
            try await stage.intercept(HTTPRequest("GET", url)) { request in
                sent.append(request.url)
                return HTTPResponse(status: status, url: request.url)
            }.status
        }
        for _ in 0..<3 { #expect(try await send("http://bad/", 503) == 503) }
        let error = await failure { try await send("http://bad/", 200) }
        #expect(error?.kind == .circuitOpen)
        #expect(try await send("http://good/", 200) == 200)
        #expect(sent.count == 4)
        clock.advance(by: .seconds(30))
        #expect(try await send("http://bad/", 200) == 200)
        #expect(try await send("http://bad/", 200) == 200)
    }

    @Test func cancellationsAndInvalidRequestsDoNotCount() {
        let policy = RequestLimits.CircuitBreakerPolicy()
        #expect(policy.judge(.failure(CancellationError())) == nil)
        #expect(policy.judge(.failure(NetworkError(.cancelled, message: ""))) == nil)
        #expect(policy.judge(.failure(NetworkError(.invalidRequest, message: ""))) == nil)
        #expect(policy.judge(.failure(NetworkError(.timeout(.idle), message: ""))) == false)
        #expect(policy.judge(.success(HTTPResponse(status: 404, url: ""))) == true)
    }
}

/// Limits that processes share. They let a call start when the test ends `turn`.
private struct OneTurn: ManagerCompanion, SharedLimits {
    let turn: Waiter<Void>

    var cacheMode: CacheMode? { nil }

    func prepare(_ configuration: inout CentralRequestManager.Configuration) {}

    func store(above local: any CacheStore) -> (any CacheStore)? { nil }

    func sharedLimits() -> (any SharedLimits)? { self }

    func enter(
        _ call: LimitedCall, _ limits: [SharedLimit], host: String
    ) async throws -> (@Sendable (_ isUnused: Bool) -> Void)? {
        try await call.wait(turn) { _ in }
        return nil
    }

    func observeCircuits(_ receive: @escaping @Sendable (_ circuit: String, CircuitReport) -> Void) {}

    func circuitOpened(_ circuit: String, for pause: Duration) {}

    func pauseBeforeProbe(_ circuit: String) async -> Duration? { nil }

    func probeEnded(_ circuit: String, isClosed: Bool) {}
}
