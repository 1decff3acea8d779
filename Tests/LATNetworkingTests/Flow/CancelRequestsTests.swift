import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(2))) struct CancelRequestsTests {
    private struct FetchUser: RequestEntity, Encodable {
        static let route = Route("GET", url: "/users/{id}")
        var id: Int
    }

    private struct FetchFeed: RequestEntity {
        static let route = Route("GET", url: "/feed")
    }

    private func stallingServer() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        return server
    }

    /// The end of an asynchronous call.
    private enum Ending: Equatable {
        case value
        case cancellationError
        case error(NetworkError.Kind)
    }

    private func ending<T>(_ call: () async throws -> T) async -> Ending {
        do {
            _ = try await call()
            return .value
        } catch is CancellationError {
            return .cancellationError
        } catch let error as NetworkError {
            return .error(error.kind)
        } catch {
            return .error(.other)
        }
    }

    @Test func tagCancelsItsCallsOnly() async throws {
        let server = try stallingServer()
        let manager = try CentralRequestManager.make()
        let closure = CallRecorder()
        manager.startRequest(
            "GET", server.url("/1"), tag: "feed", success: closure.onSuccess, failure: closure.onFailure)
        async let asynchronous = ending { try await manager.startRequest("GET", server.url("/2"), tag: "feed") }
        let other = Task { await ending { try await manager.startRequest("GET", server.url("/3"), tag: "user") } }
        try await server.waitForRequests(3)
        #expect(manager.runningRequests(.tag("feed")) == 2)
        #expect(manager.cancelRequests(.tag("feed")) == 2)
        await closure.end()
        #expect(closure.error?.kind == .cancelled)
        #expect(await asynchronous == .error(.cancelled))
        #expect(manager.runningRequests() == 1)
        other.cancel()
        #expect(await other.value == .cancellationError)
        #expect(manager.runningRequests() == 0)
        #expect(manager.cancelRequests(.all) == 0)
    }

    @Test func keyCancelsOneCall() async throws {
        let server = try stallingServer()
        let manager = try CentralRequestManager.make()
        let (first, second) = (CallRecorder(), CallRecorder())
        let task = manager.startRequest("GET", server.url("/1"), into: first)
        manager.startRequest("GET", server.url("/2"), into: second)
        #expect(manager.cancelRequests(.key(task.key)) == 1)
        await first.end()
        #expect(second.events.isEmpty)
        manager.cancelRequests(.all)
        await second.end()
    }

    @Test func urlSelectsCallsWithAnyQuery() async throws {
        let server = try stallingServer()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url("/api") }
        let calls = ["/users", "/users?page=2", "/users/1", "/usersx"].map { path in
            Task { await ending { try await manager.startRequest("GET", path, parameters: ["q": path.count]) } }
        }
        try await server.waitForRequests(4)
        #expect(manager.runningRequests(.url("/users?page=9")) == 0)
        #expect(manager.cancelRequests(.url("/users")) == 2)
        #expect(await calls[0].value == .error(.cancelled))
        #expect(await calls[1].value == .error(.cancelled))
        #expect(manager.cancelRequests(.url(server.url("/api/users/1"))) == 1)
        #expect(await calls[2].value == .error(.cancelled))
        #expect(manager.cancelRequests(.all) == 1)
        for call in calls { #expect(await call.value == .error(.cancelled)) }
    }

    @Test func entitySelectsByTypeAndByValue() async throws {
        let server = try stallingServer()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let recorder = Log<NetworkError.Kind?>()
        let isOver = Event()
        FetchUser(id: 1).startRequest(on: manager) { _, _, error in
            recorder.append(error?.kind)
            isOver.happen()
        }
        let second = Task { await ending { try await FetchUser(id: 2).startRequest(on: manager) } }
        let feed = Task { await ending { try await FetchFeed().startRequest(on: manager) } }
        try await server.waitForRequests(3)
        #expect(manager.runningRequests(.entity(FetchUser.self)) == 2)
        #expect(manager.runningRequests(.entity(FetchUser(id: 3))) == 0)
        #expect(manager.cancelRequests(.entity(FetchUser(id: 1))) == 1)
        await isOver.wait()
        #expect(recorder.elements == [.cancelled])
        #expect(manager.cancelRequests(.url("/users/2")) == 1)
        #expect(await second.value == .error(.cancelled))
        #expect(manager.cancelRequests(.entity(FetchFeed.self)) == 1)
        #expect(await feed.value == .error(.cancelled))
    }

    @Test func urlSelectsAnEntityWithItsParameters() async throws {
        struct Search: RequestEntity, Encodable {
            static let route = Route("GET", url: "/search")
            var q = "a b"
        }
        let server = try stallingServer()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let search = Task { await ending { try await Search().startRequest(on: manager) } }
        try await server.waitForRequests(1)
        #expect(manager.runningRequests(.url("/search?q=other")) == 0)
        #expect(manager.runningRequests(.url("/search")) == 1)
        #expect(manager.cancelRequests(.url("/search?q=a%20b")) == 1)
        #expect(await search.value == .error(.cancelled))
    }

    @Test func urlSelectsUnstartedClosureCalls() async throws {
        let server = try stallingServer()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        for _ in 0..<200 {
            let (central, entity) = (CallRecorder(), Log<NetworkError.Kind?>())
            let isOver = Event()
            manager.startRequest("GET", "/a", into: central)
            FetchUser(id: 7).startRequest(on: manager) { _, _, error in
                entity.append(error?.kind)
                isOver.happen()
            }
            #expect(manager.cancelRequests(.url("/a")) == 1)
            #expect(manager.cancelRequests(.url("/users/7")) == 1)
            await central.end()
            await isOver.wait()
            #expect(central.error?.kind == .cancelled)
            #expect(entity.elements == [.cancelled])
        }
    }

    @Test func newCallWithTheSameTagIsNotCancelled() async throws {
        let server = try MockServer()
        server.route("GET", "/old") { _ in MockReply.text("never").stalling(.start) }
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        for _ in 0..<200 {
            let (old, new) = (CallRecorder(), CallRecorder())
            manager.startRequest(
                "GET", server.url("/old"), tag: "t", success: old.onSuccess, failure: old.onFailure)
            manager.cancelRequests(.tag("t"))
            manager.startRequest(
                "GET", server.url("/new"), tag: "t", success: new.onSuccess, failure: new.onFailure)
            await old.end()
            await new.end()
            #expect(old.error?.kind == .cancelled)
            #expect(new.response?.status == 200)
        }
    }

    @Test func cancellingAllInClosuresEndsCallsOnce() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let recorders = (0..<300).map { _ in CallRecorder() }
        for recorder in recorders {
            manager.startRequest(
                "GET", server.url(),
                success: { task, response in
                    manager.cancelRequests(.all)
                    recorder.onSuccess(task, response)
                },
                failure: { task, error in
                    manager.cancelRequests(.all)
                    recorder.onFailure(task, error)
                })
        }
        for recorder in recorders { await recorder.end() }
        #expect(recorders.allSatisfy { $0.terminalEvents.count == 1 })
        #expect(recorders.allSatisfy { $0.error == nil || $0.error?.kind == .cancelled })
        #expect(manager.runningRequests() == 0)
    }

    @Test func cancellingFromManyTasksLosesNoCall() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("ok").delayed(by: .milliseconds(1)) }
        let manager = try CentralRequestManager.make()
        let ends = Log<Ending>()
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<400 {
                group.addTask {
                    ends.append(
                        await ending { try await manager.startRequest("GET", server.url(), tag: "\(index % 7)") })
                }
            }
            for index in 0..<50 {
                group.addTask { manager.cancelRequests(index.isMultiple(of: 5) ? .all : .tag("\(index % 7)")) }
            }
        }
        #expect(ends.count == 400)
        #expect(ends.elements.allSatisfy { $0 == .value || $0 == .error(.cancelled) })
        #expect(manager.runningRequests() == 0)
    }

    @Test func cancellingAfterTheEndDoesNothing() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        let manager = try CentralRequestManager.make()
        let recorder = CallRecorder()
        let task = manager.startRequest("GET", server.url(), into: recorder)
        await recorder.end()
        task.cancel()
        #expect(manager.cancelRequests(.key(task.key)) == 0)
        #expect(recorder.terminalEvents.count == 1)
    }

    @Test func cancellingTheCallEndsItsBodyStream() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.pattern(byteCount: 1 << 20).stalling(.afterBodyBytes(100)) }
        let manager = try CentralRequestManager.make()
        let response = try await manager.stream("GET", server.url(), tag: "s")
        #expect(manager.runningRequests(.tag("s")) == 1)
        let reading = Task {
            await ending { for try await _ in response.body { manager.cancelRequests(.tag("s")) } }
        }
        #expect(await reading.value == .error(.cancelled))
        #expect(manager.runningRequests() == 0)
    }

    @Test func abandonedStreamIsNoLongerRunning() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.pattern(byteCount: 1 << 20).stalling(.afterBodyBytes(100)) }
        let manager = try CentralRequestManager.make()
        do {
            let response = try await manager.stream("GET", server.url())
            #expect(response.status == 200)
            #expect(manager.runningRequests() == 1)
        }
        #expect(manager.runningRequests() == 0)
        try await server.waitForClosedConnections(1)
    }

    @Test func callWaitingForARetryIsCancelled() async throws {
        let closed = try ClosedPort()
        let manager = try CentralRequestManager.make {
            $0.retryPolicy = RetryPolicy(retries: 3, judge: { _, _ in true })
            $0.retryPolicy.firstWait = .seconds(600)
            $0.retryPolicy.longestWait = .seconds(600)
        }
        var events = manager.events.makeAsyncIterator()
        let call = Task { await ending { try await manager.startRequest("GET", closed.url()) } }
        while let event = await events.next() {
            if case .retrying = event.kind { break }
        }
        #expect(manager.cancelRequests(.all) == 1)
        #expect(await call.value == .error(.cancelled))
    }

    @Test func customTransportIsInterrupted() async throws {
        struct Hanging: Transport {
            let isCalled: Event

            func send(_ request: HTTPRequest) async throws -> HTTPResponse {
                isCalled.happen()
                try await Task.sleep(for: .seconds(600))
                throw NetworkError(.other, message: "slept")
            }
        }
        let isCalled = Event()
        let manager = try CentralRequestManager.make { $0.transport = Hanging(isCalled: isCalled) }
        let call = Task { await ending { try await manager.startRequest("GET", "http://h/") } }
        await isCalled.wait()
        manager.cancelRequests(.all)
        #expect(await call.value == .error(.cancelled))
    }
}
