import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct ClosureCancelTests {
    @Test func cancellingAtOnceFailsOnce() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("").stalling(.start) }
        let queue = DispatchQueue(label: "events")
        let manager = try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }
        let recorders = (0..<200).map { _ in CallRecorder() }
        for recorder in recorders {
            let task = manager.startRequest("GET", server.url(), into: recorder)
            task.cancel()
            task.cancel()
            #expect(task.isCancelled)
        }
        for recorder in recorders { await recorder.end() }
        await manager.shutdown()
        await queue.drain()
        #expect(recorders.allSatisfy { $0.terminalEvents.count == 1 && $0.error?.kind == .cancelled })
    }

    @Test func cancellingInTheQueueEndsTheCall() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("").stalling(.start) }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 1 }
        let first = CallRecorder()
        let firstTask = manager.startRequest("GET", server.url("/first"), into: first)
        try await server.waitForRequests(1)
        let queued = (0..<10).map { _ in CallRecorder() }
        let tasks = queued.map { manager.startRequest("GET", server.url("/queued"), into: $0) }
        for task in tasks { task.cancel() }
        for recorder in queued { await recorder.end() }
        #expect(queued.allSatisfy { $0.error?.kind == .cancelled })
        #expect(first.events.isEmpty)
        firstTask.cancel()
        await first.end()
        #expect(first.error?.kind == .cancelled)
        #expect(server.requests.map(\.path) == ["/first"])
        try await server.waitForClosedConnections(1)
    }

    @Test func cancellingMidBodyClosesTheConnection() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1 << 30).throttled(bytesPerSecond: 4 << 20) }
        let manager = try CentralRequestManager.make()
        let recorder = CallRecorder()
        let begun = Event()
        let task = manager.startRequest(
            "GET", server.url(), progress: { _ in begun.happen() }, success: recorder.onSuccess,
            failure: recorder.onFailure)
        await begun.wait()
        task.cancel()
        await recorder.end()
        #expect(recorder.error?.kind == .cancelled)
        #expect(recorder.error?.request?.method == .get)
        try await server.waitForClosedConnections(1)
    }

    @Test func cancellingAfterTheEndDoesNothing() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let queue = DispatchQueue(label: "events")
        let manager = try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }
        let recorder = CallRecorder()
        let task = manager.startRequest("GET", server.url(), into: recorder)
        await recorder.end()
        task.cancel()
        task.suspend()
        task.resume()
        #expect(try await manager.startRequest("GET", server.url()).text == "ok")
        await queue.drain()
        #expect(recorder.terminalEvents.count == 1)
        #expect(server.acceptedConnections == 1)
    }

    @Test func cancellingInOwnClosureEndsTheCallOnce() async throws {
        let server = try MockServer()
        server.route("GET", "/big") { _ in .pattern(byteCount: 50_000_000) }
        server.route("GET", "/no") { _ in .status(500) }
        let queue = DispatchQueue(label: "events")
        let manager = try CentralRequestManager.make { $0.callbackExecutor = .queue(queue) }
        let recorder = CallRecorder()
        let tasks = Log<RequestTask>()
        let isSet = Event()
        tasks.append(
            manager.startRequest(
                "GET", server.url("/big"),
                progress: { _ in
                    guard isSet.hasHappened else { return }
                    tasks.elements.first?.cancel()
                }, success: recorder.onSuccess, failure: recorder.onFailure))
        isSet.happen()
        await recorder.end()
        let other = CallRecorder()
        manager.startRequest(
            "GET", server.url("/no"), success: other.onSuccess,
            failure: { task, error in
                task.cancel()
                other.onFailure(task, error)
            })
        await other.end()
        await manager.shutdown()
        await queue.drain()
        #expect(recorder.terminalEvents.count == 1)
        #expect(other.terminalEvents.count == 1)
        #expect(other.error?.kind == .httpStatus)
    }

    @Test func callMayBeRestartedAfterCancelling() async throws {
        let server = try MockServer()
        server.route("GET", "/old") { _ in .text("never").stalling(.start) }
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        var recorders: [(cancelled: CallRecorder, restarted: CallRecorder)] = []
        for _ in 0..<50 {
            let cancelled = CallRecorder()
            let restarted = CallRecorder()
            manager.startRequest("GET", server.url("/old"), into: cancelled).cancel()
            manager.startRequest("GET", server.url("/new"), into: restarted)
            recorders.append((cancelled, restarted))
        }
        for (cancelled, restarted) in recorders {
            await cancelled.end()
            await restarted.end()
            #expect(cancelled.error?.kind == .cancelled)
            #expect(restarted.response?.text == "ok")
        }
    }

    @Test func callsCancelledAtRandomEndOnceEach() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.route("GET", "/fast") { _ in .text("ok") }
        server.route("GET", "/slow") { _ in .pattern(byteCount: 20_000).delayed(by: .milliseconds(3), at: .afterHead) }
        server.route("GET", "/never") { _ in .text("").stalling(.beforeHead) }
        let queue = DispatchQueue(label: "events")
        let manager = try CentralRequestManager.make {
            $0.callbackExecutor = .queue(queue)
            $0.maxConnectionsPerHost = 64
        }
        let recorders = (0..<1_000).map { _ in CallRecorder() }
        let urls = ["/fast", "/slow", "/never"].map { server.url($0) }
        await withTaskGroup(of: Void.self) { group in
            for (number, recorder) in recorders.enumerated() {
                let task = manager.startRequest("GET", urls[number % 3], into: recorder)
                let mustEnd = number % 3 == 2
                group.addTask {
                    for _ in 0..<Int.random(in: 0...30) { await Task.yield() }
                    if Bool.random() { task.suspend() }
                    if Bool.random() || mustEnd { task.cancel() }
                    task.resume()
                }
            }
        }
        for recorder in recorders { await recorder.end() }
        #expect(try await manager.startRequest("GET", urls[0]).text == "ok")
        await manager.shutdown()
        await queue.drain()
        #expect(recorders.allSatisfy { $0.terminalEvents.count == 1 })
        for recorder in recorders {
            guard case .failure(let error) = recorder.terminalEvents.first else { continue }
            #expect(error.kind == .cancelled)
        }
        try await server.waitUntilDisconnected()
    }

    @Test func callSuspendedEarlyStartsWhenResumed() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let gate = Event()
        let manager = try CentralRequestManager.make {
            $0.maxConnectionsPerHost = 1
            // Delays the call until it has been suspended.
            $0.headerProvider = { request in
                if request.url.hasSuffix("held") { await gate.wait() }
                return [:]
            }
        }
        let held = CallRecorder()
        let task = manager.startRequest("GET", server.url("/held"), timeout: .seconds(2), into: held)
        task.suspend()
        gate.happen()
        // The suspended call blocks no other call, and its timeout does not run.
        for _ in 0..<3 { #expect(try await manager.startRequest("GET", server.url("/other")).text == "ok") }
        try await Task.sleep(for: .milliseconds(2_700))
        #expect(held.events.isEmpty)
        #expect(server.requests.map(\.path) == ["/other", "/other", "/other"])
        task.resume()
        await held.end()
        #expect(held.response?.text == "ok")
    }

    @Test func transferSuspendedMidBodyContinuesOnResume() async throws {
        let size = 16 << 20
        let body = MockPattern.bytes(in: 0..<Int64(size))
        let maySend = DispatchSemaphore(value: 0)
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8) + body.prefix(1 << 20))
            maySend.wait()
            connection.write(Array(body.dropFirst(1 << 20)))
            connection.drain()
        }
        let manager = try CentralRequestManager.make { $0.idleTimeout = .seconds(2) }
        let recorder = CallRecorder()
        let hasBegun = Event()
        let task = manager.startRequest(
            "GET", server.url(),
            progress: { progress in
                recorder.onProgress(progress)
                hasBegun.happen()
            }, success: recorder.onSuccess, failure: recorder.onFailure)
        await hasBegun.wait()
        task.suspend()
        maySend.signal()
        // Both sleeps together exceed the idle timeout, which does not run while the transfer is suspended.
        try await Task.sleep(for: .milliseconds(150))
        let before = recorder.progress.count
        try await Task.sleep(for: .milliseconds(3_100))
        // One more progress event may report bytes that arrived before the suspension.
        #expect(recorder.progress.count <= before + 1)
        #expect(recorder.terminalEvents.isEmpty)
        task.resume()
        await recorder.end()
        let data = try #require(recorder.response?.data)
        #expect(data.count == size)
        #expect(MockPattern.firstMismatch(in: data, at: 0) == nil)
    }

    @Test func suspendedCallCanBeCancelled() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1 << 30).stalling(.afterBodyBytes(1 << 20)) }
        let manager = try CentralRequestManager.make()
        let early = CallRecorder()
        let earlyTask = manager.startRequest("GET", server.url(), into: early)
        earlyTask.suspend()
        earlyTask.cancel()
        await early.end()
        #expect(early.error?.kind == .cancelled)

        let late = CallRecorder()
        let begun = Event()
        let lateTask = manager.startRequest(
            "GET", server.url(), progress: { _ in begun.happen() }, success: late.onSuccess, failure: late.onFailure)
        await begun.wait()
        lateTask.suspend()
        lateTask.cancel()
        await late.end()
        #expect(late.error?.kind == .cancelled)
        try await server.waitUntilDisconnected()
    }

    @Test func rapidSuspendAndResumeLosesNoCall() async throws {
        let server = try MockServer()
        server.recordsRequests = false
        server.fallback { _ in .pattern(byteCount: 30_000) }
        let manager = try CentralRequestManager.make { $0.maxConnectionsPerHost = 8 }
        let recorders = (0..<300).map { _ in CallRecorder() }
        await withTaskGroup(of: Void.self) { group in
            for recorder in recorders {
                let task = manager.startRequest("GET", server.url(), into: recorder)
                group.addTask {
                    for _ in 0..<20 {
                        task.suspend()
                        if Bool.random() { await Task.yield() }
                        task.resume()
                    }
                }
            }
        }
        for recorder in recorders { await recorder.end() }
        for recorder in recorders {
            let data = recorder.response?.data
            #expect(data?.count == 30_000, "\(recorder.error.map { "\($0)" } ?? "no error")")
            #expect(MockPattern.firstMismatch(in: data ?? Data(), at: 0) == nil)
        }
    }
}
