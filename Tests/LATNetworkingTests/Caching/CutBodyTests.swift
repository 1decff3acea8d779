import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A body that may have been cut is neither stored nor a finished download (RFC 9112 §9.8, RFC 9111 §3.3).
@Suite(.needsOpenSSL, .needsPython, .timeLimit(.minutes(1))) struct CutBodyTests {
    private static let text = "name,amount\nanna,100\nbert,2"

    private let directory: TemporaryDirectory
    private let server: PythonScript

    init() async throws {
        directory = try TemporaryDirectory()
        server = try await PythonScript("tls_ends.py", [try #require(TestCertificates.shared).server])
    }

    private func url(_ path: String) -> String { "https://localhost:\(server.port)/\(path)" }

    private func manager() throws -> CentralRequestManager {
        try .caching(.http) {
            $0.tls.caFile = TestCertificates.shared?.authority
            $0.retries = 0
        }
    }

    @Test(arguments: [false, true]) func bodyThatMayBeCutIsNotStored(streams: Bool) async throws {
        let manager = try manager()
        for (path, requests) in [("silent/1.1/plain", 2), ("notice/1.1/plain", 1), ("silent/1.0/gzip", 1)] {
            for _ in 0..<2 {
                var request = HTTPRequest("GET", url(path))
                request.streamsBody = streams
                let body = try await manager.send(request).body
                #expect(try await body.collect(upTo: 1000) == Data(Self.text.utf8))
                try await manager.cache.flush()
            }
            #expect(server.lines("request /\(path)").count == requests, "\(path)")
        }
    }

    @Test func bodyThatMayBeCutIsNoFile() async throws {
        let manager = try manager()
        let file = directory.path(of: "a.csv")
        for path in ["silent/1.1/plain", "record/1.1/plain"] {
            let error = await failure { try await manager.download(url(path), to: file).value }
            #expect(error?.kind == .connectionLost, "\(path)")
            #expect(directory.read("a.csv") == nil)
        }
        for path in ["notice/1.1/plain", "silent/1.1/digest"] {
            _ = try await manager.download(url(path), to: file).value
            #expect(directory.read("a.csv") == Data(Self.text.utf8))
            try FileManager.default.removeItem(atPath: file)
        }
    }
}
