import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A number of levels, each of which sets a field, removes it or leaves it alone.
/// Every combination is tested at once, with a field of its own: 729 fields for six levels.
private struct Levels {
    let count: Int
    let fields: [[Int]]

    init(_ count: Int) {
        self.count = count
        var fields: [[Int]] = [[]]
        for _ in 0..<count { fields = fields.flatMap { field in (0...2).map { field + [$0] } } }
        self.fields = fields
    }

    static func name(_ field: [Int]) -> String { "F-" + field.map(String.init).joined() }

    func headers(_ level: Int) -> HTTPHeaders {
        var headers = HTTPHeaders()
        for field in fields {
            // The levels alternate between two spellings of a name.
            let name = level.isMultiple(of: 2) ? Self.name(field) : Self.name(field).lowercased()
            if field[level] == 1 { headers[name] = "\(level)" }
            if field[level] == 2 { headers[name] = nil }
        }
        return headers
    }

    func row(_ level: Int) -> String {
        "headers: { "
            + fields.compactMap { field in
                field[level] == 0 ? nil : "\"\(Self.name(field))\": " + (field[level] == 1 ? "\"\(level)\"" : "null")
            }.joined(separator: ", ") + " }"
    }

    /// Returns the value from the last level that sets or removes the field.
    func expected(_ field: [Int]) -> String? {
        field.lastIndex { $0 != 0 }.flatMap { field[$0] == 1 ? "\($0)" : nil }
    }

    func check(_ headers: HTTPHeaders, _ location: SourceLocation = #_sourceLocation) {
        let wrong = fields.filter { headers[values: Self.name($0)] != (expected($0).map { [$0] } ?? []) }
        let examples = "\(wrong.count) of \(fields.count), such as \(wrong.prefix(3))"
        #expect(wrong.isEmpty, "\(examples)", sourceLocation: location)
    }
}

private struct Entity: RequestEntity {
    static let route = Route("POST", server: "s")
    var headers = HTTPHeaders()
    var replaces = false
    var parameters: Parameters? { ["a": 1] }
    var options: RequestOptions { RequestOptions(headers: headers, replacesGlobalHeaders: replaces) }
}

@Suite(.timeLimit(.minutes(1))) struct HeaderPrecedenceTests {
    @Test func laterLevelWinsForEntities() async throws {
        let levels = Levels(6)
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(
                server.url(), domain: levels.row(1), servers: #"s: { domain: "d", path: "x", \#(levels.row(2)) }"#)
        ) {
            $0.headers = levels.headers(0)
            $0.headerProvider = { _ in levels.headers(3) }
        }
        _ = try await Entity(headers: levels.headers(4)).headers(levels.headers(5)).startRequest(on: manager)
        levels.check(try #require(server.requests.first?.headers))
    }

    @Test func laterLevelWinsForCentralCalls() async throws {
        let levels = Levels(3)
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make {
            $0.headers = levels.headers(0)
            $0.headerProvider = { _ in levels.headers(1) }
        }
        _ = try await manager.startRequest("GET", server.url(), headers: levels.headers(2))
        levels.check(try #require(server.requests.first?.headers))
    }

    @Test func domainHeadersWinOverTableDefaults() async throws {
        let server = try MockServer.answering()
        let table = try DomainTable.make(
            server.url(), domain: #"headers: { B: "domain" }"#,
            defaults: #"headers: { A: "table", B: "table", C: null, "User-Agent": null }"#)
        let manager = try CentralRequestManager.make(table) {
            $0.headers = ["A": "manager", "C": "manager", "D": "manager"]
        }
        _ = try await Get<JSONValue>().startRequest(on: manager)
        let headers = try #require(server.requests.first?.headers)
        #expect(headers["A"] == "table")
        #expect(headers["B"] == "domain")
        #expect(headers["C"] == nil)
        #expect(headers["D"] == "manager")
        #expect(headers["User-Agent"] == nil)
    }

    @Test func replacingKeepsOnlyEntityAndCallHeaders() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(
                server.url(), domain: #"headers: { B: "1" }"#,
                servers: #"s: { domain: "d", path: "x", headers: { C: "1" } }"#)
        ) {
            $0.headers = ["A": "1"]
            $0.headerProvider = { _ in ["D": "1"] }
        }
        let all = ["A", "B", "C", "D", "E", "F"]
        func sent() -> [String] { all.filter { server.requests.last?.headers.contains($0) == true } }
        _ = try await Entity(headers: ["E": "1"]).header("F", "1").startRequest(on: manager)
        #expect(sent() == all)
        _ = try await Entity(headers: ["E": "1"]).header("F", "1").replacingGlobalHeaders().startRequest(on: manager)
        #expect(sent() == ["E", "F"])
        #expect(server.requests.last?.headers["Content-Type"] == "application/json")
        #expect(server.requests.last?.headers["Host"] != nil)
        _ = try await Entity(headers: ["E": "1"], replaces: true).startRequest(on: manager)
        #expect(sent() == ["E"])
        _ = try await Entity(replaces: true).startRequest(on: manager)
        #expect(sent() == [])
    }

    @Test func emptyHeadersReplaceNothing() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url(), domain: #"headers: { B: "1" }"#))
        _ = try await Get<JSONValue>().headers([:]).startRequest(on: manager)
        #expect(server.requests.last?.headers["B"] == "1")
    }

    @Test func callersContentTypeWins() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(server.url(), servers: #"s: { domain: "d", path: "x", method: "POST" }"#))
        _ = try await Row(["a": 1]).header("content-type", "application/vnd.api+json").startRequest(on: manager)
        #expect(server.requests.last?.headers[values: "Content-Type"] == ["application/vnd.api+json"])
        var upload = Row(["a": 1])
        upload.files = [UploadFile(name: "f", fileName: "f.bin", data: Data([1]))]
        _ = try await upload.header("Content-Type", "multipart/form-data").startRequest(on: manager)
        let type = try #require(server.requests.last?.headers["Content-Type"])
        #expect(type.hasPrefix("multipart/form-data; boundary="), "\(type)")
    }

    @Test func tableHeaderIsSentUnchanged() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(server.url(), domain: #"headers: { "X-Text": "ü \"quoted\"; a=b", "X-Empty": "" }"#))
        _ = try await Get<JSONValue>().startRequest(on: manager)
        #expect(server.requests.last?.headers["X-Text"] == "ü \"quoted\"; a=b")
        #expect(server.requests.last?.headers["X-Empty"] == "")
    }

    @Test func invalidEntityHeaderIsRefused() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url()))
        let error = await failure {
            try await Get<JSONValue>().header("X-A", "b\r\nX-Injected: 1").startRequest(on: manager)
        }
        #expect(error?.kind == .invalidRequest)
        #expect(server.acceptedConnections == 0)
    }
}
