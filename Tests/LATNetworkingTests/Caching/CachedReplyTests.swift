import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `.cacheThenNetwork` delivers the cached reply first, flagged as such, and then the network's.
@Suite(.timeLimit(.minutes(2))) struct CachedReplyTests {
    private struct Thing: Decodable, Sendable { var count: Int }

    private struct Fetch: RequestEntity {
        typealias Model = Thing
        static let route = Route("GET", domain: "d", path: "x")
    }

    private static func server() throws -> MockServer {
        let server = try MockServer()
        server.fallback { [weak server] _ in .json(#"{"count": \#(server?.requestCount ?? 0)}"#) }
        return server
    }

    /// Where the replies come from until the network fails.
    private func sourcesBeforeFailure(_ manager: CentralRequestManager) async -> [HTTPResponse.Source] {
        var sources: [HTTPResponse.Source] = []
        await #expect(throws: NetworkError.self) {
            for try await reply in Fetch().cache(.cacheThenNetwork).replies(on: manager) {
                sources.append(reply.response.source)
            }
        }
        return sources
    }

    @Test func closureGetsCachedReplyBeforeFinalOne() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.cacheThenNetwork)
        let url = server.url()
        let first = CallRecorder()
        manager.startRequest("GET", url, into: first)
        await first.end()
        #expect(first.terminalEvents.count == 1)
        let sources = Log<String>()
        let isOver = Event()
        let task = manager.startRequest(
            "GET", url,
            success: { task, response in
                sources.append("\(response.source) \(task.isFinished) \(response.text ?? "")")
                if task.isFinished { isOver.happen() }
            }, failure: { _, error in Issue.record("\(error)") })
        await isOver.wait()
        #expect(sources.elements == ["memoryCache false 1", "network true 2"])
        #expect(task.hasDeliveredCachedReply)
    }

    @Test func failureTellsWhetherACachedReplyCame() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.cacheThenNetwork)
        let url = server.url()
        _ = try await manager.startRequest("GET", url)
        server.stop()
        let events = Log<String>()
        for target in [url, url + "other"] {
            let isOver = Event()
            manager.startRequest(
                "GET", target, success: { _, response in events.append("\(response.source)") },
                failure: { task, _ in
                    events.append("failure \(task.hasDeliveredCachedReply)")
                    isOver.happen()
                })
            await isOver.wait()
        }
        #expect(events.elements == ["memoryCache", "failure true", "failure false"])
        #expect(await failure { try await manager.startRequest("GET", url) }?.kind == .connect)
    }

    @Test func repliesYieldCachedThenNetwork() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make(try .make(server.baseURL)) { $0.cacheStorage = .memory }
        for expected in [["network 1"], ["memoryCache 1", "network 2"]] {
            var replies: [String] = []
            for try await reply in Fetch().cache(.cacheThenNetwork).replies(on: manager) {
                replies.append("\(reply.response.source) \(reply.model.count)")
            }
            #expect(replies == expected)
        }
        server.stop()
        #expect(await sourcesBeforeFailure(manager) == [.memoryCache])
    }

    @Test func repetitionsYieldTheCachedReplyOnce() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make(try .make(server.baseURL)) {
            $0.cacheStorage = .memory
            $0.retries = 2
            $0.retryPolicy.firstWait = .milliseconds(1)
        }
        _ = try await Fetch().cache(.writeOnly).startRequest(on: manager)
        server.stop()
        #expect(await sourcesBeforeFailure(manager) == [.memoryCache])
    }

    @Test func openCircuitLeavesTheStoredResponse() async throws {
        let server = try MockServer.counting()
        let manager = try CentralRequestManager.caching(.networkElseCache) {
            $0.circuitBreaker = RequestLimits.CircuitBreakerPolicy(failures: 1, pause: .seconds(600))
        }
        let url = server.url()
        #expect(try await manager.startRequest("GET", url).source == .network)
        server.stop()
        // The first one fails to connect, which opens the circuit for the others.
        for _ in 0..<3 { #expect(try await manager.startRequest("GET", url).text == "1") }
        #expect(await failure { try await manager.startRequest("GET", url + "other") }?.kind == .circuitOpen)
    }

    @Test func entityClosureIsCalledTwice() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make(try .make(server.baseURL)) { $0.cacheStorage = .memory }
        _ = try await Fetch().cache(.writeOnly).startRequest(on: manager)
        let counts = Log<Int>()
        let isOver = Event()
        Fetch().cache(.cacheThenNetwork).startRequest(on: manager) { _, model, _ in
            counts.append(model?.count ?? -1)
            if counts.count == 2 { isOver.happen() }
        }
        await isOver.wait()
        #expect(counts.elements == [1, 2])
    }

    @Test func businessFailuresAreNeverStored() async throws {
        let server = try MockServer()
        server.enqueue(.json(#"{"status": 500, "message": "no"}"#), .json(#"{"status": 0, "datas": {"count": 7}}"#))
        let table = try DomainTable.make(
            server.baseURL, domain: #"envelope: { code: "status", message: "message", data: "datas", success: [0] }"#)
        let manager = try CentralRequestManager.make(table) { $0.cacheStorage = .memory }
        let call = Fetch().cache(.cacheElseNetwork(.forever))
        #expect(await failure { try await call.startRequest(on: manager) }?.kind == .business(code: "500"))
        #expect(try await manager.cache.usage().entryCount == 0)
        #expect(try await call.startRequest(on: manager).count == 7)
        #expect(try await call.reply(on: manager).response.source == .memoryCache)
        #expect(server.requestCount == 2)
    }

    @Test(arguments: [CachePolicy.cacheElseNetwork(.forever), .http])
    func failureStoredWithoutEnvelopeIsFetchedAgain(_ policy: CachePolicy) async throws {
        let server = try MockServer()
        for text in [#"{"status": 500, "message": "no"}"#, #"{"status": 0, "datas": {"count": 7}}"#] {
            server.enqueue(.json(text).header("Cache-Control", "max-age=600"))
        }
        let table = try DomainTable.make(
            server.baseURL, domain: #"envelope: { code: "status", message: "message", data: "datas", success: [0] }"#)
        let manager = try CentralRequestManager.make(table) { $0.cacheStorage = .memory }
        _ = try await manager.startRequest("GET", server.url("/x"), cache: policy)
        #expect(try await manager.cache.usage().entryCount == 1)
        #expect(try await Fetch().cache(policy).startRequest(on: manager).count == 7)
        #expect(try await Fetch().cache(policy).reply(on: manager).response.source == .memoryCache)
        #expect(server.requestCount == 2)
    }

    @Test func rowSetsTTLAndVolatileParameters() async throws {
        let server = try Self.server()
        let clock = TestClock()
        let table = try DomainTable.make(
            server.baseURL,
            servers: #"s: { domain: "d", path: "x", method: "GET", cache: "cacheElseNetwork", ttl: "5m", "#
                + #"volatileParameters: ["nonce"] }"#)
        let manager = try CentralRequestManager.make(table) {
            $0.cacheStorage = .memory
            $0.cacheClock = { clock.now }
        }
        for (wait, nonce, count) in [(299.0, 1, 1), (1.0, 2, 1), (0.0, 3, 2)] {
            let reply = try await manager.startRequest(server: "s", parameters: ["nonce": nonce])
            #expect(reply.model["count"].int == count)
            clock.advance(by: wait)
        }
        let entry = try #require(try await manager.cache.entries(.server("s")).first)
        #expect(entry.domain == "d")
        #expect(try await manager.cache.remove(.domain("d")).entryCount == 1)
    }
}
