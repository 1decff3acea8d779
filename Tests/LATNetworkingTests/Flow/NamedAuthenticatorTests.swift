import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import Testing

/// Authenticators that rows, entities and requests name.
@Suite struct NamedAuthenticatorTests {
    /// Renews `name-0` to `name-1` and so on.
    private final class Session: Authenticator {
        private let name: String
        private let number = Mutex(0)

        init(_ name: String) { self.name = name }

        var renewals: Int { number.withLock { $0 } }

        func apply(to request: inout HTTPRequest) { request.headers["Authorization"] = "\(name)-\(renewals)" }
        func refresh() { renew() }
        func renew() { number.withLock { $0 += 1 } }
    }

    private struct Fetch: RequestEntity {
        typealias Model = String
        static let route = Route(server: "item")
    }

    private let shop = Session("shop")
    private let bank = Session("bank")

    /// A server that accepts one token and sends back the one it got.
    private func serving(_ token: String?) throws -> MockServer {
        let server = try MockServer()
        server.fallback { request in
            let sent = request.headers["Authorization"] ?? "none"
            return token == nil || sent == token ? .text(sent) : .status(401)
        }
        return server
    }

    private func manager(
        _ server: MockServer, domain: String, row: String = "", standard: (any Authenticator)? = nil
    ) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        configuration.authenticators = ["shop": shop, "bank": bank]
        configuration.authenticator = standard
        configuration.domains = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())" \(domain) } },
                  servers: { item: { domain: "main", path: "item", method: "GET" \(row) } } }
                """, name: "table")
        return try CentralRequestManager(configuration: configuration)
    }

    @Test func rowsAuthenticatorRenewsItsOwnToken() async throws {
        let server = try serving("shop-1")
        let manager = try manager(server, domain: #", authenticator: "shop""#, standard: bank)
        let texts = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<8 { group.addTask { try await Fetch().startRequest(on: manager) } }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(texts == ["shop-1"] && shop.renewals == 1 && bank.renewals == 0)
    }

    @Test(
        arguments: [
            (#", authenticator: "shop""#, "", "shop-0"),
            (#", authenticator: "shop""#, #", authenticator: "bank""#, "bank-0"),
            (#", authenticator: "shop""#, ", authenticator: null", "none"), ("", "", "bank-0"),
        ])
    func narrowestAuthenticatorWins(domain: String, row: String, expected: String) async throws {
        let server = try serving(nil)
        let manager = try manager(server, domain: domain, row: row, standard: bank)
        #expect(try await Fetch().startRequest(on: manager) == expected)
        #expect(try await Fetch().authenticator(.named("shop")).startRequest(on: manager) == "shop-0")
        #expect(try await Fetch().authenticator(.off).startRequest(on: manager) == "none")
    }

    /// Neither the token of a broader row nor `null` there takes the place of what a narrower row says.
    @Test(arguments: [#""bank""#, "null"])
    func narrowerOAuth2TakesThePlaceOfAnAuthenticator(_ broader: String) async throws {
        let server = try serving(nil)
        server.route("POST", "/token") { _ in .json(#"{"access_token":"of-shop","expires_in":60}"#) }
        let rule = #"oauth2: { tokenURL: "\#(server.url("/token"))", clientID: "c", secretVariable: "PATH" }"#
        let table = try DomainTable(
            json5: """
                { defaults: { authenticator: \(broader) },
                  domains: { main: { baseURL: "\(server.url())", \(rule) }, other: { baseURL: "\(server.url())" } },
                  servers: { item: { domain: "main", path: "item", method: "GET" },
                             free: { domain: "main", path: "free", method: "GET", authenticator: null } } }
                """)
        var configuration = CentralRequestManager.Configuration()
        (configuration.authenticators, configuration.domains) = (["bank": bank], table)
        let manager = try CentralRequestManager(configuration: configuration)
        #expect(try await Fetch().startRequest(on: manager) == "Bearer of-shop")
        #expect(try await manager.startRequest(server: "free", as: String.self).model == "none")
        let other = try await manager.startRequest(Route("GET", domain: "other", path: "x"), as: String.self).model
        #expect(other == (broader == "null" ? "none" : "bank-0"))
        #expect(!table.explain("item").contains("bank"))
    }

    @Test func simulatedCallGetsNoTokenOfItsRow() async throws {
        let server = try serving(nil)
        server.route("POST", "/token") { _ in .json(#"{"access_token":"of-shop","expires_in":60}"#) }
        let rule = #"oauth2: { tokenURL: "\#(server.url("/token"))", clientID: "c", secretVariable: "PATH" }"#
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "http://real.invalid", \(rule) } },
                  servers: { item: { domain: "main", path: "item", method: "GET" } } }
                """)
        let manager = try CentralRequestManager(configuration: configuration)
        let canned = Simulation.reply(data: Data("canned".utf8))
        #expect(try await Fetch().simulated(canned).startRequest(on: manager) == "canned")
        #expect(server.requestCount == 0)
        #expect(try await Fetch().simulated(.server(server.url())).startRequest(on: manager) == "Bearer of-shop")
    }

    @Test func twoWaysToATokenInOneRowAreAWarning() throws {
        let table = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "https://h", authenticator: "bank",
                    oauth2: { issuer: "https://login.h", clientID: "c" } } } }
                """)
        #expect(
            table.warnings.map(\.message) == [#""oauth2" has no effect beside "authenticator"; leave one of them"#])
    }

    @Test func callsOwnAuthorizationIsNotReplaced() async throws {
        let server = try serving(nil)
        for central in [
            try manager(server, domain: "", standard: bank), try manager(server, domain: #", authenticator: "shop""#),
        ] {
            let own = Fetch().header("Authorization", "own")
            #expect(try await own.startRequest(on: central) == "own")
            #expect(try await own.authenticator(.named("bank")).startRequest(on: central) == "bank-0")
            #expect(try await Fetch().header("Authorization", nil).startRequest(on: central) == "none")
            let basic = try await Fetch().authentication(.basic(user: "ada", password: "pw")).startRequest(on: central)
            #expect(basic == "Basic YWRhOnB3")
        }
    }

    /// Its rejection is not that of the token.
    @Test func rejectedOwnAuthorizationRenewsNothing() async throws {
        let server = try serving("bank-0")
        let manager = try manager(server, domain: "", standard: bank)
        await #expect(throws: NetworkError.self) {
            try await Fetch().header("Authorization", "own").startRequest(on: manager)
        }
        #expect(bank.renewals == 0 && server.requestCount == 1)
        // With a token, each attempt is sent with the present one.
        bank.renew()
        await #expect(throws: NetworkError.self) { try await Fetch().startRequest(on: manager) }
        #expect(server.requests.suffix(2).map { $0.headers["Authorization"] } == ["bank-1", "bank-2"])
    }

    /// A token in another field is sent beside the call's own credentials.
    @Test func otherFieldOfTheTokenIsStillSent() async throws {
        struct Device: Authenticator {
            func apply(to request: inout HTTPRequest) { request.headers["X-Device"] = "d-1" }
        }
        let server = try serving(nil)
        let manager = try manager(server, domain: "", standard: Device())
        #expect(try await Fetch().header("Authorization", "own").startRequest(on: manager) == "own")
        #expect(server.requests.map { $0.headers["X-Device"] } == ["d-1"])
    }

    @Test func requestMayNameAnAuthenticator() async throws {
        let server = try serving(nil)
        let manager = try manager(server, domain: "")
        var request = HTTPRequest("GET", server.url("/x"))
        #expect(try await manager.send(request).text == "none")
        request.authenticator = .named("bank")
        #expect(try await manager.send(request).text == "bank-0")
    }

    @Test func unknownNameSendsNothing() async throws {
        let server = try serving(nil)
        let manager = try manager(server, domain: #", authenticator: "shopp""#)
        let error = await #expect(throws: NetworkError.self) { try await Fetch().startRequest(on: manager) }
        #expect(error?.kind == .invalidRequest && server.requestCount == 0)
        #expect(
            error?.message
                == "there is no authenticator \"shopp\"; configuration.authenticators has \"bank\", \"shop\"")
    }

    @Test func changedRowUsesItsNewAuthenticator() async throws {
        let server = try serving(nil)
        let manager = try manager(server, domain: #", authenticator: "shop""#)
        #expect(try await Fetch().startRequest(on: manager) == "shop-0")
        try manager.updateDomains { table throws(NetworkError) in
            var row = try table.server("item")
            row.settings.authenticator = .named("bank")
            try table.setServer("item", row)
        }
        #expect(try await Fetch().startRequest(on: manager) == "bank-0")
        #expect(manager.domains?.explain("item").contains("authenticator") == true)
    }
}
