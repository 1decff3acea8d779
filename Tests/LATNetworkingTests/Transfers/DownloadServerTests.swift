import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Downloads from nginx, with its ranges, its compression, and HTTP/2 over TLS.
@Suite(.needsNginx, .timeLimit(.minutes(2))) struct DownloadServerTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func manager() throws -> CentralRequestManager {
        try .make { $0.tls.caFile = Servers.authority }
    }

    private func expected(_ manager: CentralRequestManager) async throws -> Data {
        try await manager.startRequest("GET", "\(try #require(Servers.nginx))/1m.bin").data
    }

    @Test func downloadIsNotCompressed() async throws {
        let manager = try manager()
        let base = try #require(Servers.nginx)
        let file = try await manager.download("\(base)/gzip/1m.bin", to: directory.path).value
        #expect(file.response.headers["Content-Encoding"] == nil && file.byteCount == 1 << 20)
        #expect(directory.read("1m.bin") == (try await expected(manager)))
    }

    @Test func segmentsDownloadOverHTTP2() async throws {
        let manager = try manager()
        let base = try #require(Servers.nginxTLS)
        let file = try await manager.download("\(base)/1m.bin", to: directory.path(of: "f"), segments: 2).value
        #expect(file.response.version == .http2 && file.response.status == 206)
        #expect(directory.read("f") == (try await expected(manager)))
    }

    @Test func pausedDownloadContinuesWhereItWas() async throws {
        let manager = try manager()
        let base = try #require(Servers.nginx)
        let source = try directory.writePattern(byteCount: 6 << 20, to: "source")
        let name = "paused-\(UInt64.random(in: 0 ... .max)).bin"
        _ = try await manager.startRequest("PUT", "\(base)/dav/\(name)", body: .file(source))
        // nginx sends the bytes of one second at once, here a third of the file.
        let download = manager.download(
            "\(base)/transfers/\(name)?rate=2000000", to: directory.path(of: "f"), segments: 1)
        for await progress in download.progress where progress.completed > 1_000_000 { break }
        download.pause()
        for await progress in download.progress where progress.bytesPerSecond == nil { break }
        download.resume()
        let file = try await download.value
        #expect(file.byteCount == 6 << 20 && file.response.status == 206 && download.isResumable)
        let bytes = try #require(directory.read("f"))
        #expect(MockPattern.firstMismatch(in: bytes, at: 0) == nil && bytes.count == 6 << 20)
        _ = try await manager.startRequest("DELETE", "\(base)/dav/\(name)")
    }
}
