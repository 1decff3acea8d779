import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Tornado keeps the strong ETag of a file that has changed, and ignores If-Range. No download and no stored response has
/// bytes of two versions.
@Suite(.needsPython, .timeLimit(.minutes(2))) struct FileVersionTests {
    private static let size = 4 << 20
    private let directory: TemporaryDirectory
    private let manager: CentralRequestManager
    private let old = content(Self.size)
    private let new = content(Self.size, seed: 7)

    init() throws {
        directory = try TemporaryDirectory()
        manager = try .make { $0.retries = 2 }
    }

    private var target: String { directory.path(of: "target") }

    /// Writes a version of the file. `Last-Modified` has whole seconds, so each version has a time of its own.
    private func write(_ data: Data, at time: Int) throws {
        let path = try directory.write(data, to: "files/big.bin")
        var times = [timespec(), timespec()]
        for index in 0..<2 { times[index].tv_sec = 1_700_000_000 + time }
        #expect(utimensat(AT_FDCWD, path, times, 0) == 0)
    }

    private func serve() async throws -> (server: PythonScript, url: String) {
        try write(old, at: 0)
        let server = try await PythonScript("tornado_files.py", [directory.path(of: "files")])
        return (server, "http://127.0.0.1:\(server.port)/big.bin")
    }

    /// Downloads a part, as a process does that is then ended.
    private func begin(_ url: String) async throws {
        var request = HTTPRequest("GET", url)
        request.maxReceiveRate = 2 << 20
        let download = manager.download(request, to: target)
        for await progress in download.progress where progress.completed > 1 << 18 { break }
        download.cancel(keepingProgress: true)
        let error = await failure { try await download.value }
        #expect(error?.message.contains("the same download continues with the rest") == true)
    }

    @Test(arguments: [1, 4]) func resumedDownloadIsOfOneVersion(segments: Int) async throws {
        let (server, url) = try await serve()
        try await begin(url)
        try write(new, at: 10)
        let file = try await manager.download(url, to: target, segments: segments).value
        #expect(directory.read("target") == new && file.byteCount == Int64(Self.size))
        #expect(server.lines("206 bytes=").count > 0, "Tornado sends parts: \(server.process.output)")
    }

    @Test func unchangedFileIsResumed() async throws {
        let (server, url) = try await serve()
        defer { withExtendedLifetime(server) {} }
        try await begin(url)
        let file = try await manager.download(url, to: target).value
        #expect(directory.read("target") == old && file.resumedByteCount > 0 && file.response.status == 206)
    }

    @Test func shorterFileIsDownloadedAnew() async throws {
        let (server, url) = try await serve()
        defer { withExtendedLifetime(server) {} }
        try await begin(url)
        try write(new.prefix(1 << 20), at: 10)
        _ = try await manager.download(url, to: target, segments: 4).value
        #expect(directory.read("target") == new.prefix(1 << 20))
    }

    @Test func pausedDownloadIsOfOneVersion() async throws {
        let (server, url) = try await serve()
        defer { withExtendedLifetime(server) {} }
        var request = HTTPRequest("GET", url)
        request.maxReceiveRate = 2 << 20
        let download = manager.download(request, to: target)
        for await progress in download.progress where progress.completed > 1 << 18 { break }
        download.pause()
        for await progress in download.progress where progress.bytesPerSecond == nil { break }
        try write(new, at: 10)
        download.resume()
        _ = try await download.value
        #expect(directory.read("target") == new)
    }

    @Test(arguments: [false, true]) func storedPartsAreOfOneVersion(isWhole: Bool) async throws {
        let (server, url) = try await serve()
        defer { withExtendedLifetime(server) {} }
        let manager = try CentralRequestManager.caching(.http) { $0.cacheClock = { Date() } }
        func ask(_ range: Range<Int>) async throws -> HTTPResponse {
            let field = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
            return try await manager.startRequest("GET", url, headers: ["Range": field])
        }
        #expect(try await ask(0..<100_000).data == old[0..<100_000])
        try write(new, at: 10)
        if isWhole {
            // The missing rest is requested for the stored part.
            #expect(try await manager.startRequest("GET", url).data == new)
        } else {
            #expect(try await ask(100_000..<200_000).data == new[100_000..<200_000])
            let entry = try #require(try await manager.cache.entries().first)
            #expect(entry.headers["Content-Range"] == "bytes 100000-199999/\(Self.size)")
            #expect(try await ask(0..<200_000).data == new[0..<200_000])
        }
    }

    // MARK: Other servers

    /// Faults of the response to the request for the rest, with the entity tag of the first one.
    static let changes: [(name: String, change: @Sendable (inout MockReply) -> Void)] = [
        ("another Last-Modified", { $0.headers["Last-Modified"] = "Mon, 07 Nov 1994 08:49:37 GMT" }),
        ("an invalid Last-Modified", { $0.headers["Last-Modified"] = "yesterday" }),
        ("a coding", { $0.headers["Content-Encoding"] = "gzip" }),
        ("another total", { $0.headers["Content-Range"] = $0.headers["Content-Range"].map { $0 + "0" } }),
        (
            "an end beyond the total",
            {
                $0.headers["Content-Range"] = $0.headers["Content-Range"].map {
                    $0.replacing("-\(size - 1)/\(size)", with: "-\(size + 9)/*")
                }
            }
        ),
        ("no validators", { for name in ["ETag", "Last-Modified"] { $0.headers[name] = nil } }),
    ]

    @Test(arguments: changes.indices, [1, 3])
    func partOfAnotherVersionStartsOver(_ index: Int, segments: Int) async throws {
        let headers: HTTPHeaders = ["ETag": "\"same\"", "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"]
        let server = try RangeServer(old, headers: headers) { [new] request, number, honest in
            guard number > 1 else { return honest.resetting(afterBytes: 1 << 20) }
            var reply = RangeServer.honest(request, .init(data: new, headers: headers))
            if reply.status == 206 { Self.changes[index].change(&reply) }
            return reply
        }
        _ = try await manager.download(server.url, to: target, segments: segments).value
        #expect(directory.read("target") == new, "\(Self.changes[index].name)")
        #expect(server.ranges.last == "-")
    }

    /// The first response has no `Last-Modified`. The second has one, and the third another one.
    @Test func laterPartsAreComparedWithEachOther() async throws {
        let server = try RangeServer(old) { [old, new] request, number, honest in
            guard number > 1 else { return honest.resetting(afterBytes: 1 << 20) }
            let date = "Sun, 06 Nov 1994 08:49:3\(min(number, 3)) GMT"
            let headers: HTTPHeaders = ["ETag": "\"v1\"", "Last-Modified": date]
            let reply = RangeServer.honest(request, .init(data: number == 2 ? old : new, headers: headers))
            return number == 2 ? reply.resetting(afterBytes: 1 << 20) : reply
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.read("target") == new && server.ranges.last == "-")
    }

    /// A server without ranges sends the whole of another version with the same entity tag, and breaks it off, too.
    @Test(arguments: ["Last-Modified", "Content-Length"])
    func wholeOfAnotherVersionStartsOver(field: String) async throws {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let server = try RangeServer(old, headers: ["ETag": "\"same\"", "Last-Modified": date]) {
            [new] request, number, honest in
            guard number > 1 else { return honest.resetting(afterBytes: 3 << 20) }
            var headers: HTTPHeaders = ["ETag": "\"same\"", "Last-Modified": date]
            if field == "Last-Modified" { headers[field] = "Mon, 07 Nov 1994 08:49:37 GMT" }
            let content = RangeServer.Content(data: new, headers: headers)
            guard number == 2 else { return RangeServer.honest(request, content) }
            let reply = MockReply(headers: headers, body: .bytes(new))
            return (field == "Last-Modified" ? reply : reply.inChunks()).resetting(afterBytes: 1 << 20)
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.read("target") == new)
    }

    /// `gzip` is the coding of the file itself here, as of a `.tar.gz` from Apache.
    @Test func downloadOfACodedFileIsResumed() async throws {
        let server = try RangeServer(old, headers: ["ETag": "\"v1\"", "Content-Encoding": "gzip"]) {
            $1 == 1 ? $2.resetting(afterBytes: 1 << 20) : $2
        }
        _ = try await manager.download(server.url, to: target).value
        #expect(directory.read("target") == old && server.ranges.last?.hasPrefix("bytes=") == true)
    }
}
