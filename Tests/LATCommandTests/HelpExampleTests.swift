import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import lat

/// The examples of help, run by a shell as they are printed, against `lat demo --serve`.
@Suite(.timeLimit(.minutes(1))) struct HelpExampleTests {
    private static let examples = Commands.all.flatMap { command in
        HelpBlock.reading(command.details).flatMap { if case .examples(let lines) = $0 { lines } else { [String]() } }
    }
    /// The examples that end by themselves and need no other server, table or document.
    private static let runnable = examples.filter { example in
        ![
            "--watch", "--serve", "example.org", "inspect calls.har", "./server", "museum", "login shop", "order.list",
            "lat outbox",
        ]
        .contains {
            example.contains($0)
        }
    }

    @Test(arguments: examples.filter { $0.hasPrefix("lat ") }) func exampleIsAValidCommandLine(_ example: String) throws
    {
        let words = ShellLine.words(example).prefix { !["|", "<", ">"].contains($0) }
        _ = try Invocation(words.dropFirst().map { $0.filter { $0 != "'" } })
    }

    @Test func examplesSucceedAgainstTheDemoServer() async throws {
        #expect(Self.runnable.count > 20)
        let folder = try TemporaryDirectory()
        let server = try LatProcess(["demo", "--serve", "--port", "0"])
        let first = try #require(await server.lines(1).first)
        let address = try #require(first.split(separator: " ").first { $0.hasPrefix("http://") })
        let own = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Config/domains.json5")
        let table = String(decoding: try Data(contentsOf: own), as: UTF8.self)
            .replacing("https://app.example.org/api", with: address)
            .replacing("http://127.0.0.1:8080", with: address)
        _ = try folder.writeTable(table)
        for name in ["a.png", "b.png", "c.pdf", "report.pdf"] { _ = try folder.write(Data(name.utf8), to: name) }
        _ = try folder.write(Data("one\ntwo\n".utf8), to: "messages.txt")
        for name in ["api.http", "smoke.http"] {
            _ = try folder.write(Data("### login\nGET \(address)/get\n".utf8), to: name)
        }
        _ = try folder.write(Data("{\"dev\": {}}".utf8), to: "http-client.env.json")
        for name in ["images", "cache", "lat", ".local/share/man/man1"] {
            try FileManager.default.createDirectory(
                atPath: folder.path(of: name), withIntermediateDirectories: true)
        }
        for example in Self.runnable {
            // As on a narrow terminal: several lines, which the shell joins.
            let line = ShellLine.wrapped(example, to: 38).joined(separator: "\n")
                .replacing("http://127.0.0.1:8080", with: address)
                .replacing("ws://127.0.0.1:8080", with: address.replacing("http:", with: "ws:"))
                .replacing(" :8080", with: " " + address)
                .replacing("/var/cache/app", with: folder.path(of: "cache"))
            let result = try await Shell.run("/bin/sh", "set -e\n\(line)", in: folder)
            #expect(result.exitCode == 0, "\(example): \(result.err)")
        }
        server.send(signal: SIGINT)
        #expect(await server.result.exitCode == 130)
    }
}

/// A shell whose `lat` is the built one.
enum Shell {
    static let folder = String(LatProcess.path.dropLast(4))

    static func environment(_ home: TemporaryDirectory) -> [String: String] {
        ["PATH": "\(folder):/usr/bin:/bin", "HOME": home.path, "XDG_CACHE_HOME": home.path, "MANWIDTH": "80"]
    }

    static func run(_ shell: String, _ script: String, in home: TemporaryDirectory) async throws -> LatProcess.Result {
        try await LatProcess(
            ["-c", script], environment: environment(home), in: home.path, program: shell
        ).result
    }
}
