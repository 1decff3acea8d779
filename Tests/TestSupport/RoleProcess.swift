import Foundation
import Glibc
import LATTesting
import Testing

/// The test program as a child process with one task, which is the only test of a suite. In the process that runs the tests the
/// suite is disabled by ``isRole(of:)``.
package final class RoleProcess {
    private var identifier: pid_t = 0
    private let output: Int32

    /// - Parameter suite: the suite with the task.
    package init(_ role: String, _ arguments: [String] = [], of suite: String, variables more: [String: String] = [:])
        throws
    {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        output = ends[0]
        defer { close(ends[1]) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 3)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        var buffer = [CChar](repeating: 0, count: 4_096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let path = String(decoding: buffer[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let words = [path, "--testing-library", "swift-testing", "--filter", suite]
        var variables = ProcessInfo.processInfo.environment
        variables["LAT_TEST_ROLE"] = role
        variables["LAT_TEST_ROLE_SUITE"] = suite
        variables["LAT_TEST_ROLE_ARGUMENTS"] = arguments.joined(separator: "\n")
        variables.merge(more) { $1 }
        var argv = words.map { strdup($0) } + [nil]
        var envp = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in argv + envp { free(text) } }
        try #require(posix_spawn(&identifier, path, &actions, nil, &argv, &envp) == 0)
    }

    deinit {
        if identifier > 0 { kill() }
        close(output)
    }

    /// Reads the next output; empty at its end.
    package func read() -> String {
        var buffer = [UInt8](repeating: 0, count: 1_024)
        let count = Glibc.read(output, &buffer, buffer.count)
        return String(decoding: buffer[..<max(0, count)], as: UTF8.self)
    }

    /// Reads the output to its end. Returns it with the exit code, or the negated number of a signal.
    package func finish() -> (text: String, code: Int32) {
        var text = ""
        while case let more = read(), !more.isEmpty { text += more }
        return (text, wait())
    }

    package func kill() {
        Glibc.kill(identifier, SIGKILL)
        _ = wait()
    }

    private func wait() -> Int32 {
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
        identifier = 0
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : -(status & 0x7F)
    }

    /// Whether this process has a role of the suite.
    package static func isRole(of suite: String) -> Bool {
        ProcessInfo.processInfo.environment["LAT_TEST_ROLE_SUITE"] == suite
    }

    /// Runs the role of this process and ends it.
    package static func play(_ run: (_ role: String, _ arguments: [String]) async throws -> Void) async -> Never {
        let environment = ProcessInfo.processInfo.environment
        do {
            try await run(
                environment["LAT_TEST_ROLE"] ?? "",
                (environment["LAT_TEST_ROLE_ARGUMENTS"] ?? "").split(separator: "\n").map(String.init))
        } catch {
            say("error: \(error)")
            exit(1)
        }
        exit(0)
    }

    /// Writes a message to the parent process.
    package static func say(_ text: String) { _ = text.withCString { write(3, $0, strlen($0)) } }
}
