import CurlTransport
import DomainTables
import FoundationEssentials
import LATSealing
import LATTesting
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Hedged requests in whole calls. A server that never answers a request shows which of two counts.
@Suite(.timeLimit(.minutes(2))) struct HedgeTests {
    private static let soon = RequestOptions.Hedge(after: .time(.milliseconds(20)), share: 1)
    private static let silence = MockReply.text("late").stalling(.start)

    @Test func stalledRequestIsSentOnAnotherConnection() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let manager = try CentralRequestManager.make { $0.hedge = Self.soon }
        #expect(try await manager.startRequest("GET", server.url()).text == "ok")
        #expect(server.requestCount == 2 && server.acceptedConnections == 2)
        // The connection of the request that lost is closed at once.
        try await server.waitForClosedConnections(1)
    }

    @Test func stalledBodyIsFetchedAgain() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.afterBodyBytes(2)), .text("ok"))
        let manager = try CentralRequestManager.make { $0.hedge = Self.soon }
        #expect(try await manager.startRequest("GET", server.url()).text == "ok")
    }

    @Test func secondAddressIsTheNextMirror() async throws {
        let (first, second) = (try MockServer(), try MockServer())
        first.fallback { _ in Self.silence }
        second.fallback { .text("\"\($0.target)\"") }
        let table = try DomainTable(
            json5: """
                { domains: { a: { baseURL: "\(first.url("/api"))", mirrors: ["\(second.url("/m"))"],
                    hedge: { after: "20ms", share: 1 } } },
                  servers: { "a.item": { domain: "a", path: "v1/{id}", method: "GET" } } }
                """)
        let manager = try CentralRequestManager.make {
            $0.domains = table
        }
        let reply = try await manager.startRequest(Route(server: "a.item"), parameters: ["id": 7, "q": "x"])
        let text = reply.response.text
        #expect(text?.hasPrefix("\"/m/v1/7?") == true && text?.contains("q=x") == true)
        #expect(first.requestCount == 1 && second.requestCount == 1)
    }

    @Test func loserIsNeitherFailureNorSample() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 1)
        }
        var events = manager.events.makeAsyncIterator()
        let response = try await manager.startRequest("GET", server.url())
        var names: Set<String> = []
        events: while let event = await events.next() {
            switch event.kind {
            case .hedging(let delay): names.insert("hedging \(delay == .milliseconds(20))")
            case .abandoned(let attempt): names.insert("abandoned \(attempt)")
            case .answered(let attempt, _): names.insert("answered \(attempt)")
            case .failed(let attempt, _): names.insert("failed \(attempt)")
            case .finished: break events
            default: break
            }
        }
        #expect(names == ["hedging true", "abandoned 1", "answered 2"])
        #expect(await manager.load.circuits.isEmpty && response.status == 200)
    }

    /// The first request is answered when the second one was sent, and the second when the first was answered.
    private actor Alternating: Transport {
        let statuses: [Int]
        private let (secondSent, firstAnswered) = (SharedResult<Void>(), SharedResult<Void>())
        private(set) var requests: [HTTPRequest] = []

        init(_ statuses: [Int]) { self.statuses = statuses }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            requests.append(request)
            // A hedge asks for a connection of its own. On a busy machine it may arrive before the first request.
            let number = request.context.opensConnection ? 2 : 1
            if number == 1 {
                try await secondSent.value()
                firstAnswered.settle(.success(()))
            } else {
                secondSent.settle(.success(()))
                try await firstAnswered.value()
            }
            return HTTPResponse(status: statuses[number - 1], url: request.url)
        }
    }

    @Test(arguments: [([500, 200], 200), ([429, 204], 204), ([500, 503], 500), ([200, 500], 200)])
    func goodResponseOfTheTwoCounts(_ statuses: [Int], _ expected: Int) async throws {
        let transport = Alternating(statuses)
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.transport = transport
        }
        let response = try await manager.send(HTTPRequest("GET", "http://h.example/"))
        #expect(response.status == expected)
        #expect(await transport.requests.count == 2)
    }

    @Test func signedHedgeHasASignatureOfItsOwn() async throws {
        struct Counting: RequestSigner {
            private static let count = Atomic(0)
            func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders {
                ["X-Signature": "\(Self.count.add(1, ordering: .relaxed).newValue)"]
            }
        }
        let transport = Alternating([500, 200])
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.transport = transport
            $0.signer = Counting()
        }
        _ = try await manager.send(HTTPRequest("GET", "http://h.example/"))
        let signatures = await transport.requests.map { $0.headers[values: "X-Signature"] }
        #expect(signatures.count == 2 && signatures.allSatisfy { $0.count == 1 } && Set(signatures).count == 2)
    }

    @Test func failureBeforeTheDelayIsDelivered() async throws {
        let server = try MockServer()
        server.fallback { _ in .status(500) }
        let manager = try CentralRequestManager.make { $0.hedge = .init(after: .time(.seconds(3_600)), share: 1) }
        #expect(await failure { try await manager.startRequest("GET", server.url()) }?.response?.status == 500)
        #expect(server.requestCount == 1)
    }

    @Test func postIsHedgedOnlyWithAKey() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let manager = try CentralRequestManager.make { $0.hedge = Self.soon }
        var request = HTTPRequest("POST", server.url(), body: .text("1 book"))
        request.idempotencyKey = "k"
        #expect(try await manager.send(request).text == "ok")
        #expect(server.requests.map(\.text) == ["1 book", "1 book"])
        server.enqueue(.text("alone").delayed(by: .milliseconds(100)))
        request.idempotencyKey = nil
        #expect(try await manager.send(request).text == "alone")
        #expect(server.requestCount == 3)
    }

    @Test(arguments: [[409, 201], [201, 409], [409, 409]])
    func keyInUseIsNoResponse(_ statuses: [Int]) async throws {
        let transport = Alternating(statuses)
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.transport = transport
        }
        var request = HTTPRequest("POST", "http://h.example/")
        request.idempotencyKey = "k"
        #expect(try await manager.send(request).status == statuses.min())
        #expect(await transport.requests.count == 2)
    }

    @Test func bodyWithAHandlerIsSentOnce() async throws {
        let server = try MockServer()
        server.enqueue(.text("ok").delayed(by: .milliseconds(200)))
        let manager = try CentralRequestManager.make { $0.hedge = Self.soon }
        var request = HTTPRequest("POST", server.url(), body: .text("1 book"))
        request.idempotencyKey = "k"
        let whole = Call(HTTPRequest("GET", server.url()))
        let response = try await manager.sendPiece(request, of: whole, body: { _, _ in }, interim: nil)
        #expect(response.text == "ok" && server.requestCount == 1)
    }

    @Test func repetitionsOfSharedCallsAreNoCalls() async throws {
        let server = try MockServer()
        server.enqueue(.status(503), .text("ok").delayed(by: .milliseconds(200)))
        let manager = try CentralRequestManager.make {
            // One of two calls.
            $0.hedge = .init(after: .time(.milliseconds(20)), share: 0.5)
            $0.duplicates = .coalesce
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .zero)
        }
        #expect(try await manager.startRequest("GET", server.url()).text == "ok")
        #expect(server.requestCount == 2)
    }

    @Test func refreshInTheBackgroundIsNotHedged() async throws {
        let server = try MockServer()
        server.enqueue(
            .text("old").header("Cache-Control", "max-age=0, stale-while-revalidate=60"),
            .text("new").header("Cache-Control", "max-age=60").delayed(by: .milliseconds(200)))
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
            // What a judge checks is collected, so it could be hedged.
            $0.successJudge = { _, _ in true }
        }
        var first = HTTPRequest("GET", server.url())
        first.hedge = .off
        #expect(try await manager.send(first).text == "old")
        #expect(try await manager.startRequest("GET", server.url()).text == "old")
        // Each other call that sees the old response could start a refresh after this one.
        var stored = HTTPRequest("GET", server.url())
        stored.cachePolicy = .cacheOnly
        try await eventually("a refresh") { [stored] in try await manager.send(stored).text == "new" }
        #expect(server.requestCount == 2)
    }

    @Test func pauseIsNoDelay() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let manager = try CentralRequestManager.make { $0.hedge = .init(after: .time(.milliseconds(300)), share: 1) }
        let task = manager.startRequest("GET", server.url(), success: { _, _ in }, failure: { _, _ in })
        _ = try await server.waitForRequests(1)
        task.suspend()
        // Without the pause, the delay would be over.
        try await Task.sleep(for: .milliseconds(500))
        task.resume()
        #expect(try await task.value.text == "ok")
    }

    private struct Passing: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse { try await next(request) }
    }

    /// The wait for the app's interceptors is that of the whole call, and goes on when the first request is abandoned.
    @Test(arguments: [nil, Duration.seconds(60)]) func interceptorGetsTheResponseToTheHedge(deadline: Duration?)
        async throws
    {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"), Self.silence, .text("ok"))
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.deadline = deadline
            $0.interceptors = [Passing()]
            $0.networkInterceptors = [Passing()]
        }
        for _ in 0..<2 { #expect(try await manager.startRequest("GET", server.url()).text == "ok") }
        #expect(server.requestCount == 4)
    }

    /// Counts with the methods that a meter must have.
    private final class Pairing: CallMeter {
        let counts = Box((starts: 0, ends: 0))
        func callDidStart() {}
        func attemptDidStart(_ request: HTTPRequest) { counts.change { $0.starts += 1 } }
        func attemptDidEnd(
            _ request: HTTPRequest, with response: HTTPResponse, row: ObservedCall.Row?, after time: Duration
        ) { counts.change { $0.ends += 1 } }
        func attemptDidFail(
            _ request: HTTPRequest, with error: NetworkError, row: ObservedCall.Row?, after time: Duration
        ) { counts.change { $0.ends += error.kind == .cancelled ? 1 : 100 } }
        func count(_ kind: CallEvent.Kind) {}
        func callDidEnd(with result: Result<HTTPResponse, NetworkError>, after time: Duration) {}
    }

    @Test func meterHasAnEndForEachStart() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let meter = Pairing()
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.accessories = [meter]
        }
        _ = try await manager.startRequest("GET", server.url())
        try await eventually("the end of the loser") { meter.counts.value.ends == 2 }
        #expect(meter.counts.value.starts == 2)
    }

    @Test func budgetPaysForHedges() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("hedge"), .text("alone").delayed(by: .milliseconds(100)))
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.retryBudget = RetryPolicy.Budget(share: 0, reserve: 0)
        }
        // The bucket has one token at the beginning.
        for text in ["hedge", "alone"] { #expect(try await manager.startRequest("GET", server.url()).text == text) }
        #expect(server.requestCount == 3)
    }

    @Test func winnerIsStoredInTheCache() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok").header("Cache-Control", "max-age=60"))
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
        }
        for source in [HTTPResponse.Source.network, .memoryCache] {
            let response = try await manager.startRequest("GET", server.url())
            #expect(response.text == "ok" && response.source == source)
        }
        #expect(server.requestCount == 2)
    }

    @Test func cancelledCallEndsBothRequests() async throws {
        let server = try MockServer()
        server.fallback { _ in Self.silence }
        let manager = try CentralRequestManager.make { $0.hedge = Self.soon }
        let task = manager.startRequest("GET", server.url(), success: { _, _ in }, failure: { _, _ in })
        _ = try await server.waitForRequests(2)
        task.cancel()
        try await server.waitForClosedConnections(2)
        #expect(await failure { try await task.value }?.kind == .cancelled)
    }

    @Test func requestMayTurnHedgingOff() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok").delayed(by: .milliseconds(100)) }
        let manager = try CentralRequestManager.make { $0.hedge = Self.soon }
        var request = HTTPRequest("GET", server.url())
        request.hedge = .off
        _ = try await manager.send(request)
        #expect(server.requestCount == 1)
        request.hedge = .init(share: 7)
        // Also of a request that is never hedged.
        for method in [HTTPMethod.get, .post] {
            request.method = method
            #expect(await failure { try await manager.send(request) }?.kind == .invalidRequest)
        }
        #expect(server.requestCount == 1)
    }
}
