import FoundationEssentials
import Glibc
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// `shutdown(draining:)`.
@Suite(.timeLimit(.minutes(1))) struct DrainTests {
    @Test func refusedCallsAreNotWaitedFor() {
        let registry = CallRegistry()
        let (running, late) = (Call(HTTPRequest("GET", "http://h/1")), Call(HTTPRequest("GET", "http://h/2")))
        #expect(registry.enter(running, isInside: false))
        let drained = registry.close()
        #expect(!registry.enter(late, isInside: false) && registry.count(.all) == 1)
        registry.leave(running)
        #expect(drained.result != nil && registry.count(.all) == 0)
        registry.leave(late)
        #expect(registry.count(.all) == 0)
    }

    /// Lets requests of `/slow` go on when an event has happened.
    private struct Gate: Interceptor {
        let isOpen = Event()

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            if request.url.hasSuffix("/slow") { await isOpen.wait() }
            return try await next(request)
        }
    }

    private static func server() throws -> MockServer {
        let server = try MockServer()
        server.route("GET", "/stalled") { _ in MockReply.text("never").stalling(.start) }
        server.fallback { _ in .text("quick") }
        return server
    }

    @Test func serviceDrainsWhenItsTaskIsCancelled() async throws {
        let gate = Gate()
        let server = try Self.server()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.networkInterceptors = [gate]
        }
        let service = Task { await manager.run(draining: .seconds(60)) }
        let call = Task { try await manager.startRequest("GET", "/slow").text }
        try await eventually { manager.runningRequests() == 1 }
        #expect(try await manager.startRequest("GET", "/quick").text == "quick")
        service.cancel()
        try await eventually { manager.calls.isClosed }
        gate.isOpen.happen()
        #expect(try await call.value == "quick")
        #expect(await service.value == 0)
        #expect(await failure { _ = try await manager.startRequest("GET", "/new") }?.kind == .shutDown)
    }

    @Test func serviceEndsCallsAfterItsLimit() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let call = Task { await failure { _ = try await manager.startRequest("GET", "/stalled") } }
        try await eventually { server.requests.count == 1 }
        let service = Task { await manager.run(draining: .zero) }
        service.cancel()
        #expect(await service.value == 1)
        #expect(await call.value?.kind == .shutDown)
    }

    @Test func runningCallsEndAndNewOnesAreRefused() async throws {
        let gate = Gate()
        let server = try Self.server()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.networkInterceptors = [gate]
        }
        let running = Task { try await manager.startRequest("GET", "/slow").text }
        try await eventually { manager.runningRequests() == 1 }
        let shutdown = Task { await manager.shutdown(draining: .seconds(60)) }
        try await eventually { manager.calls.isClosed }
        let refused = await failure { _ = try await manager.startRequest("GET", "/new") }
        #expect(refused?.kind == .shutDown && refused?.message.contains("takes no new ones") == true)
        #expect(refused?.request?.url == server.url("/new"))
        let stream = await failure { _ = try await manager.stream("GET", "/new") }
        #expect(stream?.kind == .shutDown)
        let recorder = CallRecorder()
        manager.startRequest("GET", "/new", into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .shutDown)
        gate.isOpen.happen()
        #expect(try await running.value == "quick")
        #expect(await shutdown.value == 0 && server.requestCount == 1)
        let late = await failure { _ = try await manager.startRequest("GET", "/late") }
        #expect(late?.kind == .shutDown)
    }

    @Test func timeOverEndsWhatStillRuns() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let running = Task { await failure { _ = try await manager.startRequest("GET", "/stalled") } }
        try await server.waitForRequests(1)
        #expect(await manager.shutdown(draining: .milliseconds(20)) == 1)
        #expect(await running.value?.kind == .shutDown)
    }

    @Test(arguments: [true, false]) func callsThatWaitForNoTransferEnd(isLimited: Bool) async throws {
        let server = try Self.server()
        server.route("GET", "/busy") { _ in MockReply.status(503).header("Retry-After", "3000") }
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.retryPolicy = RetryPolicy(retries: 1)
            $0.retryPolicy.longestRetryAfter = .seconds(5_000)
            if isLimited { $0.limits.rate = RequestLimits.RateLimit(perSecond: 0.001) }
        }
        if isLimited { _ = try await manager.startRequest("GET", "/quick") }
        let running = Task { await failure { _ = try await manager.startRequest("GET", "/busy") } }
        let recorder = CallRecorder()
        manager.startRequest("GET", "/busy", into: recorder)
        try await eventually { manager.runningRequests() == 2 && (isLimited || server.requestCount == 2) }
        #expect(await manager.shutdown(draining: .zero) == 2)
        await recorder.end()
        #expect(recorder.error?.kind == .shutDown)
        #expect(await running.value?.kind == .shutDown)
    }

    @Test func resultThatWaitsForItsClosureIsDelivered() async throws {
        let server = try Self.server()
        let held = Log<@Sendable () -> Void>()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.callbackExecutor = CallbackExecutor { held.append($0) }
        }
        let recorder = CallRecorder()
        manager.startRequest("GET", "/quick", success: recorder.onSuccess, failure: recorder.onFailure)
        try await eventually { held.count == 1 }
        await manager.shutdown()
        for closure in held.elements { closure() }
        await recorder.end()
        #expect(recorder.response?.text == "quick")
    }

    @Test func cancelledTaskDoesNotWait() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let running = Task { await failure { _ = try await manager.startRequest("GET", "/stalled") } }
        try await server.waitForRequests(1)
        let shutdown = Task { await manager.shutdown(draining: .seconds(600)) }
        try await eventually { manager.calls.isClosed }
        shutdown.cancel()
        #expect(await shutdown.value == 1)
        _ = await running.value
    }

    @Test func providersOfRunningCallsMaySend() async throws {
        let server = try Self.server()
        let reference = ManagerReference()
        let isClosed = Event()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.headerProvider = { request in
                guard request.url.hasSuffix("/outer") else { return [:] }
                await isClosed.wait()
                return ["X-Token": try await reference.value?.startRequest("GET", "/token").text ?? ""]
            }
        }
        reference.value = manager
        let running = Task { try await manager.startRequest("GET", "/outer").text }
        try await eventually { manager.runningRequests() == 1 }
        let shutdown = Task { await manager.shutdown(draining: .seconds(60)) }
        try await eventually { manager.calls.isClosed }
        isClosed.happen()
        #expect(try await running.value == "quick" && server.requests.last?.headers["X-Token"] == "quick")
        #expect(await shutdown.value == 0)
    }

    @Test func severalShutdownsWaitForTheSameCalls() async throws {
        let manager = try CentralRequestManager.make()
        async let one = manager.shutdown(draining: .seconds(60))
        async let other = manager.shutdown(draining: .seconds(60))
        #expect(await one == 0)
        #expect(await other == 0)
    }

    @Test func noDescriptorAndThreadIsLeft() async {
        await #expect(processExitsWith: .success) {
            func descriptors() throws -> Set<String> {
                let folder = "/proc/self/fd"
                let names = try FileManager.default.contentsOfDirectory(atPath: folder)
                return Set(
                    names.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)") }
                        .filter { $0.hasPrefix("socket:") })
            }
            let server = try MockServer { _ in .text("x") }
            let before = try descriptors()
            let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
            for _ in 0..<3 { _ = try await manager.startRequest("GET", "/x") }
            #expect(try descriptors().count > before.count)
            let left = await manager.shutdown(draining: .seconds(60))
            #expect(left == 0)
            server.stop()
            try await eventually("the end of the descriptors") { try descriptors().count <= before.count }
            // The thread closes its descriptors before it ends.
            try await eventually("the end of the thread") {
                let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
                let names = threads.compactMap {
                    try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
                }
                return !names.contains { $0.hasPrefix("lat-engine") }
            }
        }
    }
}
