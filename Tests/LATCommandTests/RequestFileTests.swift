import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat request -o FILE`: the file appears complete, or not at all.
@Suite(.timeLimit(.minutes(1))) struct RequestFileTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    private func download(_ options: String...) throws -> LatProcess {
        try LatProcess(["request", "GET", server.url("/"), "-o", directory.path(of: "f")] + options)
    }

    @Test func completeBodyIsRenamedToItsTarget() async throws {
        server.enqueue(.pattern(byteCount: 2_000_000))
        let result = try await download().result
        #expect(result.exitCode == 0 && result.out.isEmpty && result.err == "")
        #expect(directory.contents == ["f"])
        let data = try #require(directory.read("f"))
        #expect(data.count == 2_000_000 && MockPattern.firstMismatch(in: data, at: 0) == nil)
    }

    @Test func failureBodyIsShownAndNotWritten() async throws {
        server.enqueue(.text("gone", status: 404), .text("gone", status: 500))
        let result = try await download().result
        #expect(result.exitCode == 1 && result.text == "gone" && directory.contents.isEmpty)
        try directory.write(Data("old".utf8), to: "f")
        #expect(try await download().result.exitCode == 1)
        #expect(directory.contents == ["f"] && directory.read("f") == Data("old".utf8))
    }

    @Test func headOfHEADIsWrittenToTheFile() async throws {
        server.enqueue(.text("body").header("X-Own", "1"))
        let result = try await LatProcess.run(["HEAD", server.url("/"), "-o", directory.path(of: "f")])
        let text = String(decoding: directory.read("f") ?? Data(), as: UTF8.self)
        #expect(result.exitCode == 0 && result.out.isEmpty && text.hasPrefix("HTTP/1.1 200 OK\n"), "\(text)")
        #expect(text.contains("\nX-Own: 1\n"))
    }

    @Test func notModifiedLeavesTheFileUnchanged() async throws {
        server.enqueue(.status(304))
        try directory.write(Data("old".utf8), to: "f")
        #expect(try await download("-H", "If-None-Match: \"x\"").result.exitCode == 0)
        #expect(directory.contents == ["f"] && directory.read("f") == Data("old".utf8))
    }

    @Test func incompleteBodyLeavesTheOldFile() async throws {
        server.enqueue(.pattern(byteCount: 1_000_000).closing(afterBytes: 300_000))
        try directory.write(Data("old".utf8), to: "f")
        #expect(try await download().result.exitCode == 3)
        #expect(directory.contents == ["f"] && directory.read("f") == Data("old".utf8))
    }

    @Test func replacedFileKeepsItsPermissions() async throws {
        server.enqueue(.text("new"))
        let path = try directory.write(Data("old and longer".utf8), to: "f")
        chmod(path, 0o640)
        #expect(try await download().result.exitCode == 0)
        var status = stat()
        stat(path, &status)
        #expect(directory.read("f") == Data("new".utf8) && status.st_mode & 0o777 == 0o640)
    }

    @Test func linksAndDevicesAreWrittenThrough() async throws {
        server.enqueue(.text("new"), .text("nothing"))
        try directory.write(Data("old".utf8), to: "real")
        symlink("real", directory.path(of: "f"))
        #expect(try await download().result.exitCode == 0)
        #expect(directory.read("real") == Data("new".utf8) && directory.contents == ["f", "real"])
        var status = stat()
        lstat(directory.path(of: "f"), &status)
        #expect(status.st_mode & S_IFMT == S_IFLNK)
        let device = try await LatProcess.run(["request", "GET", server.url("/"), "-o", "/dev/null"])
        #expect(device.exitCode == 0)
        stat("/dev/null", &status)
        #expect(status.st_mode & S_IFMT == S_IFCHR)
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func signalDuringDownloadLeavesNoFile(signal: Int32) async throws {
        server.enqueue(.pattern(byteCount: 1_000_000).stalling(.afterBodyBytes(200_000)))
        let process = try download("-v")
        await process.waitForError("< HTTP/1.1 200 OK")
        #expect(!directory.contents.isEmpty)
        process.send(signal: signal)
        let result = await process.result
        #expect(result.exitCode == 128 + signal)
        #expect(directory.contents.isEmpty && !result.err.contains("lat:"))
        try await server.waitUntilDisconnected()
    }

    @Test func secondSignalEndsTheProcessAtOnce() async throws {
        server.enqueue(.pattern(byteCount: 1_000_000).stalling(.afterBodyBytes(200_000)))
        let process = try download("-v")
        await process.waitForError("< HTTP/1.1 200 OK")
        for _ in 0..<3 { process.send(signal: SIGINT) }
        #expect(await process.result.exitCode == 130)
        #expect(directory.contents.isEmpty)
    }

    @Test func terminalShowsBarAndSummary() async throws {
        // The body goes on until the bar is there.
        let isShown = Event()
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n".utf8))
            var left = 600_000
            while !isShown.hasHappened, left > 1 {
                connection.write([0x61])
                left -= 1
                usleep(20_000)
            }
            connection.write([UInt8](repeating: 0x61, count: left))
            connection.drain()
        }
        let process = try LatProcess(
            ["request", "GET", server.url("/"), "-o", directory.path(of: "f")], columns: 60)
        await process.waitForOutput("━")
        isShown.happen()
        let result = await process.result
        #expect(result.exitCode == 0)
        #expect(result.text.contains("━") && result.text.contains("/586 KiB"))
        #expect(result.text.contains("f  586 KiB in "))
        let lines = result.text.split { $0 == "\r" || $0 == "\n" || $0 == "\r\n" }
        #expect(lines.allSatisfy { withoutEscapes($0).count < 60 })
    }

    private func withoutEscapes(_ text: Substring) -> String {
        text.split(separator: "\u{1B}", omittingEmptySubsequences: false).enumerated().map { index, part in
            index == 0 ? String(part) : String(part.drop { !$0.isLetter }.dropFirst())
        }.joined()
    }
}

/// `lat request --har FILE`.
@Suite(.timeLimit(.minutes(1))) struct RequestHARTests {
    @Test func fileHasEveryExchangeAndNoSecret() async throws {
        let server = try MockServer()
        server.enqueue(.redirect(to: "/end"), .json(#"{"token":"hidden","a":1}"#))
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "calls.har")
        let result = try await LatProcess(
            ["request", "GET", server.url("/start?api_key=hidden"), "--bearer", "hidden", "--har", path]
        ).result
        #expect(result.exitCode == 0)
        #expect(result.text.contains(#""token""#))
        let file = try #require(directory.read("calls.har"))
        let text = String(decoding: file, as: UTF8.self)
        #expect(!text.contains("hidden"))
        #expect(text.contains(#"\"a\":1"#))
        #expect(text.split(separator: "startedDateTime").count == 3)
    }

    /// What was answered before each retry is in the file, with its body.
    @Test func bodiesBetweenRetriesAreRecorded() async throws {
        let server = try MockServer()
        server.enqueue(.text("busy one", status: 503), .text("busy two", status: 503), .text("fine"))
        let directory = try TemporaryDirectory()
        let arguments = [server.url("/x"), "--retry", "2", "--har", directory.path(of: "calls.har")]
        let result = try await LatProcess(arguments).result
        #expect(result.exitCode == 0 && result.text == "fine", "\(result.err)")
        let entries = try JSONValue(parsing: try #require(directory.read("calls.har")))["log"]["entries"].array ?? []
        #expect(entries.map { $0["response"]["status"].int } == [503, 503, 200])
        #expect(entries.map { $0["response"]["content"]["text"].string } == ["busy one", "busy two", "fine"])
    }

    @Test func closedPipeKeepsTheRecord() async throws {
        let server = try MockServer()
        server.fallback { _ in .data(Data(repeating: 0x61, count: 4 << 20)) }
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "calls.har")
        _ = try await LatProcess.run([server.url("/big"), "--har", path], closesOutput: true)
        let file = try #require(directory.read("calls.har"))
        #expect(String(decoding: file, as: UTF8.self).contains("/big"))
    }

    @Test func failureIsRecordedToo() async throws {
        let closed = try ClosedPort()
        let directory = try TemporaryDirectory()
        let result = try await LatProcess([closed.url(), "--har", directory.path(of: "calls.har")]).result
        #expect(result.exitCode == 3)
        let file = try #require(directory.read("calls.har"))
        #expect(String(decoding: file, as: UTF8.self).contains("connect: "))
    }

    /// The files of `--har`, `lat inspect --save` and `>>!` of `lat run`.
    @Test(arguments: ["har", "save", "run"]) func linksAndPipesAreWrittenThrough(_ way: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("body") }
        let directory = try TemporaryDirectory()
        try directory.write(Data("GET \(server.url())\n>>! link\n".utf8), to: "a.http")
        let words =
            switch way {
            case "har": [server.url(), "--har", "link"]
            case "save": ["inspect", "--save", "link", "--", LatProcess.path, server.url()]
            default: ["run", "a.http"]
            }
        let expected = Data(way == "run" ? "body".utf8 : "{".utf8)
        try directory.write(Data("old".utf8), to: "target")
        symlink("target", directory.path(of: "link"))
        let linked = try await LatProcess.run(words, in: directory.path)
        #expect(linked.exitCode == 0 && directory.read("target")?.starts(with: expected) == true, "\(linked.err)")
        unlink(directory.path(of: "link"))
        mkfifo(directory.path(of: "link"), 0o600)
        let reader = open(directory.path(of: "link"), O_RDWR | O_NONBLOCK | O_CLOEXEC)
        defer { close(reader) }
        let piped = try await LatProcess.run(words, in: directory.path)
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = read(reader, &bytes, bytes.count)
        #expect(piped.exitCode == 0 && count > 0 && bytes.starts(with: expected), "\(piped.err)")
        #expect(directory.contents == ["a.http", "link", "target"])
    }

    @Test func fileThatCannotBeWrittenIsOneSentence() async throws {
        let server = try MockServer()
        server.enqueue(.text("x"))
        let result = try await LatProcess([server.url(), "--har", "/nowhere/at/all.har"]).result
        #expect(result.exitCode == 2)
        #expect(result.err.contains("/nowhere/at/all.har"))
    }
}
