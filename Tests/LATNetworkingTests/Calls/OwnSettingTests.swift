import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

private struct Fetch: RequestEntity {
    static let route = Route(server: "s")
    var options = RequestOptions()
}

/// A setting of a call beats its row's, and a row's beats the manager's.
@Suite(.timeLimit(.minutes(1))) struct OwnSettingTests {
    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.fallback { _ in .noReply }
    }

    private func manager(
        row: String, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        let row = #"s: { domain: "d", path: "x", method: "GET", \#(row) }"#
        return try .make(.make(server.url(), servers: row)) {
            $0.retryPolicy.firstWait = .zero
            $0.retryBudget = nil
            change(&$0)
        }
    }

    /// Returns the number of requests that the server gets.
    private func attempts(
        _ manager: CentralRequestManager, _ change: (EntityCall<JSONValue>) -> EntityCall<JSONValue> = { $0 }
    ) async -> Int {
        let before = server.requestCount
        let error = await failure { try await change(Fetch().call).startRequest(on: manager) }
        #expect(error?.attempts == server.requestCount - before)
        return server.requestCount - before
    }

    private func policy(_ retries: Int) -> RetryPolicy { RetryPolicy(retries: retries, firstWait: .zero) }

    @Test func callsRetriesBeatTheRows() async throws {
        let manager = try manager(row: "retries: 3")
        #expect(await attempts(manager) == 4)
        #expect(await attempts(manager) { $0.retries(1) } == 2)
        #expect(await attempts(manager) { $0.retries(0) } == 1)
    }

    @Test func callsRetryPolicyBeatsTheRows() async throws {
        let manager = try manager(row: "retries: 3")
        #expect(await attempts(manager) { $0.retryPolicy(policy(1)) } == 2)
        #expect(await attempts(manager) { $0.retryPolicy(policy(0)) } == 1)
        // Both are one setting: the one that is set last counts.
        #expect(await attempts(manager) { $0.retryPolicy(policy(5)).retries(2) } == 3)
        #expect(await attempts(manager) { $0.retries(2).retryPolicy(policy(5)) } == 6)
    }

    @Test func entitysOptionsBeatTheRows() async throws {
        let manager = try manager(row: "retries: 3")
        var entity = Fetch()
        entity.options.retryPolicy = policy(1)
        _ = await failure { try await entity.startRequest(on: manager) }
        #expect(server.requestCount == 2)
        entity.options = RequestOptions(retries: 0)
        _ = await failure { try await entity.startRequest(on: manager) }
        #expect(server.requestCount == 3)
    }

    @Test func rowBeatsTheManager() async throws {
        let manager = try manager(row: "retries: 1") { $0.retries = 4 }
        #expect(await attempts(manager) == 2)
        let off = try self.manager(row: "retries: 0") { $0.retryPolicy = policy(4) }
        #expect(await attempts(off) == 1)
        #expect(await attempts(off) { $0.retryPolicy(policy(2)) } == 3)
    }

    @Test func requestsRetryPolicyBeatsTheManagers() async throws {
        let manager = try manager(row: "") { $0.retries = 4 }
        var request = HTTPRequest("GET", server.url())
        request.retryPolicy = policy(1)
        _ = await failure { try await manager.send(request) }
        #expect(server.requestCount == 2)
        request.retries = 2
        _ = await failure { try await manager.send(request) }
        #expect(server.requestCount == 5)
    }

    @Test func callsRetryStatusesBeatTheManagers() async throws {
        server.fallback { _ in .status(502) }
        let manager = try manager(row: "retries: 2") { $0.retryPolicy.statuses = [503] }
        let before = server.requestCount
        _ = await failure { try await Fetch().startRequest(on: manager) }
        #expect(server.requestCount == before + 1)
        let own = RetryPolicy(retries: 1, statuses: [502], firstWait: .zero)
        _ = await failure { try await Fetch().retryPolicy(own).startRequest(on: manager) }
        #expect(server.requestCount == before + 3)
    }

    @Test func callsTimeoutBeatsTheRows() async throws {
        server.fallback { _ in MockReply.json("{}").delayed(by: .milliseconds(200)) }
        let short = try manager(row: #"timeout: "20ms""#)
        #expect(await failure { try await Fetch().startRequest(on: short) }?.kind == .timeout(.total))
        _ = try await Fetch().timeout(.seconds(60)).startRequest(on: short)
        var entity = Fetch()
        entity.options.timeout = .seconds(60)
        _ = try await entity.startRequest(on: short)
        let long = try manager(row: #"timeout: "60s""#) { $0.timeout = .milliseconds(20) }
        _ = try await Fetch().startRequest(on: long)
        #expect(
            await failure { try await Fetch().timeout(.milliseconds(20)).startRequest(on: long) }?.kind
                == .timeout(.total))
        #expect(
            await failure { try await entity.timeout(.milliseconds(20)).startRequest(on: long) }?.kind
                == .timeout(.total))
    }
}
