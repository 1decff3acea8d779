import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Tasks that run on the engine's thread.
@Suite struct EngineExecutorTests {
    /// Whether the current thread is an engine's.
    private static var isOnEngine: Bool {
        (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) == "lat-engine\n"
    }

    private func answering() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        return server
    }

    @Test func taskStaysOnEngineThread() async throws {
        let server = try answering()
        try await withTransport { transport async throws in
            try await within {
                try await withTaskExecutorPreference(transport.executor) { () async throws in
                    #expect(Self.isOnEngine)
                    for _ in 0..<20 {
                        #expect(try await transport.send(HTTPRequest("GET", server.url())).text == "x")
                        #expect(Self.isOnEngine)
                    }
                    async let child = Self.isOnEngine
                    #expect(await child)
                }
            }
            #expect(!Self.isOnEngine)
        }
        #expect(server.requestCount == 20)
    }

    @Test func manyTasksShareTheExecutor() async throws {
        let server = try answering()
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 32 }) { transport async throws in
            let url = server.url()
            try await within {
                try await withTaskExecutorPreference(transport.executor) { () async throws in
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for _ in 0..<32 {
                            group.addTask {
                                for _ in 0..<50 { _ = try await transport.send(HTTPRequest("GET", url)) }
                            }
                        }
                        try await group.waitForAll()
                    }
                }
            }
            #expect(server.requestCount == 1600)
        }
    }

    @Test func streamsAndUploadsComplete() async throws {
        let server = try MockServer()
        server.fallback { $0.method == "GET" ? .pattern(byteCount: 8 << 20) : .text("\($0.bodyByteCount)") }
        try await withTransport { transport async throws in
            try await within {
                try await withTaskExecutorPreference(transport.executor) { () async throws in
                    let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
                    var count = 0
                    for try await chunk in try await transport.send(request).body { count += chunk.count }
                    #expect(count == 8 << 20)
                    let chunks = AsyncStream {
                        for _ in 0..<100 { $0.yield(Data(count: 10_000)) }
                        $0.finish()
                    }
                    let upload = HTTPRequest("PUT", server.url(), body: .stream(chunks))
                    #expect(try await transport.send(upload).text == "1000000")
                }
            }
        }
    }

    @Test func shutdownFromATaskEndsAllRequests() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 50 }) { transport async throws in
            let url = server.url()
            let tasks = (0..<200).map { index in
                Task(executorPreference: transport.executor) {
                    if index == 199 {
                        try await server.waitForRequests(50)
                        await transport.shutdown()
                    }
                    let answer = await Result(of: { try await transport.send(HTTPRequest("GET", url)) })
                    await Task.yield()
                    return (answer, Self.isOnEngine)
                }
            }
            try await within {
                for task in tasks {
                    let (answer, isOnEngine) = try await task.value
                    #expect(throws: NetworkError.self) { try answer.get() }
                    #expect(!isOnEngine)
                }
            }
        }
    }

    @Test func tasksOutliveTheTransport() async throws {
        let server = try answering()
        let executor = try CurlTransport(configuration: testConfiguration()).executor
        try await within {
            try await withTaskExecutorPreference(executor) { () async throws in
                for _ in 0..<1000 { await Task.yield() }
                let other = try CurlTransport(configuration: testConfiguration())
                #expect(try await other.send(HTTPRequest("GET", server.url())).text == "x")
                await other.shutdown()
                for _ in 0..<1000 { await Task.yield() }
                #expect(!Self.isOnEngine)
            }
        }
    }

    @Test func lastReferenceCanBeReleasedByATask() async throws {
        let server = try answering()
        let url = server.url()
        for _ in 0..<20 {
            let transport = try CurlTransport(configuration: testConfiguration())
            let executor = transport.executor
            let holder = Box<CurlTransport?>(transport)
            let task = Task(executorPreference: executor) { [transport] in
                _ = try await transport.send(HTTPRequest("GET", url))
            }
            _ = consume transport
            try await within { try await task.value }
            try await within {
                await withTaskExecutorPreference(executor) {
                    holder.change { $0 = nil }
                    for _ in 0..<100 { await Task.yield() }
                }
            }
        }
        try await server.waitUntilDisconnected()
        #expect(server.requestCount == 20)
    }

    @Test func endlessYieldDoesNotStarveRequests() async throws {
        let server = try answering()
        try await withTransport { transport async throws in
            let isOver = Box(false)
            let yielding = (0..<3).map { _ in
                Task(executorPreference: transport.executor) {
                    while !isOver.value { await Task.yield() }
                }
            }
            for _ in 0..<50 { #expect(try await transport.get(server.url()).text == "x") }
            let inside = Task(executorPreference: transport.executor) {
                for _ in 0..<50 { _ = try await transport.send(HTTPRequest("GET", server.url())) }
            }
            try await within { try await inside.value }
            try await within { await transport.shutdown() }
            isOver.change { $0 = true }
            try await within { for task in yielding { await task.value } }
        }
    }

    private actor Counter {
        private(set) var sum = 0
        let transport: CurlTransport

        init(_ transport: CurlTransport) { self.transport = transport }

        func add(_ url: String) async throws {
            let answer = try await transport.send(HTTPRequest("GET", url))
            sum += answer.data.count
        }
    }

    @Test func taskReturnsToEngineAfterActorCalls() async throws {
        let server = try answering()
        try await withTransport { transport async throws in
            let counter = Counter(transport)
            let url = server.url()
            let sum = try await within {
                try await withTaskExecutorPreference(transport.executor) { () async throws in
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for _ in 0..<100 { group.addTask { try await counter.add(url) } }
                        try await group.waitForAll()
                    }
                    await MainActor.run { #expect(!Self.isOnEngine) }
                    #expect(Self.isOnEngine)
                    return await counter.sum
                }
            }
            #expect(sum == 100)
        }
    }

    @Test func requestsCanBeNested() async throws {
        let server = try answering()
        @Sendable func nested(_ depth: Int, _ transport: CurlTransport) async throws -> Int {
            let own = try await transport.send(HTTPRequest("GET", server.url("/\(depth)"))).data.count
            if depth == 0 { return own }
            async let left = nested(depth - 1, transport)
            async let right = nested(depth - 1, transport)
            return try await own + left + right
        }
        try await withTransport { transport async throws in
            let count = try await within {
                try await withTaskExecutorPreference(transport.executor) { try await nested(5, transport) }
            }
            #expect(count == 63)
        }
    }

    @Test func requestsCanBeCancelledFromATask() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 10 }) { transport async throws in
            let url = server.url()
            try await within {
                try await withTaskExecutorPreference(transport.executor) { () async throws in
                    let tasks = (0..<20).map { _ in
                        Task(executorPreference: transport.executor) {
                            try await transport.send(HTTPRequest("GET", url))
                        }
                    }
                    try await server.waitForRequests(10)
                    for task in tasks { task.cancel() }
                    for task in tasks { await #expect(throws: CancellationError.self) { try await task.value } }
                    await withTaskGroup(of: Void.self) { group in
                        group.addTask { _ = try? await transport.send(HTTPRequest("GET", url)) }
                        group.cancelAll()
                    }
                }
            }
            try await server.waitUntilDisconnected()
        }
    }
}

extension Result where Failure == any Error {
    /// Makes the result of an asynchronous call.
    fileprivate init(of body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
