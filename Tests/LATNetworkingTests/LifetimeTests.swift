import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct LifetimeTests {
    @Test func releasedManagerFinishesItsCall() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("late").delayed(by: .milliseconds(50)) }
        let recorder = CallRecorder()
        let isReleased = Event()
        do {
            let sentinel = Sentinel { isReleased.happen() }
            let manager = try CentralRequestManager.make {
                $0.headerProvider = { _ in
                    _ = sentinel; return [:]
                }
            }
            manager.startRequest("GET", server.url(), into: recorder)
        }
        await recorder.end()
        #expect(recorder.response?.text == "late")
        await isReleased.wait()
        // The engine closes its idle connections only when it ends.
        try await server.waitUntilDisconnected()
    }

    @Test func idleManagerEndsWhenReleased() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        for _ in 0..<20 { _ = try await CentralRequestManager.make().startRequest("GET", server.url()) }
        try await server.waitUntilDisconnected()
        #expect(server.acceptedConnections == 20)
    }

    @Test(arguments: ["/ok", "/no", "/stall"], [CachePolicy.networkOnly, .cacheThenNetwork])
    func closuresAreReleasedAfterTheCall(_ path: String, _ policy: CachePolicy) async throws {
        let server = try MockServer()
        server.route("GET", "/ok") { _ in .pattern(byteCount: 100_000) }
        server.route("GET", "/no") { _ in .status(500) }
        server.route("GET", "/stall") { _ in .text("").stalling(.start) }
        let manager = try CentralRequestManager.make { $0.cacheStorage = .memory }
        let releases = (0..<3).map { _ in Event() }
        weak var leftTask: RequestTask?
        do {
            let sentinels = releases.map { signal in Sentinel { signal.happen() } }
            let tasks = Log<RequestTask>()
            // The closures retain the task, too: a retain cycle until the call ends.
            let task = manager.startRequest(
                "GET", server.url(path), cache: policy,
                progress: { [sentinel = sentinels[0]] _ in _ = (sentinel, tasks) },
                success: { [sentinel = sentinels[1]] _, _ in _ = (sentinel, tasks) },
                failure: { [sentinel = sentinels[2]] _, _ in _ = (sentinel, tasks) })
            leftTask = task
            tasks.append(task)
            if path == "/stall" {
                try await server.waitForRequests(1)
                task.cancel()
            }
        }
        for release in releases { await release.wait() }
        try await eventually { leftTask == nil }
    }

    @Test func callContinuesWithoutItsTask() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok").delayed(by: .milliseconds(30)) }
        let manager = try CentralRequestManager.make()
        let recorder = CallRecorder()
        manager.startRequest("GET", server.url(), into: recorder)
        await recorder.end()
        #expect(recorder.response?.text == "ok")
    }

    @Test func managerIsReleasedAfterCallsOfAllKinds() async throws {
        let server = try MockServer()
        server.route("GET", "/ok") { _ in .text("ok") }
        server.route("GET", "/stall") { _ in .text("").stalling(.start) }
        let isReleased = Event()
        do {
            let sentinel = Sentinel { isReleased.happen() }
            let manager = try CentralRequestManager.make {
                $0.headerProvider = { _ in
                    _ = sentinel; return [:]
                }
                $0.retries = 1
                $0.maxConnectionsPerHost = 2
            }
            _ = try await manager.startRequest("GET", server.url("/ok"))
            _ = await failure { try await manager.startRequest("GET", server.url("/none")) }
            _ = await failure {
                try await manager.startRequest("GET", server.url("/stall"), timeout: .milliseconds(20))
            }
            _ = try await manager.stream("GET", server.url("/ok"))
            for _ in 0..<10 { manager.startRequest("GET", server.url("/stall"), into: CallRecorder()).cancel() }
        }
        await isReleased.wait()
        try await server.waitUntilDisconnected()
    }

    @Test func streamKeepsTheEngineAlive() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 3_000_000) }
        let response: HTTPResponse
        do {
            let manager = try CentralRequestManager.make()
            response = try await manager.stream("GET", server.url())
        }
        var count = 0
        for try await chunk in response.body { count += chunk.count }
        #expect(count == 3_000_000)
    }

    @Test func managersReleasedInFlightLeaveNothingOpen() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("").stalling(.start) }
        let recorders = (0..<20).map { _ in CallRecorder() }
        let tasks = try recorders.map { recorder in
            try CentralRequestManager.make().startRequest("GET", server.url(), into: recorder)
        }
        try await server.waitForRequests(20)
        for task in tasks { task.cancel() }
        for recorder in recorders { await recorder.end() }
        try await server.waitUntilDisconnected()
    }
}
