import DomainTables
import FoundationEssentials
import LATSealing
import LATTesting
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// What the two requests of a hedged call mean to the rest of the pipeline: mirrors, followers, records and observers.
@Suite(.timeLimit(.minutes(2))) struct HedgeRaceTests {
    private static let soon = RequestOptions.Hedge(after: .time(.milliseconds(20)), share: 1)
    private static let silence = MockReply.text("late").stalling(.start)

    private static func table(_ addresses: [String]) throws -> DomainTable {
        let mirrors = addresses.dropFirst().map { "\"\($0)\"" }.joined(separator: ", ")
        return try DomainTable(
            json5: """
                { domains: { a: { baseURL: "\(addresses[0])", mirrors: [\(mirrors)],
                    hedge: { after: "20ms", share: 1 } } } }
                """)
    }

    // MARK: Addresses

    @Test func hedgeSkipsAddressesThatFailed() async throws {
        let dead = try ReservedPort()
        let (silent, good) = (try MockServer(), try MockServer())
        silent.fallback { _ in Self.silence }
        good.fallback { _ in .text("\"good\"") }
        let table = try Self.table(["http://127.0.0.1:\(dead.port)", silent.url("/s"), good.url("/g")])
        let manager = try CentralRequestManager.make { $0.domains = table }
        // Only connections that fail show that the first address is dead.
        let route = Route("GET", domain: "a", path: "x")
        let unhedged = EntityCall(route).setting(\.hedge, .off).setting(\.timeout, .milliseconds(300))
        #expect(await failure { try await unhedged.startRequest(on: manager) }?.kind == .timeout(.total))
        for _ in 0..<2 { #expect(try await manager.startRequest(route).response.text == "\"good\"") }
        // The address that answered is the one that is known to be good; the silent one is still tried first.
        #expect(silent.requestCount == 3 && good.requestCount == 2)
    }

    @Test func rangeIsAskedOfOneAddressOnly() async throws {
        let (first, second) = (try MockServer(), try MockServer())
        first.enqueue(Self.silence, .text("\"own\""))
        second.fallback { _ in .text("\"other\"") }
        let table = try Self.table([first.url("/a"), second.url("/b")])
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.headers = ["Range": "bytes=0-1"]
        }
        let reply = try await manager.startRequest(Route("GET", domain: "a", path: "x"))
        #expect(reply.response.text == "\"own\"")
        #expect(first.requestCount == 2 && second.requestCount == 0)
    }

    /// Two servers of one domain, of which the first lets its first request wait.
    private static func pair() throws -> (first: MockServer, second: MockServer, table: DomainTable) {
        let (first, second) = (try MockServer(), try MockServer())
        first.enqueue(silence, .text("\"own\""))
        second.fallback { _ in .text("\"other\"").header("Cache-Control", "max-age=60") }
        return (first, second, try table([first.url("/a"), second.url("/b")]))
    }

    @Test func keyIsKnownToOneAddressOnly() async throws {
        let (first, second, table) = try Self.pair()
        let manager = try CentralRequestManager.make { $0.domains = table }
        let call = EntityCall(Route("POST", domain: "a", path: "x")).setting(\.idempotencyKey, "k")
        #expect(try await call.startRequest(on: manager) == "own")
        #expect(first.requestCount == 2 && second.requestCount == 0)
    }

    @Test func nonceOfAProviderStaysWithItsAddress() async throws {
        let (first, second, table) = try Self.pair()
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.parameterProvider = { _ in ["nonce": 1] }
        }
        let reply = try await manager.startRequest(Route("GET", domain: "a", path: "x"))
        #expect(reply.response.text == "\"own\"" && first.requestCount == 2 && second.requestCount == 0)
    }

    @Test func refusalOfAMirrorIsNoResponse() async throws {
        let (first, second) = (try MockServer(), try MockServer())
        first.fallback { _ in .text("\"slow\"").delayed(by: .milliseconds(300)) }
        second.fallback { _ in .status(404) }
        let table = try Self.table([first.url("/a"), second.url("/b")])
        let manager = try CentralRequestManager.make { $0.domains = table }
        let reply = try await manager.startRequest(Route("GET", domain: "a", path: "x"))
        #expect(reply.response.text == "\"slow\"")
    }

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.fixed(.seconds(60)))])
    func responseOfAMirrorIsNotStored(_ policy: CachePolicy) async throws {
        let (first, second, table) = try Self.pair()
        first.fallback { _ in Self.silence }
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.cachePolicy = policy
            $0.cacheStorage = .memory
        }
        let call = EntityCall(Route("GET", domain: "a", path: "x"))
        #expect(try await call.startRequest(on: manager) == "other")
        #expect(try await call.setting(\.hedge, .off).startRequest(on: manager) == "own")
        #expect(first.requestCount == 2 && second.requestCount == 1)
    }

    @Test func deadMirrorReturnsItsHedges() async throws {
        let dead = try ReservedPort()
        let first = try MockServer()
        first.enqueue(Self.silence, .text("\"1\""), Self.silence, .text("\"2\""))
        let table = try Self.table([first.url("/a"), "http://127.0.0.1:\(dead.port)"])
        let failures = Box(0)
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.accessories = [Counting(failures)]
        }
        for text in ["\"1\"", "\"2\""] {
            #expect(try await manager.startRequest(Route("GET", domain: "a", path: "x")).response.text == text)
        }
        // The second call knows that the mirror is dead.
        #expect(failures.value == 1 && first.requestCount == 4)
    }

    private struct Counting: RequestAccessory {
        let failures: Box<Int>
        init(_ failures: Box<Int>) { self.failures = failures }
        func handle(_ event: CallEvent) { if case .failed = event.kind { failures.change { $0 += 1 } } }
    }

    @Test func answerOfAnotherAddressIsRemembered() {
        var (own, hedge) = (SentRequests(), SentRequests())
        own.begins(HTTPRequest("GET", "http://a/"), hop: 0)
        hedge.begins(HTTPRequest("GET", "http://b/"), hop: 0)
        var sent = SentRequests()
        sent.absorb(own, isAnswer: false)
        #expect(sent.last == nil && sent.attempts == 1)
        sent.absorb(hedge, isAnswer: true)
        sent.answered(by: 1)
        #expect(sent.last?.url == "http://b/" && sent.addressIndex == 1 && sent.attempts == 2)
        // The record of a loser changes nothing but the counts.
        sent.absorb(own, isAnswer: false)
        #expect(sent.last?.url == "http://b/" && sent.addressIndex == 1 && sent.attempts == 3)
        sent.absorb(own, isAnswer: true)
        #expect(sent.addressIndex == nil)
    }

    // MARK: Calls

    @Test func followersHearThatAHedgedCallWasSent() async throws {
        let server = try MockServer()
        server.fallback { _ in Self.silence }
        let manager = try CentralRequestManager.make {
            $0.hedge = .init(after: .time(.seconds(3_600)), share: 1)
            $0.cachePolicy = .http
            $0.cacheStorage = .memory
        }
        let leader = manager.startRequest("GET", server.url(), success: { _, _ in }, failure: { _, _ in })
        _ = try await server.waitForRequests(1)
        var request = HTTPRequest("GET", server.url())
        request.timeout = .milliseconds(50)
        // Its timeout begins with the transfer of the first.
        #expect(await failure { try await manager.send(request) }?.kind == .timeout(.total))
        #expect(server.requestCount == 1)
        leader.cancel()
        #expect(await failure { try await leader.value }?.kind == .cancelled)
    }

    @Test func bodyOfARedirectEndsWithItsCall() async throws {
        let server = try MockServer()
        // The body of a redirect that is not followed is collected.
        server.fallback { _ in
            var reply = MockReply.pattern(byteCount: 1_000).stalling(.afterBodyBytes(10)).header("Location", "/b")
            reply.status = 302
            return reply
        }
        let manager = try CentralRequestManager.make {
            $0.hedge = .init(after: .time(.seconds(3_600)), share: 1)
            $0.redirectHandler = { _ in .stop }
        }
        var events = manager.events.makeAsyncIterator()
        let task = manager.startRequest("GET", server.url(), success: { _, _ in }, failure: { _, _ in })
        while let event = await events.next() {
            if case .answered = event.kind { break }
        }
        task.cancel()
        #expect(await failure { try await task.value }?.kind == .cancelled)
        try await server.waitForClosedConnections(1)
    }

    @Test func hedgesFollowTheirCall() {
        let call = Call(HTTPRequest("GET", "http://h/"), progress: { _ in })
        let hedge = call.hedge()
        #expect(hedge.isAttempt && !call.isAttempt)
        // Two requests would report the progress of one call by turns.
        #expect(hedge.progressHandler == nil && hedge.bodyHandler == nil)
        call.setSuspended(true)
        hedge.follow(call)
        #expect(hedge.transferState.isSuspended)
        call.setSuspended(false)
        call.raisePriority(to: .high)
        hedge.follow(call)
        #expect(!hedge.transferState.isSuspended && hedge.wasSuspended && hedge.priority == .high)
        // A winner goes on with its body.
        call.abandonFirst()
        hedge.follow(call)
        #expect(call.transferState.isCancelled && !call.isCancelled && !hedge.transferState.isCancelled)
        call.takeUp()
        #expect(!call.transferState.isCancelled)
        call.cancel()
        hedge.follow(call)
        #expect(hedge.isCancelled)
    }

    @Test func cancellationOfACallWithAnAbandonedRequestCounts() {
        let call = Call(HTTPRequest("GET", "http://h/"))
        call.abandonFirst()
        call.cancel()
        call.takeUp()
        #expect(call.isCancelled && call.transferState.isCancelled)
    }

    @Test func hedgeRunsInTheScopeOfItsCall() async {
        let values = CallScope.$depth.withValue(1) { CallScope.Values() }
        let seen = Atomic(false)
        await Task.detached { [values] in
            await values.run { seen.store(CallScope.depth == 1, ordering: .relaxed) }
        }.value
        #expect(seen.load(ordering: .relaxed) && CallScope.depth == 0)
    }

    /// Holds each first request back after its end, whatever happens.
    private actor Holding: Interceptor {
        private var count = 0
        private var held: CheckedContinuation<Void, Never>?
        private var isOver = false

        func release() {
            isOver = true
            held?.resume()
            held = nil
        }

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            count += 1
            guard count == 1 else { return try await next(request) }
            do {
                return try await next(request)
            } catch {
                if !isOver { await withCheckedContinuation { held = $0 } }
                throw error
            }
        }
    }

    @Test func responseDoesNotWaitForTheLoser() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let interceptor = Holding()
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.networkInterceptors = [interceptor]
        }
        #expect(try await manager.startRequest("GET", server.url()).text == "ok")
        await interceptor.release()
    }

    @Test func callIsHedgedAgainAfterARetry() async throws {
        let server = try MockServer()
        let attempts = Mutex(0)
        let isSilent = Mutex(false)
        server.fallback { request in
            if request.path == "/calm" { return .text("calm") }
            // On a busy machine the first attempt is hedged, too.
            guard request.headers["X-Attempt"] == "2" else { return .status(503) }
            return isSilent.withLock { isSilent in
                defer { isSilent = true }
                return isSilent ? .text("ok") : Self.silence
            }
        }
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .zero)
            // Asked once for each attempt.
            $0.headerProvider = { _ in
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                return ["X-Attempt": "\(attempt)"]
            }
        }
        // A call without a hedge leaves its share to a first attempt that is hedged.
        var calm = HTTPRequest("GET", server.url("/calm"))
        calm.hedge = RequestOptions.Hedge(after: .time(.seconds(60)), share: 1)
        #expect(try await manager.startRequest(calm).text == "calm")
        attempts.withLock { $0 = 0 }
        var events = manager.events.makeAsyncIterator()
        let response = try await manager.startRequest("GET", server.url())
        #expect(response.text == "ok" && response.attempts >= 3)
        var names: [String] = []
        events: while let event = await events.next() {
            switch event.kind {
            case .retrying: names.append("retrying")
            case .hedging: names.append("hedging")
            case .finished: break events
            default: break
            }
        }
        #expect(names.last == "hedging" && names.contains("retrying"))
    }

    @Test func unsealedRequestOfASealingManagerIsHedged() async throws {
        let server = try MockServer()
        server.enqueue(Self.silence, .text("ok"))
        let sealer = try AESGCMSealer(keys: ["k": Data(repeating: 7, count: 32)], current: "k")
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.sealer = sealer
        }
        var request = HTTPRequest("GET", server.url())
        request.sealing = .unsealed
        #expect(try await manager.send(request).text == "ok")
        #expect(server.requestCount == 2)
    }

    // MARK: Ends

    /// The first request is answered when the second one was sent, which is never answered. Later ones are answered at once.
    private actor FirstAnswers: Transport {
        private let responses: [Int: HTTPResponse]
        private let secondSent = SharedResult<Void>()
        private var count = 0

        init(_ responses: [Int: HTTPResponse]) { self.responses = responses }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            // A hedge asks for a connection of its own. On a busy machine it may arrive before the first request.
            let isHedge = request.context.opensConnection
            if !isHedge { count += count == 0 ? 1 : 2 }
            let number = isHedge ? 2 : count
            switch number {
            case 1: try await secondSent.value()
            case 2:
                secondSent.settle(.success(()))
                try await Task.sleep(for: .seconds(3_600))
            default: break
            }
            return responses[number] ?? HTTPResponse(status: 404, url: request.url)
        }
    }

    @Test func failureDoesNotWaitForASlowHedge() async throws {
        let transport = FirstAnswers([1: HTTPResponse(status: 500, url: "http://h.example/")])
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.transport = transport
        }
        #expect(try await manager.send(HTTPRequest("GET", "http://h.example/")).status == 500)
    }

    @Test func hopBelongsToTheAttemptThatWasRedirected() async throws {
        let moved = HTTPResponse(status: 302, headers: ["Location": "/there"], url: "http://h.example/")
        let transport = FirstAnswers([1: moved, 3: HTTPResponse(status: 200, url: "http://h.example/there")])
        let manager = try CentralRequestManager.make {
            $0.hedge = Self.soon
            $0.transport = transport
        }
        var events = manager.events.makeAsyncIterator()
        let response = try await manager.send(HTTPRequest("GET", "http://h.example/"))
        var hops: [Int] = []
        events: while let event = await events.next() {
            switch event.kind {
            case .sending(let attempt, _) where event.hop == 1: hops.append(attempt)
            case .finished: break events
            default: break
            }
        }
        #expect(response.status == 200 && hops == [1])
    }
}
