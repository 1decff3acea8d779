import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport
@testable import HTTPCore

/// Revocation lists are fetched from the addresses that certificates name.
@Suite(.needsOpenSSL, .timeLimit(.minutes(5))) struct RevocationFetchTests {
    private static let unknown = NetworkError.Kind.tls(.certificateStatus)

    private func paths(_ authority: RevocationAuthority) -> [String] { authority.lists.requests.map(\.path).sorted() }

    @Test(arguments: HTTPRequest.TLS.Revocation.allCases)
    func listsAreFetchedOnceAndKept(_ revocation: HTTPRequest.TLS.Revocation) async throws {
        let authority = try await RevocationAuthority()
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        let checking = try CheckingTransport(authority) { $0.tls.revocation = revocation }
        try await withThrowingTaskGroup(of: NetworkError?.self) { group in
            for _ in 0..<10 { group.addTask { try await checking.failure(good) } }
            for try await error in group { #expect(error == nil, "\(error as Any)") }
        }
        let error = try await checking.failure(bad)
        #expect(error?.kind == (revocation == .off ? nil : .tls(.revoked)), "\(error as Any)")
        if revocation != .off { #expect(error?.message.contains(authority.lists.url("/sub.crl")) == true) }
        #expect(paths(authority) == (revocation == .off ? [] : ["/root.crl", "/sub.crl"]))
        #expect(checking.transport.uncheckedCertificates == 0)
    }

    @Test func revokedIntermediateIsRefused() async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        authority.lists.route("GET", "/root.crl") { _ in .data(authority.data("all.crl")) }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        let error = try await checking.failure(good)
        #expect(error?.kind == .tls(.revoked) && error?.message.contains("that of CN = sub") == true, "\(error as Any)")
    }

    @Test func givenURLReplacesThoseOfTheCertificates() async throws {
        let authority = try await RevocationAuthority()
        let bad = try await authority.server("bad")
        let checking = try CheckingTransport(authority)
        let url = authority.lists.url("/many.crl")
        let error = try await checking.failure(bad) { $0.crlURL = url }
        #expect(error?.kind == .tls(.revoked), "\(error as Any)")
        #expect(try await checking.failure(try await authority.server("good")) { $0.crlURL = url } == nil)
        // Once for both authorities.
        #expect(paths(authority) == ["/many.crl"])
    }

    @Test func addressesAreTriedInTurn() async throws {
        let authority = try await RevocationAuthority(points: ["/gone.crl", "/%.crl"])
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        for revocation in [HTTPRequest.TLS.Revocation.hard, .soft] {
            let checking = try CheckingTransport(authority) { $0.tls.revocation = revocation }
            #expect(try await checking.failure(good) == nil)
            #expect(try await checking.failure(bad)?.kind == .tls(.revoked))
            #expect(checking.transport.uncheckedCertificates == 0)
        }
    }

    @Test(arguments: [
        "missing", "nonsense", "huge", "expired", "forged", "another", "elsewhere", "stopped", "redirect",
    ])
    func hardFailsAndSoftGoesOn(_ fault: String) async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        authority.lists.route("GET", "/sub.crl") { _ in
            switch fault {
            case "nonsense": .text("<html>")
            case "huge": .data(Data(count: (16 << 20) + 1))
            case "expired": .data(authority.data("old.crl"))
            case "forged": .data(authority.data("forged.crl"))
            case "another": .data(authority.data("root.crl"))
            case "elsewhere": .data(authority.data("elsewhere.crl"))
            case "redirect": .redirect(to: "/both.crl")
            default: .status(404)
            }
        }
        if fault == "stopped" { authority.lists.stop() }
        let words =
            switch fault {
            case "missing": "/sub.crl answered with status 404"
            case "nonsense": "/sub.crl sent no revocation list"
            case "huge": "/sub.crl sent nothing"
            case "expired": "the one from \(authority.lists.url("/sub.crl")) has expired"
            case "forged", "another": "/sub.crl sent one that is not signed by it"
            case "elsewhere": "/sub.crl sent one that is about other certificates"
            case "redirect": "/sub.crl answered with status 302"
            default: "/sub.crl sent nothing: "
            }
        let hard = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        for _ in 0..<2 {
            let error = try await hard.failure(good)
            let message = error?.message ?? ""
            #expect(error?.kind == Self.unknown && message.contains(words), "\(message)")
            #expect(message.contains("no valid revocation list of CN = sub") && message.contains("tls.revocation"))
        }
        let soft = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        for _ in 0..<2 { #expect(try await soft.failure(good) == nil) }
        #expect(soft.transport.uncheckedCertificates > 0)
        try await eventually("a warning") { soft.warnings.elements.contains { $0.contains(words) } }
    }

    @Test func softDoesNotWaitForAServerThatHasFailed() async throws {
        let authority = try await RevocationAuthority()
        let bad = try await authority.server("bad")
        let isDown = Box(true)
        let (asked, answer) = (Event(), Event())
        authority.lists.route("GET", "/sub.crl") { _ in
            guard !isDown.value else { return .status(503) }
            asked.happen()
            while !answer.hasHappened { usleep(1_000) }
            return .data(authority.data("sub.crl"))
        }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        // It waits for the first answer.
        #expect(try await checking.failure(bad) == nil)
        #expect(checking.transport.uncheckedCertificates == 1)
        isDown.change { $0 = false }
        // From now on it goes on while the list is fetched, which begins when the pause is over.
        try await eventually("a fetch") {
            let error = try await checking.failure(bad)
            #expect(error == nil)
            return asked.hasHappened
        }
        #expect(try await checking.failure(bad) == nil)
        answer.happen()
        try await eventually("the list") { try await checking.failure(bad)?.kind == .tls(.revoked) }
    }

    @Test func listStaysWhileItsServerFails() async throws {
        let authority = try await RevocationAuthority()
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        let answers = Box<[String]>(["old.crl", "forged.crl"])
        authority.lists.route("GET", "/sub.crl") { _ in
            guard let file = answers.value.first else { return .status(500) }
            answers.change { $0.removeFirst() }
            return .data(authority.data(file))
        }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        // The list has expired, so it is fetched again and again, but what it says stays true.
        try await eventually("three fetches") {
            let errors = (try await checking.failure(good), try await checking.failure(bad))
            #expect(errors.0 == nil && errors.1?.kind == .tls(.revoked))
            return authority.lists.requests.count { $0.path == "/sub.crl" } >= 3
        }
        #expect(try await checking.failure(bad)?.kind == .tls(.revoked))
    }

    @Test func certificatesOfStrangersHaveNothingFetched() async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        let stranger = try CheckingTransport(await RevocationAuthority()) { $0.tls.revocation = .hard }
        let error = try await stranger.failure(good)
        #expect(error?.kind == .tls(.untrusted) || error?.kind == .tls(.selfSigned), "\(error as Any)")
        #expect(authority.lists.requestCount == 0)
    }

    @Test func certificateWithoutAddressIsRefusedInHard() async throws {
        let authority = try await RevocationAuthority(points: ["ldap://127.0.0.1/%", "https://127.0.0.1/%"])
        let good = try await authority.server("good")
        let error = try await CheckingTransport(authority) { $0.tls.revocation = .hard }.failure(good)
        #expect(
            error?.kind == Self.unknown && error?.message.contains("names no http address") == true, "\(error as Any)")
        #expect(try await CheckingTransport(authority) { $0.tls.revocation = .soft }.failure(good) == nil)
    }

    @Test func prewarmedAndProbedConnectionsAreChecked() async throws {
        let authority = try await RevocationAuthority()
        let (good, bad) = (try await authority.server("good"), try await authority.server("bad"))
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        let probed = try await authority.server("good")
        #expect(await checking.transport.connect(for: HTTPRequest("GET", probed.url())).error == nil)
        try await checking.transport.prewarm(good.url())
        let error = try await CurlTransportTests.failure { try await checking.transport.prewarm(bad.url()) }
        #expect(error.kind == .tls(.revoked))
        // The first server serves one connection after the other.
        let other = try await authority.server("good")
        #expect(await checking.transport.connect(for: HTTPRequest("GET", other.url())).error == nil)
        #expect(await checking.transport.connect(for: HTTPRequest("GET", bad.url())).error?.kind == .tls(.revoked))
        #expect(paths(authority) == ["/root.crl", "/sub.crl"])
    }

    @Test(arguments: ["timeout", "cancellation", "owner"]) func waitForAListEnds(_ cause: String) async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        let asked = Event()
        authority.lists.route("GET", "/sub.crl") { _ in
            asked.happen()
            return MockReply.text("never").stalling(.start)
        }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        var request = HTTPRequest("GET", good.url())
        if cause == "timeout" { request.timeout = .seconds(5) }
        let owner = TestOwner()
        let call = Task { [request] in try await checking.transport.send(request, for: owner) }
        if cause != "timeout" { await asked.wait() }
        if cause == "cancellation" { call.cancel() }
        if cause == "owner" { owner.cancel() }
        let result = try await within { await call.result }
        #expect(asked.hasHappened && owner.listenerCount == 0)
        let kind = #expect(throws: (any Error).self) { try result.get() }.flatMap { ($0 as? NetworkError)?.kind }
        if case .timeout = kind {
            #expect(cause == "timeout")
        } else {
            #expect(kind == (cause == "owner" ? .cancelled : nil))
        }
        // Others are not touched by it.
        #expect(try await checking.failure(good) { $0.revocation = .soft } == nil)
        authority.lists.stop()
        await checking.transport.shutdown()
    }

    @Test func softGoesOnWhenAListIsSlow() async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        let asked = Event()
        authority.lists.route("GET", "/sub.crl") { _ in
            asked.happen()
            return MockReply.text("never").stalling(.start)
        }
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .soft }
        var request = HTTPRequest("GET", good.url())
        // A quarter of it is for the list.
        request.timeout = .seconds(8)
        #expect(try await checking.transport.answer(to: request).status == 200)
        #expect(asked.hasHappened && checking.transport.uncheckedCertificates == 1)
        #expect(paths(authority) == ["/root.crl", "/sub.crl"])
        await checking.transport.shutdown()
    }

    @Test func listsGetNothingThatIsForOthers() async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        let netrc = try authority.folder.write(Data("machine 127.0.0.1 login u password p\n".utf8), to: "netrc")
        #expect(chmod(netrc, 0o600) == 0)
        authority.lists.fallback { request in
            .data(authority.data(String(request.path.dropFirst()))).header("Set-Cookie", "list=1")
        }
        let checking = try CheckingTransport(authority) {
            $0.tls.revocation = .hard
            $0.netrc = .file(netrc)
            $0.cookies = .memory
        }
        try await checking.transport.cookies?.set(Cookie("session", "1", domain: "127.0.0.1"))
        #expect(try await checking.failure(good) == nil)
        #expect(authority.lists.requestCount == 2)
        for request in authority.lists.requests {
            #expect(request.headers["Authorization"] == nil && request.headers["Cookie"] == nil)
        }
        #expect(try await checking.transport.cookies?.all().map(\.name) == ["session"])
    }

    @Test func managersProxyIsUsedForLists() async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        let proxy = try MockServer { request in
            .data(authority.data(String(request.path.split(separator: "/").last ?? "")))
        }
        let checking = try CheckingTransport(authority) {
            $0.tls.revocation = .hard
            $0.proxy = .url("http://user:word@127.0.0.1:\(proxy.port)")
        }
        var request = HTTPRequest("GET", good.url())
        request.proxy = .direct
        #expect(try await checking.transport.answer(to: request).status == 200)
        #expect(authority.lists.requestCount == 0 && proxy.requestCount == 2)
        // The proxy's credentials are for the proxy.
        #expect(
            proxy.requests.allSatisfy { $0.headers["Proxy-Authorization"] != nil && $0.headers["Authorization"] == nil }
        )
    }

    @Test func fetchIsBoundByTheGuardOfTheManager() async throws {
        let authority = try await RevocationAuthority()
        let good = try await authority.server("good")
        let guarded = try CheckingTransport(authority) {
            $0.tls.revocation = .hard
            $0.blocksPrivateAddresses = true
            $0.allowedPrivateAddresses = ["localhost"]
        }
        let error = try await guarded.failure(good)
        #expect(error?.kind == Self.unknown && error?.message.contains("127.0.0.1") == true, "\(error as Any)")
        #expect(authority.lists.requestCount == 0)
    }

    @Test func bodyThatCanBeReadOnceIsSentOnce() async throws {
        let authority = try await RevocationAuthority()
        let server = try MockServer { .data($0.body) }
        let nginx = try Nginx(
            location: "proxy_pass http://127.0.0.1:\(server.port);", certificate: authority.path("good.server"))
        try await nginx.waitUntilReady()
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        var request = HTTPRequest("POST", "https://localhost:\(nginx.port.port)/")
        let reads = Box(0)
        request.body = .stream(
            AsyncStream<Data> {
                reads.change { $0 += 1 }
                return reads.value <= 3 ? Data("part".utf8) : nil
            })
        let response = try await checking.transport.answer(to: request)
        #expect(response.status == 200 && response.text == "partpartpart", "\(response)")
        #expect(server.requestCount == 1 && paths(authority) == ["/root.crl", "/sub.crl"])
    }

    @Test func multiplexedCallsWaitTogether() async throws {
        let authority = try await RevocationAuthority()
        let nginx = try Nginx(location: "return 200 ok;", certificate: authority.path("good.server"))
        try await nginx.waitUntilReady()
        let checking = try CheckingTransport(authority) { $0.tls.revocation = .hard }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<50 {
                group.addTask { try await checking.transport.get("https://localhost:\(nginx.port.port)/").status }
            }
            for try await status in group { #expect(status == 200) }
        }
        #expect(paths(authority) == ["/root.crl", "/sub.crl"])
    }
}
