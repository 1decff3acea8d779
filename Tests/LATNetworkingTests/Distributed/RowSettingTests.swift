import Foundation
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Timeouts, connections, proxies, redirects and pins from the rows of a table, on the wire.
@Suite(.timeLimit(.minutes(1))) struct RowSettingTests {
    private func table(_ server: MockServer, domain: String = "", row: String = "") throws -> DomainTable {
        try .make(server.url(), domain: domain, servers: #"s: { domain: "d", path: "x", method: "GET", \#(row) }"#)
    }

    // MARK: Time

    @Test func rowTimeoutsAreApplied() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}").stalling(.afterHead) }
        let rows: [(domain: String, row: String, kind: NetworkError.Kind)] = [
            (#"timeout: "150ms""#, "", .timeout(.total)), (#"timeout: "60s""#, #"timeout: "150ms""#, .timeout(.total)),
            ("", #"idleTimeout: "150ms""#, .timeout(.idle)),
        ]
        for (domain, row, kind) in rows {
            let manager = try CentralRequestManager.make(table(server, domain: domain, row: row))
            #expect(await failure { try await Row().startRequest(on: manager) }?.kind == kind, "\(domain) \(row)")
        }
    }

    @Test func rowConnectTimeoutIsApplied() async throws {
        let full = try FullBacklogListener()
        let manager = try CentralRequestManager.make(.make(full.url(), domain: #"connectTimeout: "150ms""#))
        let error = await failure { try await Get<JSONValue>().startRequest(on: manager) }
        #expect(error?.kind == .timeout(.connect))
    }

    @Test func callsTimeoutWinsOverEntityAndRow() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}").delayed(by: .milliseconds(300)) }
        let manager = try CentralRequestManager.make(table(server, row: #"timeout: "50ms""#))
        _ = try await Row().timeout(.seconds(30)).startRequest(on: manager)
        var entity = Row()
        entity.options.timeout = .seconds(30)
        _ = try await entity.startRequest(on: manager)
        let short = await failure { try await entity.timeout(.milliseconds(50)).startRequest(on: manager) }
        #expect(short?.kind == .timeout(.total))
        #expect(await failure { try await Row().startRequest(on: manager) }?.kind == .timeout(.total))
    }

    @Test func rowRetriesAreApplied() async throws {
        let server = try MockServer.answering()
        server.enqueue(.noReply, .noReply, .noReply)
        let manager = try CentralRequestManager.make(table(server, domain: "retries: 5", row: "retries: 2"))
        let error = await failure { try await Row().startRequest(on: manager) }
        #expect(error?.kind == .connectionLost)
        #expect(error?.attempts == 3)
        #expect(server.requestCount == 3)
        server.enqueue(.noReply)
        #expect(await failure { try await Row().retries(0).startRequest(on: manager) }?.kind == .connectionLost)
        #expect(server.requestCount == 4)
    }

    // MARK: Connections

    @Test func domainLimitsItsConnections() async throws {
        let server = try MockServer()
        let mayAnswer = DispatchSemaphore(value: 0)
        server.fallback { _ in
            mayAnswer.wait()
            return .json("{}")
        }
        let manager = try CentralRequestManager.make(table(server, domain: "maxConnectionsPerHost: 2"))
        let calls = (0..<8).map { _ in Task { try await Row().startRequest(on: manager) } }
        try await eventually { await manager.load.queued == 6 }
        for _ in calls { mayAnswer.signal() }
        for call in calls { _ = try await call.value }
        #expect(server.requestCount == 8)
        #expect(server.acceptedConnections == 2)
    }

    @Test func domainSetsItsOwnProxy() async throws {
        let server = try MockServer.answering(#""direct""#)
        let proxy = try MockServer.answering(#""proxy""#)
        let closed = try ClosedPort()
        let direct = try CentralRequestManager.make(table(server, domain: #"proxy: "direct""#)) {
            $0.proxy = .url(closed.url())
        }
        let model: JSONValue = try await Row().startRequest(on: direct)
        #expect(model.string == "direct")
        let through = try CentralRequestManager.make(table(server, domain: #"proxy: "\#(proxy.baseURL)""#))
        #expect(try await Row().startRequest(on: through).string == "proxy")
        #expect(proxy.requests.map(\.target) == [server.url("/x")])
    }

    @Test func rowRedirectPolicyIsApplied() async throws {
        let server = try MockServer.answering(#""end""#)
        server.route("GET", "/x") { _ in .redirect(to: "/y") }
        server.route("GET", "/y") { _ in .redirect(to: "/z") }
        let none = try CentralRequestManager.make(table(server, domain: "redirects: 5", row: #"redirects: "none""#))
        let error = await failure { try await Row().startRequest(on: none) }
        #expect(error?.kind == .httpStatus)
        #expect(error?.response?.status == 302)
        #expect(try await Row().redirects(.follow(limit: 2)).startRequest(on: none).string == "end")
        let one = try CentralRequestManager.make(table(server, domain: "redirects: 1"))
        #expect(await failure { try await Row().startRequest(on: one) }?.kind == .redirect)
    }

    // MARK: Secrets

    @Test func domainSecretHeadersStayWithTheirOrigin() async throws {
        let home = try MockServer.answering()
        let other = try MockServer.answering()
        home.route("GET", "/x") { _ in .redirect(to: "/y", status: 307) }
        home.route("GET", "/y") { _ in .redirect(to: other.url("/z"), status: 307) }
        let manager = try CentralRequestManager.make(
            table(home, domain: #"secretHeaders: ["X-Session"], headers: { "x-session": "s", "X-Plain": "p" }"#))
        _ = try await Row().header("Authorization", "Bearer t").startRequest(on: manager)
        #expect(home.requests.map { $0.headers["X-Session"] } == ["s", "s"])
        let last = try #require(other.requests.first)
        #expect(last.headers["X-Session"] == nil)
        #expect(last.headers["Authorization"] == nil)
        #expect(last.headers["X-Plain"] == "p")
    }

    // MARK: Pins

    /// Returns the pin of a certificate's public key, computed by OpenSSL.
    private func pin(of certificate: String) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = [
            "-c",
            "openssl x509 -in '\(certificate)' -pubkey -noout | openssl pkey -pubin -outform der"
                + " | openssl dgst -sha256 -binary | openssl base64",
        ]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return "sha256//" + String(decoding: data, as: UTF8.self).filter { !$0.isWhitespace }
    }

    private static let wrongPin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

    private func pinned(_ pins: String...) throws -> CentralRequestManager {
        let list = pins.map { "\"\($0)\"" }.joined(separator: ", ")
        let table = try DomainTable.make(
            Servers.nginxTLS ?? "", domain: "pins: [\(list)]",
            servers: #"s: { domain: "d", path: "empty.bin", method: "GET" }"#)
        return try CentralRequestManager.make(table) { $0.tls.caFile = Servers.authority }
    }

    @Test(.needsNginx) func domainPinsAreEnforced() async throws {
        let authority = try #require(Servers.authority)
        let right = try pin(of: authority.replacing("ca.pem", with: "server.pem"))
        #expect(right.count == Self.wrongPin.count)
        #expect(try await Row().reply(on: pinned(right)).response.status == 200)
        #expect(try await Row().reply(on: pinned(Self.wrongPin, right)).response.status == 200)
        #expect(try await Row().reply(on: pinned()).response.status == 200)
        let manager = try pinned(Self.wrongPin)
        let error = await failure { try await Row().startRequest(on: manager) }
        #expect(error?.kind == .tls(.pinMismatch))
        #expect(error?.response == nil)
        // The pins apply to the domain's calls, not to the manager's others.
        let url = try #require(Servers.nginxTLS)
        #expect(try await manager.startRequest("GET", url + "/empty.bin").status == 200)
        #expect(await failure { try await Row().startRequest(on: manager) }?.kind == .tls(.pinMismatch))
    }

    @Test(.needsNginx) func domainPinsDoNotApplyToAnotherOrigin() async throws {
        let url = try #require(Servers.nginxTLS)
        let server = try MockServer()
        server.fallback { _ in .redirect(to: url + "/empty.bin") }
        let manager = try CentralRequestManager.make(table(server, domain: #"pins: ["\#(Self.wrongPin)"]"#)) {
            $0.tls.caFile = Servers.authority
        }
        #expect(try await Row().reply(on: manager).response.status == 200)
    }
}
