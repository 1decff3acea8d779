import FoundationEssentials
import Glibc
import Platform

/// A program that runs beside this one. Its standard output is discarded.
final class Program: Sendable {
    let identifier: pid_t

    /// Starts a program. If `setpriv` is installed, the program ends with this process.
    init(_ path: String, _ arguments: [String]) throws {
        var command = [path] + arguments
        if let setpriv = Self.path(of: "setpriv") { command = [setpriv, "--pdeathsig", "KILL"] + command }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
        var words = command.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var identifier: pid_t = 0
        let code = posix_spawn(&identifier, command[0], &actions, nil, &words, environ)
        guard code == 0 else {
            throw FleetDemo.Failure("\(path) cannot be started: \(SystemError(code: code).text)")
        }
        self.identifier = identifier
    }

    /// Ends the program with SIGKILL.
    func kill() {
        guard Glibc.kill(identifier, SIGKILL) == 0 else { return }
        var status: CInt = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
    }

    /// The path of a program; `nil` when it is not installed.
    static func path(of program: String) -> String? {
        ["/usr/bin/", "/usr/local/bin/", "/usr/sbin/", "/bin/"].map { $0 + program }.first { access($0, X_OK) == 0 }
    }

    /// The path of this program.
    static var own: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
    }
}
