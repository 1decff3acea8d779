import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Jobs on servers.
@Suite(.timeLimit(.minutes(1))) struct PollTests {
    private struct Job: Decodable, Sendable {
        var state: String?
        var total: Int?
    }

    private struct StartJob: RequestEntity {
        typealias Model = Job
        static var route: Route { Route("POST", domain: "d", path: "jobs") }
        var parameters: Parameters? { ["pages": 3] }
    }

    private static let quick = Polling.location.every(.milliseconds(1))

    /// A job that is done with its third question.
    private static func server() throws -> MockServer {
        let server = try MockServer()
        let count = Counter()
        server.route("POST", "/jobs") { _ in
            .json(#"{"state": "queued"}"#, status: 202).header("Location", "/jobs/7")
        }
        server.route("GET", "/jobs/7") { _ in
            count.next() < 4
                ? .json(#"{"state": "running"}"#, status: 202)
                : .json(#"{"state": "done", "total": 3, "links": {"result": "/result?n=1"}}"#)
        }
        server.route("GET", "/result") { _ in .json(#"{"total": 42}"#) }
        return server
    }

    @Test func responseOfTheLastQuestionIsTheResult() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let states = Log<String>()
        let result = try await manager.poll(
            "POST", "/jobs", Self.quick, parameters: ["pages": 3], headers: ["X-Own": "1", "Content-Language": "de"],
            progress: { states.append((try? $0.json()["state"].string) ?? "") })
        #expect(try result.json()["total"].int == 3)
        #expect(states.elements == ["queued", "running", "running", "running"])
        #expect(server.requests.map(\.method) == ["POST", "GET", "GET", "GET", "GET"])
        #expect(server.requests[0].text == #"{"pages":3}"#)
        for question in server.requests.dropFirst() {
            #expect(question.text == "" && question.headers["Content-Type"] == nil, "\(question)")
            #expect(question.headers["X-Own"] == "1" && question.headers["Content-Language"] == nil)
            #expect(question.target == "/jobs/7")
        }
    }

    /// The server of the first request has the job, and the new one must get no question, nor its secrets go to the old one.
    @Test func tableThatChangesCountsForTheNextJob() async throws {
        let (old, new) = (try Self.server(), try Self.server())
        func text(_ server: MockServer, _ key: String) -> String {
            DomainTable.text(
                server.url(),
                domain: #"""
                    poll: { status: "state", interval: "1ms" }, secretHeaders: ["X-Api-Key"],
                    headers: { "X-Api-Key": "\#(key)" }
                    """#)
        }
        let manager = try CentralRequestManager.make(DomainTable(json5: text(old, "old"), environment: nil))
        let table = try DomainTable(json5: text(new, "new"), environment: nil)
        let job = try await StartJob().poll(on: manager) { _ in try? manager.updateDomains { $0 = table } }
        #expect(job.model.total == 3 && new.requests.isEmpty)
        #expect(Set(old.requests.map { $0.headers["X-Api-Key"] }) == ["old"])
    }

    @Test func entityIsFollowedAsItsRowSays() async throws {
        let server = try Self.server()
        let poll = #"poll: { status: "state", result: "links.result", interval: "1ms" }"#
        let manager = try CentralRequestManager.make(.make(server.url(), domain: poll))
        let reply = try await StartJob().poll(on: manager)
        #expect(reply.model.total == 42 && server.requests.last?.target == "/result?n=1")
        let row = try CentralRequestManager.make(
            .make(server.url(), servers: #"job: { domain: "d", path: "jobs", method: "POST", \#(poll) }"#))
        #expect(try await row.poll(server: "job", as: Job.self).model.total == 42)
    }

    @Test func closureSaysWhenTheJobIsDone() async throws {
        let server = try Self.server()
        let manager = try CentralRequestManager.make(.make(server.url()))
        let reply = try await StartJob().poll(Self.quick, on: manager) { $0.model.state == "running" }
        #expect(reply.model.state == "running" && server.requestCount == 2)
        let response = try await manager.poll("GET", server.url("/jobs/7"), Self.quick) {
            try $0.json()["state"].string == "done"
        }
        #expect(response.status == 200)
        struct Stop: Error {}
        await #expect(throws: Stop.self) {
            try await manager.poll("GET", server.url("/jobs/7"), Self.quick) { _ in throw Stop() }
        }
    }

    @Test func questionsDoNotComeFromTheCache() async throws {
        let count = Counter()
        let server = try MockServer { _ in
            .json(#"{"state": "\#(count.next() < 4 ? "running" : "done")"}"#).header("Cache-Control", "max-age=60")
        }
        let manager = try CentralRequestManager.make { $0.cachePolicy = .cacheElseNetwork(.forever) }
        _ = try await manager.startRequest("GET", server.url("/jobs"))
        _ = try await manager.poll("GET", server.url("/jobs"), .status(at: "state").every(.milliseconds(1)))
        #expect(server.requestCount == 4)
    }

    @Test func failedJobIsABusinessFailure() async throws {
        let server = try MockServer.answering(#"{"state": "failed", "why": "token s3cr3t"}"#)
        let manager = try CentralRequestManager.make()
        let error = await failure {
            _ = try await manager.poll(
                "GET", server.url(), .status(at: "state", message: "why"), headers: ["Authorization": "Bearer s3cr3t"])
        }
        #expect(error?.kind == .business(code: "failed") && error?.businessFailure?.message == "token s3cr3t")
        #expect(error?.message.contains("s3cr3t") == false && error?.request?.url == server.url())
    }

    @Test func envelopeIsReadInEachAnswer() async throws {
        let server = try MockServer.answering(#"{"code": 7, "message": "no", "data": {"state": "done"}}"#)
        let manager = try CentralRequestManager.make(
            .make(
                server.url(),
                domain:
                    #"envelope: { code: "code", message: "message", data: "data", success: [0] }, poll: { status: "data.state" }"#
            ))
        let error = await failure { _ = try await Get<Job>().poll(on: manager) }
        #expect(error?.kind == .business(code: "7"))
    }

    @Test func jobThatNeverEndsIsATimeout() async throws {
        let server = try MockServer { _ in .status(202) }
        let manager = try CentralRequestManager.make()
        var polling = Self.quick
        polling.attempts = 3
        let tooMany = await failure { _ = try await manager.poll("GET", server.url(), polling) }
        #expect(tooMany?.kind == .timeout(.deadline) && tooMany?.message.contains("after 3 answers") == true)
        #expect(server.requestCount == 3 && tooMany?.response?.status == 202)
        let late = await failure {
            _ = try await manager.poll("GET", server.url(), Self.quick.deadline(.milliseconds(50)))
        }
        #expect(late?.kind == .timeout(.deadline) && late?.message.contains("raise the deadline") == true)
        let silent = try MockServer { _ in MockReply.text("").stalling(.start) }
        let stalled = await failure {
            _ = try await manager.poll("GET", silent.url(), Self.quick.deadline(.milliseconds(50)))
        }
        #expect(stalled?.message.contains("not done after 0 answers") == true, "\(stalled?.message ?? "")")
    }

    @Test func deadlineOfARowEndsEachCall() async throws {
        let server = try MockServer { _ in MockReply.text("").stalling(.start) }
        let manager = try CentralRequestManager.make(.make(server.url(), domain: #"deadline: "50ms""#))
        let error = await failure { _ = try await Get<Job>().poll(on: manager) }
        #expect(error?.kind == .timeout(.deadline) && error?.message.contains("raise the deadline") == true)
        #expect(error?.message.contains("the job") == false)
        let central = try CentralRequestManager.make { $0.deadline = .milliseconds(50) }
        let other = await failure { _ = try await central.poll("GET", server.url()) }
        #expect(other?.kind == .timeout(.deadline) && other?.message.contains("the job") == false)
    }

    @Test func cancelledTaskEndsTheWait() async throws {
        let server = try MockServer { _ in .status(202).header("Retry-After", "300") }
        let manager = try CentralRequestManager.make()
        let asked = Event()
        let task = Task {
            try await manager.poll("GET", server.url(), progress: { _ in asked.happen() })
        }
        await asked.wait()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func tokensStayAtTheFirstOrigin() async throws {
        let second = try MockServer { _ in .json("{}") }
        let there = second.url("/state")
        let first = try MockServer { _ in .status(202).header("Location", there) }
        let manager = try CentralRequestManager.make {
            $0.headers["X-API-Key"] = "manager"
            $0.headerProvider = { _ in ["Cookie": "provider"] }
            $0.parameterProvider = { _ in ["api_key": "provided"] }
        }
        _ = try await manager.poll("POST", first.url("/a"), Self.quick, headers: ["Authorization": "call"])
        for name in ["X-API-Key", "Cookie", "Authorization"] {
            #expect(first.requests[0].headers[name] != nil && second.requests[0].headers[name] == nil, "\(name)")
        }
        #expect(second.requests.map(\.target) == ["/state"])
    }

    @Test func questionThatComesTooSoonIsAskedAgain() async throws {
        let server = try MockServer()
        server.enqueue(
            .status(202), .status(429).header("Retry-After", "0"), .json("{}"), .status(202), .status(500))
        let manager = try CentralRequestManager.make()
        #expect(try await manager.poll("GET", server.url(), Self.quick).status == 200)
        let error = await failure { _ = try await manager.poll("GET", server.url(), Self.quick) }
        #expect(error?.kind == .httpStatus)
    }

    @Test func nullSwitchesTheRuleOfADomainOff() async throws {
        let server = try MockServer.answering(#"{"state": "running"}"#)
        let manager = try CentralRequestManager.make(
            .make(
                server.url(), domain: #"poll: { status: "state" }"#,
                servers: #"s: { domain: "d", path: "x", method: "GET", poll: null }"#))
        #expect(try await manager.poll(server: "s").model["state"].string == "running")
    }

    @Test(.needsPython) func realServerIsFollowedToItsResult() async throws {
        let server = try await PythonScript("jobs.py", [])
        let manager = try CentralRequestManager.make { $0.baseURL = "http://127.0.0.1:\(server.port)" }
        let answers = Log<Int>()
        let result = try await manager.poll(
            "POST", "/jobs", Self.quick, body: .json(["answers": 3]), progress: { answers.append($0.status) })
        #expect(try result.json()["result"].int == 42)
        #expect(answers.elements == [202, 202, 202] && result.redirects.map(\.status) == [303])
    }
}
