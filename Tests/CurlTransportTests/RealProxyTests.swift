import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// The behaviour that squid, tinyproxy, microsocks and dante share.
@Suite struct RealProxyTests {
    @Test(.needs("squid"), arguments: ProxyTrial.all(of: "squid"))
    func squidPassesItsTrials(_ trial: ProxyTrial) async throws { try await trial.run() }

    @Test(.needs("tinyproxy"), arguments: ProxyTrial.all(of: "tinyproxy"))
    func tinyproxyPassesItsTrials(_ trial: ProxyTrial) async throws { try await trial.run() }

    @Test(.needs("microsocks"), arguments: ProxyTrial.all(of: "microsocks"))
    func microsocksPassesItsTrials(_ trial: ProxyTrial) async throws { try await trial.run() }

    @Test(.needs("danted"), arguments: ProxyTrial.all(of: "danted"))
    func dantePassesItsTrials(_ trial: ProxyTrial) async throws { try await trial.run() }

    @Test(
        .needsNginx,
        arguments: ["squid", "tinyproxy", "microsocks", "danted"].filter { ChildProcess.path(of: $0) != nil }
            .flatMap { ProxyTrial.all(of: $0, needingNginx: true) })
    func nginxIsReachedThroughTheProxy(_ trial: ProxyTrial) async throws { try await trial.run() }

    /// dante connects to 0.0.0.1, the placeholder address of a SOCKS4a request.
    @Test(.needs("danted")) func danteRefusesSOCKS4a() async throws {
        let proxy = try await RealProxy.dante()
        let origin = try MockServer()
        let url = "socks4a://127.0.0.1:\(proxy.port)"
        try await withTransport(testConfiguration { $0.proxy = .url(url) }) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://localhost:\(origin.port)/"))
            #expect(error.kind == .proxy)
            #expect(error.message.contains("the proxy \(url) did not connect to http://localhost:\(origin.port)"))
            #expect(origin.acceptedConnections == 0)
        }
    }

    /// None of the four supports SOCKS4a, so a raw server plays the proxy and the server behind it.
    @Test func socks4aSendsTheNameToTheProxy() async throws {
        let asked = Box([UInt8]())
        let proxy = try RawServer { connection in
            let request = connection.read()
            asked.change { $0 = request }
            connection.write([0, 90, 0, 0, 0, 0, 0, 0])
            _ = connection.read()
            connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8))
            connection.drain()
        }
        let configuration = testConfiguration {
            $0.proxy = .url("socks4a://ada@127.0.0.1:\(proxy.port)")
            $0.blocksPrivateAddresses = true
            // This address would be blocked if it were used.
            $0.resolve = ["inner.example.org:8080": "10.1.2.3"]
        }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get("http://inner.example.org:8080/").text == "ok")
            // Version 4, CONNECT, port, 0.0.0.x, user, host name.
            let name = Array("inner.example.org".utf8)
            #expect(asked.value == [4, 1, 0x1F, 0x90, 0, 0, 0, 1] + Array("ada".utf8) + [0] + name + [0])
        }
    }
}

/// One combination of a proxy, a scheme and a property to test.
struct ProxyTrial: Sendable, CustomTestStringConvertible {
    enum Sentence: String, CaseIterable {
        case carriesPlainRequests, opensTunnels, carriesUploads, looksNamesUpOnTheRightSide, refusesWrongPasswords
        case failsTheCallWhenItDies, blocksPrivateHosts
        // These need nginx behind the proxy.
        case tunnelsHTTP2, tunnelsUploads, failsTheTunnelWhenItDies

        var needsNginx: Bool { [.tunnelsHTTP2, .tunnelsUploads, .failsTheTunnelWhenItDies].contains(self) }
    }

    let program: String
    let scheme: String
    /// Whether the proxy requires the user "ada" and the password "love-lace".
    let hasPassword: Bool
    let sentence: Sentence

    var testDescription: String {
        "\(program) as \(scheme)\(hasPassword ? " with a password" : "") \(sentence.rawValue)"
    }

    static func all(of program: String, needingNginx: Bool = false) -> [ProxyTrial] {
        let schemes =
            switch program {
            case "microsocks": ["socks5", "socks5h"]
            case "danted": ["socks", "socks4", "socks5", "SOCKS5H"]
            default: ["http"]
            }
        return schemes.flatMap { scheme in
            // dante uses the system's users, so it can be tested with wrong passwords only.
            (program == "danted" ? [false] : [false, true]).flatMap { hasPassword in
                Sentence.allCases.filter { $0.needsNginx == needingNginx }.map {
                    ProxyTrial(program: program, scheme: scheme, hasPassword: hasPassword, sentence: $0)
                }
            }
        }.filter { $0.sentence != .refusesWrongPasswords || $0.hasPassword || program == "danted" }
    }

    func run() async throws {
        let proxy = try await start()
        let origin = try MockServer()
        origin.fallback { .text("for \($0.headers["Host"] ?? "-")") }
        switch sentence {
        case .carriesPlainRequests: try await carriesPlainRequests(proxy, origin)
        case .opensTunnels: try await opensTunnels(proxy)
        case .carriesUploads: try await carriesUploads(proxy, origin)
        case .looksNamesUpOnTheRightSide: try await looksNamesUpOnTheRightSide(proxy, origin)
        case .refusesWrongPasswords: try await refusesWrongPasswords(proxy, origin)
        case .failsTheCallWhenItDies: try await failsTheCallWhenItDies(proxy)
        case .blocksPrivateHosts: try await blocksPrivateHosts(proxy, origin)
        case .tunnelsHTTP2: try await tunnelsHTTP2(proxy)
        case .tunnelsUploads: try await tunnelsUploads(proxy)
        case .failsTheTunnelWhenItDies: try await fails("\(nginx())/limited/1g.bin", whenItDies: proxy)
        }
    }

    private func start() async throws -> RealProxy {
        switch program {
        case "squid" where hasPassword: try await .squid(.basic)
        case "squid": try await .squid { _ in "acl local src 127.0.0.1\nhttp_access allow local" }
        case "tinyproxy": try await .tinyproxy(hasPassword ? "BasicAuth ada love-lace" : "")
        case "microsocks": try await .microsocks(hasPassword ? ["-u", "ada", "-P", "love-lace"] : [])
        default: try await .dante(method: sentence == .refusesWrongPasswords ? "username" : "none")
        }
    }

    private var isHTTP: Bool { scheme == "http" }
    /// Whether the client resolves host names and passes addresses to the proxy.
    private var isLookedUpHere: Bool { ["socks4", "socks5"].contains(scheme) }
    /// libcurl 8 resolves localhost to ::1, where no server of the tests listens.
    private var host: String { isLookedUpHere ? "127.0.0.1" : "localhost" }
    private func nginx() throws -> String { try #require(Servers.nginxTLS).replacing("localhost", with: host) }

    private func configuration(
        _ proxy: RealProxy, credentials: String? = nil, _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) -> EngineConfiguration {
        testConfiguration {
            $0.proxy = .url(
                "\(scheme)://\(credentials ?? (hasPassword ? "ada:love%2Dlace@" : ""))127.0.0.1:\(proxy.port)")
            $0.tls.caFile = TestCertificates.shared?.authority
            change(&$0)
        }
    }

    // MARK: The properties

    private func carriesPlainRequests(_ proxy: RealProxy, _ origin: MockServer) async throws {
        try await withTransport(configuration(proxy)) { transport async throws in
            for _ in 0..<2 {
                #expect(try await transport.get(origin.url()).text == "for 127.0.0.1:\(origin.port)")
            }
        }
        #expect(origin.requests.allSatisfy { ($0.headers["Via"] != nil) == isHTTP })
        #expect(origin.requests.allSatisfy { $0.headers["Proxy-Authorization"] == nil })
    }

    private func opensTunnels(_ proxy: RealProxy) async throws {
        let secure = try await TLSServer()
        try await withTransport(configuration(proxy)) { transport async throws in
            for _ in 0..<2 { #expect(try await transport.get(secure.url(host)).status == 200) }
        }
    }

    private func tunnelsHTTP2(_ proxy: RealProxy) async throws {
        let url = try nginx()
        try await withTransport(configuration(proxy) { $0.tls.caFile = Servers.authority }) { transport async throws in
            let response = try await transport.get("\(url)/1m.bin")
            #expect(response.version == .http2)
            #expect(response.data.count == 1 << 20)
        }
    }

    private func carriesUploads(_ proxy: RealProxy, _ origin: MockServer) async throws {
        let data = MockPattern.bytes(in: 0..<1 << 20)
        try await withTransport(configuration(proxy)) { transport async throws in
            let post = HTTPRequest("POST", origin.url(), body: .data(data))
            #expect(try await transport.answer(to: post).status == 200)
            #expect(origin.requests.last?.body == data)
        }
    }

    private func tunnelsUploads(_ proxy: RealProxy) async throws {
        let data = MockPattern.bytes(in: 0..<1 << 20)
        let url = try nginx()
        try await withTransport(configuration(proxy) { $0.tls.caFile = Servers.authority }) { transport async throws in
            let post = HTTPRequest("POST", "\(url)/sink", body: .data(data))
            #expect(try await transport.answer(to: post).text == "\(1 << 20)")
        }
    }

    private func looksNamesUpOnTheRightSide(_ proxy: RealProxy, _ origin: MockServer) async throws {
        // A name that only the client can resolve, or one that the proxy resolves correctly and the client would not.
        let name = isLookedUpHere ? "here.example.org" : "localhost"
        let address = isLookedUpHere ? "127.0.0.1" : "127.0.0.99"
        let resolving = configuration(proxy) { $0.resolve = ["\(name):\(origin.port)": address] }
        try await withTransport(resolving) { transport async throws in
            #expect(try await transport.get("http://\(name):\(origin.port)/").text == "for \(name):\(origin.port)")
        }
    }

    private func refusesWrongPasswords(_ proxy: RealProxy, _ origin: MockServer) async throws {
        for wrong in ["ada:wr%6Fng@", ""] {
            try await withTransport(configuration(proxy, credentials: wrong)) { transport async throws in
                // tinyproxy answers a wrong password with 401, which over plain HTTP could also be the server's response.
                let plain = program == "tinyproxy" && !wrong.isEmpty ? [] : [origin.url()]
                for url in plain + ["https://127.0.0.1:\(origin.port)/"] {
                    let error = try await transport.failure(of: HTTPRequest("GET", url))
                    #expect(error.kind == .proxy, "\(error)")
                    #expect(error.message.contains("127.0.0.1:\(proxy.port)"), "\(error)")
                    #expect(!"\(error)".contains("wrong") && !"\(error)".contains("wr%6Fng"))
                }
            }
        }
        #expect(origin.acceptedConnections == 0)
    }

    private func failsTheCallWhenItDies(_ proxy: RealProxy) async throws {
        let origin = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nthe beginning".utf8))
            connection.drain()
        }
        try await fails(origin.url(), whenItDies: proxy)
    }

    private func fails(_ url: String, whenItDies proxy: RealProxy) async throws {
        try await withTransport(configuration(proxy) { $0.tls.caFile = Servers.authority }) { transport async throws in
            let body = try await transport.answer(to: HTTPRequest("GET", url).with { $0.streamsBody = true }).body
            let hasBegun = Event()
            let reader = Task { for try await _ in body { hasBegun.happen() } }
            try await within { await hasBegun.wait() }
            try await proxy.kill()
            let lost = try await failure { try await reader.value }
            #expect(lost.kind == .connectionLost, "\(lost)")
            let error = try await transport.failure(of: HTTPRequest("GET", url))
            #expect(error.kind == .proxy, "\(error)")
            #expect(error.message.contains("127.0.0.1:\(proxy.port) cannot be reached"), "\(error)")
        }
    }

    /// The proxy's own address is private too, but the guard judges only the URL's host.
    private func blocksPrivateHosts(_ proxy: RealProxy, _ origin: MockServer) async throws {
        try await withTransport(configuration(proxy) { $0.blocksPrivateAddresses = true }) { transport async throws in
            for host in ["127.0.0.1", "localhost", "2130706433", "[::1]", "[::ffff:127.0.0.1]"] {
                for scheme in ["http", "https"] {
                    let request = HTTPRequest("GET", "\(scheme)://\(host):\(origin.port)/")
                    #expect(try await transport.failure(of: request).kind == .addressBlocked(.loopback), "\(host)")
                }
            }
        }
        #expect(origin.acceptedConnections == 0)
        let allowing = configuration(proxy) {
            $0.blocksPrivateAddresses = true
            $0.allowedPrivateAddresses = ["127.0.0.1"]
        }
        try await withTransport(allowing) { transport async throws in
            #expect(try await transport.get(origin.url()).status == 200)
        }
    }
}
