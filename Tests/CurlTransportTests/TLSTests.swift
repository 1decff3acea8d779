import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Generated certificates and servers of `openssl s_server`: each fault has its own error.
@Suite(.needsOpenSSL, .serialized)
struct TLSTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    private func configuration(
        _ change: (inout TLSConfiguration) -> Void = { _ in }
    ) -> EngineConfiguration {
        testConfiguration {
            $0.tls.caFile = certificates.authority
            change(&$0.tls)
        }
    }

    private func status(of url: String, _ configuration: EngineConfiguration) async throws -> Int {
        let status = Box(0)
        try await withTransport(configuration) { transport async throws in
            let answer = try await transport.get(url).status
            status.change { $0 = answer }
        }
        return status.value
    }

    private func kind(of url: String, _ configuration: EngineConfiguration) async throws -> NetworkError {
        let result = Box<NetworkError?>(nil)
        try await withTransport(configuration) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", url))
            result.change { $0 = error }
        }
        return try #require(result.value)
    }

    @Test func validCertificateIsAccepted() async throws {
        let server = try await TLSServer()
        #expect(try await status(of: server.url(), configuration()) == 200)
        #expect(try await status(of: server.url("127.0.0.1"), configuration()) == 200)
    }

    @Test func authoritiesInMemoryAreTrusted() async throws {
        let server = try await TLSServer()
        let stranger = try await TLSServer("stranger")
        let pem = try Data(contentsOf: URL(filePath: certificates.authority))
        let other = try Data(contentsOf: URL(filePath: certificates.path("other.pem")))
        let inMemory = testConfiguration { $0.tls.caData = pem }
        #expect(try await status(of: server.url(), inMemory) == 200)
        #expect(try await kind(of: stranger.url(), inMemory).kind == .tls(.untrusted))
        // With both set, each is trusted.
        let both = configuration { $0.caData = other }
        #expect(try await status(of: server.url(), both) == 200)
        #expect(try await status(of: stranger.url(), both) == 200)
    }

    @Test(arguments: [
        ("expired", NetworkError.TLSFailure.expired), ("future", .notYetValid), ("elsewhere", .wrongHost),
        ("stranger", .untrusted), ("alone", .selfSigned),
    ])
    func invalidCertificateFailsWithItsReason(_ certificate: String, _ reason: NetworkError.TLSFailure) async throws {
        let server = try await TLSServer(certificate)
        let error = try await kind(of: server.url(), configuration())
        #expect(error.kind == .tls(reason))
        #expect(error.message.contains("localhost"))
        // Without verification the same server is accepted.
        let open = configuration { $0.disableCertificateVerification() }
        let quiet = open.with { $0.warningHandler = { _ in } }
        #expect(try await status(of: server.url(), quiet) == 200)
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func errorSaysWhatTheCertificateSays(version: String) async throws {
        for (certificate, facts) in [
            ("expired", ["expired on Fri, 01 Jan 2021 00:00:00 GMT"]),
            ("future", ["not valid before Wed, 01 Jan 2098 00:00:00 GMT", "clock"]),
            ("elsewhere", ["is for elsewhere.example.org, not for localhost", "use a host"]),
            ("stranger", ["issued by CN = Test other", "tls.caFile"]), ("alone", ["self-signed by CN = localhost"]),
        ] {
            let server = try await TLSServer(certificate, [version])
            let error = try await kind(of: server.url(), configuration())
            for fact in facts { #expect(error.message.contains(fact), "\(error)") }
        }
        let server = try await TLSServer("server", [version])
        let pinned = configuration { $0.pins = ["localhost": ["sha256//" + Data(count: 32).base64EncodedString()]] }
        let error = try await kind(of: server.url(), pinned)
        #expect(error.message.contains(certificates.pin), "\(error)")
    }

    @Test func reusedHandleReportsEachFault() async throws {
        let expired = try await TLSServer("expired")
        let elsewhere = try await TLSServer("elsewhere")
        let good = try await TLSServer()
        try await withTransport(configuration()) { transport async throws in
            for _ in 0..<2 {
                #expect(try await transport.failure(of: HTTPRequest("GET", expired.url())).kind == .tls(.expired))
                #expect(try await transport.failure(of: HTTPRequest("GET", elsewhere.url())).kind == .tls(.wrongHost))
                #expect(try await transport.get(good.url()).status == 200)
            }
        }
    }

    @Test func configuredSelfSignedCertificateIsTrusted() async throws {
        let server = try await TLSServer("alone")
        let configuration = testConfiguration { $0.tls.caFile = certificates.path("alone.crt") }
        #expect(try await status(of: server.url(), configuration) == 200)
    }

    // MARK: Pins

    @Test func pinsRestrictTheTrustedKeys() async throws {
        let server = try await TLSServer()
        let wrong = "sha256//" + Data(repeating: 7, count: 32).base64EncodedString()
        let pin = certificates.pin
        #expect(pin.count > 40)
        for (pins, isRight) in [
            (["localhost": [pin]], true), (["LOCALHOST": [wrong, pin]], true), (["localhost": [wrong]], false),
            (["other.example": [wrong]], true), (["*.localhost": [wrong]], true),
        ] {
            let configuration = configuration { $0.pins = pins }
            if isRight {
                #expect(try await status(of: server.url(), configuration) == 200, "\(pins)")
            } else {
                #expect(try await kind(of: server.url(), configuration).kind == .tls(.pinMismatch))
            }
        }
    }

    @Test func wildcardPinMatchesOneLabel() async throws {
        let server = try await TLSServer()
        let wrong = "sha256//" + Data(repeating: 7, count: 32).base64EncodedString()
        var configuration = configuration {
            $0.pins = ["*.example.org": [wrong], "good.example.org": [certificates.pin]]
            $0.disableCertificateVerification()
        }
        configuration.warningHandler = { _ in }
        for host in ["bad.example.org", "good.example.org", "a.b.example.org", "example.org"] {
            configuration.resolve["\(host):\(server.port)"] = "127.0.0.1"
        }
        // Pins apply even though the certificate is not verified.
        #expect(try await kind(of: server.url("bad.example.org"), configuration).kind == .tls(.pinMismatch))
        for host in ["good.example.org", "a.b.example.org", "example.org", "GOOD.example.org"] {
            #expect(try await status(of: server.url(host), configuration) == 200, "\(host)")
        }
    }

    @Test func requestsPinsReplaceTheManagers() async throws {
        let server = try await TLSServer()
        let wrong = "sha256//" + Data(repeating: 7, count: 32).base64EncodedString()
        let right = certificates.pin
        try await withTransport(configuration { $0.pins = ["localhost": [wrong]] }) { transport async throws in
            let request = HTTPRequest("GET", server.url())
            #expect(try await transport.failure(of: request).kind == .tls(.pinMismatch))
            #expect(try await transport.answer(to: request.with { $0.tls.pins = [right] }).status == 200)
            #expect(try await transport.failure(of: request).kind == .tls(.pinMismatch))
            let file = request.with { $0.tls.pins = ["/etc/passwd"] }
            #expect(try await transport.failure(of: file).kind == .invalidRequest)
        }
    }

    /// libcurl refuses texts of more than 8 MB.
    @Test func refusedPinsSendNoLaterRequest() async throws {
        let server = try await TLSServer()
        let pins = (0..<200_000).map { number in
            "sha256//" + withUnsafeBytes(of: (number, number, number, number)) { Data($0).base64EncodedString() }
        }
        try await withTransport(configuration()) { transport async throws in
            let request = HTTPRequest("GET", server.url())
            let pinned = request.with { $0.tls.pins = pins }
            for _ in 0..<3 {
                let error = try await transport.failure(of: pinned)
                #expect(error.message.contains("CURLOPT_PINNEDPUBLICKEY"), "\(error)")
            }
            #expect(try await transport.answer(to: request).status == 200)
        }
    }

    @Test(.needsNginx)
    func pooledConnectionDoesNotBypassAPin() async throws {
        let url = try #require(Servers.nginxTLS) + "/1k.bin"
        let wrong = "sha256//" + Data(repeating: 7, count: 32).base64EncodedString()
        try await withTransport(testConfiguration { $0.tls.caFile = Servers.authority }) { transport async throws in
            #expect(try await transport.get(url).status == 200)
            let pinned = HTTPRequest("GET", url).with { $0.tls.pins = [wrong] }
            #expect(try await transport.failure(of: pinned).kind == .tls(.pinMismatch))
            #expect(try await transport.get(url).timings.connectionReused)
        }
    }

    // MARK: The client's certificate

    @Test(
        arguments: ["-tls1_2", "-tls1_3"], ["pkcs12", "open pkcs12", "no MAC", "no encryption", "pem", "locked pem"])
    func clientCertificateIsSentOnRequest(version: String, form: String) async throws {
        let server = try await TLSServer(
            "server", [version, "-Verify", "1", "-verify_return_error", "-CAfile", certificates.authority])
        let configuration = configuration {
            switch form {
            case "pkcs12": $0.clientCertificate = .pkcs12(path: certificates.path("client.p12"), password: "secret")
            case "open pkcs12": $0.clientCertificate = .pkcs12(path: certificates.path("client-open.p12"), password: "")
            case "no MAC":
                $0.clientCertificate = .pkcs12(path: certificates.path("client-nomac.p12"), password: "secret")
            case "no encryption":
                $0.clientCertificate = .pkcs12(path: certificates.path("client-plain.p12"), password: "")
            case "pem":
                $0.clientCertificate = .pem(
                    certificate: certificates.path("client.crt"), key: certificates.path("client.key"))
            default:
                $0.clientCertificate = .pem(
                    certificate: certificates.path("client.crt"), key: certificates.path("client-locked.key"),
                    password: "secret")
            }
        }
        #expect(try await status(of: server.url(), configuration) == 200)
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func missingClientCertificateFails(version: String) async throws {
        let server = try await TLSServer(
            "server", [version, "-Verify", "1", "-verify_return_error", "-CAfile", certificates.authority])
        #expect(try await kind(of: server.url(), configuration()).kind == .tls(.clientCertificate))
        let stranger = configuration {
            $0.clientCertificate = .pem(
                certificate: certificates.path("stranger.crt"), key: certificates.path("stranger.key"))
        }
        #expect(try await kind(of: server.url(), stranger).kind == .tls(.clientCertificate))
    }

    @Test func clientCertificateIsReadOnlyOnce() async throws {
        let server = try await TLSServer(
            "server", ["-Verify", "1", "-verify_return_error", "-CAfile", certificates.authority])
        let directory = try TemporaryDirectory()
        let path = try directory.write(
            try Data(contentsOf: URL(filePath: certificates.path("client.p12"))), to: "id.p12")
        let configuration = configuration { $0.clientCertificate = .pkcs12(path: path, password: "secret") }
        try await withTransport(configuration) { transport async throws in
            try directory.write(Data("gone".utf8), to: "id.p12")
            #expect(try await transport.get(server.url()).status == 200)
        }
    }

    // MARK: Versions, ciphers, sessions

    @Test func unsupportedVersionFails() async throws {
        let old = try await TLSServer("server", ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"])
        #expect(try await kind(of: old.url(), configuration()).kind == .tls(.protocolVersion))
        let today = try await TLSServer("server", ["-tls1_2"])
        #expect(try await status(of: today.url(), configuration()) == 200)
        let strict = configuration { $0.minimumVersion = .v1_3 }
        #expect(try await kind(of: today.url(), strict).kind == .tls(.protocolVersion))
        let tomorrow = try await TLSServer("server", ["-tls1_3"])
        #expect(try await status(of: tomorrow.url(), strict) == 200)
        #expect(
            try await kind(of: tomorrow.url(), configuration { $0.maximumVersion = .v1_2 }).kind
                == .tls(.protocolVersion))
    }

    @Test func configuredCiphersAreNegotiated() async throws {
        let old = try await TLSServer("server", ["-tls1_2"])
        let new = try await TLSServer("server", ["-tls1_3"])
        let configuration = configuration {
            $0.cipherList = "ECDHE-ECDSA-CHACHA20-POLY1305"
            $0.cipherSuites = "TLS_CHACHA20_POLY1305_SHA256"
        }
        try await withTransport(configuration) { transport async throws in
            // The page names the negotiated cipher.
            let first = try await transport.get(old.url()).text ?? ""
            #expect(first.contains("Cipher    : ECDHE-ECDSA-CHACHA20-POLY1305"), "\(first)")
            let second = try await transport.get(new.url()).text ?? ""
            #expect(second.contains("TLS_CHACHA20_POLY1305_SHA256"), "\(second)")
        }
        let other = try await TLSServer("server", ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"])
        #expect(try await kind(of: other.url(), configuration).kind == .tls(.protocolVersion))
    }

    @Test(arguments: [true, false])
    func sessionsAreResumedUnlessDisabled(isOn: Bool) async throws {
        let server = try await TLSServer("server", ["-tls1_2"])
        try await withTransport(configuration { $0.reusesSessions = isOn }) { transport async throws in
            let first = try await transport.get(server.url()).text ?? ""
            #expect(first.contains("New, TLSv1.2"), "\(first)")
            // s_server closes the connection after each page, so each request has a handshake.
            let second = try await transport.get(server.url()).text ?? ""
            #expect(second.contains(isOn ? "Reused, TLSv1.2" : "New, TLSv1.2"), "\(second)")
        }
    }

    @Test func plainHTTPServerFailsTheHandshake() async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        }
        let error = try await kind(of: "https://localhost:\(server.port)/", configuration())
        #expect(error.kind == .tls(.handshake))
        #expect(error.message.contains("plain http"), "\(error)")
    }

    @Test func disabledVerificationWarnsOnce() async throws {
        let warnings = Box<[String]>([])
        let server = try await TLSServer("stranger")
        let configuration = testConfiguration {
            $0.tls.disableCertificateVerification()
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<3 { #expect(try await transport.get(server.url()).status == 200) }
        }
        #expect(warnings.value.count == 1)
        #expect(warnings.value.first?.contains("not verified") == true)
    }
}

extension EngineConfiguration {
    /// The settings after a change, for one-line tests.
    func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }
}
