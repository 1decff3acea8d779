import Glibc
import Platform
import Synchronization
import TestSupport
import Testing

@testable import LATTesting

@Suite struct MockServerLifecycleTests {
    /// Holds a server so that a handler can release it.
    private final class Holder: Sendable {
        let server = Mutex<MockServer?>(nil)
    }

    private func isRefused(port: Int) -> Bool { (try? RawClient(port: port)) == nil }

    @Test func repeatedStopClosesEverything() throws {
        let server = try MockServer()
        server.fallback { _ in .text("hi") }
        let client = try RawClient(server)
        _ = try client.getResponse("/")
        #expect(server.openDescriptors == 4)
        server.stop()
        server.stop()
        #expect(server.openDescriptors == 0)
        #expect(server.openConnections == 0)
        #expect(client.readToEnd().ending == .closed)
        #expect(isRefused(port: server.port))
        #expect(server.requests.count == 1)
    }

    /// A child process holds copies of all descriptors until it starts its program.
    @Test func stopRefusesConnectionsWhileACopyOfTheListenerIsOpen() throws {
        let server = try MockServer()
        let copy = try CopiedDescriptor { descriptor, _ in
            var isListening: CInt = 0
            var length = socklen_t(MemoryLayout<CInt>.size)
            getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListening, &length)
            return isListening != 0 && SocketAddress.own(of: descriptor)?.port == server.port
        }
        server.stop()
        #expect(isRefused(port: server.port))
        let again = try MockServer(port: server.port)
        #expect(!isRefused(port: again.port))
        withExtendedLifetime(copy) {}
    }

    @Test func concurrentStopsAllWait() async throws {
        let server = try MockServer()
        await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    server.stop()
                    return server.openDescriptors
                }
            }
            for await descriptors in group { #expect(descriptors == 0) }
        }
    }

    @Test func releaseStopsTheServer() async throws {
        var server: MockServer? = try MockServer()
        let port = try #require(server?.port)
        let shared = try #require(server?.shared)
        let client = try RawClient(port: port)
        server?.enqueue(.text("x").stalling(.start))
        try client.get("/")
        try await server?.waitForRequests(1)
        server = nil
        #expect(client.readToEnd() == ("", .closed))
        #expect(shared.read { $0.hasEnded })
        #expect(isRefused(port: port))
    }

    @Test func handlerCanReleaseTheServer() throws {
        let holder = Holder()
        weak var watched: MockServer?
        let port: Int
        do {
            let server = try MockServer()
            server.route("GET", "/drop") { _ in
                holder.server.withLock { $0 = nil }
                return .text("dropped")
            }
            holder.server.withLock { $0 = server }
            watched = server
            port = server.port
        }
        #expect(watched != nil)
        let client = try RawClient(port: port)
        try client.get("/drop")
        // The reply may or may not arrive before the connection ends.
        #expect(client.readToEnd().ending == .closed)
        #expect(watched == nil)
    }

    @Test func releaseWithWaitingHandlerDoesNotDeadlock() async throws {
        let gate = Mutex(0)
        var server: MockServer? = try MockServer()
        let port = try #require(server?.port)
        let shared = try #require(server?.shared)
        server?.route("GET", "/") { _ in .text("\(gate.withLock { $0 })") }
        let client = try RawClient(port: port)
        try gate.withLock { _ in
            try client.get("/")
            // The server's thread may be blocked in the handler already, or reach it later. It must end in both cases.
            while shared.read({ $0.requestCount }) == 0 { sched_yield() }
            server = nil
        }
        #expect(client.readToEnd().ending == .closed)
    }

    @Test func handlerCanStopTheServer() throws {
        let server = try MockServer()
        server.route("GET", "/stop") { [weak server] _ in
            server?.stop()
            return .text("bye")
        }
        let client = try RawClient(server)
        try client.get("/stop")
        #expect(client.readToEnd().ending == .closed)
        server.stop()
        #expect(server.openDescriptors == 0)
    }

    @Test func stopReleasesHandlers() throws {
        let server = try MockServer()
        // A deliberate reference cycle: the handler holds the server that holds the handler.
        server.route("GET", "/") { _ in .text(server.url()) }
        weak var watched: MockServer?
        watched = server
        #expect(try RawClient(server).getResponse("/").status == 200)
        server.stop()
        #expect(watched != nil)
        _ = consume server
        #expect(watched == nil)
    }

    @Test func portCanBeReusedAfterStop() throws {
        let first = try MockServer()
        let port = first.port
        let client = try RawClient(first)
        first.enqueue(.text("one"))
        _ = try client.getResponse("/")
        first.stop()
        let second = try MockServer(port: port)
        second.enqueue(.text("two"))
        #expect(try RawClient(port: port).getResponse("/").text == "two")
        #expect(throws: MockServerError.self) { try MockServer(port: port) }
    }

    @Test func portIsKeptAfterStop() throws {
        let port = try {
            let server = try MockServer()
            defer { server.stop() }
            return server.port
        }()
        // The server is released.
        #expect(isRefused(port: port))
        // A socket that does not share ports cannot bind the port.
        #expect(throws: MockServerError.self) {
            _ = try Socket.bindLoopback(port: port, backlog: nil, reusesAddress: false)
        }
    }

    @Test func manyServersStartAndStop() throws {
        // With one port, so that those of other tests stay kept.
        let first = try MockServer()
        first.stop()
        for _ in 0..<100 {
            let server = try MockServer(port: first.port)
            server.enqueue(.text("x"))
            #expect(try RawClient(server).getResponse("/").text == "x")
        }
    }

    @Test func waitEndsWithTheEvent() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        async let waited = server.waitForRequests(3, timeout: .seconds(60))
        let client = try RawClient(server)
        for _ in 0..<3 { _ = try client.getResponse("/") }
        #expect(try await waited.count == 3)
        try await server.waitUntilIdle()
        #expect(server.openConnections == 1)
    }

    @Test func timedOutWaitReportsTheState() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        _ = try RawClient(server).getResponse("/only")
        let error = await #expect(throws: MockServerError.self) {
            try await server.waitForRequests(2, timeout: .milliseconds(30))
        }
        #expect(error?.kind == .timedOut)
        #expect(error?.description.contains("2 requests, got 1") == true)
        #expect(error?.description.contains("GET /only") == true)
    }

    @Test func waitEndsOnStopAndCancellation() async throws {
        let server = try MockServer()
        let cancelled = Task { try await server.waitForRequests(1, timeout: .seconds(3_600)) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let waiting = Task { try await server.waitForRequests(1, timeout: .seconds(3_600)) }
        server.stop()
        let error = await #expect(throws: MockServerError.self) { try await waiting.value }
        #expect(error?.kind == .stopped)
        try await server.waitUntilDisconnected()
    }
}
