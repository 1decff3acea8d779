import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

/// Cancelling and raising by the handle, wherever the transfer is.
@Suite struct TransferControlTests {
    private func kind(of task: Task<HTTPResponse, any Error>) async throws -> NetworkError.Kind? {
        await #expect(throws: NetworkError.self) { try await within { try await task.value } }?.kind
    }

    @Test func beforeItsStartItSendsNothing() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let control = TransferControl()
            control.cancel()
            let request = HTTPRequest("GET", server.url()).with { $0.control = control }
            #expect(try await kind(of: Task { try await transport.send(request) }) == .cancelled)
            #expect(server.requestCount == 0)
        }
    }

    @Test(arguments: [false, true])
    func onItsWayItEndsWithTheConnection(isSuspended: Bool) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").stalling(.start) }
        try await withTransport { transport async throws in
            let control = TransferControl()
            let request = HTTPRequest("GET", server.url()).with { $0.control = control }
            let task = Task { try await transport.send(request) }
            try await server.waitForRequests(1)
            if isSuspended { control.setSuspended(true) }
            control.cancel()
            control.cancel()
            #expect(try await kind(of: task) == .cancelled)
            try await server.waitForClosedConnections(1)
        }
    }

    @Test func inTheQueueItLeavesItsPlace() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.start))
        server.fallback { .text($0.path) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let first = Task { try await transport.get(server.url("/1")) }
            try await server.waitForRequests(1)
            let control = TransferControl()
            let second = try await transport.submit(HTTPRequest("GET", server.url("/2")).with { $0.control = control })
            let third = try await transport.submit(HTTPRequest("GET", server.url("/3")))
            control.cancel()
            #expect(try await kind(of: second) == .cancelled)
            first.cancel()
            #expect(try await within { try await third.value }.text == "/3")
            #expect(server.requests.map(\.path) == ["/1", "/3"])
        }
    }

    @Test func raisedInTheQueueItGoesFirst() async throws {
        let server = try MockServer()
        server.enqueue(.text("first").stalling(.start))
        server.fallback { .text($0.path) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let first = Task { try await transport.get(server.url("/1")) }
            try await server.waitForRequests(1)
            let control = TransferControl()
            let normal = try await transport.submit(HTTPRequest("GET", server.url("/normal")))
            let raised = try await transport.submit(
                HTTPRequest("GET", server.url("/raised")).with {
                    $0.priority = .low
                    $0.control = control
                })
            control.raisePriority(to: .high)
            control.raisePriority(to: .normal)
            _ = await transport.gauges
            first.cancel()
            #expect(try await within { try await raised.value }.text == "/raised")
            #expect(try await within { try await normal.value }.text == "/normal")
            #expect(server.requests.map(\.path) == ["/1", "/raised", "/normal"])
        }
    }

    @Test func aSwiftTaskThatIsCancelledThrowsCancellationError() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").stalling(.start) }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.control = TransferControl() }
            let task = Task { try await transport.send(request) }
            try await server.waitForRequests(1)
            task.cancel()
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
        }
    }

    @Test func thoseWhoWaitAreToldOnce() {
        let control = TransferControl()
        let log = Box<[String]>([])
        let first = control.whileWaiting(
            cancelled: { log.change { $0.append("first") } },
            raised: { priority in log.change { $0.append("raised \(priority)") } })
        let second = control.whileWaiting(cancelled: { log.change { $0.append("second") } })
        #expect(first != nil && second != nil)
        control.raisePriority(to: .high)
        control.raisePriority(to: .high)
        control.stopWaiting(second)
        control.cancel()
        control.cancel()
        #expect(control.whileWaiting(cancelled: { log.change { $0.append("late") } }) == nil)
        #expect(log.value == ["raised high", "first", "late"])
    }
}
