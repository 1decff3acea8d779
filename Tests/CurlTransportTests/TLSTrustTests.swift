@testable import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// Trusted certificates are parsed once, and a changed file is read again.
@Suite(.needsOpenSSL)
struct TLSTrustTests {
    private let certificates: TestCertificates

    init() throws { certificates = try #require(TestCertificates.shared) }

    private func pem(_ name: String) throws -> Data { try Data(contentsOf: URL(filePath: certificates.path(name))) }

    // MARK: Once

    @Test func fileIsReadOnceForTwentyConnections() async throws {
        let server = try await TLSServer()
        let directory = try TemporaryDirectory()
        let path = try directory.write(pem("ca.pem"), to: "ca.pem")
        let opens = try OpenCounter(path)
        // Without session resumption, each handshake verifies the server's certificate.
        let configuration = testConfiguration {
            $0.tls.caFile = path
            $0.tls.reusesSessions = false
        }
        try await withTransport(configuration) { transport async throws in
            for _ in 0..<20 {
                let answer = try await transport.get(server.url())
                #expect(answer.status == 200)
                #expect(!answer.timings.connectionReused)
            }
        }
        #expect(opens.count == 1)
    }

    @Test(arguments: ["memory and file", "memory", "system"])
    func connectionsShareParsedCertificates(source: String) throws {
        var configuration = TLSConfiguration()
        if source.contains("memory") { configuration.caData = try pem("ca.pem") }
        if source.contains("file") { configuration.caFile = certificates.path("other.pem") }
        let trust = try TrustStore(configuration) { Issue.record("\($0)") }
        let first = try #require(trust.storeForConnection())
        for _ in 0..<20 { #expect(trust.storeForConnection() === first) }
    }

    // MARK: Changes

    @Test func unusableChangeIsReportedOnce() throws {
        let directory = try TemporaryDirectory()
        var configuration = TLSConfiguration()
        let path = try directory.write(pem("ca.pem"), to: "ca.pem")
        configuration.caFile = path
        let warnings = Box(0)
        let trust = try TrustStore(configuration) { _ in warnings.change { $0 += 1 } }
        let first = trust.storeForConnection()
        // A folder in its place cannot be read, not even by root.
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        for _ in 0..<3 { #expect(trust.storeForConnection() === first) }
        #expect(warnings.value == 1)
        try FileManager.default.removeItem(atPath: path)
        try directory.write(pem("ca.pem"), to: "ca.pem")
        #expect(trust.storeForConnection() !== first)
        #expect(warnings.value == 1)
    }

    /// Repeats a request until the server is trusted, or no longer trusted.
    private func untilTrusted(_ isTrusted: Bool, _ transport: CurlTransport, _ url: String) async throws {
        try await within(.seconds(20), "the changed file to apply") {
            while true {
                do {
                    _ = try await transport.send(HTTPRequest("GET", url))
                    if isTrusted { return }
                } catch let error as NetworkError {
                    guard error.kind == .tls(.untrusted) else { throw error }
                    if !isTrusted { return }
                }
            }
        }
    }

    @Test(arguments: [true, false])
    func changedFileAppliesToLaterConnections(isReplaced: Bool) async throws {
        let server = try await TLSServer()
        let directory = try TemporaryDirectory()
        let path = try directory.write(pem("other.pem"), to: "ca.pem")
        let ours = try pem("ca.pem")
        let others = try pem("other.pem")
        @Sendable func write(_ data: Data) throws {
            guard isReplaced else {
                _ = try directory.write(data, to: "ca.pem")
                return
            }
            let new = try directory.write(data, to: "new.pem")
            try #require(rename(new, path) == 0)
        }
        try await withTransport(testConfiguration { $0.tls.caFile = path }) { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .tls(.untrusted))
            try write(ours)
            try await untilTrusted(true, transport, server.url())
            // Resumption is on: a session verified with the old file must not be resumed.
            try write(others)
            try await untilTrusted(false, transport, server.url())
        }
    }

    @Test func unusableFileWarnsAndKeepsTheOldOne() async throws {
        let server = try await TLSServer()
        let directory = try TemporaryDirectory()
        let path = try directory.write(pem("ca.pem"), to: "ca.pem")
        let warnings = Box<[String]>([])
        let configuration = testConfiguration {
            $0.tls.caFile = path
            $0.warningHandler = { message in warnings.change { $0.append(message) } }
        }
        try await withTransport(configuration) { transport async throws in
            _ = try directory.write(Data("no certificate".utf8), to: "ca.pem")
            #expect(try await transport.get(server.url()).status == 200)
            try await eventually("the warning") { !warnings.value.isEmpty }
            #expect(warnings.value.first?.contains("tls.caFile \"\(path)\"") == true)
            #expect(try await transport.get(server.url()).status == 200)
            try FileManager.default.removeItem(atPath: path)
            #expect(try await transport.get(server.url()).status == 200)
        }
        // One warning for one change.
        #expect(warnings.value.count == 1)
    }
}

/// Counts how often a file is opened (`inotify`).
private final class OpenCounter: Sendable {
    private let descriptor: CInt
    private let counted = Box(0)

    init(_ path: String) throws {
        descriptor = inotify_init1(CInt(IN_NONBLOCK | IN_CLOEXEC))
        // The close event between two opens keeps the kernel from merging them.
        let mask = UInt32(IN_OPEN | IN_CLOSE_NOWRITE)
        guard descriptor >= 0, inotify_add_watch(descriptor, path, mask) >= 0 else {
            throw ChildProcess.Failure(description: "no inotify watch on \(path)")
        }
    }

    deinit { close(descriptor) }

    var count: Int {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let length = read(descriptor, &buffer, buffer.count)
            guard length > 0 else { return counted.value }
            var place = 0
            while place < length {
                let event = buffer.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: place, as: inotify_event.self) }
                if event.mask & UInt32(IN_OPEN) != 0 { counted.change { $0 += 1 } }
                place += MemoryLayout<inotify_event>.size + Int(event.len)
            }
        }
    }
}
