import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATClient

private struct UnknownServer: RequestEntity { static let route = Route("GET", server: "user.detial") }
private struct UnknownDomain: RequestEntity { static let route = Route("GET", domain: "daxian", path: "x") }
private struct Absolute: RequestEntity { static let route = Route("GET", domain: "d", path: "http://127.0.0.1:1/x") }
private struct NetworkPath: RequestEntity { static let route = Route("GET", domain: "d", path: "//127.0.0.1:1/x") }
private struct WalksUp: RequestEntity { static let route = Route("GET", domain: "d", path: "a/../../x") }
private struct OpenBrace: RequestEntity { static let route = Route("GET", domain: "d", path: "a/{id") }

private struct InPath: RequestEntity, Encodable {
    static let route = Route("GET", domain: "d", path: "users/{id}/posts")
    var id: String?
    var page: Int?
}

private struct TwoInPath: RequestEntity {
    static let route = Route("GET", domain: "d", path: "{a}{b}/x")
    var parameters: Parameters?
}

@Suite(.timeLimit(.minutes(1))) struct TablesAtRunTimeTests {
    /// The server chooses the table by the token.
    @Test func tenantsOfOneURLKeepCopiesOfTheirOwn() {
        func identity(_ headers: HTTPHeaders) -> String {
            DomainTable.Source.url("https://conf.example/t", headers: headers).feed.identity
        }
        #expect(identity([:]) == "https://conf.example/t")
        #expect(identity(["Authorization": "Bearer a"]) != identity(["Authorization": "Bearer b"]))
        #expect(identity(["X": "1", "y": "2"]) == identity(["Y": "2", "x": "1"]))
    }

    // MARK: Names

    @Test func changeMayReadTheTable() throws {
        let manager = try CentralRequestManager.make { $0.domains = DomainTable() }
        func knows(_ table: DomainTable?) -> Bool { (try? table?.resolve(domain: "a", path: "")) != nil }
        try manager.updateDomains { table in
            try table.setDomain("a", DomainTable.DomainRow(baseURL: "http://h"))
            #expect(!knows(manager.domains))
        }
        #expect(knows(manager.domains))
    }

    @Test func unknownNameErrorSuggestsTheNearestName() async throws {
        let table = try DomainTable(
            json5: """
                { domains: { daxiang: { baseURL: "http://127.0.0.1:1" } },
                  servers: { "user.detail": { domain: "daxiang", path: "x" } } }
                """, name: "Config/domains.json5", environment: nil)
        let manager = try CentralRequestManager.make(table)
        let server = await failure { try await UnknownServer().startRequest(on: manager) }
        #expect(server?.kind == .unknownName)
        #expect(
            server?.message == #"unknown server "user.detial" in Config/domains.json5; did you mean "user.detail"?"#)
        let domain = await failure { try await UnknownDomain().startRequest(on: manager) }
        #expect(domain?.kind == .unknownName)
        #expect(domain?.message == #"unknown domain "daxian" in Config/domains.json5; did you mean "daxiang"?"#)
        let done = Event()
        UnknownServer().startRequest(on: manager) { data, model, error in
            #expect(data == nil)
            #expect(model == nil)
            #expect(error?.kind == .unknownName)
            done.happen()
        }
        await done.wait()
    }

    @Test func missingTableErrorNamesTheSetting() async throws {
        let manager = try CentralRequestManager.make()
        let error = await failure { try await UnknownServer().startRequest(on: manager) }
        #expect(error?.kind == .unknownName)
        #expect(error?.message.contains("configuration.domains") == true)
    }

    @Test func routeAndRowWithoutMethodAreRefused() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url(), servers: #"s: { domain: "d", path: "x" }"#))
        let error = await failure { try await Row().startRequest(on: manager) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("method") == true)
        #expect(error?.message.contains("\"s\"") == true)
        #expect(server.acceptedConnections == 0)
    }

    // MARK: Addresses

    @Test func pathThatLeavesTheDomainIsRefused() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url("/api")))
        for error in [
            await failure { try await Absolute().startRequest(on: manager) },
            await failure { try await NetworkPath().startRequest(on: manager) },
            await failure { try await WalksUp().startRequest(on: manager) },
            await failure { try await OpenBrace().startRequest(on: manager) },
        ] {
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.isEmpty == false)
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func rowMayAllowAnAbsoluteURL() async throws {
        let home = try MockServer.answering()
        let other = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(
                home.url("/api"), domain: #"headers: { A: "1" }"#,
                servers: """
                    s: { domain: "d", path: "\(other.url("/else/{id}"))", method: "GET", allowsAbsolute: true }
                    """))
        _ = try await Row(["id": "a b", "q": 1]).startRequest(on: manager)
        #expect(other.requests.map(\.target) == ["/else/a%20b?q=1"])
        #expect(home.requestCount == 0)
    }

    @Test(arguments: [
        ("", "", "/"), ("", "x", "/x"), ("/", "/x", "/x"), ("/api", "x", "/api/x"), ("/api/", "/x", "/api/x"),
        ("/api/", "x/", "/api/x/"), ("/api", "", "/api"), ("/api?k=v", "x", "/api/x?k=v"),
        ("/api?k=v", "x?q=1", "/api/x?k=v&q=1"), ("/a%20b", "c d/ü", "/a%20b/c%20d/%C3%BC"),
        ("/api", "x%20y", "/api/x%20y"),
    ])
    func baseAndPathAreJoinedByOneSlash(_ base: String, _ path: String, _ target: String) async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(server.baseURL + base, servers: #"s: { domain: "d", path: "\#(path)", method: "GET" }"#))
        _ = try await Row().startRequest(on: manager)
        #expect(server.requests.map(\.target) == [target])
        _ = try await Row(["z": 1]).startRequest(on: manager)
        #expect(server.requests.last?.target == target + (target.contains("?") ? "&z=1" : "?z=1"))
    }

    @Test(arguments: [
        ("42", "42"), ("a b", "a%20b"), ("a/b", "a%2Fb"), ("ü€😀", "%C3%BC%E2%82%AC%F0%9F%98%80"),
        ("a?b#c", "a%3Fb%23c"), ("%2e%2e", "%252e%252e"), ("..a", "..a"), ("...", "..."), ("a\r\nb", "a%0D%0Ab"),
        ("{x}", "%7Bx%7D"),
        ("a;b=c&d+e", "a%3Bb%3Dc%26d%2Be"),
    ])
    func pathParametersAreEscaped(_ value: String, _ segment: String) async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url("/api")))
        _ = try await InPath(id: value, page: 2).startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/api/users/\(segment)/posts?page=2"])
    }

    @Test func unsafePathParametersAreRefused() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url("/api")))
        for id in [nil, "", ".", ".."] as [String?] {
            let error = await failure { try await InPath(id: id, page: 1).startRequest(on: manager) }
            #expect(error?.kind == .invalidRequest, "\(id ?? "nil")")
            #expect(error?.message.contains("id") == true || error?.message.contains("..") == true)
        }
        let joined = await failure { try await TwoInPath(parameters: ["a": ".", "b": "."]).startRequest(on: manager) }
        #expect(joined?.kind == .invalidRequest)
        for value in [JSONValue.null, [1], ["a": 1]] {
            let error = await failure {
                try await TwoInPath(parameters: ["a": value, "b": "b"]).startRequest(on: manager)
            }
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.contains("{a}") == true)
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func numbersAndBooleansArePathParameters() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url()))
        _ = try await TwoInPath(parameters: ["a": -7, "b": true]).startRequest(on: manager)
        _ = try await TwoInPath(parameters: ["a": 1.5, "b": UInt64.max]).startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/-7true/x", "/1.518446744073709551615/x"])
    }

    // MARK: Switching

    @Test func environmentSwitchAppliesToTheNextCall() async throws {
        let production = try MockServer.answering(#""production""#)
        let staging = try MockServer.answering(#""staging""#)
        let manager = try CentralRequestManager.make(
            .make(production.url(), domain: #"environments: { staging: "\#(staging.url("/s"))" }"#))
        #expect(try await Get<String>().startRequest(on: manager) == "production")
        try manager.updateDomains { $0.environment = "staging" }
        #expect(try await Get<String>().startRequest(on: manager) == "staging")
        try manager.updateDomains { $0.environment = nil }
        #expect(try await Get<String>().startRequest(on: manager) == "production")
        #expect(manager.domains?.environment == nil)
        try manager.updateDomains { $0.environment = "stagin" }
        let error = await failure { try await Get<String>().startRequest(on: manager) }
        #expect(error?.kind == .unknownName)
        #expect(error?.message.contains("staging") == true)
    }

    @Test func callInFlightKeepsItsBaseURL() async throws {
        let first = try MockServer()
        first.enqueue(.json(#""first""#).delayed(by: .milliseconds(200)))
        let second = try MockServer.answering(#""second""#)
        let manager = try CentralRequestManager.make(.make(first.url()))
        let call = Task { try await Get<String>().startRequest(on: manager) }
        try await first.waitForConnections(1)
        let url = second.url()
        try manager.updateDomains { table throws(NetworkError) in try table.setBaseURL(url, forDomain: "d") }
        #expect(try await Get<String>().startRequest(on: manager) == "second")
        #expect(try await call.value == "first")
    }

    @Test func rowChangeAppliesToTheNextCall() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(server.url(), servers: #"s: { domain: "d", path: "old", method: "GET" }"#))
        _ = try await Row().startRequest(on: manager)
        try manager.updateDomains { table throws(NetworkError) in
            var row = try table.server("s")
            row.path = "new"
            row.settings.headers["X-New"] = "1"
            try table.setServer("s", row)
        }
        _ = try await Row().startRequest(on: manager)
        #expect(server.requests.map(\.target) == ["/old", "/new"])
        #expect(server.requests.last?.headers["X-New"] == "1")
        try manager.updateDomains { $0.removeServer("s") }
        #expect(await failure { try await Row().startRequest(on: manager) }?.kind == .unknownName)
    }

    @Test func failedChangeLeavesTheTableUnchanged() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url()))
        #expect(throws: NetworkError.self) {
            try manager.updateDomains { table throws(NetworkError) in
                table.removeDomain("d")
                try table.setBaseURL("nowhere", forDomain: "d")
            }
        }
        _ = try await Get<JSONValue>().startRequest(on: manager)
        #expect(server.requestCount == 1)
    }

    @Test func tableMayBeBuiltInCode() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make()
        #expect(manager.domains == nil)
        let url = server.url("/made")
        try manager.updateDomains { table throws(NetworkError) in
            try table.setDomain("d", DomainTable.DomainRow(baseURL: url))
            try table.setServer("s", DomainTable.ServerRow(domain: "d", path: "x", method: .put))
        }
        _ = try await Row(["a": 1]).startRequest(on: manager)
        #expect(server.requests.map { "\($0.method) \($0.target)" } == ["PUT /made/x"])
    }

    @Test func managersOfOneTableAreIndependent() async throws {
        let first = try MockServer.answering(#""first""#)
        let second = try MockServer.answering(#""second""#)
        let table = try DomainTable.make(first.url())
        let one = try CentralRequestManager.make(table)
        let two = try CentralRequestManager.make(table)
        let url = second.url()
        try two.updateDomains { table throws(NetworkError) in try table.setBaseURL(url, forDomain: "d") }
        #expect(try await Get<String>().startRequest(on: one) == "first")
        #expect(try await Get<String>().startRequest(on: two) == "second")
    }
}
