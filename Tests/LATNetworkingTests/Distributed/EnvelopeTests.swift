import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct User: Decodable, Equatable, Sendable { var name: String }

@Suite(.timeLimit(.minutes(1))) struct EnvelopeTests {
    private static let plain = #"code: "status", message: "message", data: "datas", success: [10000, "OK"]"#
    private static let nested = #"code: "meta.result.code", message: "meta.text", data: "body.user", success: [0]"#

    private func reply<Model: Decodable & Sendable>(
        _ type: Model.Type, _ envelope: String?, _ body: String, status: Int = 200,
        servers: String = "", judge: SuccessJudge? = nil
    ) async throws -> Reply<Model> {
        let server = try MockServer()
        server.fallback { _ in .json(body, status: status) }
        let manager = try CentralRequestManager.make(
            .make(server.url(), domain: envelope.map { "envelope: { \($0) }" } ?? "", servers: servers)
        ) { $0.successJudge = judge }
        return try await Get<Model>().reply(on: manager)
    }

    @Test(arguments: ["", "\n"]) func emptyTextIsAText(_ body: String) async throws {
        #expect(try await reply(String.self, nil, body).model == body)
        #expect(try await reply(String?.self, nil, body).model == nil)
    }

    @Test func nullIsNoText() async throws {
        #expect(try await reply(String?.self, nil, "null").model == nil)
        #expect(try await reply(String?.self, nil, #""null""#).model == "null")
        #expect(try await reply(String?.self, nil, "plain").model == "plain")
    }

    @Test func dataIsDecodedAsTheModel() async throws {
        let reply = try await reply(
            User.self, Self.plain, #"{"status": 10000, "message": "fine", "datas": {"name": "Ada"}}"#)
        #expect(reply.model == User(name: "Ada"))
        #expect(reply.envelope?.code == 10000)
        #expect(reply.envelope?.codeText == "10000")
        #expect(reply.envelope?.message == "fine")
        #expect(reply.envelope?.data == ["name": "Ada"])
        #expect(reply.response.status == 200)
    }

    @Test(arguments: ["10000", #""10000""#, #""OK""#, "10000.0", "1e4"])
    func codeMayBeANumberOrText(_ code: String) async throws {
        let reply = try await reply(User.self, Self.plain, #"{"status": \#(code), "datas": {"name": "Ada"}}"#)
        #expect(reply.model.name == "Ada")
        #expect(reply.envelope?.message == nil)
    }

    @Test func envelopeFieldsMayBeNested() async throws {
        let good = #"{"meta": {"result": {"code": 0}, "text": "t"}, "body": {"user": {"name": "Ada"}}}"#
        let reply = try await reply(User.self, Self.nested, good)
        #expect(reply.model.name == "Ada")
        #expect(reply.envelope?.message == "t")
        let bad = #"{"meta": {"result": {"code": 7}, "text": "no"}, "body": {}}"#
        let error = await failure { try await self.reply(User.self, Self.nested, bad) }
        #expect(error?.kind == .business(code: "7"))
        #expect(error?.businessFailure?.message == "no")
    }

    @Test func otherCodeIsABusinessFailure() async throws {
        let body = #"{"status": 10001, "message": "please log in", "datas": {"hint": 1}}"#
        let error = await failure { try await reply(User.self, Self.plain, body) }
        #expect(error?.kind == .business(code: "10001"))
        #expect(error?.businessFailure?.code == "10001")
        #expect(error?.businessFailure?.message == "please log in")
        #expect(error?.businessFailure?.envelope.code == 10001)
        #expect(error?.businessFailure?.envelope.data == ["hint": 1])
        #expect(error?.response?.status == 200)
        #expect(error?.response?.text == body)
        #expect(error?.message.contains("please log in") == true)
        #expect(error?.message.contains("10001") == true)
        #expect(error?.request?.url.hasSuffix("/x") == true, "\(error?.request?.url ?? "no request")")
    }

    @Test func otherTextCodeIsABusinessFailure() async throws {
        let error = await failure {
            try await reply(JSONValue.self, Self.plain, #"{"status": "E_LOGIN", "message": ""}"#)
        }
        #expect(error?.kind == .business(code: "E_LOGIN"))
        #expect(error?.businessFailure?.envelope.code == "E_LOGIN")
    }

    @Test func tablesMessageWinsOverTheServers() async throws {
        let rule = Self.plain + #", messages: { "10001": "Token expired" }"#
        for code in ["10001", #""10001""#] {
            let error = await failure {
                try await reply(JSONValue.self, rule, #"{"status": \#(code), "message": "please log in"}"#)
            }
            #expect(error?.businessFailure?.message == "Token expired")
            #expect(error?.message.contains("Token expired") == true)
        }
        let other = await failure {
            try await reply(JSONValue.self, rule, #"{"status": 5, "message": "please log in"}"#)
        }
        #expect(other?.businessFailure?.message == "please log in")
    }

    @Test(arguments: ["{}", #"{"status": null}"#, "[]", "5", #"{"datas": {"name": "Ada"}}"#, "null"])
    func missingCodeIsABusinessFailure(_ body: String) async throws {
        let error = await failure { try await reply(User.self, Self.plain, body) }
        #expect(error?.kind == .business(code: ""))
        #expect(error?.message.contains("\"status\"") == true, "\(error?.message ?? "")")
        #expect(error?.response?.text == body)
    }

    @Test func nonJSONBodyIsADecodingError() async throws {
        let error = await failure { try await reply(User.self, Self.plain, "<html>") }
        #expect(error?.kind == .decoding(path: ""))
        #expect(error?.response?.text == "<html>")
        #expect(error?.businessFailure == nil)
    }

    @Test func nullDataIsDecodedAsAnOptionalModel() async throws {
        for body in [#"{"status": 10000, "datas": null}"#, #"{"status": 10000}"#] {
            #expect(try await reply(User?.self, Self.plain, body).model == nil)
            #expect(try await reply(Empty.self, Self.plain, body).model == Empty())
            #expect(try await reply(JSONValue.self, Self.plain, body).model.isNull)
            #expect(await failure { try await reply(User.self, Self.plain, body) }?.kind == .decoding(path: "datas"))
        }
    }

    @Test func documentIsTheModelWithoutADataPath() async throws {
        struct Whole: Decodable, Equatable { let name: String }
        let reply = try await reply(Whole.self, #"code: "status", success: [0]"#, #"{"status": 0, "name": "Ada"}"#)
        #expect(reply.model.name == "Ada")
        let error = await failure {
            try await self.reply(Whole.self, #"code: "status", success: [0]"#, #"{"status": 0, "name": 1}"#)
        }
        #expect(error?.kind == .decoding(path: "name"))
    }

    @Test(arguments: [400, 404, 500, 503])
    func errorStatusIsBusinessWithAFailureCode(_ status: Int) async throws {
        for (body, code) in [
            (#"{"status": 10000, "datas": {}}"#, nil), (#"{"status": 10001, "message": "m"}"#, "10001"),
        ] {
            let error = await failure { try await reply(JSONValue.self, Self.plain, body, status: status) }
            #expect(error?.kind == code.map { .business(code: $0) } ?? .httpStatus)
            #expect(error?.response?.status == status)
            #expect(error?.response?.text == body)
            #expect(error?.businessFailure?.code == code)
        }
    }

    @Test(arguments: [200, 201, 202, 299])
    func every2xxIsASuccessWithoutAnEnvelope(_ status: Int) async throws {
        let reply = try await reply(JSONValue.self, nil, #"{"status": 10001}"#, status: status)
        #expect(reply.envelope == nil)
        #expect(reply.model["status"].int == 10001)
    }

    @Test func serverRowOverridesTheEnvelope() async throws {
        let server = try MockServer.answering(#"{"status": 5, "ok": "yes"}"#)
        for (row, isGood) in [
            ("", false), (", envelope: null", true), (#", envelope: { code: "ok", success: ["yes"] }"#, true),
        ] {
            let manager = try CentralRequestManager.make(
                .make(
                    server.url(), domain: "envelope: { \(Self.plain) }",
                    servers: #"s: { domain: "d", path: "x", method: "GET"\#(row) }"#))
            if isGood {
                #expect(try await Row().startRequest(on: manager)["ok"].string == "yes")
            } else {
                #expect(await failure { try await Row().startRequest(on: manager) }?.kind == .business(code: "5"))
            }
        }
    }

    @Test func judgeMayRefuseAResponse() async throws {
        let judge: SuccessJudge = { response, document in
            response.headers["Content-Type"] == "application/json" && document["login"] == nil
        }
        #expect(try await reply(JSONValue.self, nil, #"{"a": 1}"#, judge: judge).model["a"].int == 1)
        let error = await failure { try await reply(JSONValue.self, nil, #"{"login": true}"#, judge: judge) }
        #expect(error?.kind == .business(code: ""))
        #expect(error?.businessFailure?.envelope.data == ["login": true])
        #expect(error?.response?.text == #"{"login": true}"#)
        #expect(error?.message.isEmpty == false)
        // Envelope and judge must both accept the response.
        let good = #"{"status": 10000, "datas": {"name": "Ada"}, "login": true}"#
        let refused = await failure { try await reply(User.self, Self.plain, good, judge: judge) }
        #expect(refused?.kind == .business(code: "10000"))
        #expect(try await reply(User.self, Self.plain, good, judge: { _, _ in true }).model.name == "Ada")
        let bad = #"{"status": 1}"#
        let failed = await failure { try await reply(JSONValue.self, Self.plain, bad, judge: { _, _ in true }) }
        #expect(failed?.kind == .business(code: "1"))
    }

    @Test func judgeGetsNullForNonJSONBodies() async throws {
        let server = try MockServer.answering("plain words")
        let documents = Log<JSONValue>()
        let manager = try CentralRequestManager.make(.make(server.url())) {
            $0.successJudge = { _, document in
                documents.append(document)
                return true
            }
        }
        _ = await failure { try await Get<JSONValue>().startRequest(on: manager) }
        server.enqueue(.status(204))
        _ = try await Get<Empty>().startRequest(on: manager)
        server.enqueue(.status(500))
        _ = await failure { try await Get<Empty>().startRequest(on: manager) }
        #expect(documents.elements == [.null, .null])
    }

    @Test func closureGetsTheBodyOfABusinessFailure() async throws {
        let body = #"{"status": 10001, "message": "m"}"#
        let server = try MockServer.answering(body)
        let manager = try CentralRequestManager.make(.make(server.url(), domain: "envelope: { \(Self.plain) }"))
        let done = Event()
        Get<User>().startRequest(on: manager) { data, model, error in
            #expect(data == Data(body.utf8))
            #expect(model == nil)
            #expect(error?.kind == .business(code: "10001"))
            #expect(error?.businessFailure?.message == "m")
            done.happen()
        }
        await done.wait()
    }
}
