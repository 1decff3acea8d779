import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Unusable TLS settings fail when the engine is made, with a message that says what is wrong.
@Suite(.needsOpenSSL)
struct TLSConfigurationTests {
    private func failure(_ change: (inout TLSConfiguration) -> Void) throws -> NetworkError {
        let configuration = testConfiguration { change(&$0.tls) }
        let error = #expect(throws: NetworkError.self) { _ = try CurlTransport(configuration: configuration) }
        let found = try #require(error)
        #expect(found.kind == .invalidRequest)
        return found
    }

    @Test func errorNamesUnusableFile() throws {
        let certificates = try #require(TestCertificates.shared)
        let directory = try TemporaryDirectory()
        let text = try directory.write(Data("hello".utf8), to: "text.pem")
        let empty = try directory.write(Data(), to: "empty")
        var broken = try Data(contentsOf: URL(filePath: certificates.authority))
        broken.replaceSubrange(200..<240, with: Data(repeating: 0x21, count: 40))
        let brokenPath = try directory.write(broken, to: "broken.pem")
        let whole = try Data(contentsOf: URL(filePath: certificates.authority))
        let half = try directory.write(whole.prefix(whole.count / 2), to: "half.pem")
        // Cut within the second of two certificates.
        let cut = try directory.write(whole + whole.prefix(whole.count / 2), to: "cut.pem")
        let rubbish = try directory.write(Data((0..<4096).map { UInt8(truncatingIfNeeded: $0 &* 167) }), to: "rubbish")
        // A pipe without a writer: a reader would block.
        let pipe = directory.path(of: "pipe")
        try #require(mkfifo(pipe, 0o600) == 0)
        for path in [
            "/no/such/file", directory.path, text, empty, brokenPath, half, cut, rubbish, pipe, "/dev/null",
            "/dev/zero", "",
        ] {
            func isNamed(by error: NetworkError) -> Bool { path.isEmpty || error.message.contains(path) }
            #expect(try isNamed(by: failure { $0.caFile = path }))
            let certificate = try failure {
                $0.clientCertificate = .pem(certificate: path, key: certificates.path("client.key"))
            }
            #expect(isNamed(by: certificate))
            let key = try failure {
                $0.clientCertificate = .pem(certificate: certificates.path("client.crt"), key: path)
            }
            #expect(isNamed(by: key))
            #expect(
                try failure { $0.clientCertificate = .pkcs12(path: path, password: "x") }.message.contains(
                    "\"\(path)\""))
        }
        #expect(try failure { $0.caData = Data() }.message.contains("tls.caData"))
        #expect(try failure { $0.caData = Data("hello".utf8) }.message.contains("tls.caData"))
        #expect(try failure { $0.caData = broken }.message.contains("malformed"))
        #expect(try failure { $0.caData = whole.prefix(whole.count / 2) }.message.contains("malformed"))
        #expect(try failure { $0.caFile = cut }.message.contains("after 1 good"))
        #expect(try failure { $0.caFile = pipe }.message.contains("not a regular file"))
    }

    @Test func passwordErrorsAreDistinguished() throws {
        let certificates = try #require(TestCertificates.shared)
        func pem(_ key: String, _ password: String?) throws -> String {
            try failure {
                $0.clientCertificate = .pem(
                    certificate: certificates.path("client.crt"), key: certificates.path(key), password: password)
            }.message
        }
        #expect(try pem("client-locked.key", nil).contains("give its password"))
        #expect(try pem("client-locked.key", "wrong").contains("does not decrypt"))
        #expect(try pem("server.key", nil).contains("do not belong together"))
        for password in ["wrong", ""] {
            let message = try failure {
                $0.clientCertificate = .pkcs12(path: certificates.path("client.p12"), password: password)
            }.message
            #expect(message.contains("does not open"))
            #expect(!message.contains("wrong"))
        }
    }

    @Test(.enabled(if: TestCertificates.hasOldArchive, "this openssl writes no archives with old ciphers"))
    func oldArchiveErrorSuggestsNewExport() throws {
        let certificates = try #require(TestCertificates.shared)
        let old = try failure {
            $0.clientCertificate = .pkcs12(path: certificates.path("client-old.p12"), password: "secret")
        }
        #expect(old.message.contains("export it again"))
    }

    @Test(arguments: [
        ["a.example": ["sha256//short"]], ["a.example": ["sha256//not base64 at all, but of the right length!"]],
        ["a.example": ["sha256//AAAA"]], ["a.example": ["sha1//2jmj7l5rSw0yVb/vlWAYkK/YBwk="]], ["a.example": [""]],
        ["a.example": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFUAAAA="]], ["a.example": ["/etc/passwd"]],
        ["a.example": []],
        ["https://a.example": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]],
        ["a.example:443": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]],
        ["": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]],
        ["a.*.example": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]],
        ["a.example": ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;/etc/passwd"]],
    ])
    func invalidPinIsRefused(_ pins: [String: [String]]) throws {
        #expect(try failure { $0.pins = pins }.message.contains("tls.pins"))
    }

    @Test func unknownVersionsAndCiphersAreRefused() throws {
        let versions = try failure {
            $0.minimumVersion = .v1_3
            $0.maximumVersion = .v1_2
        }
        #expect(versions.message.contains("tls.maximumVersion"))
        for list in ["NO-SUCH-CIPHER", ""] {
            #expect(try failure { $0.cipherList = list }.message.contains("tls.cipherList"))
            #expect(try failure { $0.cipherSuites = list }.message.contains("tls.cipherSuites"))
        }
        _ = try CurlTransport(
            configuration: testConfiguration {
                $0.tls.cipherList = "ECDHE+AESGCM:!aNULL"
                $0.tls.cipherSuites = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
            })
    }

    @Test func descriptionHidesThePassword() {
        let certificates: [ClientCertificate] = [
            .pkcs12(path: "id.p12", password: "hunter2"), .pem(certificate: "c", key: "k", password: "hunter2"),
        ]
        for certificate in certificates {
            #expect(!"\(certificate)".contains("hunter2"))
            #expect(!String(reflecting: certificate).contains("hunter2"))
        }
    }
}
