import CLibcurl
import Dispatch
import FoundationEssentials
import Glibc
import LATTesting
import Platform
import Synchronization
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test when the program is not installed.
    package static func needs(_ program: String) -> Self {
        .enabled(if: ChildProcess.path(of: program) != nil, "needs \(program); scripts/setup --tests installs it")
    }
}

/// A program that a test starts. Its output goes to a file. Releasing this value kills it and its child processes.
package final class ChildProcess: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    private let identifier: pid_t
    private let directory: TemporaryDirectory

    /// The text written so far to standard output and standard error.
    package var output: String { String(decoding: directory.read("output") ?? Data(), as: UTF8.self) }

    /// Starts a program from the system's folders. With `setpriv`, the program is killed when the tests' process dies.
    package convenience init(_ program: String, _ arguments: [String], input: String = "/dev/null") throws {
        try self.init(program, arguments, input: input, startedBy: StartingThread.run)
    }

    private init(
        _ program: String, _ arguments: [String], input: String,
        startedBy run: (@escaping @Sendable () -> (pid_t, CInt)) -> (pid_t, CInt)
    ) throws {
        guard let path = Self.path(of: program) else { throw Failure(description: "\(program) is not installed") }
        directory = try TemporaryDirectory()
        var command = [path] + arguments
        if let guardian = Self.path(of: "setpriv") { command = [guardian, "--pdeathsig", "KILL"] + command }
        let output = directory.path(of: "output")
        let (identifier, code) = run { [command] in Self.start(command, input: input, output: output) }
        guard code == 0 else { throw Failure(description: "\(program): \(String(cString: strerror(code)))") }
        self.identifier = identifier
    }

    private static func start(_ command: [String], input: String, output: String) -> (pid_t, CInt) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var words = command.map { strdup($0) } + [nil]
        var variables = [strdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), strdup("LANG=C"), nil]
        defer { for text in words + variables { free(text) } }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The thread that starts it blocks all signals.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        // In a process group of its own, so that its child processes can be killed with it.
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK))
        var identifier: pid_t = 0
        let code = posix_spawn(&identifier, command[0], &actions, &attributes, &words, &variables)
        return (identifier, code)
    }

    deinit {
        kill()
        var status: CInt = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
    }

    /// Kills the program and its child processes.
    private func kill() { Glibc.kill(-identifier, SIGKILL) }

    /// Sends a signal to the program.
    package func send(_ signal: CInt) { Glibc.kill(identifier, signal) }

    /// Kills the program and its child processes, and waits until it has ended.
    package func killAndWait() {
        kill()
        var info = siginfo_t()
        while waitid(P_PID, id_t(identifier), &info, WEXITED | WNOWAIT) < 0, errno == EINTR {}
    }

    /// Kills the program and its child processes, and waits until its port of 127.0.0.1 refuses connections.
    package func kill(listeningOn port: Int) async throws {
        kill()
        let end = ContinuousClock.now + .seconds(30)
        while Self.canConnect(to: port) {
            guard ContinuousClock.now < end else { throw Failure(description: "port \(port) is still open") }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// Sends SIGTERM, and waits until the program has ended.
    package func terminate() async throws {
        Glibc.kill(identifier, SIGTERM)
        let end = ContinuousClock.now + .seconds(30)
        while !hasEnded {
            guard ContinuousClock.now < end else { throw Failure(description: "it ignores SIGTERM: \(output)") }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// The path of a program; `nil` when it is not installed.
    package static func path(of program: String) -> String? {
        ["/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"].map { $0 + program }.first { access($0, X_OK) == 0 }
    }

    /// Runs a program and returns its output. Throws unless it exits with 0.
    ///
    /// The calling thread starts the program, and waits for it. So the program runs in that thread's network namespace.
    @discardableResult
    package static func run(_ program: String, _ arguments: [String], in folder: String) throws -> String {
        let child = try ChildProcess("env", ["-C", folder, program] + arguments, input: "/dev/null") { $0() }
        var info = siginfo_t()
        while waitid(P_PID, id_t(child.identifier), &info, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        guard info.si_code == CLD_EXITED, info._sifields._sigchld.si_status == 0 else {
            throw Failure(description: "\(program) \(arguments.joined(separator: " ")): \(child.output)")
        }
        return child.output
    }

    /// The same beside the tasks.
    package static func runAside(_ program: String, _ arguments: [String], in folder: String) async throws {
        _ = try await aside { try run(program, arguments, in: folder) }
    }

    /// Waits until `find` returns a value for the output, and returns that value.
    @discardableResult
    package func awaitOutput<Found>(_ what: String, _ find: (String) -> Found?) async throws -> Found {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if let found = find(output) { return found }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Failure(description: "waited for \(what) in: \(output)")
    }

    /// Waits until a port of 127.0.0.1 accepts connections.
    package func awaitListener(on port: Int) async throws {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if Self.canConnect(to: port) { return }
            if hasEnded { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Failure(description: "port \(port) accepts no connections: \(output)")
    }

    package var hasEnded: Bool {
        var info = siginfo_t()
        return waitid(P_PID, id_t(identifier), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_signo == SIGCHLD
    }

    private static func canConnect(to port: Int) -> Bool {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}

/// The thread that starts all programs, and never ends. The kernel kills a program with a parent-death signal when the thread
/// that started it ends, and the threads that run tasks end when they are idle. Its network is that of the process, even if the
/// first to need it is a thread in a ``NetworkNamespace``, whose new threads are in that namespace.
private enum StartingThread {
    typealias Started = (pid_t, CInt)

    private static let jobs = Mutex<[@Sendable () -> Void]>([])
    private static let hasJobs = DispatchSemaphore(value: 0)
    private static let isRunning = BackgroundThread.start("test-programs") {
        NetworkNamespace.leave()
        while true {
            hasJobs.wait()
            let job = jobs.withLock { $0.removeFirst() }
            job()
        }
    }

    static func run(_ start: @escaping @Sendable () -> Started) -> Started {
        guard isRunning else { return (0, EAGAIN) }
        let started = Box<Started>((0, 0))
        let isDone = DispatchSemaphore(value: 0)
        jobs.withLock { jobs in
            jobs.append {
                started.change { $0 = start() }
                isDone.signal()
            }
        }
        hasJobs.signal()
        isDone.wait()
        return started.value
    }
}
