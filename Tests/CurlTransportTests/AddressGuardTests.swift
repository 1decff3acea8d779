import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// The guard against private addresses on real sockets. Addresses of other machines are tried only in network
/// namespaces that the tests make, where every address is local and no packet leaves the machine.
@Suite struct AddressGuardTests {
    private func guarded(_ allowed: [String] = []) -> EngineConfiguration {
        testConfiguration {
            $0.blocksPrivateAddresses = true
            $0.allowedPrivateAddresses = allowed
        }
    }

    /// Notations of this machine's address, each used with the port of a server that would answer.
    private static let loopbacks = [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.1.",
        "localhost",
        "LOCALHOST", "localhost.", "%6c%6f%63%61%6c%68%6f%73%74", "127%2e0%2e0%2e1", "①②⑦.⓪.⓪.①", "127。0。0。1",
        "user:pass@127.0.0.1", "example.org@127.0.0.1", "example.org:80@127.0.0.1", "127.0.0.2", "0", "0.0.0.0",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::]", "[::1]", "[::127.0.0.1]",
    ]

    @Test(arguments: loopbacks) func loopbackIsRefusedInEveryNotation(host: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("inside") }
        try await withTransport(guarded()) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://\(host):\(server.port)/"))
            switch error.kind {
            case .addressBlocked(let rule): #expect([.loopback, .unspecified].contains(rule), "\(error)")
            // libcurl rejects some notations as no host at all.
            case .invalidRequest, .dns: break
            default: Issue.record("\(error)")
            }
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test func errorNamesAddressAndRule() async throws {
        try await withTransport(
            guarded().with { $0.resolve = ["inner.example.org:80": "10.1.2.3"] }
        ) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://inner.example.org/"))
            #expect(error.kind == .addressBlocked(.privateUse))
            #expect("\(error)".contains("10.1.2.3"))
            #expect("\(error)".contains("inner.example.org"))
            #expect(error.message.contains("allowedPrivateAddresses"))
            #expect(error.curlCode == nil)
        }
    }

    @Test(arguments: [
        ["127.0.0.1"], ["127.0.0.0/8"], ["10.0.0.0/8", "127.0.0.0/31"], ["api.example.org"], ["*.example.org"],
        ["API.example.org."], ["::ffff:127.0.0.1"],
    ])
    func allowedAddressIsConnectedTo(allowed: [String]) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("inside") }
        let configuration = guarded(allowed).with { $0.resolve = ["api.example.org:\(server.port)": "127.0.0.1"] }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<2 {
                #expect(try await transport.get("http://api.example.org:\(server.port)/").text == "inside")
            }
        }
    }

    @Test(arguments: [["example.org"], ["*.api.example.org"], ["10.0.0.0/8"], ["xapi.example.org"], ["127.0.0.2"], []])
    func addressNotAllowedIsRefused(allowed: [String]) async throws {
        let server = try MockServer()
        let configuration = guarded(allowed).with { $0.resolve = ["api.example.org:\(server.port)": "127.0.0.1"] }
        try await withTransport(configuration) { transport async throws in
            let request = HTTPRequest("GET", "http://api.example.org:\(server.port)/")
            #expect(try await transport.failure(of: request).kind == .addressBlocked(.loopback))
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test(arguments: ["", "10.0.0.0/33", "a b", "http://x/", "x:80", "2130706433", "*.", "*"])
    func malformedAllowEntryIsRefused(entry: String) {
        let error = #expect(throws: NetworkError.self) { _ = try CurlTransport(configuration: guarded([entry])) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("allowedPrivateAddresses") == true)
    }

    @Test func unixSocketsAreRefused() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer(unixSocketPath: directory.path(of: "s"))
        try await withTransport(guarded()) { transport async throws in
            let request = HTTPRequest("GET", "http://example.org/").with { $0.unixSocketPath = directory.path(of: "s") }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .addressBlocked(.unixSocket))
            #expect(error.message.contains("turn blocksPrivateAddresses off"), "\(error)")
            #expect(server.acceptedConnections == 0)
        }
        #expect(throws: NetworkError.self) {
            _ = try CurlTransport(configuration: guarded().with { $0.unixSocketPath = directory.path(of: "s") })
        }
    }

    @Test func connectToDoesNotBypassGuard() async throws {
        let server = try MockServer()
        let configuration = guarded().with { $0.connectTo = ["example.org:80:127.0.0.1:\(server.port)"] }
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://example.org/"))
            #expect(error.kind == .addressBlocked(.loopback))
            #expect(server.acceptedConnections == 0)
        }
    }

    @Test func guardChecksURLHostButNotProxy() async throws {
        let proxy = try MockServer()
        proxy.fallback { _ in .text("by proxy") }
        let configuration = guarded(["10.7.0.0/16"]).with { $0.proxy = .url(proxy.baseURL) }
        try await withTransport(configuration) { transport async throws in
            for host in [
                "127.0.0.1", "2130706433", "0x7f.1", "localhost", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254",
                "metadata.google.internal", "①②⑦.⓪.⓪.①", "127%2e0%2e0%2e1", "192.168.1.1", "２１３０７０６４３３",
                "１２７。１", "%EF%BC%91%EF%BC%92%EF%BC%97.1",
            ] {
                let error = try await transport.failure(of: HTTPRequest("GET", "http://\(host)/"))
                guard case .addressBlocked = error.kind else {
                    Issue.record("\(host): \(error)")
                    continue
                }
            }
            #expect(proxy.acceptedConnections == 0)
            #expect(try await transport.get("http://10.7.1.1/").text == "by proxy")
            #expect(try await transport.get("http://example.org/").text == "by proxy")
        }
    }

    /// The host that the guard and the redirect rules check is the host that libcurl connects to. Everything is sent to
    /// one server, which echoes the `Host` field.
    @Test(arguments: [
        "http://a.example/", "http://A.example/", "http://u:p@a.example/", "http://u@b:p@a.example/",
        "http://a.example#@b.example/", "http://a.example?@b.example/", "http://a.example\\@b.example/",
        "http://a.example:80@b.example/", "http:/a.example/", "http:///a.example/", "http://a.example;b.example/",
        "http://a.example&@b.example#@c.example/", "http://1.1.1.1 &@2.2.2.2# @3.3.3.3/", "http://a.example.:80/",
        "http://[::ffff:1.2.3.4]/", "http://0x01020304/", "http://a%2eexample/", "http://a.example%23@b.example/",
        "http://bücher.example/", "http://a。example/", "http://a.example%00.b.example/", "http://a.example\t.b/",
        "http://@a.example/", "http://a.example:/", "http://a.example:0080/", "HTTP://a.example/", "http://ａ.example/",
    ])
    func parsedHostMatchesLibcurl(_ url: String) async throws {
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "-") }
        let configuration = testConfiguration { $0.connectTo = ["::127.0.0.1:\(server.port)"] }
        try await withTransport(configuration) { transport async throws in
            guard let host = URLReference.host(of: url) else {
                #expect(try await transport.failure(of: HTTPRequest("GET", url)).kind == .invalidRequest)
                #expect(server.acceptedConnections == 0)
                return
            }
            let sent = try await transport.get(url).text
            #expect(sent == host, "\(url)")
        }
    }
}

/// The guard in a namespace where all addresses are local, so that a request arrives unless it is refused.
@Suite(.needsNetworkNamespaces)
struct AddressGuardNetworkTests {
    private struct Place: Sendable {
        let server: AnyAddressServer
        let transport: CurlTransport
    }

    private func place(
        address: UInt32? = nil, reply: String? = nil,
        _ change: @escaping @Sendable (inout EngineConfiguration, Int) -> Void
    ) throws -> Place {
        try NetworkNamespace.run {
            let server =
                try reply.map { try AnyAddressServer(address: address, reply: $0) }
                ?? AnyAddressServer(address: address)
            let configuration = testConfiguration { change(&$0, server.port) }
            return Place(server: server, transport: try CurlTransport(configuration: configuration))
        }
    }

    /// Addresses that are reachable in such a namespace without the guard.
    private static let reachable = [
        "127.0.0.1", "10.0.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "169.254.1.1", "100.64.0.1",
        "100.100.100.200", "198.18.0.1", "192.0.2.1", "0xa9fea9fe", "2852039166", "0", "[::1]", "[fd00:ec2::254]",
        "[fc00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "[2001:db8::1]",
    ]

    /// Addresses that the kernel may refuse by itself.
    private static let others = [
        "255.255.255.255", "224.0.0.1", "240.0.0.1", "[::]", "[ff02::1]", "[fe80::1]", "[fec0::1]", "[::10.0.0.1]",
        "192.0.0.192", "168.63.129.16", "203.0.113.1", "198.51.100.1",
    ]

    @Test func addressesAreReachedWithoutGuard() async throws {
        let place = try place { configuration, _ in configuration.timeout = .seconds(20) }
        for host in Self.reachable {
            let answer = try await place.transport.get("http://\(host):\(place.server.port)/")
            #expect(answer.text == "ok", "\(host)")
        }
        #expect(place.server.acceptedConnections >= Self.reachable.count - 2)
        await place.transport.shutdown()
    }

    @Test func guardRefusesEveryPrivateAddress() async throws {
        let place = try place { configuration, _ in configuration.blocksPrivateAddresses = true }
        for host in Self.reachable + Self.others {
            let error = try await place.transport.failure(
                of: HTTPRequest("GET", "http://\(host):\(place.server.port)/"))
            guard case .addressBlocked = error.kind else {
                Issue.record("\(host): \(error)")
                continue
            }
        }
        #expect(place.server.acceptedConnections == 0)
        // Public addresses are reached, so it is the guard that refuses the others.
        for host in ["93.184.216.34", "[2606:4700::1111]", "[::ffff:1.1.1.1]"] {
            #expect(try await place.transport.get("http://\(host):\(place.server.port)/").text == "ok", "\(host)")
        }
        await place.transport.shutdown()
    }

    @Test func everyAddressOfANameIsChecked() async throws {
        // Nothing listens on the public address, so libcurl then tries the private one, which has a server.
        let place = try place(address: 0x0A00_0001) { configuration, port in
            configuration.blocksPrivateAddresses = true
            configuration.resolve = [
                "both.example.org:\(port)": "93.184.216.34,10.0.0.1", "inner.example.org:\(port)": "10.0.0.1",
                "mapped.example.org:\(port)": "[::ffff:10.0.0.1]",
            ]
        }
        for name in ["both", "inner", "mapped"] {
            let request = HTTPRequest("GET", "http://\(name).example.org:\(place.server.port)/")
            #expect(try await place.transport.failure(of: request).kind == .addressBlocked(.privateUse), "\(name)")
        }
        #expect(place.server.acceptedConnections == 0)
        await place.transport.shutdown()
    }

    @Test func privateAddressIsSkippedForPublicOne() async throws {
        let place = try place(address: 0x5DB8_D822) { configuration, port in
            configuration.blocksPrivateAddresses = true
            configuration.resolve = ["both.example.org:\(port)": "10.0.0.1,93.184.216.34"]
        }
        #expect(try await place.transport.get("http://both.example.org:\(place.server.port)/").text == "ok")
        await place.transport.shutdown()
    }

    @Test func reboundNameIsRefused() async throws {
        // As in DNS rebinding, the name is first public, then private. Two engines in one namespace simulate two look-ups.
        let (server, engines) = try NetworkNamespace.run { () throws -> (AnyAddressServer, [CurlTransport]) in
            let server = try AnyAddressServer()
            let engines = try ["93.184.216.34", "169.254.169.254"].map { address in
                try CurlTransport(
                    configuration: testConfiguration {
                        $0.blocksPrivateAddresses = true
                        $0.resolve = ["rebind.example.org:\(server.port)": address]
                    })
            }
            return (server, engines)
        }
        let request = HTTPRequest("GET", "http://rebind.example.org:\(server.port)/")
        #expect(try await engines[0].answer(to: request).text == "ok")
        #expect(try await engines[1].failure(of: request).kind == .addressBlocked(.metadata))
        #expect(server.acceptedConnections == 1)
        for engine in engines { await engine.shutdown() }
    }
}
