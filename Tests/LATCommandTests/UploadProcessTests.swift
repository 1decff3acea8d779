import Foundation
import HTTPCore
import LATTesting
import TestSupport
import Testing

/// `lat upload` as a process.
@Suite(.timeLimit(.minutes(2))) struct UploadProcessTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    @Test func filesAndFieldsGoInOneBody() async throws {
        server.fallback { _ in .text("stored") }
        let a = try directory.write(Data("aaa".utf8), to: "a.png")
        let b = try directory.write(Data("bbbb".utf8), to: "b \"x\".txt")
        let result = try await LatProcess.run(
            ["upload", server.url("/photos"), "--file", "img=\(a)", "-F", "doc=\(b)", "-p", "title=Holiday"])
        #expect(result.exitCode == 0 && result.text == "stored" && result.err == "")
        let request = try #require(server.requests.first)
        #expect(request.method == "POST")
        #expect(request.headers["Content-Type"]?.hasPrefix("multipart/form-data; boundary=") == true)
        for part in [
            "name=\"title\"\r\n\r\nHoliday\r\n",
            "name=\"img\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\naaa",
            "name=\"doc\"; filename=\"b %22x%22.txt\"\r\nContent-Type: text/plain\r\n\r\nbbbb",
        ] {
            #expect(request.text.contains(part), "\(part)")
        }
    }

    @Test func oneFileMayBeTheBody() async throws {
        server.fallback { _ in .status(204) }
        let path = try directory.write(Data("{}".utf8), to: "a.json")
        let result = try await LatProcess.run(["upload", server.url("/a"), "--body", path, "-H", "X-A: 1", "-p", "v=2"])
        #expect(result.exitCode == 0 && result.err == "")
        let request = try #require(server.requests.first)
        #expect(request.method == "PUT" && request.target == "/a?v=2" && request.text == "{}")
        #expect(request.headers["X-A"] == "1" && request.headers["Content-Type"] == "application/json")
        _ = try await LatProcess.run(["upload", server.url("/a"), "--body", path, "-X", "patch"])
        #expect(server.requests[1].method == "PATCH")
    }

    /// A file of the kernel has content, although its size is 0.
    @Test(arguments: [["-F", "a=/proc/version"], ["--body", "/proc/version"]])
    func kernelFileIsSentWhole(arguments: [String]) async throws {
        server.fallback { _ in .text("stored") }
        let content = try #require(FileManager.default.contents(atPath: "/proc/version"))
        let result = try await LatProcess.run(["upload", server.url()] + arguments)
        #expect(result.exitCode == 0 && result.text == "stored", "\(result.err)")
        #expect(try #require(server.requests.first).body.range(of: content) != nil)
    }

    @Test(arguments: ["-F", "--body"]) func deviceIsRefusedWithTheNextStep(option: String) async throws {
        let result = try await LatProcess.run(
            ["upload", server.url(), option, option == "-F" ? "a=/dev/zero" : "/dev/zero"])
        #expect(result.exitCode == 2 && result.out.isEmpty)
        #expect(result.err.contains("/dev/zero") && result.err.contains("write its bytes to a file"), "\(result.err)")
        #expect(server.acceptedConnections == 0)
    }

    @Test func jsonReportHasEveryFile() async throws {
        server.enqueue(.json(#"{"ok":true}"#), .text("no", status: 500))
        let path = try directory.writePattern(byteCount: 100_000, to: "a.bin")
        let arguments = ["upload", server.url(), "-F", "x=\(path)", "-F", "y=\(path)", "--format", "json"]
        let good = try await LatProcess.run(arguments)
        let report = try JSONValue(parsing: good.text)
        #expect(good.exitCode == 0 && report["status"].int == 200 && report["body"].string == #"{"ok":true}"#)
        #expect(report["error"] == .null && report["files"].array?.count == 2)
        #expect(report["files"][1]["path"].string == path && report["files"][1]["name"].string == "y")
        #expect(report["files"][1]["state"].string == "done" && report["files"][1]["completed"].int == 100_000)
        let bad = try await LatProcess.run(arguments)
        let failure = try JSONValue(parsing: bad.text)
        #expect(bad.exitCode == 1 && failure["status"].int == 500 && failure["body"].string == "no")
        #expect(failure["error"]["kind"].string == "httpStatus" && failure["files"][0]["state"].string == "failed")
    }

    @Test func invalidArgumentsAreReportedAndNotSent() async throws {
        let path = try directory.write(Data("x".utf8), to: "x")
        let url = server.url()
        for (arguments, words) in [
            ([], ["URL is missing"]), ([url], ["no file is given", "--file NAME=PATH"]),
            (["ftp://127.0.0.1:1/x", "-F", "a=\(path)"], ["a scheme other than http and https"]),
            ([url, "-F", "a=\(directory.path(of: "none"))"], ["cannot be read", "none"]),
            ([url, "-F", "a=\(directory.path)"], ["is a directory"]), ([url, "-F", "a"], ["NAME=PATH"]),
            ([url, "--body", directory.path(of: "none")], ["--body", "cannot be read"]),
            ([url, "-F", "a=\(path)", "--body", path], ["cannot be combined"]),
            ([url, "-F", "a=\(path)", "-X", "get"], ["cannot carry files"]), ([url, "x"], ["\"x\" cannot be read"]),
            ([url, path, "x"], ["one argument too many"]),
        ] as [([String], [String])] {
            let result = try await LatProcess.run(["upload"] + arguments)
            #expect(result.exitCode == 2 && result.out.isEmpty, "\(arguments)")
            for word in words { #expect(result.err.contains(word), "\(arguments): \(result.err)") }
        }
        #expect(server.acceptedConnections == 0)
    }

    @Test func missingResponseExitsWith3() async throws {
        let closed = try ClosedPort()
        let path = try directory.write(Data("x".utf8), to: "x")
        let result = try await LatProcess.run(["upload", closed.url(), "-F", "a=\(path)"])
        #expect(result.exitCode == 3 && result.err.contains("connect"))
    }

    @Test func terminalShowsBarsForFilesAndTotal() async throws {
        server.fallback { _ in .text("stored").delayed(by: .milliseconds(1_500)) }
        let a = try directory.writePattern(byteCount: 5_000_000, to: "a.bin")
        let b = try directory.writePattern(byteCount: 10_000_000, to: "a-second-file.bin")
        let result = try await LatProcess.run(["upload", server.url(), "-F", "a=\(a)", "-F", "b=\(b)"], columns: 80)
        #expect(result.exitCode == 0)
        // At the end the bars are cleared; the response and one summary line follow.
        let end = try #require(result.text.ranges(of: "\u{1B}[J").last)
        let shown = result.text[..<end.lowerBound]
        #expect(result.text[end.upperBound...].contains("stored"))
        #expect(result.text[end.upperBound...].contains("2 files, 14.3 MiB in"))
        for text in ["a.bin ", "a-second-file.bin", "all ", "100%", "\u{1B}[2A"] {
            #expect(shown.contains(text), "\(text)")
        }
    }

    @Test func interruptEndsTheUpload() async throws {
        server.fallback { _ in .text("late").stalling(.start) }
        let path = try directory.write(Data("x".utf8), to: "x")
        let process = try LatProcess(["upload", server.url(), "-F", "a=\(path)"])
        try await server.waitForRequests(1)
        process.send(signal: 2)
        #expect(await process.result.exitCode == 130)
        try await server.waitUntilDisconnected()
    }
}
