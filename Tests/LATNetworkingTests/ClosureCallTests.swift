import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct ClosureCallTests {
    private final class CallLock: Sendable {
        let mutex = Mutex(())
    }

    private static let mark = DispatchSpecificKey<String>()

    private func markedQueue(_ name: String) -> DispatchQueue {
        let queue = DispatchQueue(label: name)
        queue.setSpecific(key: Self.mark, value: name)
        return queue
    }

    @Test func oneTerminalEventEndsEachCall() async throws {
        let server = try MockServer()
        server.route("GET", "/ok") { _ in .pattern(byteCount: 2_000_000) }
        server.route("GET", "/no") { _ in .pattern(byteCount: 100_000).announcingLength(200_000) }
        server.route("GET", "/status") { _ in .text("sorry", status: 500) }
        server.route("GET", "/lost") { _ in .noReply }
        let queue = markedQueue("events")
        let manager = try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }
        let urls = ["/ok", "/no", "/status", "/lost"].map { server.url($0) } + ["not a url", "ftp://h/"]
        let recorders = urls.map { url in
            let recorder = CallRecorder()
            manager.startRequest("GET", url, into: recorder)
            return recorder
        }
        for recorder in recorders { await recorder.end() }
        await manager.shutdown()
        await queue.drain()
        for (url, recorder) in zip(urls, recorders) {
            #expect(recorder.terminalEvents.count == 1, "\(url)")
            if case .progress = recorder.events.last { Issue.record("progress after the end of \(url)") }
            let completed = recorder.progress.map(\.completed)
            #expect(completed == completed.sorted(), "\(url)")
        }
        #expect(recorders[0].response?.data.count == 2_000_000)
        #expect(recorders[0].progress.last?.completed == 2_000_000)
        #expect(recorders[0].progress.last?.total == 2_000_000)
        #expect(recorders[0].progress.last?.fraction == 1)
        #expect(
            recorders.map { $0.error?.kind } == [
                nil, .connectionLost, .httpStatus, .connectionLost, .invalidRequest, .invalidRequest,
            ])
    }

    @Test func closuresRunOnTheExecutor() async throws {
        let server = try MockServer()
        server.fallback { $0.path == "/no" ? .status(500) : .pattern(byteCount: 500_000) }
        let manager = try CentralRequestManager.make { $0.callbackExecutor = .queue(markedQueue("mine")) }
        let places = Log<String?>()
        for path in ["/ok", "/no"] {
            let done = Event()
            manager.startRequest(
                "GET", server.url(path), progress: { _ in places.append(DispatchQueue.getSpecific(key: Self.mark)) },
                success: { _, _ in
                    places.append(DispatchQueue.getSpecific(key: Self.mark))
                    done.happen()
                },
                failure: { _, _ in
                    places.append(DispatchQueue.getSpecific(key: Self.mark))
                    done.happen()
                })
            await done.wait()
        }
        #expect(places.count >= 2)
        #expect(Set(places.elements) == ["mine"])
    }

    @Test func defaultExecutorIsSerialAndNotTheMainQueue() async throws {
        DispatchQueue.main.setSpecific(key: Self.mark, value: "main")
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let inside = Atomic<Int>(0)
        let overlaps = Log<Int>()
        let places = Log<String?>()
        let recorders = (0..<50).map { _ in Event() }
        for done in recorders {
            manager.startRequest(
                "GET", server.url(),
                success: { _, _ in
                    let count = inside.add(1, ordering: .relaxed).newValue
                    if count > 1 { overlaps.append(count) }
                    places.append(DispatchQueue.getSpecific(key: Self.mark))
                    inside.subtract(1, ordering: .relaxed)
                    done.happen()
                }, failure: { _, error in Issue.record(error) })
        }
        for done in recorders { await done.wait() }
        #expect(overlaps.elements.isEmpty)
        #expect(places.elements == [String?](repeating: nil, count: 50))
    }

    /// The executor only collects closures until the test runs them, so none may run before the call returns.
    @Test func noClosureRunsBeforeTheCallReturns() async throws {
        let (closures, handOver) = AsyncStream<@Sendable () -> Void>.makeStream()
        let manager = try CentralRequestManager.make {
            $0.callbackExecutor = CallbackExecutor { handOver.yield($0) }
        }
        let closed = try ClosedPort()
        let recorders = ["", "not a url", closed.url()].map { url in
            let recorder = CallRecorder()
            let task = manager.startRequest("GET", url, into: recorder)
            #expect(!task.isFinished)
            return recorder
        }
        #expect(recorders.allSatisfy { $0.events.isEmpty })
        var closure = closures.makeAsyncIterator()
        while recorders.contains(where: { $0.terminalEvents.isEmpty }) {
            let next = await closure.next()
            next?()
        }
        #expect(recorders.map(\.terminalEvents.count) == [1, 1, 1])
    }

    @Test func inlineExecutorNeverRunsInsideTheCall() async throws {
        let manager = try CentralRequestManager.make { $0.callbackExecutor = CallbackExecutor { $0() } }
        let closed = try ClosedPort()
        for url in ["", closed.url()] {
            let lock = CallLock()
            let recorder = CallRecorder()
            // A closure called inside would deadlock on the lock that its own thread holds.
            lock.mutex.withLock { _ in
                _ = manager.startRequest(
                    "GET", url, success: recorder.onSuccess,
                    failure: { task, error in
                        lock.mutex.withLock { _ in }
                        recorder.onFailure(task, error)
                    })
            }
            await recorder.end()
            #expect(recorder.terminalEvents.count == 1)
        }
    }

    @Test func callsMayStartInsideEveryClosure() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.route("GET", "/ok") { _ in .pattern(byteCount: 200_000) }
        server.route("GET", "/no") { _ in .status(404) }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 2 }
        let ok = server.url("/ok")
        let no = server.url("/no")
        let inner = CallRecorder()
        let fromFailure = CallRecorder()
        let fromSuccess = CallRecorder()
        let fromProgress = CallRecorder()
        let hasStarted = Atomic<Bool>(false)
        manager.startRequest(
            "GET", ok,
            progress: { _ in
                guard !hasStarted.exchange(true, ordering: .relaxed) else { return }
                manager.startRequest("GET", ok, into: fromProgress)
            },
            success: { _, _ in
                manager.startRequest("GET", ok, into: fromSuccess)
                manager.startRequest(
                    "GET", no, success: { _, _ in Issue.record("no error") },
                    failure: { _, _ in
                        manager.startRequest("GET", ok, into: fromFailure)
                        manager.startRequest("", ok, into: inner)
                    })
            }, failure: { _, error in Issue.record(error) })
        for recorder in [fromProgress, fromSuccess, fromFailure, inner] { await recorder.end() }
        #expect([fromProgress, fromSuccess, fromFailure].allSatisfy { $0.response?.data.count == 200_000 })
        #expect(inner.error?.kind == .invalidRequest)
    }

    @Test func nestedClosureCallsAllRun() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let url = server.url()
        let done = Event()
        @Sendable func step(_ left: Int) {
            guard left > 0 else { return done.happen() }
            manager.startRequest(
                "GET", url, success: { _, _ in step(left - 1) }, failure: { _, error in Issue.record(error) })
        }
        step(500)
        await done.wait()
        #expect(server.requestCount == 500)
    }

    @Test func throwingInterceptorFailsTheCall() async throws {
        struct Refusal: Error {}
        struct Refusing: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse { throw Refusal() }
        }
        let manager = try CentralRequestManager.make { $0.interceptors = [Refusing()] }
        let recorder = CallRecorder()
        manager.startRequest("GET", "http://127.0.0.1:1/", into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .provider)
        #expect(recorder.error?.underlying is Refusal)
    }

    @Test func everyTaskHasItsOwnKey() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let recorders = (0..<20).map { _ in CallRecorder() }
        let tasks = recorders.map { manager.startRequest("GET", server.url(), into: $0) }
        for recorder in recorders { await recorder.end() }
        #expect(Set(tasks.map(\.key)).count == 20)
        #expect(Set(tasks).count == 20)
        #expect(tasks.allSatisfy { $0.isFinished && !$0.isCancelled })
    }

    @Test func uploadReportsSentBytes() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("thanks") }
        let manager = try CentralRequestManager.make()
        let recorder = CallRecorder()
        manager.startRequest(
            "POST", server.url(), files: [UploadFile(name: "f", fileName: "f", data: Data(count: 1_000_000))],
            into: recorder)
        await recorder.end()
        let progress = recorder.progress
        #expect(progress.allSatisfy { $0.direction == .upload })
        #expect(progress.last?.fraction == 1)
        #expect(progress.last.map(\.completed) == server.requests.first.map(\.bodyByteCount))
        #expect(progress.map(\.completed) == progress.map(\.completed).sorted())
    }

    @Test func unknownTotalIsNilInProgress() async throws {
        let server = try MockServer()
        let chunked = MockReply.pattern(byteCount: 400_000).inChunks()
        server.enqueue(chunked.stalling(.afterBodyBytes(200_000)), chunked)
        let manager = try CentralRequestManager.make()
        let (stalled, whole) = (CallRecorder(), CallRecorder())
        let task = manager.startRequest("GET", server.url(), into: stalled)
        try await eventually { !stalled.progress.isEmpty }
        task.cancel()
        await stalled.end()
        #expect(stalled.progress.allSatisfy { $0.total == nil && $0.fraction == nil })
        manager.startRequest("GET", server.url(), into: whole)
        await whole.end()
        #expect(whole.progress.last?.completed == 400_000)
        #expect(whole.progress.last?.total == 400_000)
    }

    @Test func asyncCallReportsProgressBeforeItReturns() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1_000_000) }
        let manager = try CentralRequestManager.make()
        let progress = Log<Int64>()
        _ = try await manager.startRequest("GET", server.url(), progress: { progress.append($0.completed) })
        let count = progress.count
        #expect(progress.elements.last == 1_000_000)
        await manager.shutdown()
        #expect(progress.count == count)
    }
}
