import FoundationEssentials
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test without the Python of `.venv`.
    package static var needsPython: Self {
        .enabled(if: PythonScript.python != nil, "needs .venv; scripts/setup --tests makes it")
    }
}

/// A script of `scripts/lib`, run by the Python of `.venv`. It serves on a port of 127.0.0.1 and prints a line for each event.
package final class PythonScript: Sendable {
    /// The folder of the package.
    static let root: URL = {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        return root
    }()

    /// The interpreter of `.venv`; `nil` without one.
    package static let python: String? = {
        let path = root.appending(path: ".venv/bin/python").path
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }()

    package let process: ChildProcess
    package let port: Int

    package init(_ script: String, _ arguments: [String]) async throws {
        process = try ChildProcess("env", try Self.command(script) + arguments)
        port = try await process.awaitOutput("a port") { output in
            output.split(whereSeparator: \.isNewline).first { $0.hasPrefix("port ") }.flatMap { Int($0.dropFirst(5)) }
        }
    }

    /// The printed lines that begin with a text.
    package func lines(_ prefix: String) -> [Substring] {
        process.output.split(whereSeparator: \.isNewline).filter { $0.hasPrefix(prefix) }
    }

    /// Runs a script to its end and returns its output.
    package static func run(_ script: String, _ arguments: [String], in folder: String = "/") throws -> String {
        try ChildProcess.run("env", try command(script) + arguments, in: folder)
    }

    /// The arguments with which env(1) runs a script.
    package static func command(_ script: String) throws -> [String] {
        guard let python else {
            throw ChildProcess.Failure(description: "there is no .venv; scripts/setup --tests makes it")
        }
        return ["PYTHONDONTWRITEBYTECODE=1", python, root.appending(path: "scripts/lib/\(script)").path]
    }
}
