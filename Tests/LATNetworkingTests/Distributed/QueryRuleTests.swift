import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Which parameters of a row go into the query, and how arrays are written there; and bodies that an entity makes itself.
@Suite(.timeLimit(.minutes(1))) struct QueryRuleTests {
    private func sent(
        _ parameters: Parameters?, method: String = "GET", domain: String = "", row: String
    ) async throws -> RecordedRequest {
        let server = try MockServer.answering()
        let table = try DomainTable.make(
            server.url(""), domain: domain, servers: #"s: { domain: "d", path: "x", method: "\#(method)", \#(row) }"#)
        _ = try await Row(parameters).startRequest(on: .make(table))
        return try #require(server.requests.first)
    }

    @Test(arguments: [
        ("brackets", "/x?a%5B%5D=1&a%5B%5D=2"), ("repeated", "/x?a=1&a=2"), ("comma", "/x?a=1%2C2"),
        ("space", "/x?a=1%202"),
        ("pipe", "/x?a=1%7C2"),
    ]) func arrayHasTheStyleOfItsRow(_ style: String, _ target: String) async throws {
        let request = try await sent(["a": [1, 2]], row: "query: { arrays: \"\(style)\" }")
        #expect(request.target == target)
    }

    @Test func membersOfBroaderRowsCount() async throws {
        let request = try await sent(
            ["a": [1, 2], "b": [3, 4], "c": [JSONValue]()], domain: "query: { arrays: \"repeated\" }",
            row: "query: { styles: { b: \"comma\" } }")
        #expect(request.target == "/x?a=1&a=2&b=3%2C4")
    }

    @Test func elementsThatAreObjectsKeepTheirNames() async throws {
        let request = try await sent(["a": [["x": 1]]], row: "query: { arrays: \"comma\" }")
        #expect(request.target == "/x?a%5Bx%5D=1")
    }

    @Test func namedParameterIsInTheQueryOfPost() async throws {
        let request = try await sent(["dry": true, "n": 1], method: "POST", row: "query: { names: [\"dry\"] }")
        #expect(request.target == "/x?dry=true")
        #expect(try JSONValue(parsing: request.body) == ["n": 1])
    }

    @Test func namedParameterLeavesAnEmptyObject() async throws {
        let request = try await sent(["dry": true], method: "POST", row: "query: { names: [\"dry\"] }")
        #expect(request.target == "/x?dry=true" && request.body == Data("{}".utf8))
    }

    @Test func formHasTheStyleToo() async throws {
        let request = try await sent(
            ["a": [1, 2], "q": 1], method: "POST",
            row: "parameterEncoding: \"form\", query: { arrays: \"repeated\", names: [\"q\"] }")
        #expect(request.target == "/x?q=1" && request.body == Data("a=1&a=2".utf8))
    }

    @Test func postWithoutBodySendsNone() async throws {
        let request = try await sent(["t": 5], method: "POST", row: "query: { takesAll: true }")
        #expect(request.target == "/x?t=5" && request.body.isEmpty && request.headers["Content-Type"] == nil)
        let none = try await sent(["t": nil], method: "POST", row: "query: { takesAll: true }")
        #expect(none.target == "/x" && none.body.isEmpty)
    }

    private struct Lines: RequestEntity, Encodable {
        static let route = Route("POST", domain: "d", path: "lists/{id}")
        var id: Int
        var dry: Bool?
        var lines: [String]
        var body: HTTPBody? { .json(lines) }
        private enum CodingKeys: CodingKey { case id, dry }
    }

    @Test func bodyOfAnEntityIsSentWhole() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url("")))
        _ = try await Lines(id: 7, dry: true, lines: ["a", "b"]).startRequest(on: manager)
        let request = try #require(server.requests.first)
        #expect(request.target == "/lists/7?dry=true" && request.body == Data(#"["a","b"]"#.utf8))
        #expect(request.headers["Content-Type"] == "application/json")
    }
}
