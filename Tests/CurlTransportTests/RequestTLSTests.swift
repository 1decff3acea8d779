import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Testing

/// Requests with TLS settings of their own.
@Suite(.enabled(if: TestCertificates.shared != nil, "needs openssl; scripts/setup --tests installs it"))
struct RequestTLSTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    private func request(_ url: String, _ tls: HTTPRequest.TLS?) -> HTTPRequest {
        HTTPRequest("GET", url).with { $0.tls = tls }
    }

    private var trusting: HTTPRequest.TLS { HTTPRequest.TLS(caFile: certificates.authority) }

    @Test func authoritiesOfARequestCountForIt() async throws {
        let server = try await TLSServer()
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.path("other.pem") }) {
            transport async throws in
            for _ in 0..<3 {
                #expect(try await transport.send(request(server.url(), trusting)).status == 200)
                #expect(try await transport.failure(of: request(server.url(), nil)).kind == .tls(.untrusted))
                // Nothing set is the same as no settings.
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

    @Test func changedFileOfARequestCountsForLaterConnections() async throws {
        let server = try await TLSServer()
        let directory = try TemporaryDirectory()
        let ours = try Data(contentsOf: URL(filePath: certificates.authority))
        let path = try directory.write(Data(contentsOf: URL(filePath: certificates.path("other.pem"))), to: "ca.pem")
        try await withTransport { transport async throws in
            let request = request(server.url(), HTTPRequest.TLS(caFile: path))
            #expect(try await transport.failure(of: request).kind == .tls(.untrusted))
            _ = try directory.write(ours, to: "ca.pem")
            try await within(.seconds(20), "the change to count") {
                while (try? await transport.send(request))?.status != 200 {}
            }
        }
    }

    @Test(.enabled(if: Servers.nginxTLS != nil && Servers.authority != nil, "nginx is not running"))
    func connectionIsReusedWithEqualSettingsOnly() async throws {
        let url = try #require(Servers.nginxTLS) + "/empty.bin"
        let authority = try #require(Servers.authority)
        let directory = try TemporaryDirectory()
        let copy = try directory.write(try Data(contentsOf: URL(filePath: authority)), to: "ca.pem")
        try await withTransport(testConfiguration { $0.tls.caFile = authority }) { transport async throws in
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
            // A server that the request does not trust gets no connection, though some are open.
            let other = HTTPRequest.TLS(caFile: certificates.path("other.pem"))
            #expect(try await transport.failure(of: request(url, other)).kind == .tls(.untrusted))
            #expect(try await isReused(nil))
        }
    }
}
