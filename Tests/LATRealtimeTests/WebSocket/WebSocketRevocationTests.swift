import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// Revocation with rows, calls and WebSockets, behind an nginx with TLS.
@Suite(.needsOpenSSL, .timeLimit(.minutes(3))) struct WebSocketRevocationTests {
    private let authority: RevocationAuthority
    private let server: MockServer

    init() async throws {
        authority = try await RevocationAuthority()
        server = try MockServer { $0.headers["Upgrade"] == nil ? .text("ok") : .webSocket(.text("in")) }
    }

    private func nginx(_ certificate: String) async throws -> Nginx {
        let nginx = try Nginx(
            location: """
                proxy_pass http://127.0.0.1:\(server.port); proxy_http_version 1.1;
                proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
                """, certificate: authority.path(certificate))
        try await nginx.waitUntilReady()
        return nginx
    }

    private func manager(_ nginx: Nginx, _ tls: String) throws -> CentralRequestManager {
        try .make(
            "https://localhost:\(nginx.port.port)",
            domain: "tls: { caFile: \"\(authority.path("root.pem"))\", \(tls) }",
            servers: "chat: { domain: \"d\", path: \"x\" }")
    }

    @Test(arguments: ["soft", "hard"]) func socketWaitsForTheLists(_ revocation: String) async throws {
        let (good, bad) = (try await nginx("good.server"), try await nginx("bad.server"))
        let manager = try manager(good, "revocation: \"\(revocation)\"")
        for _ in 0..<2 { #expect(try await manager.webSocket(server: "chat").all() == [.text("in")]) }
        let error = await failure {
            try await self.manager(bad, "revocation: \"\(revocation)\"").webSocket(server: "chat").all()
        }
        #expect(error?.kind == .tls(.revoked), "\(error as Any)")
        #expect(await manager.load.uncheckedCertificates == 0)
        #expect(authority.lists.requests.count { $0.path == "/sub.crl" } == 2)
    }

    @Test func deadServerOfListsEndsOnlyHardSockets() async throws {
        let good = try await nginx("good.server")
        authority.lists.stop()
        let soft = try manager(good, "revocation: \"soft\"")
        for _ in 0..<2 { #expect(try await soft.webSocket(server: "chat").all() == [.text("in")]) }
        #expect(await soft.load.uncheckedCertificates == 4)
        let error = await failure { try await self.manager(good, "revocation: \"hard\"").webSocket(server: "chat") }
        #expect(error?.kind == .tls(.certificateStatus), "\(error as Any)")
    }

    @Test func callIsStricterThanItsRow() async throws {
        let bad = try await nginx("bad.server")
        let manager = try manager(bad, "crlFile: \"\(authority.path("root.crl"))\", revocation: \"soft\"")
        let url = "https://localhost:\(bad.port.port)/x"
        #expect(try await manager.webSocket(server: "chat").all() == [.text("in")])
        var request = HTTPRequest("GET", url)
        request.tls.caFile = authority.path("root.pem")
        request.tls.crlFile = authority.path("both.crl")
        #expect(await failure { try await manager.send(request) }?.kind == .tls(.revoked))
        request.tls.crlFile = authority.path("root.crl")
        #expect(await failure { try await manager.send(request) }?.kind == .tls(.certificateStatus))
        #expect(authority.lists.requestCount == 0)
    }

    @Test func addressOfARowReplacesTheFileOfItsDomain() async throws {
        let bad = try await nginx("bad.server")
        let manager = try CentralRequestManager.make(
            "https://localhost:\(bad.port.port)",
            domain: """
                tls: {
                    caFile: "\(authority.path("root.pem"))", crlFile: "\(authority.path("root.crl"))", revocation: "soft",
                }
                """,
            servers: """
                chat: { domain: "d", path: "x" },
                strict: {
                    domain: "d", path: "x", tls: { crlURL: "\(authority.lists.url("/many.crl"))", revocation: "hard" },
                }
                """)
        #expect(try await manager.webSocket(server: "chat").all() == [.text("in")])
        #expect(authority.lists.requestCount == 0)
        #expect(await failure { try await manager.webSocket(server: "strict").all() }?.kind == .tls(.revoked))
        #expect(authority.lists.requests.map(\.path) == ["/many.crl"])
    }

    @Test(arguments: ["cancel", "deadline"]) func endOfACallEndsItsWait(_ cause: String) async throws {
        let good = try await nginx("good.server")
        let asked = Event()
        authority.lists.route("GET", "/sub.crl") { _ in
            asked.happen()
            return MockReply.text("never").stalling(.start)
        }
        let manager = try manager(good, "revocation: \"hard\"")
        var request = HTTPRequest("GET", "https://localhost:\(good.port.port)/x")
        request.tls.caFile = authority.path("root.pem")
        request.tls.revocation = .hard
        if cause == "deadline" { request.deadline = .seconds(2) }
        let outcome = Box<NetworkError?>(nil)
        let done = Event()
        let task = manager.startRequest(request) { _, _ in
            done.happen()
        } failure: { _, error in
            outcome.change { $0 = error }
            done.happen()
        }
        if cause == "cancel" {
            await asked.wait()
            task.cancel()
        }
        try await within { await done.wait() }
        #expect(
            outcome.value?.kind == (cause == "cancel" ? .cancelled : .timeout(.deadline)), "\(outcome.value as Any)")
        #expect(server.requestCount == 0)
        authority.lists.stop()
        await manager.shutdown()
    }
}
