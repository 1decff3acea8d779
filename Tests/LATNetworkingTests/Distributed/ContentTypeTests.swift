import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A `Content-Type` that is set for all requests against the body's own.
@Suite(.timeLimit(.minutes(1))) struct ContentTypeTests {
    enum Level: String, CaseIterable, Sendable {
        case manager, provider, immediateProvider, domain, row, call
    }

    /// What is sent, by the central face (`body`, `parameters`, `files`) or by an entity (the last two).
    struct Content: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var body: HTTPBody?
        var parameters: Parameters?
        var files: [UploadFile] = []
        var encoding: ParameterEncoding?
        /// The beginning of the type without any default; `nil` for none.
        let own: String?

        var isForEntities: Bool { body == nil }

        static let all: [Content] = [
            Content(testDescription: "JSON", parameters: ["a": 1], own: "application/json"),
            Content(
                testDescription: "form of parameters", parameters: ["a": 1], encoding: .form,
                own: "application/x-www-form-urlencoded"),
            Content(
                testDescription: "parts", files: [UploadFile(name: "a", value: "1")],
                own: "multipart/form-data; boundary="),
            Content(testDescription: "form", body: .form(["a": 1]), own: "application/x-www-form-urlencoded"),
            Content(testDescription: "JSON value", body: .json(["a": 1]), own: "application/json"),
            Content(testDescription: "text", body: .text("x"), own: "text/plain; charset=utf-8"),
            Content(testDescription: "typed bytes", body: .data(Data([1]), contentType: "a/b"), own: "a/b"),
            Content(testDescription: "bytes", body: .data(Data([1])), own: nil),
            Content(
                testDescription: "multipart", body: .multipart([UploadFile(name: "a", value: "1")]),
                own: "multipart/form-data; boundary="),
            Content(
                testDescription: "typed stream",
                body: .stream(contentType: "c/d") {
                    AsyncStream {
                        $0.yield(Data([1])); $0.finish()
                    }
                }, own: "c/d"),
        ]
    }

    private struct Idle: Interceptor {
        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse { try await next(request) }
    }

    /// Sends content with a type set at a level, and returns the types that the server gets.
    private func types(
        _ content: Content, _ type: String, at level: Level, byEntity: Bool = false, intercepts: Bool = false
    ) async throws -> [String] {
        let server = try MockServer.answering()
        let headers: HTTPHeaders = ["content-type": type]
        func row(_ wanted: Level) -> String { level == wanted ? #"headers: { "CONTENT-TYPE": "\#(type)" }"# : "" }
        let manager = try CentralRequestManager.make(
            .make(
                server.url(), domain: row(.domain),
                servers: #"s: { domain: "d", path: "x", method: "POST", \#(row(.row)) }"#)
        ) {
            if level == .manager { $0.headers = headers }
            if level == .provider { $0.headerProvider = { _ in headers } }
            if level == .immediateProvider { $0.immediateHeaderProvider = { _ in headers } }
            if let encoding = content.encoding { $0.parameterEncoding = encoding }
            if intercepts { $0.interceptors = [Idle()] }
        }
        let own = level == .call ? headers : [:]
        if byEntity {
            var entity = Row(content.parameters)
            entity.files = content.files
            _ = try await entity.headers(own).startRequest(on: manager)
        } else {
            _ = try await manager.startRequest(
                "POST", server.url("/x"), parameters: content.parameters, files: content.files, body: content.body,
                headers: own)
        }
        return try #require(server.requests.first).headers[values: "Content-Type"]
    }

    private func check(
        _ content: Content, _ level: Level, _ type: String, takesDefault: Bool
    ) async throws {
        let isOfRow = level == .domain || level == .row
        for byEntity in [false, true] where byEntity ? content.isForEntities : !isOfRow {
            for intercepts in [false, true] {
                let sent = try await types(content, type, at: level, byEntity: byEntity, intercepts: intercepts)
                let expected = takesDefault ? type : content.own ?? type
                #expect(
                    sent.count == 1 && sent.first?.hasPrefix(expected) == true, "\(sent), \(byEntity), \(intercepts)")
            }
        }
    }

    @Test(arguments: Content.all, Level.allCases)
    func onlyTheCallsTypeReplacesTheBodys(_ content: Content, _ level: Level) async throws {
        // A multipart body keeps its own type even then, because that names the boundary.
        let isMultipart = content.own?.hasPrefix("multipart/") ?? false
        try await check(content, level, "x/y", takesDefault: level == .call && !isMultipart)
    }

    @Test(arguments: Level.allCases)
    func typeOfJSONReplacesThatOfJSON(_ level: Level) async throws {
        for content in Content.all where content.own == "application/json" {
            try await check(content, level, "application/vnd.api+json", takesDefault: true)
        }
    }

    @Test func fileKeepsItsType() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Data("a,b".utf8), to: "a.csv")
        let content = Content(
            testDescription: "file", body: .file(directory.path(of: "a.csv")), own: "text/csv")
        for level in Level.allCases { try await check(content, level, "x/y", takesDefault: level == .call) }
    }

    @Test func removalAtAnyLevelKeepsTheBodysType() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make { $0.headers = ["Content-Type": nil] }
        _ = try await manager.startRequest("POST", server.url(), body: .text("x"))
        #expect(server.requests.last?.headers["Content-Type"] == "text/plain; charset=utf-8")
        _ = try await manager.startRequest("POST", server.url(), body: .text("x"), headers: ["Content-Type": nil])
        #expect(server.requests.last?.headers["Content-Type"] == nil)
    }

    @Test func bodyOfAnInterceptorKeepsItsType() async throws {
        struct Fill: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                var request = request
                request.body = .text("x")
                return try await next(request)
            }
        }
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make {
            $0.headers = ["Content-Type": "application/json"]
            $0.interceptors = [Fill()]
        }
        _ = try await manager.startRequest("POST", server.url())
        #expect(server.requests.last?.headers["Content-Type"] == "text/plain; charset=utf-8")
    }

    @Test(.needsHTTPBin)
    func httpbinReadsAFormBesideADefaultType() async throws {
        let base = try #require(Servers.httpbin)
        let manager = try CentralRequestManager.make {
            $0.baseURL = base
            $0.headers = ["Content-Type": "application/json"]
        }
        let response = try await manager.startRequest("POST", "post", parameters: ["a": 1], body: .form)
        #expect(try response.json()["form"]["a"].string == "1")
    }
}
