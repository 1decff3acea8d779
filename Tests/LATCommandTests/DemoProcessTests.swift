import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

/// `lat demo` as a process.
@Suite(.timeLimit(.minutes(1))) struct DemoProcessTests {
    @Test func everyStepSucceeds() async throws {
        let result = try await LatProcess.run(["demo"])
        #expect(result.exitCode == 0 && result.err == "")
        #expect(result.text.contains("\n10 of 10 steps succeeded, in "))
        #expect(!result.text.contains("\u{1B}") && !result.text.contains("✗"))
        for word in ["dns", "connect", "first byte", "total", "reused"] { #expect(result.text.contains(word)) }
        #expect(result.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }

    @Test func demoEditsACopyOfTheProjectTable() async throws {
        let folder = try TemporaryDirectory()
        let table = """
            // Mine.
            {
              domains: {
                demo: { baseURL: "http://127.0.0.1:8080", headers: { "X-App": "demo" } },
                other: { baseURL: "https://app.example.org" },
              },
              servers: { "demo.get": { domain: "demo", path: "get", method: "GET" } },
            }
            """
        let path = try folder.writeTable(table)
        let result = try await LatProcess.run(["demo"], environment: ["LAT_ENVIRONMENT": "none"], in: folder.path)
        #expect(result.exitCode == 0 && result.text.contains("/get before, /v2/get after, "))
        #expect(String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self) == table)
        #expect(folder.contents == ["Config", "Config/domains.json5"])
    }

    @Test(arguments: [nil, "{ broken", "{ domains: {} }"])
    func demoRunsWithoutAUsableTable(_ table: String?) async throws {
        let folder = try TemporaryDirectory()
        if let table { _ = try folder.writeTable(table) }
        let result = try await LatProcess.run(["demo"], in: folder.path)
        #expect(result.exitCode == 0 && result.text.contains("/get before, /v2/get after, "))
    }

    @Test func terminalShowsProgressOfBothTransfers() async throws {
        let result = try await LatProcess.run(["demo"], columns: 80)
        #expect(result.exitCode == 0)
        #expect(result.text.contains("uploading") && result.text.contains("downloading"))
        #expect(result.text.contains("resuming"))
    }

    @Test(arguments: [40, 80]) func noLineIsWiderThanTheTerminal(columns: UInt16) async throws {
        let result = try await LatProcess.run(
            ["demo"], environment: ["NO_COLOR": "1", "TERM": "dumb"], columns: columns)
        #expect(result.exitCode == 0)
        for line in result.text.split(separator: "\r\n") where !line.hasPrefix("  /") {
            #expect(line.count <= Int(columns), "\(line)")
        }
    }

    @Test func commandsToTryNextSucceed() async throws {
        let folder = try TemporaryDirectory()
        let result = try await LatProcess.run(["demo"], in: folder.path)
        let lines = result.text.split(separator: "\n").map(String.init)
        let start = try #require(lines.firstIndex(of: "Try next"))
        let commands = lines[(start + 1)...].filter { $0.hasPrefix("  /") }.map { $0.dropFirst(2) }
        #expect(commands.count == 3)
        for command in commands where !command.contains("--serve") {
            let run = try await Shell.run("/bin/sh", String(command), in: folder)
            #expect(run.exitCode == 0 && !run.out.isEmpty, "\(command): \(run.err)")
        }
        #expect(commands.last?.hasSuffix("lat demo --serve") == true)
    }

    @Test func servedCommandsSucceedUntilInterrupted() async throws {
        let folder = try TemporaryDirectory()
        let server = try LatProcess(["demo", "--serve", "--port", "0"], in: folder.path)
        let lines = await server.lines(4)
        #expect(lines.count == 4 && lines[0].hasPrefix("The server is at http://127.0.0.1:"))
        for command in lines.dropFirst() {
            let run = try await Shell.run("/bin/sh", command, in: folder)
            #expect(run.exitCode == 0, "\(command): \(run.err)")
        }
        #expect(
            folder.read("big.iso").map { MockPattern.firstMismatch(in: $0, at: 0) == nil && $0.count == 6 << 20 }
                == true)
        let port = try #require(
            lines[0].split(separator: " ").first { $0.hasPrefix("http") }?.split(separator: ":").last)
        let range = ["-H", "Range: bytes=3-\(Int64.max)", "-o", "end.iso", "http://127.0.0.1:\(port)/big.iso"]
        #expect(try await LatProcess.run(["get"] + range, in: folder.path).exitCode == 0)
        #expect(folder.read("end.iso")?.count == (6 << 20) - 3)
        let second = try await LatProcess.run(["demo", "--serve", "--port", String(port)])
        #expect(
            second.exitCode == 2
                && second.err == "lat: port \(port) of 127.0.0.1 cannot be used; "
                    + "name another with --port N, or --port 0 for a free one\n"
        )
        server.send(signal: SIGINT)
        #expect(await server.result.exitCode == 130)
    }
}
