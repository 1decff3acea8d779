import Foundation
import Glibc
import LATTesting
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test without the compiler that makes ``FakeClock``.
    package static var needsFakeClock: Self {
        .enabled(if: ChildProcess.path(of: "gcc") != nil, "needs gcc; scripts/setup installs it")
    }
}

/// A clock of child processes that can be set while they run, as a person or a time server sets that of a machine. The time
/// since the start of the machine stays the true one.
package struct FakeClock: Sendable {
    private let library: String
    private let path: String

    /// - Parameter directory: the place of the library, which is compiled, and of the file with the difference.
    package init(_ directory: TemporaryDirectory) throws {
        library = directory.path(of: "fake_clock.so")
        path = directory.path(of: "clock")
        let source = PythonScript.root.appending(path: "scripts/lib/fake_clock.c").path
        try ChildProcess.run("gcc", ["-shared", "-fPIC", "-o", library, source], in: "/")
        try set(0)
    }

    /// Sets the clock so many seconds after the true time.
    package func set(_ seconds: Int64) throws {
        // In place, because the processes have mapped the file.
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        let count = withUnsafeBytes(of: seconds) { write(file, $0.baseAddress, $0.count) }
        try #require(count == 8)
    }

    /// The variables of a process that has this clock.
    package var variables: [String: String] { ["LD_PRELOAD": library, "LAT_TEST_CLOCK": path] }
}
