import FoundationEssentials
import LATTesting
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// Concurrent equal requests.
@Suite(.timeLimit(.minutes(2))) struct CacheFlightTests {
    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func concurrentMissesMakeOneRequest(_ policy: CachePolicy) async throws {
        let server = try MockServer()
        server.fallback { _ in
            .text("shared").header("Cache-Control", "max-age=60").delayed(by: .milliseconds(100))
        }
        let manager = try CentralRequestManager.caching(policy)
        let url = server.url()
        let texts = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<50 { group.addTask { try await manager.startRequest("GET", url).text } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(texts == Array(repeating: "shared", count: 50))
        #expect(server.requestCount == 1)
    }

    @Test func unstorableResponseIsFetchedByEachCall() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("own").header("Cache-Control", "no-store").delayed(by: .milliseconds(50)) }
        let manager = try CentralRequestManager.caching(.http)
        let url = server.url()
        try await withThrowingTaskGroup(of: HTTPResponse.Source.self) { group in
            for _ in 0..<10 {
                group.addTask { try await manager.startRequest("GET", url).source }
            }
            for try await source in group { #expect(source == .network) }
        }
        #expect(server.requestCount == 10)
    }

    @Test func cancelledLeaderDoesNotCancelFollowers() async throws {
        let server = try MockServer()
        server.enqueue(MockReply.text("never").stalling(.start))
        server.fallback { _ in .text("later").header("Cache-Control", "max-age=60") }
        let manager = try CentralRequestManager.caching(.http)
        let url = server.url()
        let leader = Task { try await manager.startRequest("GET", url) }
        try await server.waitForRequests(1)
        let followers = (0..<5).map { _ in Task { try await manager.startRequest("GET", url).text } }
        leader.cancel()
        for follower in followers { #expect(try await follower.value == "later") }
        #expect(await leader.result.isCancelled)
        #expect(server.requestCount == 2)
    }

    @Test func cancelledFollowerDoesNotCancelTheLeader() async throws {
        let transport = HeldTransport()
        let manager = try CentralRequestManager.caching(.http) { $0.transport = transport }
        let leader = Task { try await manager.startRequest("GET", "http://a.example/").text }
        await transport.hasBegun.wait()
        let follower = Task { try await manager.startRequest("GET", "http://a.example/").text }
        follower.cancel()
        #expect(await follower.result.isCancelled)
        transport.mayEnd.happen()
        #expect(try await leader.value == "shared")
        #expect(transport.requests.count == 1)
    }

    @Test func followerKeepsItsOwnTimeout() async throws {
        let server = try MockServer()
        server.enqueue(MockReply.text("never").stalling(.start))
        let manager = try CentralRequestManager.caching(.http)
        let url = server.url()
        let leader = Task { try await manager.startRequest("GET", url) }
        try await server.waitForRequests(1)
        let error = await failure { try await manager.startRequest("GET", url, timeout: .milliseconds(50)) }
        #expect(error?.kind == .timeout(.total))
        leader.cancel()
        _ = await leader.result
    }

    /// A follower whose own timeout passes first may use a stale response, as if it had sent the request itself.
    @Test(arguments: [true, false]) func lateFollowerGetsTheStaleResponse(isAllowed: Bool) async throws {
        let (server, clock) = (try MockServer(), TestClock())
        let control = isAllowed ? "max-age=1, stale-if-error=600" : "max-age=1"
        server.enqueue(.text("old").header("Cache-Control", control), .text("never").stalling(.start))
        let manager = try CentralRequestManager.caching(.http, clock) { $0.retries = 0 }
        let url = server.url()
        _ = try await manager.startRequest("GET", url)
        clock.advance(by: 60)
        let leader = Task { try await manager.startRequest("GET", url) }
        try await server.waitForRequests(2)
        let result = await Task { try await manager.startRequest("GET", url, timeout: .milliseconds(50)) }.result
        let statistics = manager.cache.statistics
        if isAllowed {
            let stale = try result.get()
            #expect(stale.text == "old" && stale.source == .stale && statistics.stale == 1)
        } else {
            #expect(throws: NetworkError.self) { try result.get() }
            #expect(statistics.misses == 2)
        }
        leader.cancel()
        _ = await leader.result
    }

    @Test func followerOfACustomTransportHasItsTimeout() async throws {
        let transport = HeldTransport()
        let manager = try CentralRequestManager.caching(.http) { $0.transport = transport }
        let leader = Task { try await manager.startRequest("GET", "http://a.example/").text }
        await transport.hasBegun.wait()
        let error = await failure {
            try await manager.startRequest("GET", "http://a.example/", timeout: .milliseconds(50))
        }
        #expect(error?.kind == .timeout(.total))
        transport.mayEnd.happen()
        #expect(try await leader.value == "shared")
    }

    /// While a leader is paused or queued, neither its timeout nor that of a follower runs.
    @Test(arguments: [4, 5]) func followersTimeoutBeginsWithTheTransfer(seconds: Int) async throws {
        let clock = VirtualClock()
        defer { clock.advance(by: .seconds(3_600)) }
        let limits = TimeLimits(clock.callClock)
        let (table, request) = (FlightTable(), HTTPRequest("GET", "http://h/"))
        guard case .lead(let flight) = table.join("k", since: nil) else { throw Overdue(description: "a flight") }
        let leader = Call(request)
        table.starts(flight, with: leader)
        let follower = Task {
            try await FlightTable.follow(flight, request, Call(request), .seconds(5), limits)
        }
        clock.advance(by: .seconds(60))
        leader.transferDidStart()
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(seconds))
        if seconds < 5 {
            table.end(flight, .stored)
            #expect(try await follower.value == false)
        } else {
            await #expect(throws: NetworkError.self) { try await follower.value }
        }
    }

    private enum Pause: CaseIterable {
        case first, beforeTheTransfer, underWay
    }

    @Test(arguments: Pause.allCases) private func pausedLeaderIsNotWaitedFor(_ pause: Pause) async throws {
        let (table, request) = (FlightTable(), HTTPRequest("GET", "http://h/"))
        guard case .lead(let flight) = table.join("k", since: nil) else { throw Overdue(description: "a flight") }
        let leader = Call(request)
        if pause == .first { leader.setSuspended(true) }
        table.starts(flight, with: leader)
        if pause == .underWay { leader.transferDidStart() }
        let follower = Task { try await FlightTable.follow(flight, request, Call(request), nil, TimeLimits()) }
        leader.setSuspended(true)
        #expect(try await follower.value)
        // The follower leads the next flight, which the end of the old flight does not remove.
        guard case .lead(let next) = table.join("k", since: nil) else { throw Overdue(description: "another flight") }
        table.end(flight, .stored)
        guard case .follow(let found) = table.join("k", since: nil) else { throw Overdue(description: "its flight") }
        #expect(found === next)
    }

    @Test func followerOfAnEndWithoutTransferReturns() async throws {
        let (table, request) = (FlightTable(), HTTPRequest("GET", "http://h/"))
        guard case .lead(let flight) = table.join("k", since: nil) else { throw Overdue(description: "a flight") }
        table.starts(flight, with: Call(request))
        let follower = Task { try await FlightTable.follow(flight, request, Call(request), .seconds(5), TimeLimits()) }
        table.end(flight, .abandoned)
        #expect(try await follower.value)
    }
}

/// A transport that responds when the test allows it.
private struct HeldTransport: Transport {
    let hasBegun = Event()
    let mayEnd = Event()
    let requests = Log<String>()

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        requests.append(request.url)
        hasBegun.happen()
        await mayEnd.wait()
        return HTTPResponse(
            status: 200, headers: ["Cache-Control": "max-age=60"], body: ResponseBody(Data("shared".utf8)),
            url: request.url)
    }
}

extension Result where Failure == any Error {
    fileprivate var isCancelled: Bool {
        if case .failure(let error) = self { error is CancellationError } else { false }
    }
}
