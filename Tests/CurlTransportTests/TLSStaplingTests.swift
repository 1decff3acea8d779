import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// `tls.requiresOCSPStapling`, against `openssl s_server` with stapled OCSP responses.
@Suite(.needsOpenSSL)
struct TLSStaplingTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    private var configuration: EngineConfiguration {
        testConfiguration {
            $0.tls.caFile = certificates.authority
            $0.tls.requiresOCSPStapling = true
        }
    }

    private func server(_ answer: String, _ version: String = "-tls1_3") async throws -> TLSServer {
        try await TLSServer(
            "server",
            [version, "-cert_chain", certificates.authority, "-status_file", certificates.path("\(answer).ocsp")])
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func goodStatusIsAcceptedOnEveryConnection(version: String) async throws {
        let server = try await server("good", version)
        try await withTransport(configuration) { transport async throws in
            // A resumed session would carry no OCSP response.
            for _ in 0..<3 { #expect(try await transport.get(server.url()).status == 200) }
        }
    }

    @Test func missingStatusFails() async throws {
        let server = try await TLSServer()
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .tls(.certificateStatus))
            #expect(error.message.contains("tls.requiresOCSPStapling"), "\(error.message)")
        }
        // Without the setting the same server is accepted.
        try await withTransport(testConfiguration { $0.tls.caFile = certificates.authority }) {
            transport async throws in
            #expect(try await transport.get(server.url()).status == 200)
        }
    }

    @Test func revokedCertificateFails() async throws {
        let server = try await server("revoked")
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .tls(.revoked))
            #expect(error.message.contains("revoked"), "\(error.message)")
        }
    }

    @Test func statusSignedByAnotherAuthorityFails() async throws {
        let server = try await server("forged")
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .tls(.certificateStatus))
        }
    }

    @Test func settingRequiresVerification() throws {
        var configuration = configuration
        configuration.tls.disableCertificateVerification()
        let error = #expect(throws: NetworkError.self) { _ = try CurlTransport(configuration: configuration) }
        #expect(error?.kind == .invalidRequest)
        #expect(error?.message.contains("tls.requiresOCSPStapling") == true)
    }
}
