import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Requests with TLS settings of their own.
@Suite(.needsOpenSSL)
struct RequestTLSTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    private func request(_ url: String, _ tls: HTTPRequest.TLS?) -> HTTPRequest {
        HTTPRequest("GET", url).with { $0.tls = tls ?? HTTPRequest.TLS() }
    }

    private var trusting: HTTPRequest.TLS { HTTPRequest.TLS(caFile: certificates.authority) }

    @Test func authoritiesOfARequestCountForIt() async throws {
        let server = try await TLSServer()
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.path("other.pem") }) {
            transport async throws in
            for _ in 0..<3 {
                #expect(try await transport.send(request(server.url(), trusting)).status == 200)
                #expect(try await transport.failure(of: request(server.url(), nil)).kind == .tls(.untrusted))
                // Empty settings are the same as none.
                #expect(
                    try await transport.failure(of: request(server.url(), HTTPRequest.TLS())).kind == .tls(.untrusted))
            }
        }
    }

    @Test func sessionIsResumedWithEqualSettingsOnly() async throws {
        let server = try await TLSServer()
        let copy = try TemporaryDirectory()
        let path = try copy.write(try Data(contentsOf: URL(filePath: certificates.authority)), to: "ca.pem")
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            func isResumed(_ tls: HTTPRequest.TLS?) async throws -> Bool {
                let text = try await transport.send(request(server.url(), tls)).text ?? ""
                #expect(text.contains("Reused, TLSv1") || text.contains("New, TLSv1"), "\(text)")
                return text.contains("Reused, TLSv1")
            }
            let all = [nil, HTTPRequest.TLS(caFile: path), HTTPRequest.TLS(minimumVersion: .v1_3)]
            for tls in all { #expect(try await !isResumed(tls)) }
            for tls in all + all { #expect(try await isResumed(tls)) }
        }
    }

    @Test func clientCertificateOfARequestIsSentWithItAlone() async throws {
        let server = try await TLSServer(
            "server", ["-Verify", "1", "-verify_return_error", "-CAfile", certificates.authority])
        let identities: [ClientCertificate] = [
            .pkcs12(path: certificates.path("client.p12"), password: "secret"),
            .pem(
                certificate: certificates.path("client.crt"), key: certificates.path("client-locked.key"),
                password: "secret"),
        ]
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            for identity in identities + identities {
                let tls = HTTPRequest.TLS(clientCertificate: identity)
                #expect(try await transport.send(request(server.url(), tls)).status == 200)
                #expect(try await transport.failure(of: request(server.url(), nil)).kind == .tls(.clientCertificate))
            }
        }
    }

    @Test func oldestVersionOfARequestCountsForIt() async throws {
        let server = try await TLSServer("server", ["-tls1_2"])
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            for _ in 0..<2 {
                let strict = request(server.url(), HTTPRequest.TLS(minimumVersion: .v1_3))
                #expect(try await transport.failure(of: strict).kind == .tls(.protocolVersion))
                #expect(try await transport.get(server.url()).status == 200)
            }
        }
    }

    /// Each error names the setting and the file, and nothing is sent.
    @Test func unusableFilesFailTheRequest() async throws {
        let cases: [(HTTPRequest.TLS, String)] = [
            (HTTPRequest.TLS(caFile: "/no/such/ca.pem"), "tls.caFile \"/no/such/ca.pem\" cannot be read"),
            (HTTPRequest.TLS(caFile: certificates.path("server.key")), "holds no certificate in PEM"),
            (
                HTTPRequest.TLS(clientCertificate: .pkcs12(path: certificates.path("client.p12"), password: "wrong")),
                "client.p12\" does not open with the password"
            ),
            (
                HTTPRequest.TLS(
                    clientCertificate: .pkcs12(path: certificates.path("client-nomac.p12"), password: "wrong")),
                "client-nomac.p12\" does not open with the password, or"
            ),
            (
                HTTPRequest.TLS(
                    clientCertificate: .pem(
                        certificate: certificates.path("client.crt"), key: certificates.path("client-locked.key"))),
                "give its password"
            ),
        ]
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            for (tls, text) in cases {
                let error = try await transport.failure(of: request("https://localhost:9/", tls))
                #expect(error.kind == .invalidRequest)
                #expect(error.message.contains(text), "\(error.message)")
                #expect(!error.message.contains("wrong"))
            }
            let plain = try await transport.failure(of: request("http://127.0.0.1:9/", cases[0].0))
            #expect(plain.kind == .connect, "without TLS the files are not needed")
        }
    }

    @Test func changedAuthorityAppliesToLaterConnections() async throws {
        let server = try await TLSServer()
        let directory = try TemporaryDirectory()
        let ours = try Data(contentsOf: URL(filePath: certificates.authority))
        let path = try directory.write(Data(contentsOf: URL(filePath: certificates.path("other.pem"))), to: "ca.pem")
        try await withTransport { transport async throws in
            let request = request(server.url(), HTTPRequest.TLS(caFile: path))
            #expect(try await transport.failure(of: request).kind == .tls(.untrusted))
            _ = try directory.write(ours, to: "ca.pem")
            #expect(try await transport.send(request).status == 200)
        }
    }

    /// The name in the certificate that a client showed, as `openssl s_server -www` prints it.
    private func client(_ response: HTTPResponse) -> String? {
        response.text?.split(separator: "\n").first { $0.contains("Subject:") && $0.contains("CN") }?
            .split(whereSeparator: { $0 == "=" || $0 == " " }).last.map(String.init)
    }

    /// A certificate that was renewed under the same path is sent by every connection that is opened afterwards.
    @Test(arguments: [true, false]) func changedClientCertificateIsSent(isOfManager: Bool) async throws {
        let certificates = certificates
        let server = try await TLSServer(
            "server", ["-Verify", "1", "-verify_return_error", "-CAfile", certificates.authority])
        let directory = try TemporaryDirectory()
        @Sendable func write(_ name: String) throws {
            for end in ["crt", "key"] {
                _ = try directory.write(
                    Data(contentsOf: URL(filePath: certificates.path("\(name).\(end)"))), to: "id.\(end)")
            }
        }
        try write("client")
        let identity = ClientCertificate.pem(
            certificate: directory.path(of: "id.crt"), key: directory.path(of: "id.key"))
        let warnings = Box<[String]>([])
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            if isOfManager { $0.tls.clientCertificate = identity }
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        let all =
            isOfManager
            ? [nil, HTTPRequest.TLS(minimumVersion: .v1_3)] : [HTTPRequest.TLS(clientCertificate: identity)]
        try await withTransport(configuration) { transport async throws in
            for name in ["client", "server", "client"] {
                try write(name)
                for tls in all + all {
                    #expect(client(try await transport.send(request(server.url(), tls))) == name)
                }
            }
            #expect(warnings.value == [])
            // A file that has become unusable changes nothing.
            _ = try directory.write(Data("junk".utf8), to: "id.crt")
            for tls in all + all {
                #expect(client(try await transport.send(request(server.url(), tls))) == "client")
            }
            #expect(warnings.value.count == 1, "\(warnings.value)")
            #expect(
                warnings.value.first?.hasSuffix("the client certificate that was read before remains in use") == true)
            try write("server")
            #expect(client(try await transport.send(request(server.url(), all[0]))) == "server")
        }
    }

    /// The TLS settings of a request are for its server. The proxy is verified as the manager says.
    @Test(.needs("squid")) func proxyKeepsTheManagersSettings() async throws {
        let reserved = try ReservedPort()
        let (tlsPort, certificates) = (reserved.port, certificates)
        let proxy = try await RealProxy.squid { directory in
            let path = try directory.write(
                try Data(contentsOf: URL(filePath: certificates.server)), to: "server.pem")
            chmod(path, 0o644)
            return "https_port 127.0.0.1:\(tlsPort) tls-cert=\(path)\n"
                + "acl local src 127.0.0.1\nhttp_access allow local"
        }
        try await proxy.awaitListener(on: tlsPort)
        let (stranger, known) = (try await TLSServer("stranger"), try await TLSServer())
        let other = HTTPRequest.TLS(caFile: certificates.path("other.pem"), minimumVersion: .v1_3)
        func configuration(_ authority: String) -> EngineConfiguration {
            testConfiguration {
                $0.proxy = .url("https://localhost:\(tlsPort)")
                $0.tls.caFile = certificates.path(authority)
            }
        }
        try await withTransport(configuration("ca.pem")) { transport async throws in
            for _ in 0..<2 {
                // The manager's authority signed the proxy's certificate, and the request's authority the stranger's.
                #expect(try await transport.send(request(stranger.url(), other)).status == 200)
                #expect(try await transport.send(request(known.url(), nil)).status == 200)
                for (url, tls) in [(stranger.url(), nil), (known.url(), other)] {
                    let error = try await transport.failure(of: request(url, tls))
                    // Inside a TLS proxy's tunnel libcurl 7.88 says only that the handshake failed.
                    #expect([.tls(.untrusted), .tls(.handshake)].contains(error.kind), "\(error)")
                }
            }
        }
        try await withTransport(configuration("other.pem")) { transport async throws in
            #expect(try await transport.failure(of: request(known.url(), trusting)).kind == .proxy)
        }
        var unverified = configuration("other.pem")
        unverified.tls.disableCertificateVerification()
        unverified.warningHandler = { _ in }
        try await withTransport(unverified) { transport async throws in
            #expect(try await transport.send(request(known.url(), nil)).status == 200)
        }
    }

    @Test(.needsNginx)
    func connectionIsReusedWithEqualSettingsOnly() async throws {
        let url = try #require(Servers.nginxTLS) + "/empty.bin"
        let authority = try #require(Servers.authority)
        let directory = try TemporaryDirectory()
        let copy = try directory.write(try Data(contentsOf: URL(filePath: authority)), to: "ca.pem")
        let configuration = testConfiguration {
            $0.tls.caFile = authority
            // Enough for a connection with each of the settings.
            $0.maxConnectionsPerHost = 16
        }
        try await withTransport(configuration) { transport async throws in
            func isReused(_ tls: HTTPRequest.TLS?) async throws -> Bool {
                let response = try await transport.send(request(url, tls))
                #expect(response.status == 200)
                return response.timings.connectionReused
            }
            let all: [HTTPRequest.TLS?] = [
                nil, HTTPRequest.TLS(caFile: copy),
                HTTPRequest.TLS(
                    clientCertificate: .pem(
                        certificate: certificates.path("client.crt"), key: certificates.path("client.key"))),
            ]
            for tls in all { #expect(try await !isReused(tls), "\(tls.debugDescription)") }
            for tls in all + all.reversed() { #expect(try await isReused(tls), "\(tls.debugDescription)") }
            // A renewed certificate opens a connection of its own.
            _ = try directory.write(try Data(contentsOf: URL(filePath: certificates.path("client.crt"))), to: "id.crt")
            let renewed = HTTPRequest.TLS(
                clientCertificate: .pem(certificate: directory.path(of: "id.crt"), key: certificates.path("client.key"))
            )
            for isFirst in [true, false] { #expect(try await isReused(renewed) != isFirst) }
            _ = try directory.write(
                try Data(contentsOf: URL(filePath: certificates.path("client.crt"))) + Data("\n".utf8), to: "id.crt")
            for isFirst in [true, false] { #expect(try await isReused(renewed) != isFirst) }
            // A request that does not trust the server fails, although connections to the server are open.
            let other = HTTPRequest.TLS(caFile: certificates.path("other.pem"))
            #expect(try await transport.failure(of: request(url, other)).kind == .tls(.untrusted))
            #expect(try await isReused(nil))
        }
    }
}
