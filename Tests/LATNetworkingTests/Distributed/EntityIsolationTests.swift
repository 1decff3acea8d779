import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct Echo: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "items/{id}")
    var id: Int
    var text: String
}

private final class Draft: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "drafts/{id}")
    var id = 1
    var text = "first"
    var tags = ["a"]
}

@Suite(.timeLimit(.minutes(1))) struct EntityIsolationTests {
    @Test func startingAnEntityTwiceSendsTwoRequests() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url()))
        let entity = Echo(id: 1, text: "same")
        async let first = entity.startRequest(on: manager)
        async let second = entity.startRequest(on: manager)
        _ = try await (first, second)
        let call = entity.call
        async let third = call.startRequest(on: manager)
        async let fourth = call.startRequest(on: manager)
        _ = try await (third, fourth)
        let done = [Event(), Event()]
        let keys = done.map { signal in entity.startRequest(on: manager) { _, _, _ in signal.happen() }.key }
        for signal in done { await signal.wait() }
        #expect(Set(keys).count == 2)
        #expect(server.requestCount == 6)
    }

    @Test func cancellingOneOfTwoLeavesTheOther() async throws {
        let server = try MockServer()
        let mayAnswer = DispatchSemaphore(value: 0)
        server.fallback { _ in
            mayAnswer.wait()
            return .json("{}")
        }
        let manager = try CentralRequestManager.make(.make(server.url()))
        let entity = Echo(id: 1, text: "same")
        let ends = Log<NetworkError.Kind?>()
        let done = [Event(), Event()]
        let handles = done.map { signal in
            entity.startRequest(on: manager) { _, _, error in
                ends.append(error?.kind)
                signal.happen()
            }
        }
        handles[0].cancel()
        await done[0].wait()
        for _ in handles { mayAnswer.signal() }
        await done[1].wait()
        #expect(Set(ends.elements) == [.cancelled, nil])
    }

    @Test func entityMayStartInsideItsOwnClosure() async throws {
        let server = try MockServer.answering()
        server.enqueue(.status(500))
        let manager = try CentralRequestManager.make(.make(server.url()))
        let entity = Echo(id: 1, text: "again")
        let done = Event()
        entity.startRequest(on: manager) { _, _, error in
            #expect(error?.kind == .httpStatus)
            entity.startRequest(on: manager) { _, _, error in
                #expect(error == nil)
                done.happen()
            }
        }
        await done.wait()
        #expect(server.requestCount == 2)
    }

    @Test func fluentChangesAffectNoOtherCall() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url()))
        let entity = Echo(id: 1, text: "same")
        let plain = entity.call
        let one = plain.header("X-A", "1").parameters(["more": 1]).timeout(.seconds(9))
        let two = one.header("X-A", "2").header("X-B", "2").parameters(["more": nil, "text": "two"])
        for call in [plain, two, one, plain] { _ = try await call.startRequest(on: manager) }
        _ = try await entity.startRequest(on: manager)
        #expect(server.requests.map { $0.headers["X-A"] } == [nil, "2", "1", nil, nil])
        #expect(server.requests.map { $0.headers["X-B"] } == [nil, "2", nil, nil, nil])
        let same: JSONValue = ["text": "same"]
        #expect(server.requests.map(\.json) == [same, ["text": "two"], ["text": "same", "more": 1], same, same])
    }

    @Test func changingTheEntityKeepsTheCallInFlight() async throws {
        let server = try MockServer.answering()
        server.enqueue(.noReply)
        let gate = Event()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.headerProvider = { _ in
                await gate.wait()
                return [:]
            }
        }
        let draft = Draft()
        let done = Event()
        let call = draft.retries(2)
        draft.retries(2).call(on: manager, done)
        draft.id = 2
        draft.text = "changed"
        draft.tags = []
        gate.happen()
        await done.wait()
        // The second attempt follows the change and still sends the same request.
        #expect(server.requests.map(\.path).allSatisfy { $0 == "/drafts/1" })
        #expect(server.requests.map(\.json).allSatisfy { $0 == ["text": "first", "tags": ["a"]] })
        _ = try await call.startRequest(on: manager)
        #expect(server.requests.last?.path == "/drafts/1")
        _ = try await draft.startRequest(on: manager)
        #expect(server.requests.last?.path == "/drafts/2")
    }

    @Test func concurrentCallsDoNotMix() async throws {
        let server = try MockServer()
        server.route("POST", "/items/{id}") { request in
            let id = request.pathParameters["id"] ?? ""
            let isRight =
                request.headers["X-Id"] == id && request.headers["X-Provided"] == id
                && request.headers["Content-Type"] == "application/json" && request.json == ["text": .string("t" + id)]
            return .json(#"{"status": \#(isRight ? 0 : 1), "data": \#(id)}"#)
        }
        let manager = try CentralRequestManager.make(
            .make(server.url(), domain: #"envelope: { code: "status", data: "data", success: [0] }"#)
        ) {
            $0.maxConnectionsPerHost = 32
            $0.headerProvider = { request in
                await Task.yield()
                return ["X-Provided": request.url.split(separator: "/").last.map(String.init)]
            }
        }
        try await withThrowingTaskGroup(of: (Int, Int?).self) { group in
            for id in 0..<500 {
                group.addTask {
                    (id, try await Echo(id: id, text: "t\(id)").header("X-Id", "\(id)").startRequest(on: manager).int)
                }
            }
            for try await (id, answer) in group { #expect(answer == id) }
        }
        #expect(server.requestCount == 500)
    }

    @Test func concurrentCallsOfDifferentKindsDoNotMix() async throws {
        let server = try MockServer()
        server.echo(path: "/x")
        server.echo(path: "/items")
        let manager = try CentralRequestManager.make(.make(server.url())) { $0.maxConnectionsPerHost = 16 }
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for id in 0..<250 {
                group.addTask {
                    let answer = try await Get<JSONValue>().parameters(["q": id]).startRequest(on: manager)
                    return answer["args"] == ["q": .string("\(id)")] && answer["data"].string == ""
                }
                group.addTask {
                    let answer = try await Echo(id: id, text: "t\(id)").parameterEncoding(id % 2 == 0 ? .form : .json)
                        .startRequest(on: manager)
                    return answer[id % 2 == 0 ? "form" : "json"] == ["text": .string("t\(id)")]
                }
            }
            for try await isRight in group { #expect(isRight) }
        }
        #expect(server.requestCount == 500)
    }

    @Test func callOutlivesEntityHandleAndManager() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"a": 1}"#).delayed(by: .milliseconds(100)) }
        let done = Event()
        let answers = Log<Int?>()
        do {
            let manager = try CentralRequestManager.make(.make(server.url()))
            Draft().startRequest(on: manager) { _, model, _ in
                answers.append(model?["a"].int)
                done.happen()
            }
        }
        await done.wait()
        #expect(answers.elements == [1])
    }
}

extension EntityCall {
    fileprivate func call(on manager: CentralRequestManager, _ done: Event) {
        startRequest(on: manager) { _, _, _ in done.happen() }
    }
}
