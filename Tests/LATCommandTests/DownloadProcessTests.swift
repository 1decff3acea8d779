import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

/// `lat download` on a terminal and in a pipe.
@Suite(.timeLimit(.minutes(2))) struct DownloadProcessTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    private func download(_ options: String..., columns: UInt16? = nil) throws -> LatProcess {
        try LatProcess(
            ["download", server.url("/x/big.iso"), "-o", directory.path(of: "f")] + options, columns: columns)
    }

    @Test func downloadIsSilentWithoutATerminal() async throws {
        server.enqueue(.pattern(byteCount: 2_000_000).header("ETag", "\"a\""))
        let result = try await download().result
        #expect(result.exitCode == 0 && result.out.isEmpty && result.err == "")
        #expect(directory.contents == ["f"])
        let data = try #require(directory.read("f"))
        #expect(data.count == 2_000_000 && MockPattern.firstMismatch(in: data, at: 0) == nil)
    }

    @Test func fileInFolderIsNamedByTheServer() async throws {
        server.enqueue(.text("x").header("Content-Disposition", "attachment; filename=\"../report.pdf\""), .text("y"))
        let first = try await LatProcess.run(["download", server.url("/x/big.iso"), "-o", directory.path])
        #expect(first.exitCode == 0)
        // Without `-o`: the current folder, and the name in the URL.
        let second = try await LatProcess.run(["download", server.url("/x/big.iso?y")], in: directory.path)
        #expect(second.exitCode == 0 && directory.contents == ["big.iso", "report.pdf"])
    }

    @Test(arguments: [SIGINT, SIGTERM]) func signalKeepsProgressAndSaysHowToResume(signal: Int32) async throws {
        server.enqueue(
            .pattern(byteCount: 4_000_000).header("ETag", "\"a\"").stalling(.afterBodyBytes(1_000_000)))
        let process = try download()
        try await server.waitForRequests(1)
        try await eventually { directory.read("f.part")?.count ?? 0 >= 1_000_000 }
        process.send(signal: signal)
        let result = await process.result
        #expect(result.exitCode == 128 + signal)
        #expect(result.err.contains("stopped after 977 KiB of 3.81 MiB; run the same command to resume"))
        #expect(directory.contents == ["f.part", "f.part.journal"])

        server.route("GET", "/x/big.iso") { request in
            let data = MockPattern.bytes(in: 1_000_000..<4_000_000)
            return MockReply(
                status: request.headers["Range"] == "bytes=1000000-" ? 206 : 500,
                headers: ["ETag": "\"a\"", "Content-Range": "bytes 1000000-3999999/4000000"], body: .bytes(data))
        }
        let second = try await download("--format", "json").result
        #expect(second.exitCode == 0 && directory.contents == ["f"])
        #expect(second.text.contains("\"resumed\":1000000") && second.text.contains("\"received\":3000000"))
        let data = try #require(directory.read("f"))
        #expect(data.count == 4_000_000 && MockPattern.firstMismatch(in: data, at: 0) == nil)
    }

    @Test func exitCodesMatchTheFailure() async throws {
        server.enqueue(.text("gone", status: 404), .text("wrong"), .pattern(byteCount: 9_000).closing(afterBytes: 500))
        let gone = try await download().result
        #expect(gone.exitCode == 1 && gone.err.contains("404"))
        let wrong = try await download("--sha256", String(repeating: "0", count: 64)).result
        #expect(wrong.exitCode == 1 && wrong.err.contains("instead of 0000"))
        #expect(try await download("--retries", "0").result.exitCode == 3)
        let missing = try await LatProcess.run(["download", server.url("/"), "-o", directory.path(of: "no/where")])
        #expect(missing.exitCode == 2 && missing.err.contains("does not exist"))
        for arguments in [["--sha256", "abc"], ["--segments", "0"], ["--existing", "x"], ["--digest", "crc:00"]] {
            let usage = try await LatProcess.run(["download", server.url("/")] + arguments)
            #expect(usage.exitCode == 2 && usage.err.contains(arguments[0]))
        }
        #expect(try await LatProcess.run(["download"]).exitCode == 2)
        #expect(directory.contents.isEmpty)
    }

    @Test func existingFileIsSkippedOrRefused() async throws {
        try directory.write(Data("old".utf8), to: "f")
        let skipped = try await download("--existing", "skip", "--format", "json").result
        #expect(skipped.exitCode == 0 && skipped.text.contains("\"skipped\":true"))
        let failed = try await download("--existing", "fail").result
        #expect(failed.exitCode == 2 && failed.err.contains("exists already"))
        #expect(server.requestCount == 0 && directory.read("f") == Data("old".utf8))
    }

    @Test func nameOfTheServerReplacesNoFile() async throws {
        let reply = MockReply.text("new").header("Content-Disposition", "attachment; filename=\"Makefile\"")
        server.enqueue(reply, reply, reply)
        try directory.write(Data("old".utf8), to: "Makefile")
        for words in [["download", server.url("/f")], ["request", server.url("/f"), "--download"]] {
            let failed = try await LatProcess.run(words, in: directory.path)
            #expect(failed.exitCode == 2 && failed.err.contains("Makefile exists already"), "\(failed.err)")
            #expect(directory.contents == ["Makefile"] && directory.read("Makefile") == Data("old".utf8))
        }
        let words = ["download", server.url("/f"), "--existing", "overwrite"]
        #expect(try await LatProcess.run(words, in: directory.path).exitCode == 0)
        #expect(directory.read("Makefile") == Data("new".utf8))
    }

    @Test func terminalShowsBarAndSummary() async throws {
        server.enqueue(.pattern(byteCount: 1_500_000).throttled(bytesPerSecond: 1_000_000))
        let result = try await download(columns: 70).result
        #expect(result.exitCode == 0 && result.text.contains("━") && result.text.contains("/1.43 MiB"))
        #expect(result.text.contains("f  1.43 MiB in "))
    }
}
