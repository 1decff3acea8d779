import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// An owner cancels its transfers and raises their priority, whatever their state.
@Suite struct TransferOwnerTests {
    private func kind(of task: Task<HTTPResponse, any Error>) async throws -> NetworkError.Kind? {
        await #expect(throws: NetworkError.self) { try await within { try await task.value } }?.kind
    }

    @Test func cancelledOwnerSendsNothing() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let owner = TestOwner()
            owner.cancel()
            let request = HTTPRequest("GET", server.url())
            #expect(try await kind(of: Task { try await transport.send(request, for: owner) }) == .cancelled)
            #expect(server.requestCount == 0)
        }
    }

    @Test(arguments: [false, true])
    func cancelClosesTheConnection(isSuspended: Bool) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").stalling(.start) }
        try await withTransport { transport async throws in
            let owner = TestOwner()
            let request = HTTPRequest("GET", server.url())
            let task = Task { try await transport.send(request, for: owner) }
            try await server.waitForRequests(1)
            if isSuspended { owner.setSuspended(true) }
            owner.cancel()
            owner.cancel()
            #expect(try await kind(of: task) == .cancelled)
            try await server.waitForClosedConnections(1)
        }
    }

    @Test func cancelRemovesQueuedTransfer() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.start))
        server.fallback { .text($0.path) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let first = Task { try await transport.get(server.url("/1")) }
            try await server.waitForRequests(1)
            let owner = TestOwner()
            let second = try await transport.submit(HTTPRequest("GET", server.url("/2")), for: owner)
            let third = try await transport.submit(HTTPRequest("GET", server.url("/3")))
            owner.cancel()
            #expect(try await kind(of: second) == .cancelled)
            first.cancel()
            #expect(try await within { try await third.value }.text == "/3")
            #expect(server.requests.map(\.path) == ["/1", "/3"])
        }
    }

    @Test func raisedPriorityReordersTheQueue() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.start))
        server.fallback { .text($0.path) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let first = Task { try await transport.get(server.url("/1")) }
            try await server.waitForRequests(1)
            let owner = TestOwner()
            let normal = try await transport.submit(HTTPRequest("GET", server.url("/normal")))
            let raised = try await transport.submit(
                HTTPRequest("GET", server.url("/raised")).with { $0.priority = .low }, for: owner)
            owner.raisePriority(to: .high)
            owner.raisePriority(to: .normal)
            _ = await transport.gauges
            first.cancel()
            #expect(try await within { try await raised.value }.text == "/raised")
            #expect(try await within { try await normal.value }.text == "/normal")
            #expect(server.requests.map(\.path) == ["/1", "/raised", "/normal"])
        }
    }

    @Test func cancelledTaskThrowsCancellationError() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").stalling(.start) }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url())
            let task = Task { try await transport.send(request, for: TestOwner()) }
            try await server.waitForRequests(1)
            task.cancel()
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
        }
    }

    @Test func finishedTransferDetachesFromItsOwner() async throws {
        let server = try MockServer()
        server.enqueue(.text("x"), .text("x").stalling(.start))
        try await withTransport { transport async throws in
            let owner = TestOwner()
            _ = try await transport.answer(to: HTTPRequest("GET", server.url()), for: owner)
            #expect(owner.listenerCount == 0)
            let task = Task { try await transport.send(HTTPRequest("GET", server.url()), for: owner) }
            try await server.waitForRequests(2)
            #expect(owner.listenerCount == 1)
            owner.cancel()
            #expect(try await kind(of: task) == .cancelled)
            #expect(owner.listenerCount == 0)
        }
    }
}
