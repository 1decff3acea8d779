import LATNetworking
import LATTesting
import Logging
import ServiceLifecycle
import Testing

/// Reports that the group runs its services.
private struct Worker: Service {
    let started: Gate

    func run() async throws {
        started.open()
        try await gracefulShutdown()
    }
}

/// Lets requests of `/slow` go on when it is opened.
private struct Held: Interceptor {
    let gate = Gate()

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        if request.url.hasSuffix("/slow") { await gate.wait() }
        return try await next(request)
    }
}

@Suite(.timeLimit(.minutes(1))) struct ServiceTests {
    @Test func groupWaitsForRunningCallsAndRefusesNewOnes() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let (held, started) = (Held(), Gate())
        let manager = try CentralRequestManager.make { $0.networkInterceptors = [held] }
        let group = ServiceGroup(
            services: [Clients(manager: manager), Worker(started: started)], gracefulShutdownSignals: [],
            logger: Logger(label: "test"))
        let running = Task { try await group.run() }
        await started.wait()
        let call = Task { try await manager.startRequest("GET", server.url("/slow")).text }
        try await eventually { await manager.load.calls == 1 }
        await group.triggerGracefulShutdown()
        func isRefused() async -> Bool {
            do {
                _ = try await manager.startRequest("GET", server.url("/quick"))
                return false
            } catch {
                return (error as? NetworkError)?.kind == .shutDown
            }
        }
        try await eventually { await isRefused() }
        held.gate.open()
        #expect(try await call.value == "a")
        try await running.value
        #expect(await manager.load.connections == 0)
    }
}
