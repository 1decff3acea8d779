import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Failures in the content of responses that are not a success: `errors` of a row, and problem details (RFC 9457).
@Suite(.timeLimit(.minutes(1))) struct ErrorRuleTests {
    private enum ShopFailure: String { case outOfCredit, soldOut = "sold-out" }

    private static let rule = """
        errors: { code: "error.code", message: "error.text", details: "error.fields", \
        messages: { "E2": "too many" }, names: { "E1": "outOfCredit" } }
        """

    private func failure(
        _ body: String, _ domain: String = rule, row: String = "", status: Int = 422,
        type: String = "application/json"
    ) async throws -> NetworkError? {
        let server = try MockServer()
        server.fallback { _ in MockReply.data(Data(body.utf8), contentType: type, status: status) }
        let manager = try CentralRequestManager.make(
            .make(server.url(), domain: domain, servers: #"s: { domain: "d", path: "x", method: "GET", \#(row) }"#))
        return await TestSupport.failure { try await Row().startRequest(on: manager) }
    }

    @Test func errorHasCodeMessageAndDetails() async throws {
        let error = try await failure(#"{"error": {"code": "E1", "text": "no money", "fields": {"price": "high"}}}"#)
        #expect(error?.kind == .business(code: "E1"))
        #expect(error?.businessFailure?.message == "no money")
        #expect(error?.businessFailure?.envelope.data == ["price": "high"])
        #expect(error?.response?.status == 422)
        #expect(error?.failure(as: ShopFailure.self) == .outOfCredit)
        #expect(error?.message.contains("E1: no money") == true)
    }

    @Test func hostileWordsStayInOneShortLine() async throws {
        let server = try MockServer()
        server.fallback { request in
            let secret = request.headers["Authorization"] ?? ""
            let code = String(repeating: "A", count: 100_000)
            return .json(#"{"error":{"code":"\#(code)","text":"m\r\nInjected: 1\u001b[31m \#(secret)"}}"#, status: 400)
        }
        let manager = try CentralRequestManager.make(.make(server.url(), domain: Self.rule))
        for _ in 1...2 {
            let error = await TestSupport.failure {
                try await Get<JSONValue>().header("Authorization", "Bearer call-secret-value").startRequest(on: manager)
            }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.utf8.count < 4_096 && !text.unicodeScalars.contains { $0.value < 32 })
            #expect(!text.contains("call-secret-value"))
        }
    }

    @Test func tableReplacesTheMessageAndCodeNamesACase() async throws {
        let error = try await failure(#"{"error": {"code": "E2", "text": "x"}}"#)
        #expect(error?.businessFailure?.message == "too many")
        #expect(try await failure(#"{"error": {"code": "sold-out"}}"#)?.failure(as: ShopFailure.self) == .soldOut)
        #expect(try await failure(#"{"error": {"code": 7}}"#)?.kind == .business(code: "7"))
    }

    @Test(arguments: [
        "", "no JSON", "{}", "[]", #"{"error": "E1"}"#, #"{"error": {"code": null}}"#, #"{"error": {"code": {}}}"#,
    ])
    func responseWithoutACodeIsAStatus(_ body: String) async throws {
        #expect(try await failure(body)?.kind == .httpStatus)
    }

    @Test func successNeedsNoCode() async throws {
        let server = try MockServer.answering(#"{"error": {"code": "E1"}, "name": "Ada"}"#)
        let manager = try CentralRequestManager.make(.make(server.url(), domain: Self.rule))
        #expect(try await Get<JSONValue>().startRequest(on: manager)["name"].string == "Ada")
    }

    @Test func rowTurnsTheRuleOff() async throws {
        let error = try await failure(#"{"error": {"code": "E1"}}"#, row: "errors: null")
        #expect(error?.kind == .httpStatus)
    }

    @Test func envelopeOfSuccessAndErrorsOfFailure() async throws {
        let both = Self.rule + #", envelope: { code: "status", success: [0] }"#
        #expect(try await failure(#"{"error": {"code": "E1"}}"#, both)?.kind == .business(code: "E1"))
        #expect(try await failure(#"{"status": 5}"#, both)?.kind == .business(code: "5"))
    }

    // MARK: Problem details

    private static let problem = """
        {"type": "/problems/busy", "title": "Busy", "status": 503, "detail": "try tomorrow", "instance": "/a/1", \
        "balance": 30, "tries": [1]}
        """

    @Test func problemIsReadWithoutASetting() async throws {
        let error = try #require(
            try await failure(Self.problem, "", status: 403, type: "Application/Problem+JSON; charset=utf-8"))
        let problem = try #require(error.problem)
        #expect(error.kind == .httpStatus)
        #expect(problem.title == "Busy" && problem.status == 503 && problem.detail == "try tomorrow")
        #expect(problem.instance == "/a/1" && problem.members == ["balance": 30, "tries": [1]])
        let base = try #require(error.url).dropLast("/x".count)
        #expect(problem.type == "\(base)/problems/busy")
        #expect(error.description.contains("\"Busy: try tomorrow (\(problem.type))\""))
    }

    @Test func membersOfAnotherTypeAreAbsent() async throws {
        let body = #"{"type": 1, "title": null, "status": "403", "detail": ["x"], "instance": {}, "a": 1}"#
        let error = try await failure(body, "", type: "application/problem+json")
        #expect(error?.problem == HTTPResponse.Problem(members: ["a": 1]))
        #expect(try await failure("[1]", "", type: "application/problem+json")?.problem == nil)
        #expect(try await failure("{", "", type: "application/problem+json")?.problem == nil)
        #expect(try await failure(Self.problem, "")?.problem == nil)
    }

    @Test func typeOfAProblemNamesACase() async throws {
        let rule = #"errors: { code: "type", message: "detail", names: { "urn:shop:credit": "outOfCredit" } }"#
        let error = try await failure(
            #"{"type": "urn:shop:credit", "detail": "no"}"#, rule, type: "application/problem+json")
        #expect(error?.problem?.type == "urn:shop:credit")
        #expect(error?.failure(as: ShopFailure.self) == .outOfCredit)
    }

    @Test func messageShowsNoSecretAndNoControlCharacters() async throws {
        let server = try MockServer()
        server.fallback { _ in
            MockReply.data(
                Data(#"{"title": "not abcdefgh12345\u001b[2J"}"#.utf8), contentType: "application/problem+json",
                status: 403)
        }
        let error = await TestSupport.failure {
            try await CentralRequestManager.make().startRequest(
                "GET", server.url(), headers: ["Authorization": "Bearer abcdefgh12345"])
        }
        #expect(error?.problem != nil && error?.message.contains("abcdefgh12345") == false)
        #expect(error?.message.contains("\u{1b}") == false)
    }

    @Test func problemsOfTheRowAreRetried() async throws {
        let server = try MockServer()
        func reply(_ type: String) -> MockReply {
            MockReply.data(Data(#"{"type": "\#(type)"}"#.utf8), contentType: "application/problem+json", status: 409)
        }
        server.enqueue(reply("urn:busy"), reply("urn:busy"), reply("urn:taken"))
        let manager = try CentralRequestManager.make(
            .make(server.url(), domain: #"retries: 5, retry: { problems: ["urn:busy"], firstWait: "1ms" }"#))
        let error = await TestSupport.failure { try await Get<JSONValue>().startRequest(on: manager) }
        #expect(error?.problem?.type == "urn:taken" && server.requestCount == 3)
    }
}
