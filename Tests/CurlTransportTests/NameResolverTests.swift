import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite(.needsOpenSSL, .needsPython) struct NameResolverTests {
    private func configuration(
        _ resolver: String, _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) throws -> EngineConfiguration {
        let authority = try #require(TestCertificates.shared).authority
        return testConfiguration {
            $0.tls.caFile = authority
            $0.nameResolver = .https(resolver)
            change(&$0)
        }
    }

    @Test(arguments: ["dns.example.org", "DNS.Example.org", "*.example.org"])
    func pinOfTheResolversHostIsRefused(host: String) {
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(
                configuration: testConfiguration {
                    $0.nameResolver = .https("https://dns.example.org/dns-query")
                    $0.tls.pins = [host: ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]]
                })
        }
        #expect(error?.kind == .unsupported && error?.message.contains("dns.example.org") == true)
    }

    /// libcurl does not pass the version on to the connections of the resolver.
    @Test func minimumVersionHoldsForTheResolver() async throws {
        let resolver = try await DoHServer(speaksTLS1_3: false)
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let request = HTTPRequest("GET", "http://shop.example:\(server.port)/")
        try await withTransport(try configuration(resolver.url())) { transport async throws in
            #expect(try await transport.answer(to: request).status == 200)
        }
        let strict = try configuration(resolver.url()) { $0.tls.minimumVersion = .v1_3 }
        try await withTransport(strict) { transport async throws in
            #expect(try await transport.failure(of: request).kind == .dns)
        }
        #expect(resolver.questions == ["shop.example"])
    }

    @Test func namesAreLookedUpOverHTTPS() async throws {
        let resolver = try await DoHServer()
        let server = try MockServer()
        server.fallback { .text($0.headers["Host"] ?? "-") }
        try await withTransport(try configuration(resolver.url())) { transport async throws in
            for _ in 0..<3 {
                let answer = try await transport.get("http://shop.example:\(server.port)/")
                #expect(answer.text == "shop.example:\(server.port)")
            }
            // A request that resets its handle uses the same resolver.
            let post = HTTPRequest(
                "POST", "http://other.example:\(server.port)/", body: .stream { AsyncStream { $0.finish() } })
            #expect(try await transport.answer(to: post).status == 200)
            #expect(try await transport.get("http://next.example:\(server.port)/").status == 200)
            #expect(resolver.questions == ["shop.example", "other.example", "next.example"])
        }
    }

    @Test func httpsHostIsLookedUpOverHTTPS() async throws {
        let resolver = try await DoHServer()
        let server = try await TLSServer()
        try await withTransport(try configuration(resolver.url())) { transport async throws in
            #expect(try await transport.get(server.url("a.example.org")).status == 200)
            #expect(resolver.questions == ["a.example.org"])
        }
    }

    @Test func lookUpsOverHTTPSRunConcurrently() async throws {
        let resolver = try await DoHServer()
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(try configuration(resolver.url())) { transport async throws in
            try await within {
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for index in 0..<20 {
                        group.addTask { try await transport.get("http://h\(index).example:\(server.port)/").status }
                    }
                    for try await status in group { #expect(status == 200) }
                }
            }
            #expect(Set(resolver.questions).count == 20)
        }
    }

    @Test func privateAddressFromDoHIsBlocked() async throws {
        let resolver = try await DoHServer(address: "10.1.2.3")
        let configuration = try configuration(resolver.url()) { $0.blocksPrivateAddresses = true }
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://shop.example/"))
            #expect(error.kind == .addressBlocked(.privateUse), "\(error)")
            #expect(resolver.questions == ["shop.example"])
        }
    }

    @Test func hangingDoHServerTimesOut() async throws {
        let resolver = try await DoHServer()
        let configuration = try configuration(resolver.url("/hang")) { $0.connectTimeout = .milliseconds(700) }
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://shop.example/"))
            #expect(error.kind == .timeout(.connect), "\(error)")
            #expect(error.message.contains(resolver.url("/hang")), "\(error)")
            #expect(error.message.contains("700 ms"), "\(error)")
        }
    }

    @Test(arguments: ["/html", "/garbage", "/none"])
    func errorNamesInvalidDoHServer(path: String) async throws {
        let resolver = try await DoHServer()
        try await withTransport(try configuration(resolver.url(path))) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://shop.example/"))
            #expect(error.kind == .dns, "\(error)")
            #expect(error.message.contains(resolver.url(path)), "\(error)")
        }
    }

    @Test func errorNamesUnreachableDoHServer() async throws {
        let closed = try ClosedPort()
        let url = "https://localhost:\(closed.port)/dns-query"
        try await withTransport(try configuration(url)) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://shop.example/"))
            #expect(error.kind == .dns, "\(error)")
            #expect(error.message.contains(url), "\(error)")
        }
    }

    @Test(arguments: ["stranger", "elsewhere"])
    func untrustedDoHServerIsNotUsed(certificate: String) async throws {
        let resolver = try await DoHServer(certificate)
        try await withTransport(try configuration(resolver.url())) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", "http://shop.example/"))
            #expect(error.kind == .dns, "\(error)")
            #expect(resolver.questions.isEmpty)
        }
    }

    @Test func unverifiedManagerUsesAnyDoHServer() async throws {
        let resolver = try await DoHServer("stranger")
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        let configuration = testConfiguration {
            $0.nameResolver = .https(resolver.url())
            $0.tls.disableCertificateVerification()
            $0.warningHandler = { _ in }
        }
        try await withTransport(configuration) { transport async throws in
            #expect(try await transport.get("http://shop.example:\(server.port)/").status == 200)
        }
    }

    @Test(arguments: ["http://dns.example/", "dns.example", "", "https://", "ftp://dns.example/"])
    func resolverMustBeAnHTTPSURL(url: String) throws {
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.nameResolver = .https(url) })
        }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("nameResolver") == true)
    }

    @Test(arguments: [[], ["dns.example"], ["9.9.9.9", "x"], ["9.9.9.9:0"], ["9.9.9.9:99999"], ["[::1]53"]])
    func dnsServerMustBeAnAddress(servers: [String]) throws {
        let error = #expect(throws: NetworkError.self) {
            try CurlTransport(configuration: testConfiguration { $0.nameResolver = .servers(servers) })
        }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("nameResolver") == true)
    }

    @Test(arguments: ["9.9.9.9", "192.0.2.1:5353", "[2620:fe::fe]:53", "2620:fe::fe"])
    func dnsServersRequireCAres(server: String) async throws {
        let configuration = testConfiguration { $0.nameResolver = .servers([server]) }
        if LibcurlInfo.current.features.contains("DNS servers") {
            try await withTransport(configuration) { _ in }
        } else {
            let error = #expect(throws: NetworkError.self) { try CurlTransport(configuration: configuration) }
            #expect(error?.kind == .unsupported)
            #expect(error?.message.contains("c-ares") == true)
        }
    }
}
