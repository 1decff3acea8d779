import Foundation
import Glibc
import TestSupport

/// A child process whose standard output goes to a file.
struct ChildProcess {
    struct Failure: Error {
        let code: Int32
    }

    let identifier: pid_t
    private let output: String

    init(_ arguments: [String], environment: [String: String] = [:], output: String = "/dev/null") throws {
        self.output = output
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        var words = arguments.map { strdup($0) } + [nil]
        let variables = ["PATH": "/usr/bin:/bin"].merging(environment) { $1 }
        var list = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in words + list { free(text) } }
        var identifier: pid_t = 0
        let code = posix_spawn(&identifier, arguments[0], &actions, nil, &words, &list)
        guard code == 0 else { throw Failure(code: code) }
        self.identifier = identifier
    }

    static func cacheWriter(_ arguments: String..., output: String = "/dev/null") throws -> ChildProcess {
        try ChildProcess([BuiltProgram.path("CacheWriterProcess")] + arguments, output: output)
    }

    func kill() { _ = Glibc.kill(identifier, SIGKILL) }

    /// Waits until the process has stopped itself; `false` when it ended instead.
    func waitUntilStopped() -> Bool {
        var status: Int32 = 0
        while waitpid(identifier, &status, WUNTRACED) < 0, errno == EINTR {}
        return status & 0xFF == 0x7F
    }

    /// Continues the process after a stop.
    func resume() { _ = Glibc.kill(identifier, SIGCONT) }

    /// Waits for the end of the process.
    ///
    /// - Returns: The status of `waitpid`; 0 on success.
    @discardableResult
    func wait() -> Int32 {
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
        return status
    }

    /// The lines of its output, without an unterminated last line.
    var lines: [Substring] {
        let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
        return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    }
}
