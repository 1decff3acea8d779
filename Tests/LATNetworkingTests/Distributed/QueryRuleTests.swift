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
        ("brackets", "/x?a%5B%5D=1&a%5B%5D=2"), ("repeated", "/x?a=1&a=2"), ("comma", "/x?a=1,2"),
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
        #expect(request.target == "/x?a=1&a=2&b=3,4")
    }

    private static let deep: JSONValue = ["ids": [1, 2], "of": [["x": 1, "y": [3]], ["x": 2]]]

    @Test(arguments: [
        ("brackets", "f[ids][]=1&f[ids][]=2&f[of][][x]=1&f[of][][y][]=3&f[of][][x]=2"),
        ("repeated", "f[ids][]=1&f[ids][]=2&f[of][0][x]=1&f[of][0][y][]=3&f[of][1][x]=2"),
        ("comma", "f[ids]=1,2&f[of][0][x]=1&f[of][0][y]=3&f[of][1][x]=2"),
        ("json", #"f[ids]=[1,2]&f[of]=[{"x":1,"y":[3]},{"x":2}]"#),
    ]) func arraysWithinObjectsAreKept(_ style: String, _ query: String) async throws {
        let request = try await sent(["f": Self.deep], row: "query: { arrays: \"\(style)\" }")
        #expect(request.target.removingPercentEncoding == "/x?\(query)")
    }

    @Test(arguments: [
        ("brackets", "f[a]=1&f[b]=x"), ("repeated", "a=1&b=x"), ("comma", "f=a,1,b,x"), ("space", "f=a 1 b x"),
        ("pipe", "f=a|1|b|x"), ("json", #"f={"a":1,"b":"x"}"#),
    ]) func objectHasTheStyleOfItsName(_ style: String, _ query: String) async throws {
        let value: JSONValue = ["a": 1, "b": "x"]
        let request = try await sent(["f": value, "g": value], row: "query: { styles: { f: \"\(style)\" } }")
        let rest = "g[a]=1&g[b]=x"
        #expect(request.target.removingPercentEncoding == "/x?\(query)&\(rest)")
    }

    @Test(arguments: [
        ("comma", #"{ a: "comma" }"#, "/x?a[0][x]=1&a[1][x]=2"), ("repeated", "{}", "/x?a[0][x]=1&a[1][x]=2"),
        ("repeated", #"{ a: "brackets" }"#, "/x?a[0][x]=1&a[1][x]=2"), ("brackets", "{}", "/x?a[][x]=1&a[][x]=2"),
        ("brackets", #"{ a: "json" }"#, #"/x?a=[{"x":1},{"x":2}]"#),
    ]) func objectsInAnArrayStayApart(_ arrays: String, _ styles: String, _ target: String) async throws {
        let request = try await sent(
            ["a": [["x": 1], ["x": 2]]], row: "query: { arrays: \"\(arrays)\", styles: \(styles) }")
        #expect(request.target.removingPercentEncoding == target)
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

    private struct Nothing: RequestEntity {
        static let route = Route("POST", domain: "d", path: "x")
        var parameters: Parameters? { ["a": 1] }
        var body: HTTPBody? { .data(Data()) }
    }

    /// As "Copy as entity" writes it for a row.
    @Test func emptyBodyLeavesTheParametersToTheQuery() async throws {
        let server = try MockServer.answering()
        _ = try await Nothing().startRequest(on: .make(.make(server.url(""))))
        let request = try #require(server.requests.first)
        #expect(request.target == "/x?a=1" && request.body.isEmpty && request.headers["Content-Type"] == nil)
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
