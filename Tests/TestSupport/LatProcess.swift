import FoundationEssentials
import Glibc
import Synchronization

/// Programs of this package, which are built beside the tests.
package enum BuiltProgram {
    package static func path(_ name: String) -> String {
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return "\(tests.prefix(upTo: tests.lastIndex(of: "/") ?? tests.startIndex))/\(name)"
    }
}

/// The built `lat` as a child process.
///
/// ```swift
/// let result = try await LatProcess.run(["request", "GET", server.url("/")])
/// #expect(result.exitCode == 0)
/// ```
///
/// It waits for the end and the output without blocking a thread of the tests.
package final class LatProcess: Sendable {
    package struct Result: Sendable {
        /// 128 plus the signal's number when a signal ended the process.
        package let exitCode: Int32
        package let out: Data
        package let err: String

        /// Standard output as text.
        package var text: String { String(decoding: out, as: UTF8.self) }
    }

    package struct Failure: Error {
        package let what: String

        package init(what: String) { self.what = what }
    }

    private struct State {
        var out = Data()
        var err = Data()
        var exitCode: Int32?
        var openStreams = 0
        var waiters: [Waiter] = []

        var isOver: Bool { exitCode != nil && openStreams == 0 }
    }

    private struct Waiter {
        let isDone: @Sendable (State) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private let state = Mutex(State())
    private let identifier: pid_t
    /// The end of the pseudoterminal at which a person would sit; `nil` without one.
    private let keyboard: Int32?

    /// Starts the process without the proxies and colours of the test's environment.
    ///
    /// - Parameters:
    ///   - input: The content of standard input.
    ///   - columns: The width of a pseudoterminal for standard output and standard error, whose whole text is in
    ///     ``Result/out``. `nil` for pipes.
    ///   - isTyped: Whether the pseudoterminal is standard input too, and the process's own terminal, so that
    ///     ``type(_:)`` reaches it. Needs `columns`.
    ///   - closesOutput: Whether the reading end of standard output is closed.
    ///   - folder: The current folder; `nil` for the folder of the tests.
    ///   - launcher: A command that starts the process, such as `ip netns exec`.
    ///   - program: The program to run instead of `lat`.
    package init(
        _ arguments: [String], input: String = "", environment: [String: String] = [:], columns: UInt16? = nil,
        isTyped: Bool = false, closesOutput: Bool = false, in folder: String? = nil, launcher: [String] = [],
        program: String? = nil
    ) throws {
        var variables = ["PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm"]
        // The first variable makes the process load the libcurl of the tests, with `scripts/test --libcurl 8` too.
        // scripts/coverage sets the second. Without it the process would leave a file in its folder.
        for name in ["LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"] {
            variables[name] = ProcessInfo.processInfo.environment[name]
        }
        variables.merge(environment) { $1 }
        let (identifier, out, err) = try Self.starting.withLock { _ -> (pid_t, Int32, Int32?) in
            let input = try Self.pipe(holding: input)
            let terminal = try columns.map { try Self.openTerminal($0) }
            let out = try terminal.map { (reading: $0.reading, writing: $0.writing) } ?? Self.openPipe()
            let err = columns == nil ? try Self.openPipe() : nil
            defer { for end in [input, out.writing, err?.writing ?? -1] { close(end) } }
            let descriptors = [input, out.writing, err?.writing ?? out.writing]
            let identifier = try Self.spawn(
                launcher + [program ?? Self.path] + arguments, variables, descriptors, folder,
                terminal: isTyped ? terminal?.name : nil)
            return (identifier, out.reading, err?.reading)
        }
        self.identifier = identifier
        keyboard = isTyped ? out : nil
        if closesOutput { close(out) } else { read(out) { $0.out.append(contentsOf: $1) } }
        if let err { read(err) { $0.err.append(contentsOf: $1) } }
        waitForExit()
    }

    /// Runs the process to its end.
    package static func run(
        _ arguments: [String], input: String = "", environment: [String: String] = [:], columns: UInt16? = nil,
        closesOutput: Bool = false, in folder: String? = nil
    ) async throws -> Result {
        try await LatProcess(
            arguments, input: input, environment: environment, columns: columns, closesOutput: closesOutput, in: folder
        ).result
    }

    /// The result. Waits until the process has ended.
    package var result: Result {
        get async {
            await wait { $0.isOver }
            return state.withLock {
                Result(
                    exitCode: $0.exitCode ?? -1, out: Self.withoutLoader($0.out),
                    err: String(decoding: Self.withoutLoader($0.err), as: UTF8.self))
            }
        }
    }

    /// Removes the loader's warnings about a libcurl whose symbols have no versions, such as that of
    /// `scripts/test --libcurl 8`.
    private static func withoutLoader(_ output: Data) -> Data {
        let mark = Data("no version information available".utf8)
        guard output.firstRange(of: mark) != nil else { return output }
        let lines = output.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        return Data(lines.filter { $0.firstRange(of: mark) == nil }.joined(separator: [UInt8(ascii: "\n")]))
    }

    /// Waits until standard error contains a text, or the process has ended.
    package func waitForError(_ text: String) async {
        let bytes = Data(text.utf8)
        await wait { $0.isOver || $0.err.firstRange(of: bytes) != nil }
    }

    /// Waits until standard output contains a text, or the process has ended.
    package func waitForOutput(_ text: String) async {
        let bytes = Data(text.utf8)
        await wait { $0.isOver || $0.out.firstRange(of: bytes) != nil }
    }

    /// Waits until standard output has this many whole lines, or the process has ended, and returns the lines.
    package func lines(_ count: Int) async -> [String] {
        await wait { state in state.isOver || state.out.count { $0 == UInt8(ascii: "\n") } >= count }
        return String(decoding: state.withLock { $0.out }, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// - Parameter toGroup: Whether all processes of its terminal get the signal, which needs `isTyped`.
    package func send(signal: Int32, toGroup: Bool = false) { kill(toGroup ? -identifier : identifier, signal) }

    /// Types a text on the terminal. `\u{3}` is Ctrl-C, `\u{4}` is Ctrl-D.
    package func type(_ text: String) {
        guard let keyboard else { return }
        var text = text
        text.withUTF8 { _ = write(keyboard, $0.baseAddress, $0.count) }
    }

    // MARK: Waiting

    private func wait(until isDone: @escaping @Sendable (State) -> Bool) async {
        await withCheckedContinuation { continuation in
            state.withLock { $0.waiters.append(Waiter(isDone: isDone, continuation: continuation)) }
            update { _ in }
        }
    }

    private func update(_ change: (inout State) -> Void) {
        let done = state.withLock { state -> [Waiter] in
            change(&state)
            let current = state
            let done = state.waiters.filter { $0.isDone(current) }
            state.waiters.removeAll { $0.isDone(current) }
            return done
        }
        for waiter in done { waiter.continuation.resume() }
    }

    private func read(_ descriptor: Int32, _ append: @escaping @Sendable (inout State, ArraySlice<UInt8>) -> Void) {
        state.withLock { $0.openStreams += 1 }
        Self.onThread { [self] in
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                // Reading from a terminal whose other side is closed fails with EIO.
                let count = Glibc.read(descriptor, &buffer, buffer.count)
                if count <= 0 { break }
                update { append(&$0, buffer[..<count]) }
            }
            close(descriptor)
            update { $0.openStreams -= 1 }
        }
    }

    private func waitForExit() {
        Self.onThread { [self] in
            var status: Int32 = 0
            while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
            let signal = status & 0x7F
            let code = signal == 0 ? (status >> 8) & 0xFF : 128 + signal
            update { $0.exitCode = code }
        }
    }

    package static func onThread(_ work: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(Work(work)).toOpaque()
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { box in
                if let box { Unmanaged<Work>.fromOpaque(box).takeRetainedValue().run() }
                return nil
            }, box)
        pthread_detach(thread)
    }

    private final class Work: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    // MARK: Starting

    package static let path = BuiltProgram.path("lat")

    private static func spawn(
        _ words: [String], _ environment: [String: String], _ descriptors: [Int32], _ folder: String?,
        terminal: String? = nil
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (number, descriptor) in descriptors.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(number))
        }
        // The terminal that the leader of a new session opens first becomes the session's own.
        if let terminal { posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, terminal, O_RDWR, 0) }
        // A background shell may ignore SIGINT, which child processes inherit.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        // The threads of the test runner block signals, which child processes inherit too.
        var blocked = sigset_t()
        sigemptyset(&blocked)
        posix_spawnattr_setsigmask(&attributes, &blocked)
        // POSIX_SPAWN_SETSID, which Swift does not import.
        let newSession: Int32 = terminal == nil ? 0 : 0x80
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | newSession))

        // Swift does not import the function that sets the folder of a child process, so env(1) sets it and then
        // becomes the child.
        let command = (folder.map { ["/usr/bin/env", "-C", $0] } ?? []) + words
        var words = command.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in words + variables { free(text) } }
        var identifier: pid_t = 0
        let code = posix_spawn(&identifier, command[0], &actions, &attributes, &words, &variables)
        guard code == 0 else { throw Failure(what: "cannot start \(path): \(String(cString: strerror(code)))") }
        return identifier
    }

    /// Held while descriptors are made and passed to a child process, so that no other child inherits them.
    private static let starting = Mutex(())

    private static func openPipe() throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { throw Failure(what: "no pipe, errno \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// The reading end of a pipe that contains a short text and then ends.
    private static func pipe(holding text: String) throws -> Int32 {
        let (reading, writing) = try openPipe()
        defer { close(writing) }
        var text = text
        let count = text.withUTF8 { write(writing, $0.baseAddress, $0.count) }
        guard count == text.utf8.count else { throw Failure(what: "the input is longer than a pipe") }
        return reading
    }

    /// A pseudoterminal (pty(7)): text written to one end is read from the other.
    private static func openTerminal(_ columns: UInt16) throws -> (reading: Int32, writing: Int32, name: String) {
        // TIOCSPTLCK and TIOCGPTN are macros that Swift does not import.
        let (setLock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        let outer = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var isLocked: Int32 = 0
        var number: UInt32 = 0
        guard outer >= 0, ioctl(outer, setLock, &isLocked) == 0, ioctl(outer, getNumber, &number) == 0 else {
            throw Failure(what: "no terminal, errno \(errno)")
        }
        let name = "/dev/pts/\(number)"
        let inner = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard inner >= 0 else { throw Failure(what: "no terminal, errno \(errno)") }
        var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(outer, UInt(TIOCSWINSZ), &size)
        return (outer, inner, name)
    }
}
