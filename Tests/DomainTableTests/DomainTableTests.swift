import DomainTables
import Foundation
import LATNetworking
import LATTesting
import Testing

@Suite("DomainTable")
struct DomainTableTests {
    private func sample(_ environment: String? = nil) throws -> DomainTable {
        try DomainTable(json5: Samples.table, name: "Config/domains.json5", environment: environment)
    }

    @Test func environmentOfTheProcessIsNotDiscarded() async {
        await #expect(processExitsWith: .success) {
            setenv("LAT_ENVIRONMENT", "staging", 1)
            var table = try DomainTable(
                json5: #"{ domains: { d: { baseURL: "http://a", environments: { staging: "http://b" } } } }"#)
            try table.setBaseURL("http://c", forDomain: "d")
            table.discardChanges()
            try #require(table.environment == "staging")
            table.environment = "other"
            table.discardChanges()
            try #require(table.environment == "staging")
        }
    }

    private func message(_ body: () throws -> Void) throws -> String {
        try #require(throws: NetworkError.self, performing: body).message
    }

    @Test func numbersInParametersKeepTheirDigits() throws {
        let parameters =
            "id: 12345678901234567890, x: 0.1234567890123456789, n: 1e3, auth: { password: 'SECRET', a: [{ token: 'SECRET' }] }"
        let table = try DomainTable(
            json5: "{ domains: { d: { baseURL: 'http://h', parameters: { \(parameters) } } } }", environment: nil)
        let values = try table.resolve(domain: "d", path: "").settings.parameters
        #expect(values["id"]?.description == "12345678901234567890" && values["n"] == 1000)
        #expect(values["x"]?.description == "0.1234567890123456789")
        #expect(!table.explain("d").contains("SECRET") && table.explain("d").contains(#""password":"***""#))
    }

    // MARK: Look-ups

    @Test func unknownNameSuggestsTheNearest() throws {
        let table = try sample()
        let error = try #require(throws: NetworkError.self) { try table.domain("daxian") }
        #expect(error.kind == .unknownName)
        #expect(error.message == "unknown domain \"daxian\" in Config/domains.json5; did you mean \"daxiang\"?")
        #expect(
            try message { _ = try table.resolve(server: "user.detial") }
                == "unknown server \"user.detial\" in Config/domains.json5; did you mean \"user.detail\"?")
        #expect(
            try message { _ = try table.server("zzz") }
                == "unknown server \"zzz\" in Config/domains.json5; the servers are user.detail, user.me, elsewhere")
        #expect(
            try message { _ = try DomainTable().domain("a") }
                == "unknown domain \"a\" in the table; there are no domains")
    }

    @Test func namesKeepFileOrder() throws {
        let table = try sample()
        #expect(table.domainNames == ["daxiang", "other"])
        #expect(table.serverNames == ["user.detail", "user.me", "elsewhere"])
        #expect(table.environmentNames == ["dev", "staging"])
    }

    @Test func mostSpecificRowWinsAndGivesTheLine() throws {
        let route = try sample().resolve(server: "user.me")
        #expect(route.settings.timeout == .milliseconds(250))
        #expect(route.settings.connectTimeout == .seconds(10))
        #expect(route.settings.idleTimeout == .seconds(5400))
        #expect(route.settings.retries == 2)
        #expect(route.settings.proxy == .url("socks5h://127.0.0.1:1080"))
        #expect(route.settings.redirects == .follow(limit: 3))
        #expect(route.settings.headers["X-App"] == "me")
        #expect(route.settings.headers["X-A"] == "0")
        #expect(route.settings.headers["User-Agent"] == nil)
        #expect(route.settings.parameters == ["channel": "linux", "depth": 16])
        #expect(route.settings.envelope == DomainTable.EnvelopeChoice.none)
        #expect(route.pins == ["sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="])
        #expect(route.settings.origin(of: "timeout")?.description == "Config/domains.json5:24")
        #expect(route.settings.origin(of: "retries")?.description == "Config/domains.json5:17")
        #expect(route.settings.origin(of: "connectTimeout")?.description == "Config/domains.json5:4")
    }

    @Test func settingsOfTheFileAreRead() throws {
        let detail = try sample().resolve(server: "user.detail")
        #expect(detail.method == .get)
        #expect(detail.settings.cachePolicy == .cacheElseNetwork(.sliding(.seconds(300))))
        #expect(
            detail.settings.envelope
                == .rule(
                    Envelope.Rule(
                        code: "result.code", message: "message", data: "datas", success: ["10000", "OK"],
                        messages: ["10001": "Token expired"])))
        #expect(detail.settings.volatileParameters == ["nonce"])
        #expect(detail.settings.secretHeaders == ["X-Api-Token"])
        #expect(detail.settings.maxConnectionsPerHost == 5)
        let other = try sample().resolve(domain: "other", path: "x")
        #expect(other.settings.simulation == .directory("Fixtures", delay: .milliseconds(200)))
        let elsewhere = try sample().resolve(server: "elsewhere")
        #expect(elsewhere.settings.simulation == .off)
        #expect(elsewhere.settings.parameterEncoding == .form)
    }

    // MARK: Addresses

    @Test func pathIsJoinedByOneSlashAndBaseQueryKept() throws {
        let table = try sample()
        #expect(
            try table.resolve(server: "user.detail").url(["id": "42"]) == "https://app.example.org/api/v1/users/42?v=2")
        #expect(try table.resolve(server: "user.me").url() == "https://app.example.org/api/v1/users/me?v=2&full=1")
        #expect(try table.resolve(domain: "other", path: "a").url() == "http://127.0.0.1:9090/a")
        #expect(try table.resolve(domain: "other", path: "/a").url() == "http://127.0.0.1:9090/a")
        #expect(try table.resolve(server: "elsewhere").url(["file": "a/b"]) == "https://cdn.example.org/a%2Fb")
    }

    @Test func pathParametersAreEscaped() throws {
        let route = try sample().resolve(server: "user.detail")
        #expect(route.pathParameters == ["id"])
        #expect(try route.url(["id": "a b/ü?#%"]) == "https://app.example.org/api/v1/users/a%20b%2F%C3%BC%3F%23%25?v=2")
        #expect(try route.url(["id": "%2e%2e"]).contains("/%252e%252e"))
    }

    @Test func invalidPathParametersAreRejected() throws {
        let route = try sample().resolve(server: "user.detail")
        #expect(
            try message { _ = try route.url() }
                == #"the path parameter {id} of the server "user.detail" has no value; give a parameter or a property "id""#
        )
        let longer = try sample().resolve(domain: "other", path: "{userId}")
        #expect(
            try message { _ = try longer.url(["userID": "1"]) }
                == #"the path parameter {userId} of the path "{userId}" of "other" has no value; did you mean {userID}?"#
        )
        #expect(
            try message { _ = try route.url(["id": ""]) }
                == #"the path parameter {id} of the server "user.detail" is empty, which would change the path; give a value"#
        )
        #expect(
            try message { _ = try route.url(["id": ".."]) }
                == #"the values of the path parameters of the server "user.detail" make the segment ".." or ".", which would change the path; give other values"#
        )
        let two = try sample().resolve(domain: "other", path: "{a}{b}/x")
        #expect(try two.url(["a": ".", "b": "x"]) == "http://127.0.0.1:9090/.x/x")
        #expect(throws: NetworkError.self) { try two.url(["a": ".", "b": "."]) }
    }

    @Test(arguments: [
        "https://evil.example/x", "//evil.example", "\\\\evil.example", "/\\evil", "ftp://h/x", "../x", "a/./b", "{",
        "a#b",
    ])
    func pathThatLeavesTheDomainIsRejected(_ path: String) throws {
        let table = try sample()
        let error = try #require(throws: NetworkError.self) { try table.resolve(domain: "daxiang", path: path) }
        #expect(error.kind == .invalidRequest)
    }

    @Test func urlInTheQueryIsNotAnAbsolutePath() throws {
        let route = try sample().resolve(domain: "other", path: "proxy?u=http://x.example/")
        #expect(try route.url() == "http://127.0.0.1:9090/proxy?u=http://x.example/")
    }

    // MARK: Environments and changes in code

    @Test func environmentSwitchesDomainsThatDefineIt() throws {
        var table = try sample()
        #expect(try table.resolve(server: "user.me").baseURLs.count == 2)
        table.environment = "staging"
        let route = try table.resolve(server: "user.me")
        #expect(route.baseURLs == ["https://staging.example.org/api"])
        #expect(try table.resolve(domain: "other", path: "").baseURLs == ["http://127.0.0.1:9090/"])
        table.environment = "dev"
        #expect(try table.resolve(server: "user.me").baseURLs == ["http://127.0.0.1:8080", "http://127.0.0.1:8081"])
        table.environment = nil
        #expect(try table.resolve(server: "user.me").baseURLs[1] == "https://app2.example.org/api")
    }

    @Test func unknownEnvironmentListsTheKnownOnes() throws {
        let error = try #require(throws: NetworkError.self) { try sample("stagin") }
        #expect(error.kind == .unknownName)
        #expect(error.message == "unknown environment \"stagin\" in Config/domains.json5; did you mean \"staging\"?")
        var table = try sample()
        table.environment = "production"
        #expect(
            try message { _ = try table.resolve(server: "user.me") }
                == "unknown environment \"production\" in Config/domains.json5; the environments are dev, staging")
    }

    @Test func baseURLSetInCodeWinsUntilReset() throws {
        var table = try sample("staging")
        let before = table
        try table.setBaseURL("http://127.0.0.1:1/x/", forDomain: "daxiang")
        let route = try table.resolve(server: "user.me")
        #expect(route.baseURLs == ["http://127.0.0.1:1/x/"])
        #expect(try route.url() == "http://127.0.0.1:1/x/v1/users/me?full=1")
        #expect(try before.resolve(server: "user.me").baseURLs == ["https://staging.example.org/api"])
        try table.setBaseURL(nil, forDomain: "daxiang")
        #expect(try table.resolve(server: "user.me").baseURLs == ["https://staging.example.org/api"])
        #expect(throws: NetworkError.self) { try table.setBaseURL("http://x", forDomain: "daxian") }
        #expect(
            try message { try table.setBaseURL("app.example.org", forDomain: "daxiang") }
                == #"the base URL of "daxiang" must be an absolute http or https URL; "app.example.org" has no scheme; did you mean "https://app.example.org"?"#
        )
    }

    @Test func rowsCanBeReplacedAndAddedInCode() throws {
        var table = try sample()
        var row = try table.server("user.detail")
        row.settings.timeout = .seconds(1)
        row.settings.headers["X-New"] = "1"
        try table.setServer("user.detail", row)
        let route = try table.resolve(server: "user.detail")
        #expect(route.settings.timeout == .seconds(1))
        #expect(route.settings.origin(of: "timeout") == .code)
        #expect(route.settings.origin(of: "ttl")?.description == "Config/domains.json5:23")

        try table.setDomain("new", DomainTable.DomainRow(baseURL: "http://127.0.0.1:5/"))
        try table.setServer("new.call", DomainTable.ServerRow(domain: "new", path: "a/{b}", method: .put))
        #expect(try table.resolve(server: "new.call").url(["b": "c"]) == "http://127.0.0.1:5/a/c")
        #expect(table.serverNames.last == "new.call")
        table.removeDomain("new")
        #expect(throws: NetworkError.self) { try table.resolve(server: "new.call") }

        #expect(throws: NetworkError.self) {
            try table.setServer("x", DomainTable.ServerRow(domain: "other", path: "//h/x"))
        }
        var unconnected = DomainTable.DomainRow(baseURL: "http://127.0.0.1:5/")
        unconnected.settings.maxConnectionsPerHost = 0
        #expect(throws: NetworkError.self) { try table.setDomain("new", unconnected) }
        #expect(throws: NetworkError.self) {
            try table.setServer("x", DomainTable.ServerRow(domain: "nowhere", path: "x"))
        }
        #expect(throws: NetworkError.self) {
            try table.setServer("x", DomainTable.ServerRow(domain: "other", path: "x", method: "A B"))
        }
        table.discardChanges()
        #expect(try table.resolve(server: "user.detail").settings.timeout == .seconds(30))
        #expect(table.serverNames.count == 3)
    }

    /// Only a look-up merges the rows, so that a table may be filled row by row.
    @Test func manyRowsMayBeSetInCode() throws {
        var table = DomainTable()
        for number in 0..<20 {
            try table.setDomain(
                DomainName("d\(number)"), DomainTable.DomainRow(baseURL: "http://127.0.0.1:\(number + 1)"))
        }
        for number in 0..<4_000 {
            let row = DomainTable.ServerRow(domain: DomainName("d\(number % 20)"), path: "v1/\(number)")
            try table.setServer(ServerName("s\(number)"), row)
        }
        let full = table
        for number in 0..<4_000 where number % 2 == 0 { table.removeServer(ServerName("s\(number)")) }
        #expect(full.serverNames.count == 4_000)
        #expect(table.serverNames == full.serverNames.enumerated().filter { $0.offset % 2 == 1 }.map(\.element))
        #expect(try full.resolve(server: "s3998").url() == "http://127.0.0.1:19/v1/3998")
        #expect(try table.resolve(server: "s3999").url() == "http://127.0.0.1:20/v1/3999")
        #expect(throws: NetworkError.self) { try table.resolve(server: "s3998") }
        #expect(table.explain("s21").contains("http://127.0.0.1:2/v1/21"))
    }

    // MARK: Explaining

    @Test func serverIsExplainedLineByLine() throws {
        #expect(
            try sample("dev").explain("user.me") == """
                user.me  http://127.0.0.1:8080/v1/users/me?full=1
                  domain                 daxiang                                               Config/domains.json5:24
                  path                   v1/users/me?full=1                                    Config/domains.json5:24
                  environment            dev                                                   code
                  environments.dev       http://127.0.0.1:8080                                 Config/domains.json5:8
                  mirrors                http://127.0.0.1:8081                                 Config/domains.json5:8
                  pins                   sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=  Config/domains.json5:12
                  timeout                250ms                                                 Config/domains.json5:24
                  connectTimeout         10s                                                   Config/domains.json5:4
                  idleTimeout            1h30m                                                 Config/domains.json5:17
                  maxConnectionsPerHost  5                                                     Config/domains.json5:4
                  retries                2                                                     Config/domains.json5:17
                  proxy                  socks5h://127.0.0.1:1080                              Config/domains.json5:17
                  redirects              3                                                     Config/domains.json5:17
                  envelope               null                                                  Config/domains.json5:24
                  volatileParameters     nonce                                                 Config/domains.json5:18
                  secretHeaders          X-Api-Token                                           Config/domains.json5:11
                  headers.X-A            0                                                     Config/domains.json5:4
                  headers.User-Agent     null                                                  Config/domains.json5:10
                  headers.X-Api-Token    ***                                                   Config/domains.json5:10
                  headers.X-App          me                                                    Config/domains.json5:24
                  parameters.channel     "linux"                                               Config/domains.json5:18
                  parameters.depth       16                                                    Config/domains.json5:18
                """)
    }

    @Test func urlIsExplainedByItsRow() throws {
        let table = try sample()
        let first = { (url: String) in table.explain(url).split(separator: " ").first.map(String.init) }
        #expect(first("https://app.example.org/api/v1/users/42") == "user.detail")
        #expect(first("https://APP.example.org:443/api/v1/users/me?x=1#y") == "user.me")
        #expect(first("https://app2.example.org/api/v1/users/42") == "user.detail")
        #expect(first("http://127.0.0.1:8080/v1/users/42") == "user.detail")
        #expect(first("https://app.example.org/api/other") == "daxiang")
        #expect(
            table.explain("https://app.example.org/apiary")
                == "no domain in Config/domains.json5 has a base URL that \"https://app.example.org/apiary\" begins with; "
                + "lat domains list shows them")
        #expect(
            table.explain("user.mee")
                == "unknown server \"user.mee\" in Config/domains.json5; did you mean \"user.me\"?")
        #expect(
            try table.explanations(of: "other").first?.description
                == "baseURL = http://127.0.0.1:9090/ (Config/domains.json5:20)")
    }

    // MARK: Files

    @Test func errorsNameTheFile() throws {
        let directory = try TemporaryDirectory()
        let missing = directory.path(of: "no.json5")
        #expect(
            try message { _ = try DomainTable(contentsOf: missing, environment: nil) }
                == "the table \(missing) is not there; check the path")
        #expect(
            try message { _ = try DomainTable(contentsOf: directory.path, environment: nil) }
                == "the table \(directory.path) is a folder, not a file; check the path")
        let path = try directory.write(
            Data("{ domains: { a: { baseURL: 'http://h', simulation: { directory: 'F' } } } }".utf8), to: "d.json5")
        let table = try DomainTable(contentsOf: path, environment: nil)
        #expect(try table.domain("a").settings.simulation == .directory(directory.path(of: "F"), delay: nil))
    }

    @Test func shippedTableIsValid() throws {
        let path = #filePath.split(separator: "/").dropLast(3).map { "/" + $0 }.joined() + "/Config/domains.json5"
        let table = try DomainTable(contentsOf: path, environment: nil)
        #expect(table.warnings.isEmpty)
        #expect(try table.resolve(server: "demo.get").url() == "http://127.0.0.1:8080/get")
        #expect(try table.resolve(server: "user.detail").url(["id": "7"]) == "https://app.example.org/api/v1/users/7")
    }
}

@Suite("DurationText")
struct DurationTextTests {
    @Test(
        arguments: [
            ("60s", 60_000), ("5m", 300_000), ("250ms", 250), ("1h30m", 5_400_000), ("2d", 172_800_000),
            ("1.5s", 1_500),
            ("1d2h3m4s5ms", 93_784_005), ("0s", 0), ("0.5ms", 0),
        ] as [(String, Int)])
    func durationsAreParsed(_ text: String, _ milliseconds: Int) throws {
        let duration = try #require(DurationText.parse(text))
        #expect(
            duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
                == Int64(milliseconds))
    }

    @Test(arguments: [
        "", "s", "60", "60 s", "s60", "-1s", "1x", "1s1s", "1s1m", ".s", "1.s", ".5s", "1..5s", "1e3s", "999999d", "٣s",
    ])
    func malformedDurationsAreRejected(_ text: String) { #expect(DurationText.parse(text) == nil) }

    @Test(arguments: ["60s", "250ms", "1h30m", "2d", "1m1s", "1s500ms", "0s"])
    func writtenDurationParsesToTheSameValue(_ text: String) throws {
        let duration = try #require(DurationText.parse(text))
        #expect(DurationText.parse(DurationText.text(duration)) == duration)
    }
}
