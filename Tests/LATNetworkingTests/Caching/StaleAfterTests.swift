import Dispatch
import FoundationEssentials
import HTTPCore
import LATTesting
import ResponseCache
import TestSupport
import Testing

@testable import LATClient

/// `staleAfter`: a stale response is delivered when the network is slow.
@Suite(.timeLimit(.minutes(2))) struct StaleAfterTests {
    private let clock = TestClock()
    private let server: MockServer

    init() throws { server = try MockServer() }

    private func reply(_ text: String, _ control: String = "max-age=1") -> MockReply {
        .text(text).header("Cache-Control", control).header("ETag", "\"\(text)\"")
    }

    /// A manager whose cache holds the stale response "old".
    private func manager(
        _ control: String = "max-age=1", after limit: Duration? = .milliseconds(50)
    ) async throws -> CentralRequestManager {
        let manager = try CentralRequestManager.caching(.http, clock) { $0.staleAfter = limit }
        server.enqueue(reply("old", control))
        _ = try await manager.startRequest("GET", server.url("/a"))
        clock.advance(by: 3_600)
        return manager
    }

    private func get(
        _ manager: CentralRequestManager, _ change: (inout HTTPRequest) -> Void = { _ in }
    ) async throws -> HTTPResponse {
        var request = HTTPRequest("GET", server.url("/a"))
        change(&request)
        return try await manager.startRequest(request)
    }

    @Test func slowNetworkGetsTheStaleResponse() async throws {
        let manager = try await manager()
        let mayAnswer = DispatchSemaphore(value: 0)
        server.fallback { [new = reply("new")] _ in
            mayAnswer.wait()
            return new
        }
        let stale = try await get(manager)
        #expect(stale.text == "old" && stale.source == .stale && stale.headers["Age"] == "3600")
        // Others find the same, and nothing is sent twice.
        #expect(try await get(manager).text == "old")
        try await server.waitForRequests(2)
        #expect(server.requests.last?.headers["If-None-Match"] == "\"old\"")
        // The fetch goes on, and what it brings is stored.
        mayAnswer.signal()
        try await eventually("the refreshed response") { try await get(manager).text == "new" }
        #expect(server.requestCount == 2)
    }

    @Test func fastNetworkGetsTheNewResponse() async throws {
        let manager = try await manager(after: .seconds(60))
        server.enqueue(reply("new"))
        #expect(try await get(manager).text == "new")
        clock.advance(by: 3_600)
        server.enqueue(.status(304))
        #expect(try await get(manager).text == "new")
        #expect(server.requestCount == 3)
    }

    @Test(arguments: ["max-age=1, must-revalidate", "no-cache"])
    func responseThatMustBeValidatedWaits(_ control: String) async throws {
        let manager = try await manager(control, after: .milliseconds(1))
        server.enqueue(reply("new").delayed(by: .milliseconds(200)))
        #expect(try await get(manager).text == "new")
    }

    @Test func callMayRefuseStaleResponses() async throws {
        let manager = try await manager(after: .milliseconds(1))
        server.enqueue(reply("new").delayed(by: .milliseconds(200)))
        #expect(try await get(manager) { $0.headers["Cache-Control"] = "no-cache" }.text == "new")
        clock.advance(by: 3_600)
        server.enqueue(reply("newer").delayed(by: .milliseconds(200)))
        #expect(try await get(manager) { $0.staleAfter = .seconds(60) }.text == "newer")
    }

    @Test func failedNetworkIsToldInTime() async throws {
        let manager = try await manager(after: .seconds(60))
        server.stop()
        #expect(await failure { try await get(manager) }?.kind == .connect)
    }

    @Test func withoutTheSettingTheNetworkIsWaitedFor() async throws {
        let manager = try await manager(after: nil)
        server.enqueue(reply("new").delayed(by: .milliseconds(200)))
        #expect(try await get(manager).text == "new")
    }

    @Test func rowSetsTheTime() async throws {
        let table = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())", staleAfter: "50ms" } },
                  servers: { item: { domain: "main", path: "item", method: "GET" } } }
                """, name: "table")
        let manager = try CentralRequestManager.caching(.http, clock) { $0.domains = table }
        server.enqueue(reply("old"))
        let route = Route(server: "item")
        _ = try await manager.startRequest(route, as: String.self)
        clock.advance(by: 3_600)
        server.enqueue(reply("new").stalling(.start))
        #expect(try await manager.startRequest(route, as: String.self).model == "old")
    }

    /// It is of use at any age, so a store does not drop it.
    @Test func staleResponseIsKept() async throws {
        #expect(try await manager(after: nil).cache.entries().first?.retainUntil != nil)
        #expect(try await manager().cache.entries().first?.retainUntil == nil)
    }
}
