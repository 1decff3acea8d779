import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

import Platform
@testable import LATClient

/// Token renewal, with a test for each of the bugs known from Alamofire, Ktor and ky.
@Suite(.timeLimit(.minutes(2))) struct AuthenticatorTests {
    /// A server that accepts one token at a time.
    private final class TokenServer: Sendable {
        let server: MockServer
        private let good = Mutex("token-1")

        init() throws {
            server = try MockServer()
            server.fallback { [weak self] request in
                let isGood = request.headers["Authorization"] == self?.good.withLock { $0 }
                return isGood ? .text(request.headers["X-Nonce"] ?? "ok") : .status(401)
            }
        }

        func setGood(_ token: String) { good.withLock { $0 = token } }
    }

    private final class Session: Authenticator {
        private struct State {
            var token = "old"
            var refreshes = 0
        }

        private let state = Mutex(State())
        let renew: @Sendable (Int) async throws -> String
        let refreshTimeout: Duration
        let refreshPause: Duration

        init(
            timeout: Duration = .seconds(30), pause: Duration = .seconds(600),
            _ renew: @escaping @Sendable (Int) async throws -> String
        ) {
            self.renew = renew
            refreshTimeout = timeout
            refreshPause = pause
        }

        var refreshes: Int { state.withLock(\.refreshes) }

        func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = state.withLock(\.token) }

        func refresh() async throws {
            let number = state.withLock { state in
                state.refreshes += 1
                return state.refreshes
            }
            let token = try await renew(number)
            state.withLock { $0.token = token }
        }
    }

    private enum Ending: Equatable {
        case status(Int)
        case error(NetworkError.Kind)
    }

    private func statuses(
        _ count: Int, _ manager: CentralRequestManager, _ url: String
    ) async -> [Ending] {
        await withTaskGroup(of: Ending.self) { group in
            for _ in 0..<count {
                group.addTask {
                    do {
                        return .status(try await manager.send(HTTPRequest("GET", url)).status)
                    } catch let error as NetworkError {
                        return .error(error.kind)
                    } catch {
                        return .error(.other)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func hundred401sRenewTheTokenOnce() async throws {
        let tokens = try TokenServer()
        let session = Session { _ in "token-1" }
        let nonces = Atomic(0)
        let manager = try CentralRequestManager.make {
            $0.authenticator = session
            $0.maxConnectionsPerHost = 100
            $0.headerProvider = { _ in ["X-Nonce": "\(nonces.add(1, ordering: .relaxed).newValue)"] }
        }
        let statuses = await statuses(100, manager, tokens.server.url())
        #expect(statuses.allSatisfy { $0 == .status(200) })
        #expect(session.refreshes == 1)
        #expect(tokens.server.requestCount <= 200)
        // The header provider was asked for every attempt.
        let sent = tokens.server.requests.compactMap { $0.headers["X-Nonce"] }
        #expect(Set(sent).count == sent.count)
    }

    @Test func newRequestsWaitForTheRenewal() async throws {
        let tokens = try TokenServer()
        let (hasBegun, mayEnd) = (Event(), Event())
        let session = Session { _ in
            hasBegun.happen()
            await mayEnd.wait()
            return "token-1"
        }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        var events = manager.events.makeAsyncIterator()
        let first = Task { try await manager.startRequest("GET", tokens.server.url("/1")).status }
        await hasBegun.wait()
        let second = Task { try await manager.startRequest("GET", tokens.server.url("/2")).status }
        var waits = 0
        while waits < 2, let event = await events.next() {
            if case .waiting(.token) = event.kind { waits += 1 }
        }
        #expect(tokens.server.requestCount == 1)
        mayEnd.happen()
        #expect(try await first.value == 200)
        #expect(try await second.value == 200)
        #expect(tokens.server.requests.count { $0.path == "/2" } == 1)
    }

    struct Refused: Error {}

    @Test func failedRenewalEndsAllWaiters() async throws {
        let tokens = try TokenServer()
        let session = Session { _ in throw Refused() }
        let manager = try CentralRequestManager.make {
            $0.authenticator = session
            $0.maxConnectionsPerHost = 50
        }
        let statuses = await statuses(50, manager, tokens.server.url())
        #expect(statuses.allSatisfy { $0 == .error(.authentication) })
        #expect(session.refreshes == 1)
        let error = await failure { try await manager.startRequest("GET", tokens.server.url()) }
        #expect(error?.underlying is Refused)
        #expect(error?.response?.status == 401)
        #expect(session.refreshes == 1)
    }

    @Test func renewalIsTriedAgainAfterThePause() async throws {
        let tokens = try TokenServer()
        let session = Session(pause: .zero) { number in
            if number == 1 { throw Refused() }
            return "token-1"
        }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        #expect(await failure { try await manager.startRequest("GET", tokens.server.url()) }?.kind == .authentication)
        #expect(try await manager.startRequest("GET", tokens.server.url()).status == 200)
        #expect(session.refreshes == 2)
    }

    @Test func hangingRenewalEndsWithItsTimeout() async throws {
        let clock = VirtualClock()
        let isOver = Event()
        let session = Session(timeout: .seconds(30)) { _ in
            await isOver.wait()  // ignores cancellation
            return "late"
        }
        let stage = AuthenticationStage(TokenSource(session), limits: TimeLimits(clock.callClock))
        let calls = (0..<5).map { _ in
            Task {
                await failure {
                    try await stage.intercept(HTTPRequest("GET", "http://h/")) { request in
                        HTTPResponse(status: 401, url: request.url)
                    }
                }
            }
        }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(30))
        for call in calls {
            let error = await call.value
            #expect(error?.kind == .authentication)
            #expect(error?.message.contains("30") == true)
        }
        #expect(session.refreshes == 1)
        isOver.happen()
    }

    /// A renewal that ignores its cancellation runs on after its limit. The next one waits for it.
    @Test(arguments: [true, false]) func lateRenewalIsNotJoinedByASecond(succeeds: Bool) async throws {
        let clock = VirtualClock()
        defer { clock.advance(by: .seconds(3_600)) }
        let (isLate, mayEnd) = (Event(), Event())
        let running = Log<Int>()
        let session = Session(timeout: .seconds(30), pause: .zero) { number in
            if number == 1 {
                isLate.happen()
                await mayEnd.wait()  // ignores cancellation
                running.append(1)
                guard succeeds else { throw Refused() }
            } else {
                running.append(number)
            }
            return "token-1"
        }
        let stage = AuthenticationStage(TokenSource(session), limits: TimeLimits(clock.callClock))
        @Sendable func send() async throws -> Int {
            try await stage.intercept(HTTPRequest("GET", "http://h/")) { request in
                HTTPResponse(
                    status: request.headers["Authorization"] == "token-1" ? 200 : 401, url: request.url)
            }.status
        }
        let first = Task { await failure { try await send() } }
        await isLate.wait()
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(30))
        #expect(await first.value?.kind == .authentication)
        let second = Task { try await send() }
        await clock.waitForSleepers(1)
        #expect(session.refreshes == 1)
        mayEnd.happen()
        #expect(try await second.value == 200)
        #expect(running.elements == (succeeds ? [1] : [1, 2]) && session.refreshes == running.count)
    }

    @Test func cancelledWaiterDoesNotCancelTheRenewal() async throws {
        let tokens = try TokenServer()
        let (hasBegun, mayEnd) = (Event(), Event())
        let session = Session { _ in
            hasBegun.happen()
            await mayEnd.wait()
            try Task.checkCancellation()
            return "token-1"
        }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        var events = manager.events.makeAsyncIterator()
        // The call that started the renewal is cancelled.
        let leaving = Task { try await manager.startRequest("GET", tokens.server.url("/1"), tag: "leaving") }
        await hasBegun.wait()
        let staying = Task { try await manager.startRequest("GET", tokens.server.url("/2")).status }
        let caller = Task {
            await failure { try await manager.startRequest("GET", tokens.server.url("/3"), tag: "told") }
        }
        var waits = 0
        while waits < 3, let event = await events.next() {
            if case .waiting(.token) = event.kind { waits += 1 }
        }
        leaving.cancel()
        await #expect(throws: CancellationError.self) { try await leaving.value }
        #expect(manager.cancelRequests(.tag("told")) == 1)
        #expect(await caller.value?.kind == .cancelled)
        mayEnd.happen()
        #expect(try await staying.value == 200)
        #expect(session.refreshes == 1)
    }

    @Test func cancelledRenewalIsAnAuthenticationError() async throws {
        let tokens = try TokenServer()
        let session = Session { _ in throw CancellationError() }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        let error = await failure { try await manager.startRequest("GET", tokens.server.url()) }
        #expect(error?.kind == .authentication)
        #expect(error?.underlying is CancellationError)
    }

    @Test func renewalMayUseTheSameManager() async throws {
        let tokens = try TokenServer()
        tokens.server.route("POST", "/token") { request in
            request.headers["Authorization"] == nil ? .text("token-1") : .status(500)
        }
        let managerBox = Mutex<CentralRequestManager?>(nil)
        let session = Session { _ in
            guard let manager = managerBox.withLock({ $0 }) else { throw Refused() }
            return try await manager.startRequest("POST", tokens.server.url("/token")).text ?? ""
        }
        let manager = try CentralRequestManager.make {
            $0.authenticator = session
            $0.maxConnectionsPerHost = 1
            $0.limits.maxConcurrentRequests = 1
        }
        managerBox.withLock { $0 = manager }
        // A barrier holds all later calls, but not the renewal of the token that it needs itself.
        var barrier = HTTPRequest("GET", tokens.server.url("/barrier"))
        barrier.isBarrier = true
        #expect(try await manager.send(barrier).status == 200)
        #expect(await statuses(20, manager, tokens.server.url()).allSatisfy { $0 == .status(200) })
        #expect(session.refreshes == 1)
        managerBox.withLock { $0 = nil }
    }

    @Test func renewalRefusedWith401DoesNotLoop() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(401) }
        let managerBox = Mutex<CentralRequestManager?>(nil)
        let session = Session { _ in
            guard let manager = managerBox.withLock({ $0 }) else { throw Refused() }
            return try await manager.startRequest("POST", server.url("/token")).text ?? ""
        }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        managerBox.withLock { $0 = manager }
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.kind == .authentication)
        #expect((error?.underlying as? NetworkError)?.response?.status == 401)
        #expect(server.requestCount == 2)
        managerBox.withLock { $0 = nil }
    }

    @Test func second401IsDeliveredWithoutRenewal() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(401) }
        let session = Session { "token-\($0)" }
        let manager = try CentralRequestManager.make {
            $0.authenticator = session
            $0.maxConnectionsPerHost = 30
        }
        let statuses = await statuses(30, manager, server.url())
        #expect(statuses.allSatisfy { $0 == .status(401) })
        #expect(session.refreshes == 1)
        #expect(server.requestCount <= 60)
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.kind == .httpStatus)
        #expect(session.refreshes == 1)
    }

    @Test func eachExpiredTokenIsRenewedOnce() async throws {
        let tokens = try TokenServer()
        let session = Session { "token-\($0)" }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        #expect(await statuses(20, manager, tokens.server.url()).allSatisfy { $0 == .status(200) })
        tokens.setGood("token-2")
        #expect(await statuses(20, manager, tokens.server.url()).allSatisfy { $0 == .status(200) })
        #expect(session.refreshes == 2)
    }

    /// The status 419 does not tell whether the request had an effect.
    @Test func refusedPostRenewsTheTokenForOthers() async throws {
        struct Session419: Authenticator {
            let session: Session
            func apply(to request: inout HTTPRequest) { session.apply(to: &request) }
            func isRejected(_ response: HTTPResponse, to request: HTTPRequest) -> Bool { response.status == 419 }
            func refresh() async throws { try await session.refresh() }
        }
        let server = try MockServer()
        server.fallback { .status($0.headers["Authorization"] == "new" ? 200 : 419) }
        let session = Session { _ in "new" }
        let manager = try CentralRequestManager.make { $0.authenticator = Session419(session: session) }
        #expect(await failure { try await manager.startRequest("POST", server.url()) }?.response?.status == 419)
        #expect(server.requestCount == 1)
        #expect(try await manager.startRequest("POST", server.url()).status == 200)
        #expect(session.refreshes == 1 && server.requestCount == 2)
    }

    @Test func storedAnswerDoesNotProveAToken() async throws {
        let tokens = try TokenServer()
        tokens.setGood("old")
        let session = Session { _ in "bad" }
        let manager = try CentralRequestManager.caching(.networkOnly) {
            $0.authenticator = session
            $0.cachePartition = "user"
        }
        func stored() async throws -> HTTPResponse {
            try await manager.startRequest("GET", tokens.server.url("/a"), cache: .cacheElseNetwork(.forever))
        }
        #expect(try await stored().source == .network)
        tokens.setGood("other")
        for _ in 0..<2 {
            #expect(await statuses(1, manager, tokens.server.url("/b")) == [.status(401)])
            #expect(try await stored().source == .memoryCache)
        }
        #expect(session.refreshes == 1)
    }

    @Test func oneShotStreamIsNotResentAfterRenewal() async throws {
        let tokens = try TokenServer()
        let session = Session { _ in "token-1" }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        let once = AsyncStream<Data> {
            $0.yield(Data("x".utf8))
            $0.finish()
        }
        #expect(
            await failure { try await manager.startRequest("POST", tokens.server.url(), body: .stream(once)) }?
                .response?
                .status == 401)
        #expect(try await manager.startRequest("GET", tokens.server.url()).status == 200)
        #expect(session.refreshes == 1)
    }

    @Test func callMayOptOutOfAuthentication() async throws {
        let tokens = try TokenServer()
        let session = Session { _ in "token-1" }
        let manager = try CentralRequestManager.make { $0.authenticator = session }
        var request = HTTPRequest("GET", tokens.server.url())
        request.authenticator = .off
        #expect(try await manager.send(request).status == 401)
        #expect(session.refreshes == 0)
    }

    @Test func throwingAuthenticatorFailsTheCall() async throws {
        struct Broken: Authenticator {
            func apply(to request: inout HTTPRequest) throws { throw Refused() }
            func refresh() {}
        }
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.authenticator = Broken() }
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.kind == .provider)
        #expect(error?.underlying is Refused)
        #expect(server.requestCount == 0)
    }
}
