import HTTPCore
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// `observes` and `willSend` of ``RequestAccessory``.
@Suite(.timeLimit(.minutes(1))) struct AttemptObserverTests {
    /// Numbers the requests that are sent, and notes how they end.
    private final class Numbering: RequestAccessory {
        let wanted: Bool
        let notes = Mutex<[String]>([])

        init(wanted: Bool = true) { self.wanted = wanted }

        func observes(_ request: HTTPRequest) -> Bool { wanted }
        func willStart(_ call: ObservedCall) { notes.withLock { $0.append("start") } }
        func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? {
            request.headers["X-Number"] = "\(resends)"
            return { result in
                let end =
                    switch result {
                    case .success(let response): "\(response.status)"
                    case .failure(let error): "\(error.kind)"
                    }
                self.notes.withLock { $0.append("\(resends): \(end)") }
            }
        }
    }

    @Test func eachRequestIsChangedAndItsEndReported() async throws {
        let server = try MockServer()
        server.enqueue(.noReply, .redirect(to: "/b"), .text("b"))
        let observer = Numbering()
        let manager = try CentralRequestManager.make {
            $0.accessories = [observer]
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
        }
        _ = try await manager.startRequest("GET", server.url("/a"))
        #expect(observer.notes.withLock { $0 } == ["start", "0: connectionLost", "1: 302", "2: 200"])
        #expect(server.requests.map { $0.headers["X-Number"] } == ["0", "1", "2"])
    }

    /// As a hedge that is abandoned before it is sent.
    @Test func attemptAfterTheEndIsNoEvent() throws {
        let (observer, events) = (Numbering(), Box(0))
        let log = RequestLog(.full) { _ in events.change { $0 += 1 } }
        let reporters = CallReporters(secrets: .standard, [observer, log], hub: CallEventHub(limit: 1))
        let request = HTTPRequest("GET", "http://127.0.0.1/")
        let call = Call(request, watchers: reporters)
        let watch = try #require(call.watch)
        watch.start()
        var sent = request
        let ends = watch.willSend(&sent)
        watch.willFinish(.success(HTTPResponse(status: 200, url: request.url)))
        let attempt = watch.beginAttempt(sent, hop: 0, ends)
        watch.endAttempt(attempt, sent, call.cancellation)
        #expect(events.value == 0)
        #expect(observer.notes.withLock { $0 } == ["start", "0: cancelled"])
    }

    /// The engine only knows that the transfer was cancelled.
    @Test func attemptThatTheDeadlineEndsIsATimeout() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        let observer = Numbering()
        let manager = try CentralRequestManager.make { $0.accessories = [observer] }
        let call = manager.makeCall(HTTPRequest("GET", server.url()))
        let sending = Task { await failure { try await manager.run(call) { response, _ in response } } }
        try await server.waitForRequests(1)
        call.endAtDeadline()
        #expect(await sending.value?.kind == .timeout(.deadline))
        #expect(observer.notes.withLock { $0 } == ["start", "0: \(NetworkError.Kind.timeout(.deadline))"])
    }

    @Test func unwantedCallIsKeptFromOneObserverOnly() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let (first, second, third) = (Numbering(wanted: false), Numbering(), Numbering(wanted: false))
        let manager = try CentralRequestManager.make { $0.accessories = [first, second, third] }
        _ = try await manager.startRequest("GET", server.url("/a"))
        #expect([first, second, third].map { $0.notes.withLock { $0 } } == [[], ["start", "0: 200"], []])
    }

    @Test func callThatNobodyWantsIsNotObserved() throws {
        let manager = try CentralRequestManager.make { $0.accessories = [Numbering(wanted: false)] }
        #expect(!manager.makeCall(HTTPRequest("GET", "http://h/")).isObserved)
        var request = HTTPRequest("GET", "http://h/")
        request.accessories = [Numbering()]
        #expect(manager.makeCall(request).isObserved)
    }

    @Test func fieldOfAnObserverReplacesThatOfTheTrace() async throws {
        struct Fixed: RequestAccessory {
            func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? {
                request.headers["traceparent"] = "mine"
                return nil
            }
        }
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let manager = try CentralRequestManager.make { $0.accessories = [Fixed()] }
        try await TraceParent.$current.withValue(TraceParent()) {
            _ = try await manager.startRequest("GET", server.url("/a"))
        }
        #expect(server.requests.map { $0.headers[values: "traceparent"] } == [["mine"]])
    }
}
