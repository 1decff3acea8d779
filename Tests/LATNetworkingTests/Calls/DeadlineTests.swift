import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// A deadline ends a call wherever it waits, even in app code that ignores cancellation.
@Suite(.timeLimit(.minutes(2))) struct DeadlineTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let place: WaitingPlace
        let form: CallForm

        var testDescription: String { "\(place.rawValue), \(form.rawValue)" }

        static let all = WaitingPlace.allCases.flatMap { place in
            CallForm.allCases.filter { form in
                // A pause that outlasts the deadline is not begun. A closure always waits for its executor.
                form.fits(place) && place != .retryPause && !(place == .callbacks && form.hasClosures)
            }.map { Case(place: place, form: $0) }
        }
    }

    @Test(arguments: Case.all) func waitEndsAtTheDeadline(_ item: Case) async throws {
        let fixture = try await WaitingFixture(item.place, .init(deadline: .milliseconds(200)))
        let call = fixture.start(item.form)
        #expect(await call.ending(in: fixture) == .error(.timeout(.deadline)))
        #expect(fixture.manager.runningRequests(.tag(WaitingFixture.tag)) == 0)
        try await fixture.expectNothingLeft()
        #expect(call.endings.count == 1)
    }

    @Test func retryPauseBeyondTheDeadlineIsNotBegun() async throws {
        let fixture = try await WaitingFixture(.retryPause, .init(deadline: .seconds(30)))
        let call = fixture.start(.asynchronous)
        #expect(await call.ending(in: fixture) == .error(.httpStatus))
        try await fixture.expectNothingLeft()
    }

    private struct Hanging: Interceptor {
        let mayGo: Event

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            await mayGo.wait()
            return try await next(request)
        }
    }

    @Test(arguments: [true, false]) func hangingInterceptorIsAbandoned(_ isNextToNetwork: Bool) async throws {
        let server = try MockServer()
        let mayGo = Event()
        let manager = try CentralRequestManager.make {
            if isNextToNetwork {
                $0.networkInterceptors = [Hanging(mayGo: mayGo)]
            } else {
                $0.interceptors = [Hanging(mayGo: mayGo)]
            }
            $0.deadline = .milliseconds(50)
        }
        let error = await failure { try await manager.startRequest("GET", server.url("/x")) }
        #expect(error?.kind == .timeout(.deadline))
        #expect(error?.request?.url == server.url("/x"))
        #expect(manager.runningRequests() == 0)
        mayGo.happen()
        // The abandoned interceptor continues, but its call is over, so nothing is sent.
        await manager.shutdown()
        #expect(server.requestCount == 0)
    }

    /// Like a cancellation, a missed deadline says nothing about the server.
    @Test(arguments: [NetworkError.Kind.timeout(.deadline), .cancelled])
    func endOfACallIsNoFailureOfTheServer(_ kind: NetworkError.Kind) {
        let error = NetworkError(kind, message: "over")
        #expect(RequestLimits.CircuitBreakerPolicy().judge(.failure(error)) == nil)
        #expect(!CacheOperations.isNetworkFailure(error) && FlightTable.ending(of: error) == .abandoned)
        let late = NetworkError(.timeout(.total), message: "slow")
        #expect(RequestLimits.CircuitBreakerPolicy().judge(.failure(late)) == false)
        #expect(CacheOperations.isNetworkFailure(late) && FlightTable.ending(of: late) == .notStored)
    }

    @Test func staleReplyDoesNotOutliveTheDeadline() async throws {
        let (isHeld, mayGo) = (Event(), Event())
        let manager = try CentralRequestManager.caching(.networkElseCache) {
            $0.transport = FunctionTransport { request in
                if isHeld.hasHappened { await mayGo.wait() }
                return HTTPResponse(status: 200, body: ResponseBody(Data("old".utf8)), url: request.url)
            }
        }
        var request = HTTPRequest("GET", "http://h/")
        #expect(try await manager.send(request).text == "old")
        isHeld.happen()
        request.deadline = .milliseconds(50)
        #expect(await failure { try await manager.send(request) }?.kind == .timeout(.deadline))
        mayGo.happen()
    }

    @Test func requestsOwnDeadlineWins() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("ok").delayed(by: .milliseconds(300)) }
        let manager = try CentralRequestManager.make { $0.deadline = .milliseconds(50) }
        var request = HTTPRequest("GET", server.url())
        request.deadline = .seconds(60)
        #expect(try await manager.send(request).text == "ok")
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.kind == .timeout(.deadline))
    }

    @Test func deadlineIsATimeoutNotACancellation() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let manager = try CentralRequestManager.make { $0.deadline = .milliseconds(50) }
        let recorder = CallRecorder()
        let task = manager.startRequest("GET", server.url(), into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .timeout(.deadline))
        #expect(task.isFinished)
        #expect(manager.cancelRequests(.all) == 0)
    }
}
