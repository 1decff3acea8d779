import Dispatch
import FoundationEssentials
import CurlTransport
import Glibc
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATClient
@testable import LATTransfers

@Suite(.timeLimit(.minutes(2))) struct DuplicateTests {
    /// Waits until this many more calls wait for the response to an equal request.
    private static func waitForSharers(_ count: Int, _ events: inout AsyncStream<CallEvent>.Iterator) async {
        var left = count
        while left > 0, let event = await events.next() {
            if case .waiting(.sharedRequest) = event.kind { left -= 1 }
        }
    }

    private func stalling() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("never").stalling(.start) }
        return server
    }

    @Test func equalRequestsShareOneResponse() async throws {
        let mayAnswer = DispatchSemaphore(value: 0)
        let server = try MockServer { _ in
            mayAnswer.wait()
            return .text("1")
        }
        let manager = try CentralRequestManager.make { $0.duplicates = .coalesce }
        var events = manager.events.makeAsyncIterator()
        let calls = (0..<50).map { _ in
            Task { try await manager.startRequest("GET", server.url("/a"), parameters: ["x": 1, "y": 2]).text }
        }
        await Self.waitForSharers(49, &events)
        mayAnswer.signal()
        for call in calls { #expect(try await call.value == "1") }
        #expect(server.requestCount == 1)
        #expect(manager.runningRequests() == 0)
    }

    @Test func closureCallsAndEntitiesShareARequest() async throws {
        struct FetchA: RequestEntity {
            typealias Model = String
            static let route = Route("GET", url: "/a")
        }
        let server = try stalling()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.duplicates = .coalesce
        }
        let recorders = [CallRecorder(), CallRecorder()]
        for recorder in recorders { manager.startRequest("GET", "/a", into: recorder) }
        async let first = failure { try await FetchA().startRequest(on: manager) }
        async let second = failure { try await FetchA().startRequest(on: manager) }
        try await server.waitForRequests(1)
        try await eventually { manager.runningRequests() >= 4 }
        #expect(server.requestCount == 1)
        manager.cancelRequests(.all)
        for recorder in recorders {
            await recorder.end()
            #expect(recorder.terminalEvents.count == 1)
        }
        #expect(await first?.kind == .cancelled)
        #expect(await second?.kind == .cancelled)
    }

    @Test func lastCancelledCallerCancelsTheTransfer() async throws {
        let server = try stalling()
        let manager = try CentralRequestManager.make { $0.duplicates = .coalesce }
        var events = manager.events.makeAsyncIterator()
        let first = Task { try await manager.startRequest("GET", server.url(), tag: "1") }
        try await server.waitForRequests(1)
        let second = Task { try await manager.startRequest("GET", server.url(), tag: "2") }
        await Self.waitForSharers(1, &events)
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        #expect(server.closedConnections == 0)
        #expect(manager.cancelRequests(.tag("2")) == 1)
        await #expect(throws: NetworkError.self) { try await second.value }
        try await server.waitForClosedConnections(1)
        #expect(server.requestCount == 1)
        // A later call sends a new request.
        let third = Task { try await manager.startRequest("GET", server.url()) }
        try await server.waitForRequests(2)
        third.cancel()
        _ = await third.result
    }

    @Test func highestPriorityOfTheCallersWins() async throws {
        let server = try MockServer()
        let order = Log<String>()
        server.route("GET", "/blocker") { _ in MockReply.text("").stalling(.start) }
        server.fallback { request in
            order.append(request.path)
            return .text("ok")
        }
        let manager = try CentralRequestManager.make {
            $0.maxConnectionsPerHost = 1
            $0.duplicates = .coalesce
        }
        let blocker = Task { try await manager.startRequest("GET", server.url("/blocker")) }
        try await server.waitForRequests(1)
        var events = manager.events.makeAsyncIterator()
        func send(_ path: String, _ priority: RequestPriority) -> Task<HTTPResponse, any Error> {
            var request = HTTPRequest("GET", server.url(path))
            request.priority = priority
            return Task { [request] in try await manager.send(request) }
        }
        var calls = [send("/low", .low)]
        try await eventually("a queued request") { await manager.gauges?.waiting == 1 }
        calls.append(send("/normal", .normal))
        try await eventually("another queued request") { await manager.gauges?.waiting == 2 }
        calls.append(send("/low", .high))
        await Self.waitForSharers(1, &events)
        // The engine executes its commands in order, so by now it knows the raised priority.
        _ = await manager.gauges
        blocker.cancel()
        for call in calls { #expect(try await call.value.status == 200) }
        #expect(order.elements == ["/low", "/normal"])
    }

    @Test func waitBeginsWithTheStateOfItsCall() async throws {
        let call = Call(HTTPRequest("GET", "http://h/"))
        call.raisePriority(to: .high)
        call.setSuspended(true)
        let waiter = Waiter<TransferState>()
        let state = try await waiter.value(for: call) { waiter.end(.success($0)) }
        #expect(state.priority == .high && state.isSuspended)
    }

    /// The first upload still has the content of before.
    @Test(arguments: [true, false], [DuplicatePolicy.coalesce, .reject])
    func uploadOfAChangedFileIsSent(isPart: Bool, _ policy: DuplicatePolicy) async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("one".utf8), to: "a")
        let server = try MockServer()
        server.enqueue(MockReply.text("never").stalling(.start))
        server.fallback { _ in .text("second") }
        let manager = try CentralRequestManager.make()
        let body = isPart ? HTTPBody.multipart([UploadFile(name: "f", path: path)]) : .file(path)
        var request = HTTPRequest("PUT", server.url("/a"), body: body)
        request.duplicates = policy
        let key = DuplicateKey(request)
        #expect(key != nil && key == DuplicateKey(request))
        let first = Task { [request] in try await manager.send(request) }
        try await server.waitForRequests(1)
        let other = try directory.write(Data("two".utf8), to: "b")
        try #require(rename(other, path) == 0)
        #expect(key != DuplicateKey(request))
        #expect(try await manager.send(request).text == "second")
        #expect(server.requestCount == 2 && server.requests.last?.text.contains("two") == true)
        first.cancel()
        _ = await first.result
    }

    @Test func secondEqualRequestIsRejected() async throws {
        let server = try stalling()
        let manager = try CentralRequestManager.make()
        var request = HTTPRequest("POST", server.url("/order"), body: .text("1 book"))
        request.duplicates = .reject
        let first = Task { [request] in try await manager.send(request) }
        try await server.waitForRequests(1)
        let second = await failure { try await manager.send(request) }
        #expect(second?.kind == .duplicate)
        var other = request
        other.body = .text("2 books")
        let different = Task { [other] in try await manager.send(other) }
        try await server.waitForRequests(2)
        first.cancel()
        _ = await first.result
        let again = Task { [request] in try await manager.send(request) }
        try await server.waitForRequests(3)
        for task in [different, again] {
            task.cancel()
            _ = await task.result
        }
    }

    @Test func unsafeMethodIsSharedOnlyWhenRequested() async throws {
        let stage = SharingStage(.coalesce)
        var post = HTTPRequest("POST", "http://h/")
        #expect(stage.policy(for: post) == .allow)
        #expect(stage.policy(for: HTTPRequest("GET", "http://h/")) == .coalesce)
        post.duplicates = .coalesce
        #expect(stage.policy(for: post) == .coalesce)
        post.streamsBody = true
        #expect(stage.policy(for: post) == .allow)
    }

    @Test func everyCallerGetsProgress() async throws {
        let mayAnswer = DispatchSemaphore(value: 0)
        let server = try MockServer { _ in
            mayAnswer.wait()
            return .pattern(byteCount: 100_000)
        }
        let manager = try CentralRequestManager.make { $0.duplicates = .coalesce }
        var events = manager.events.makeAsyncIterator()
        let recorders = [CallRecorder(), CallRecorder()]
        for recorder in recorders { manager.startRequest("GET", server.url(), into: recorder) }
        await Self.waitForSharers(1, &events)
        mayAnswer.signal()
        for recorder in recorders {
            await recorder.end()
            #expect(recorder.progress.last?.fraction == 1)
        }
    }

    /// A stage that holds the shared call.
    private struct Holding: Stage {
        let held = Box<Call?>(nil)
        let hasBegun = Event()
        let mayEnd = Event()

        func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
            held.change { $0 = chain.call }
            hasBegun.happen()
            await mayEnd.wait()
            return HTTPResponse(status: 200, url: request.url)
        }
    }

    @Test func sharedTransferPausesWithAllItsCallers() async throws {
        let (stage, end) = (SharingStage(.coalesce), Holding())
        let table = StageTable([.simulation: end], .custom(FunctionTransport { _ in throw CancellationError() }))
        let calls = (0..<3).map { _ in Call(HTTPRequest("GET", "http://h/")) }
        func start(_ call: Call) -> Task<HTTPResponse, any Error> {
            Task { try await stage.handle(call.request, Chain(call, table, StageSet(.simulation))) }
        }
        // A call that is paused before it is sent begins suspended.
        calls[0].setSuspended(true)
        let first = start(calls[0])
        await end.hasBegun.wait()
        let shared = try #require(end.held.value)
        #expect(shared.transferState.isSuspended)
        let others = [start(calls[1])]
        try await eventually { !shared.transferState.isSuspended }
        calls[1].setSuspended(true)
        try await eventually { shared.transferState.isSuspended }
        let last = start(calls[2])
        try await eventually { !shared.transferState.isSuspended }
        // The others stay paused, so the transfer is suspended without the one that leaves.
        calls[2].cancel()
        _ = await last.result
        #expect(shared.transferState.isSuspended)
        calls[0].setSuspended(false)
        try await eventually { !shared.transferState.isSuspended }
        end.mayEnd.happen()
        for task in [first] + others { #expect(try await task.value.status == 200) }
    }

    @Test func endOfAnAbandonedCallLeavesItsSuccessorAlone() async throws {
        let stage = SharingStage(.coalesce)
        let (abandoned, next) = (Holding(), Holding())
        func start(_ end: Holding) -> (call: Call, task: Task<HTTPResponse, any Error>) {
            let call = Call(HTTPRequest("GET", "http://h/"))
            let table = StageTable([.simulation: end], .custom(FunctionTransport { _ in throw CancellationError() }))
            let task = Task { try await stage.handle(call.request, Chain(call, table, StageSet(.simulation))) }
            return (call, task)
        }
        let first = start(abandoned)
        await abandoned.hasBegun.wait()
        first.call.cancel()
        await #expect(throws: NetworkError.self) { try await first.task.value }
        #expect(abandoned.held.value?.isCancelled == true)
        let second = start(next)
        await next.hasBegun.wait()
        abandoned.mayEnd.happen()
        let successor = try #require(next.held.value)
        second.call.setSuspended(true)
        try await eventually { successor.transferState.isSuspended }
        // A later caller, which is not paused, resumes the transfer that it joins.
        let third = start(Holding())
        try await eventually { !successor.transferState.isSuspended }
        next.mayEnd.happen()
        for task in [second.task, third.task] { #expect(try await task.value.status == 200) }
    }

    // MARK: The key

    @Test func keyCoversEverythingThatIsSent() {
        func key(_ change: (inout HTTPRequest) -> Void = { _ in }) -> DuplicateKey? {
            var request = HTTPRequest("GET", "http://h/a?x=1", headers: ["A": "1", "B": "2"])
            change(&request)
            return DuplicateKey(request)
        }
        #expect(key() == key())
        #expect(key() == key { $0.headers = ["b": "2", "a": "1"] })
        #expect(key() == key { $0.headers["traceparent"] = "00-1-2-00" })
        #expect(key() == key { $0.priority = .high })
        #expect(key() == key { $0.tag = "t" })
        let others: [DuplicateKey?] = [
            key { $0.method = .head }, key { $0.url = "http://h/a?x=2" }, key { $0.headers["A"] = "2" },
            key { $0.headers["C"] = nil }, key { $0.headers["Authorization"] = "x" }, key { $0.body = .text("x") },
            key { $0.body = .text("y") }, key { $0.body = .data(Data("x".utf8), contentType: "a/b") },
            key { $0.timeout = .seconds(1) }, key { $0.redirects = .none },
            key { $0.authentication = .bearer(token: "1") }, key { $0.headers = ["A": "1B", "": "2"] },
            key { $0.body = .multipart([UploadFile(name: "a", value: "1")]) },
            key { $0.body = .multipart([UploadFile(name: "a", value: "2")]) }, key { $0.body = .file("/etc/hosts") },
            key { $0.trailers = HTTPRequest.Trailers(["X-Sum"]) { ["X-Sum": "7"] } },
        ]
        #expect(Set(others + [key()]).count == others.count + 1)
        #expect(!others.contains(nil))
        let stream = AsyncStream<Data> { $0.finish() }
        #expect(key { $0.body = .stream(stream) } == nil)
    }

    /// What an authenticator sets on one attempt is not in the request of the call.
    @Test func sharingKeyCoversTheAuthenticatorsToken() {
        func key(_ authorize: (inout HTTPRequest) -> Void = { _ in }) -> DuplicateKey? {
            let call = Call(HTTPRequest("GET", "http://h/a"))
            var composed = call.request
            authorize(&composed)
            return DuplicateKey(sharing: call, composed: composed)
        }
        let keys = [
            key(), key { $0.authentication = .bearer(token: "1") }, key { $0.authentication = .bearer(token: "2") },
            key { $0.headers["Authorization"] = "Bearer 1" }, key { $0.headers["Authorization"] = "Bearer 2" },
            key { $0.tls = .init(minimumVersion: .v1_3) }, key { $0.url += "?token=1" }, key { $0.url += "?token=2" },
            key { $0.method = .post }, key { $0.body = .json(["token": 1]) }, key { $0.body = .json(["token": 2]) },
        ]
        #expect(Set(keys).count == keys.count)
        #expect(key { $0.authentication = .bearer(token: "1") } == keys[1])
    }

    @Test func volatileParametersAreIgnoredWhenSharing() {
        func key(_ time: Int) -> DuplicateKey? {
            let request = HTTPRequest("POST", "http://h/a?t=\(time)&x=1", body: .json(["t": time, "y": 1]))
            return DuplicateKey(sharing: Call(request), composed: request, volatileParameters: ["t"])
        }
        #expect(key(1) == key(2) && key(1) != nil)
    }

    @Test func callsWithOtherProvidedParametersAreNotShared() async throws {
        let server = try MockServer()
        server.fallback { .text($0.query ?? "") }
        let manager = try CentralRequestManager.make {
            $0.duplicates = .coalesce
            $0.parameterProvider = { _ in ["user": Caller.name] }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let text = try await Caller.$name.withValue("\(number)") {
                        try await manager.startRequest("GET", server.url("/me")).text
                    }
                    #expect(text == "user=\(number)")
                }
            }
            try await group.waitForAll()
        }
    }

    /// A response of one tenant does not reach another, whoever adds the field that names the tenant.
    @Test(arguments: [true, false])
    func callsWithOtherFieldsOfTheirOwnAreNotShared(byInterceptor: Bool) async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["X-Tenant"] ?? "") }
        let manager = try CentralRequestManager.make {
            $0.duplicates = .coalesce
            if byInterceptor {
                $0.interceptors = [Tenant()]
            } else {
                $0.headerProvider = { _ in ["X-Tenant": Caller.name] }
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let text = try await Caller.$name.withValue("\(number)") {
                        try await manager.startRequest("GET", server.url("/me")).text
                    }
                    #expect(text == "\(number)")
                }
            }
            try await group.waitForAll()
        }
    }

    private struct Tenant: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            request.headers["X-Tenant"] = Caller.name
            return try await next(request)
        }
    }

    private enum Caller {
        @TaskLocal static var name = ""
    }
}
