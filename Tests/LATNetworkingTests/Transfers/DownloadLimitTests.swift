import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Segmented downloads from servers that limit the connections of a client.
@Suite(.timeLimit(.minutes(3))) struct DownloadLimitTests {
    private static let size: Int64 = 6 << 20
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var target: String { directory.path(of: "target") }

    private func check(_ file: DownloadedFile) throws {
        let bytes = try #require(directory.read("target"))
        #expect(MockPattern.firstMismatch(in: bytes, at: 0) == nil && Int64(bytes.count) == Self.size)
        #expect(file.byteCount == Self.size && directory.contents.filter { $0.hasPrefix("target") } == ["target"])
    }

    /// An nginx with `limit_conn`, and a rate that keeps a connection busy for about a second.
    private final class LimitedNginx: Sendable {
        let url: String
        private let process: ChildProcess
        private let folder: TemporaryDirectory

        init(connections: Int, status: Int) async throws {
            let port = try ReservedPort()
            folder = try TemporaryDirectory()
            let path = folder.path
            let configuration = """
                daemon off; master_process off; pid \(path)/pid; error_log stderr crit;
                events {}
                http {
                    access_log off; client_body_temp_path \(path)/b; proxy_temp_path \(path)/p;
                    fastcgi_temp_path \(path)/f; uwsgi_temp_path \(path)/u; scgi_temp_path \(path)/s;
                    limit_conn_zone $server_port zone=all:1m;
                    server {
                        listen 127.0.0.1:\(port.port);
                        root \(path)/files;
                        limit_conn all \(connections);
                        limit_conn_status \(status);
                        limit_rate 6m;
                    }
                }
                """
            try folder.writePattern(byteCount: DownloadLimitTests.size, to: "files/big.bin")
            let file = try folder.write(Data(configuration.utf8), to: "nginx.conf")
            process = try ChildProcess("nginx", ["-p", path, "-c", file, "-e", "stderr"])
            url = "http://127.0.0.1:\(port.port)/big.bin"
            try await process.awaitListener(on: port.port)
        }
    }

    @Test(.needs("nginx"), arguments: [1, 2], [503, 429, 403])
    func nginxWithALimitGivesTheWholeFile(connections: Int, status: Int) async throws {
        let server = try await LimitedNginx(connections: connections, status: status)
        for retries in [0, 2] {
            let manager = try CentralRequestManager.make { $0.retries = retries }
            try check(try await manager.download(server.url, to: target, segments: 4).value)
        }
    }

    /// A link of which the server refuses a second connection is renewed once for a request, not as often as it refuses.
    @Test(.needs("nginx")) func limitDoesNotRenewTheLinkAgainAndAgain() async throws {
        let server = try await LimitedNginx(connections: 1, status: 403)
        let manager = try CentralRequestManager.make { $0.retries = 0 }
        let asked = Log<Int>()
        var options = DownloadOptions()
        options.refreshURL = { [url = server.url] _ in
            asked.append(1)
            return url
        }
        try check(try await manager.download(server.url, to: target, segments: 4, options: options).value)
        #expect(asked.count <= 3)
    }

    // MARK: Other servers

    private func server(_ falsify: @escaping RangeServer.Falsification) throws -> RangeServer {
        try RangeServer(MockPattern.bytes(in: 0..<Self.size), falsify: falsify)
    }

    /// A server that closes each connection but the first without a response, or with a status.
    @Test(arguments: [nil, 404, 500, 509] as [Int?]) func onlyConnectionReadsOn(status: Int?) async throws {
        let server = try server { _, number, honest in
            if number == 1 { return honest.throttled(bytesPerSecond: 6 << 20) }
            return status.map { .status($0) } ?? .raw("")
        }
        let manager = try CentralRequestManager.make { $0.retries = 0 }
        try check(try await manager.download(server.url, to: target, segments: 4).value)
        // The first connection was read to its end.
        #expect(server.ranges.filter { $0 == "bytes=0-" }.count == 1 && server.ranges.first == "bytes=0-")
    }

    /// A refusal that comes late, such as from a proxy with a queue, does not hold up the file.
    @Test func silentConnectionIsNotNeeded() async throws {
        let server = try server { _, number, honest in
            number == 1 ? honest.throttled(bytesPerSecond: 6 << 20) : honest.stalling(.beforeHead)
        }
        let manager = try CentralRequestManager.make { $0.retries = 0 }
        try check(try await manager.download(server.url, to: target, segments: 3).value)
    }

    @Test(arguments: [503, 429, 403]) func serverThatRefusesAllAfterTheStartFails(status: Int) async throws {
        let server = try server { _, number, honest in
            // The first connection breaks when it was read for a while; all others are refused.
            number == 1 ? honest.throttled(bytesPerSecond: 6 << 20).resetting(afterBytes: 3 << 20) : .status(status)
        }
        let manager = try CentralRequestManager.make { $0.retries = 1 }
        let error = try #require(
            await failure { try await manager.download(server.url, to: target, segments: 3).value })
        #expect(error.kind == .httpStatus && error.response?.status == status)
        #expect(error.message.contains("refuses every connection of the download after"), "\(error)")
        #expect(error.message.contains("of \(Self.size) bytes; use fewer segments, or try again later"))
        #expect(directory.contents == ["target.part", "target.part.journal"])
    }
}
