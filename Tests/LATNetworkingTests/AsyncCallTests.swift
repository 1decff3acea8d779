import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

// Thousands of calls one after the other take minutes beside all other tests.
@Suite(.timeLimit(.minutes(5))) struct AsyncCallTests {
    @Test func cancellingTheTaskThrowsCancellationError() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let url = server.url("/")
        let call = Task { try await manager.startRequest("GET", url) }
        try await server.waitForRequests(1)
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        try await server.waitForClosedConnections(1)
    }

    @Test func cancellingMidBodyThrowsCancellationError() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1_000_000).stalling(.afterBodyBytes(100_000)) }
        let manager = try CentralRequestManager.make()
        let url = server.url("/")
        let begun = Event()
        let call = Task { try await manager.startRequest("GET", url, progress: { _ in begun.happen() }) }
        await begun.wait()
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        try await server.waitForClosedConnections(1)
    }

    @Test func cancelledTaskSendsNothing() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        let url = server.url("/")
        let call = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try await manager.startRequest("GET", url)
        }
        await #expect(throws: CancellationError.self) { try await call.value }
        await manager.shutdown()
        #expect(server.requestCount == 0)
    }

    /// Start and cancellation of each transfer race to the engine's thread.
    @Test func cancelledCallsEndWhileTheEngineIsBusy() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 16 }
        let url = server.url("/")
        let isDone = Event()
        let ended = try await withThrowingTaskGroup(of: Int.self) { group in
            // Keeps the engine's thread awake, so that it takes each command as soon as it is posted.
            group.addTask {
                while !isDone.hasHappened { _ = try await manager.startRequest("GET", url) }
                return 0
            }
            group.addTask {
                var ended = 0
                for _ in 0..<2_000 {
                    let call = Task {
                        withUnsafeCurrentTask { $0?.cancel() }
                        _ = try await manager.startRequest("GET", url)
                    }
                    do { try await call.value } catch is CancellationError { ended += 1 }
                }
                isDone.happen()
                return ended
            }
            return try await group.reduce(0, +)
        }
        #expect(ended == 2_000)
    }

    @Test func failingTaskGroupCancelsItsOtherCalls() async throws {
        let server = try MockServer()
        server.route("GET", "/stall") { _ in .text("").stalling(.start) }
        server.route("GET", "/fail") { _ in .status(500) }
        let manager = try CentralRequestManager.make()
        let urls = (0..<4).map { _ in server.url("/stall") }
        let fail = server.url("/fail")
        let error = await failure {
            try await withThrowingTaskGroup(of: HTTPResponse.self) { group in
                for url in urls { group.addTask { try await manager.startRequest("GET", url) } }
                try await server.waitForRequests(4)
                group.addTask { try await manager.startRequest("GET", fail) }
                for try await _ in group {}
            }
        }
        #expect(error?.response?.status == 500)
        try await server.waitForClosedConnections(4)
    }

    @Test func thousandConcurrentCallsDoNotMixSettings() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.route("POST", "/mirror") { request in
            let number = request.headers["X-Number"] ?? "none"
            return .text("\(request.query ?? "") \(request.text) \(number)").header("X-Number", number)
        }
        server.route("GET", "/stall") { _ in .text("").stalling(.start) }
        let manager = try CentralRequestManager.make {
            $0.maxConnectionsPerHost = 128
            $0.headerProvider = { request in ["X-Url": request.url] }
        }
        let url = server.url("/mirror")
        let stall = server.url("/stall")
        var answers: [Int: String] = [:]
        await withTaskGroup(of: (Int, String).self) { group in
            for number in 0..<1_000 {
                group.addTask {
                    do {
                        if number.isMultiple(of: 10) {
                            _ = try await manager.startRequest(
                                "GET", stall, parameters: ["n": number], timeout: .milliseconds(50 + number / 10))
                            return (number, "answered")
                        }
                        let response = try await manager.startRequest(
                            "POST", url + "?n=\(number)", parameters: ["n": number], timeout: .seconds(30),
                            headers: ["X-Number": "\(number)"])
                        return (number, "\(response.text ?? "") \(response.headers["X-Number"] ?? "")")
                    } catch let error as NetworkError {
                        return (number, "\(error.kind) \(error.request?.timeout ?? .zero)")
                    } catch {
                        return (number, "\(error)")
                    }
                }
            }
            for await (number, answer) in group { answers[number] = answer }
        }
        for number in 0..<1_000 {
            let expected =
                number.isMultiple(of: 10)
                ? "\(NetworkError.Kind.timeout(.total)) \(Duration.milliseconds(50 + number / 10))"
                : "n=\(number) {\"n\":\(number)} \(number) \(number)"
            #expect(answers[number] == expected)
        }
        let gauges = try #require(await manager.gauges)
        #expect(gauges.sockets <= 128)
    }

    private actor Client {
        let manager: CentralRequestManager
        private(set) var texts: [String] = []

        init(manager: CentralRequestManager) { self.manager = manager }

        func load(_ url: String) async throws {
            let response = try await manager.startRequest("GET", url, progress: { _ in })
            texts.append(response.text ?? "")
        }

        func loadLines(_ url: String) async throws {
            for try await line in try await manager.stream("GET", url).body.lines { texts.append(line) }
        }
    }

    @Test func actorCanCallAndStream() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a\nb") }
        let client = Client(manager: try .make())
        try await client.load(server.url("/"))
        try await client.loadLines(server.url("/"))
        #expect(await client.texts == ["a\nb", "a", "b"])
    }

    @MainActor @Test func mainActorCanCallAndStream() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("hello") }
        let manager = try CentralRequestManager.make()
        var texts: [String] = []
        texts.append(try await manager.startRequest("GET", server.url("/")).text ?? "")
        for try await chunk in try await manager.stream("GET", server.url("/")).body {
            texts.append(String(decoding: chunk, as: UTF8.self))
        }
        #expect(texts == ["hello", "hello"])
    }

    @Test func callOutlivesItsReleasedManager() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("late").delayed(by: .milliseconds(100)) }
        var manager: CentralRequestManager? = try .make()
        let url = server.url("/")
        let call = Task { [manager] in try await manager?.startRequest("GET", url).text }
        manager = nil
        #expect(try await call.value == "late")
        try await server.waitUntilDisconnected()
    }

    @Test func callsFailAfterShutdown() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let url = server.url("/")
        let call = Task { try await manager.startRequest("GET", url) }
        try await server.waitForRequests(1)
        await manager.shutdown()
        #expect(await failure { try await call.value }?.kind == .shutDown)
        #expect(await failure { try await manager.startRequest("GET", url) }?.kind == .shutDown)
        let gauges = try #require(await manager.gauges)
        #expect(!gauges.isRunning)
        #expect(gauges.easyHandles == 0)
        #expect(gauges.sockets == 0)
        await manager.shutdown()
    }

    @Test func managersAreIndependent() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.route("GET", "/agent") { .text($0.headers["User-Agent"] ?? "") }
        let url = server.url("/agent")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let manager = try CentralRequestManager.make { $0.userAgent = "agent/\(number)" }
                    for _ in 0..<5 { #expect(try await manager.startRequest("GET", url).text == "agent/\(number)") }
                }
            }
            try await group.waitForAll()
        }
        try await server.waitUntilDisconnected()
        #expect(server.acceptedConnections == 20)
    }
}
