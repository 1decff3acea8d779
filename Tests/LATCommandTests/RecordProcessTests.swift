import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import lat

/// Programs that are recorded, here `lat` itself.
@Suite struct RecordProcessTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func record(_ words: [String], launcher: [String] = []) async throws -> LatProcess.Result {
        try await LatProcess(["record"] + words, in: directory.path, launcher: launcher).result
    }

    /// A network without any interface, not even the loopback one.
    private static let noNetwork = ["/usr/bin/unshare", "-rn"]
    private static let isPermitted = system("/usr/bin/unshare -rn true 2>/dev/null") == 0

    @Test func recordedRunIsReplayedWithoutANetwork() async throws {
        let server = try MockServer()
        server.route("GET", "/users") { _ in .json(#"{"users": ["Ada"]}"#).header("Set-Cookie", "session=CANARY") }
        let words = [
            "calls.yaml", "--", LatProcess.path, "get", server.url("/users"), "-H", "Authorization: Bearer CANARY",
        ]
        let first = try await record(words)
        #expect(first.exitCode == 0 && first.text.contains("Ada") && first.err.contains("recorded in "), "\(first.err)")
        let text = String(decoding: directory.read("calls.yaml") ?? Data(), as: UTF8.self)
        #expect(text.contains("/users") && !text.contains("CANARY"))
        let second = try await record(words)
        #expect(second.out == first.out && second.err.isEmpty && server.requests.count == 1)
    }

    @Test(arguments: [["download", "-o", "a.bin"], ["get", "--download", "-o", "a.bin"]])
    func downloadIsRecordedAndReplayed(_ command: [String]) async throws {
        let content = String(repeating: "0123456789", count: 5_000)
        let server = try MockServer()
        server.route("GET", "/file") { _ in .text(content) }
        let words = ["c.yaml", "--", LatProcess.path, command[0], server.url("/file")] + command.dropFirst()
        for _ in 0..<2 {
            let result = try await record(words)
            #expect(result.exitCode == 0 && directory.read("a.bin") == Data(content.utf8), "\(result.err)")
            try FileManager.default.removeItem(atPath: directory.path(of: "a.bin"))
        }
        #expect(server.requests.count == 1)
    }

    @Test(arguments: ["download", "upload", "start", "get"])
    func inspectorOfTheEnvironmentIsStarted(_ command: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("content") }
        try directory.write(Data("content".utf8), to: "a.txt")
        _ = try directory.writeTable(
            "{ domains: { d: { baseURL: \"\(server.url())\" } }, servers: { s: { domain: \"d\", path: \"x\", method: \"GET\" } } }"
        )
        let words =
            switch command {
            case "start": ["start", "s"]
            case "upload": ["upload", server.url("/file"), "--body", "a.txt"]
            default: [command, server.url("/file"), "-o", "b.txt"]
            }
        let path = directory.path(of: "address")
        let result = try await LatProcess.run(words, environment: ["LAT_INSPECT": path], in: directory.path)
        #expect(result.exitCode == 0, "\(result.err)")
        let address = String(decoding: directory.read("address") ?? Data(), as: UTF8.self)
        #expect(address.hasPrefix("http://127.0.0.1:"), "\(result.err)")
    }

    @Test func uploadIsRecordedAndReplayed() async throws {
        let server = try MockServer()
        server.route("PUT", "/file") { .text("got \($0.body.count)") }
        try directory.write(Data("content".utf8), to: "a.txt")
        let words = ["c.yaml", "--", LatProcess.path, "upload", server.url("/file"), "--body", "a.txt"]
        let first = try await record(words)
        #expect(first.exitCode == 0 && first.text.contains("got"), "\(first.err)")
        let second = try await record(words)
        #expect(second.out == first.out && second.exitCode == 0 && server.requests.count == 1, "\(second.err)")
    }

    @Test(.enabled(if: isPermitted, "this user may not make network namespaces (unshare -rn)"))
    func replayNeedsNoNetwork() async throws {
        let server = try MockServer()
        server.route("GET", "/users") { _ in .text("Ada") }
        let words = ["calls.yaml", "--", LatProcess.path, "get", server.url("/users")]
        let first = try await record(words)
        let second = try await record(words, launcher: Self.noNetwork)
        #expect(second.out == first.out && second.exitCode == 0 && server.requests.count == 1, "\(second.err)")
    }

    @Test func unrecordedRequestFailsWithTheNearest() async throws {
        let server = try MockServer()
        server.route("GET", "/users") { _ in .text("x") }
        _ = try await record(["c.yaml", "--", LatProcess.path, "get", server.url("/users")])
        let result = try await record(
            ["--mode", "none", "c.yaml", "--", LatProcess.path, "get", server.url("/user")])
        #expect(result.exitCode != 0 && result.err.contains("is not recorded; the nearest is in line"), "\(result.err)")
        #expect(server.requests.count == 1)
    }

    @Test func fileThatCannotBeWrittenIsAFailure() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        // The folder of the bodies must not be a link.
        symlink(".", directory.path(of: "c.bodies"))
        let result = try await record(["c.yaml", "--", LatProcess.path, server.url("/users")])
        #expect(result.exitCode == 2 && result.text == "x", "\(result.err)")
        #expect(
            result.err.split(separator: "\n").count == 1 && result.err.contains("is a symbolic link"), "\(result.err)")
        let failed = try await record(["c.yaml", "--", "sh", "-c", "'\(LatProcess.path)' \(server.url()); exit 7"])
        #expect(failed.exitCode == 7 && !failed.err.contains("nothing was recorded"), "\(failed.err)")
    }

    @Test func fileThatIsNoCassetteIsNotReplaced() async throws {
        let program = Data("#!/bin/sh\necho hello\n".utf8)
        try directory.write(program, to: "tool")
        let result = try await record(["--mode", "all", "tool", "--", LatProcess.path, "--version"])
        #expect(result.exitCode == 2 && result.err.contains("tool"), "\(result.err)")
        #expect(directory.read("tool") == program)
    }

    @Test func mistakesAreReported() async throws {
        #expect(try await record([]).err.contains("no file is given"))
        #expect(try await record(["a.yaml"]).err.contains("no program is given"))
        #expect(try await record(["a.yaml", "--mode", "some", "--", "true"]).err.contains("is not a mode"))
        let missing = try await record(["a.yaml", "--", "no-such-program-here"])
        #expect(missing.exitCode == 2 && missing.err.contains("there is no such program"))
        let silent = try await record(["a.yaml", "--", "sh", "-c", "exit 7"])
        #expect(silent.exitCode == 7 && silent.err.contains("nothing was recorded"))
        try Data("version: 1\n---\nrequ".utf8).write(to: URL(filePath: directory.path(of: "cut.yaml")))
        let cut = try await record(["cut.yaml", "--", "true"])
        #expect(cut.exitCode == 2 && cut.err.contains("cut.yaml:3:"), "\(cut.err)")
    }
}
