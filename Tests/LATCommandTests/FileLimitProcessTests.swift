import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

/// Processes that may open only few files and sockets (`ulimit -n`).
@Suite(.timeLimit(.minutes(2))) struct FileLimitProcessTests {
    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.fallback { _ in .text("ok") }
    }

    /// Runs `lat` with each limit, from one at which the engine cannot start to one at which everything works. No error on
    /// the way blames the server, the name or the file.
    private func sweep(_ arguments: [String]) async throws {
        var failureCount = 0
        var isEnough = false
        for limit in 4...64 where !isEnough {
            let shell = ["/bin/sh", "-c", "ulimit -c 0; ulimit -n \(limit); exec \"$@\"", "sh"]
            // Swift's own report of a crash may wait for ever without descriptors.
            let environment = ["SWIFT_BACKTRACE": "enable=no"]
            let result = try await LatProcess(arguments, environment: environment, launcher: shell).result
            // With very few, not even the program's libraries can be loaded, and libdispatch ends the process (SIGILL) when it
            // gets no descriptor for itself.
            if result.err.contains("shared libraries") || result.exitCode == 128 + SIGILL { continue }
            isEnough = result.exitCode == 0
            if !isEnough { failureCount += 1 }
            #expect(isEnough || result.err.contains("ulimit -n"), "limit \(limit): \(result.err)")
            #expect(!result.err.contains("is the server running"), "limit \(limit)")
        }
        #expect(isEnough && failureCount > 0)
    }

    @Test func everyLimitOfACallIsNamed() async throws { try await sweep(["GET", server.url()]) }

    @Test func everyLimitOfFilesIsNamed() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data(#"{"a": 1}"#.utf8), to: "a.json")
        try await sweep([server.url(), "--json", path, "-o", directory.path(of: "out")])
        let table = try directory.write(Data(#"{"domains": {"a": {"baseURL": "http://h"}}}"#.utf8), to: "t.json5")
        try await sweep(["domains", "check", table])
    }

    @Test func everyLimitOfAnUploadIsNamed() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.writePattern(byteCount: 100_000, to: "a.bin")
        try await sweep(["upload", server.url(), "--body", path])
    }
}
