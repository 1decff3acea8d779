import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// TLS secrets are written only to the file that the app chooses.
@Suite(.needsOpenSSL)
struct TLSKeyLogTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    @Test(arguments: [("-tls1_2", "CLIENT_RANDOM "), ("-tls1_3", "CLIENT_HANDSHAKE_TRAFFIC_SECRET ")])
    func fileGetsSecretsAndIsPrivate(version: String, label: String) async throws {
        let server = try await TLSServer("server", [version])
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "keys.log")
        let warnings = Box<[String]>([])
        let configuration = testConfiguration {
            $0.tls.caFile = certificates.authority
            $0.tls.keyLog = .file(path: path)
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        for round in 1...2 {
            try await withTransport(configuration) { transport async throws in
                #expect(try await transport.get(server.url()).status == 200)
            }
            // The second connection appends its lines.
            let lines = String(decoding: directory.read("keys.log") ?? Data(), as: UTF8.self).split(separator: "\n")
            #expect(lines.count { $0.hasPrefix(label) } == round)
        }
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
        #expect(warnings.value.count == 2)
        #expect(warnings.value.allSatisfy { $0.contains(path) })
    }

    @Test func environmentIsUsedOnlyWhenConfigured() async {
        await #expect(processExitsWith: .success) {
            let directory = try TemporaryDirectory()
            let path = directory.path(of: "keys.log")
            // libcurl reads the variable when it is initialized.
            setenv("SSLKEYLOGFILE", path, 1)
            let certificates = try #require(TestCertificates.shared)
            let server = try await TLSServer()
            for (keyLog, isWritten) in [(TLSConfiguration.KeyLog.off, false), (.environment, true)] {
                let configuration = testConfiguration {
                    $0.tls.caFile = certificates.authority
                    $0.tls.keyLog = keyLog
                    $0.warningHandler = { _ in }
                }
                try await withTransport(configuration) { transport async throws in
                    #expect(try await transport.get(server.url()).status == 200)
                }
                #expect((directory.read("keys.log") ?? Data()).isEmpty != isWritten)
            }
        }
    }

    @Test func unsetEnvironmentCausesNoWarning() async {
        await #expect(processExitsWith: .success) {
            unsetenv("SSLKEYLOGFILE")
            let configuration = testConfiguration {
                $0.tls.keyLog = .environment
                $0.warningHandler = { Issue.record("\($0)") }
            }
            _ = try CurlTransport(configuration: configuration)
        }
    }

    @Test func errorNamesUnwritableFile() throws {
        let directory = try TemporaryDirectory()
        let pipe = directory.path(of: "pipe")
        try #require(mkfifo(pipe, 0o600) == 0)
        for path in [directory.path, pipe, "/no/such/folder/keys.log", "/dev/null/keys.log"] {
            let configuration = testConfiguration { $0.tls.keyLog = .file(path: path) }
            let error = #expect(throws: NetworkError.self) { _ = try CurlTransport(configuration: configuration) }
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.contains("tls.keyLog \"\(path)\"") == true, "\(error?.message ?? "")")
        }
    }
}
