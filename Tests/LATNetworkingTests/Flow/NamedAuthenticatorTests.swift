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
        func refresh() { number.withLock { $0 += 1 } }
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
