import FoundationEssentials
import LATTesting
import TestSupport
import Testing

/// `lat download` to a disk that fills up: a tmpfs in a mount namespace. What the message says about the received bytes is so.
@Suite(.needsMountNamespaces, .timeLimit(.minutes(2))) struct DownloadDiskTests {
    private static let size = 6 << 20
    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer()
        try directory.write(Data(), to: "disk/.kept")
    }

    /// Serves a file slowly, with ranges if it has an entity tag.
    private func serve(_ tag: String?, isChunked: Bool) {
        server.fallback { request in
            var reply = MockReply(body: .bytes(MockPattern.bytes(in: 0..<Int64(Self.size))))
            reply.headers["ETag"] = tag
            if tag != nil, let range = request.headers["Range"] {
                let ends = range.dropFirst(6).split(separator: "-").map { Int($0) ?? 0 }
                let (first, last) = (ends[0], ends.count > 1 ? ends[1] : Self.size - 1)
                reply.status = 206
                reply.headers["Content-Range"] = "bytes \(first)-\(last)/\(Self.size)"
                reply.body = .bytes(MockPattern.bytes(in: Int64(first)..<Int64(last + 1)))
            }
            return (isChunked && reply.status == 200 ? reply.inChunks() : reply).throttled(bytesPerSecond: 4 << 20)
        }
    }

    /// Downloads to a disk of 8 MiB that another program fills when a file is there and has content, then removes that program's
    /// file and runs the same command again.
    private func download(_ options: [String], filledAfter file: String) async throws -> (
        first: String, files: String, second: Int32
    ) {
        let disk = directory.path(of: "disk")
        let script = """
            mount -t tmpfs -o size=8m none \(disk) || exit 99
            "$@" 2>\(directory.path)/first & job=$!
            until [ -s \(disk)/\(file) ] || ! kill -0 $job; do sleep 0.02; done
            head -c 16m /dev/zero >\(disk)/other 2>/dev/null
            wait $job && exit 98
            rm \(disk)/other; ls -m \(disk) >\(directory.path)/files
            "$@"; code=$?
            cp \(disk)/f \(directory.path)/result
            exit $code
            """
        let process = try LatProcess(
            ["download", server.url("/f"), "-o", disk + "/f"] + options,
            launcher: MountNamespace.command + ["/bin/sh", "-c", script, "sh"])
        let code = await process.result.exitCode
        func text(_ name: String) -> String { String(decoding: directory.read(name) ?? Data(), as: UTF8.self) }
        return (text("first"), text("files"), code)
    }

    private func expectWhole() throws {
        let bytes = try #require(directory.read("result"))
        #expect(bytes.count == Self.size && MockPattern.firstMismatch(in: bytes, at: 0) == nil)
    }

    @Test(arguments: ["1", "3"], [false, true])
    func resumableDownloadKeepsWhatItSays(segments: String, isChunked: Bool) async throws {
        serve("\"a\"", isChunked: isChunked)
        let run = try await download(["--segments", segments], filledAfter: "f.part.journal")
        #expect(run.first.contains("make room"), "\(run.first)")
        #expect(run.first.contains("bytes are kept beside the target"), "\(run.first)")
        #expect(run.files.contains("f.part, f.part.journal") && run.second == 0)
        #expect(server.requests.last?.headers["Range"] != nil)
        try expectWhole()
    }

    @Test(arguments: [nil, "W/\"a\""]) func unresumableDownloadSaysThatNothingIsKept(tag: String?) async throws {
        serve(tag, isChunked: true)
        let run = try await download([], filledAfter: "f.part")
        let fate = "make room; nothing is kept, because the server sends no strong validator"
        #expect(run.first.contains(fate), "\(run.first)")
        #expect(run.files.trimmingSuffix(while: \.isNewline) == "" && run.second == 0)
        try expectWhole()
    }
}

extension String {
    fileprivate func trimmingSuffix(while isDropped: (Character) -> Bool) -> Substring {
        self[..<(lastIndex { !isDropped($0) }.map { index(after: $0) } ?? startIndex)]
    }
}
