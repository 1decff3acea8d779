import FoundationEssentials
import Glibc
import LATInspect
import LATNetworking

/// `lat record FILE -- COMMAND…`: runs a program whose HTTP exchanges are recorded, or replayed.
struct RecordCommand: Command {
    static let name = "record"
    static let summary = "Records the HTTP exchanges of a program, or replays them."
    static let usage = "FILE -- COMMAND…"
    static let mode = Option(
        "--mode", value: "MODE",
        kind: .choices([
            .init("once", "Records if there is no file yet, else only replays."), .init("none", "Only replays."),
            .init("new", "Replays what is recorded, and records the rest."), .init("all", "Records everything again."),
        ]), help: "What is recorded: once, none, new or all. Default: once.")
    static let options = [mode]
    static let details = """
        The program must use LATNetworking, and its code must set Cassette.fromEnvironment() as
        its transport, as lat itself does. FILE is text that a person can read and change.
        Passwords, tokens and cookies are not in it. A request that is not recorded fails, and the message names the
        nearest exchange.

        Examples
          lat record users.yaml -- lat get https://api.example.org/users
          lat record users.yaml --mode none -- lat get https://api.example.org/users

        Exit codes: that of the program, 2 the command line or the file is invalid, or the file cannot be written.
        """

    let file: String
    let words: [String]
    let mode: Cassette.Mode

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard let file = arguments.operands.first else {
            throw UsageError("no file is given; write lat record calls.yaml -- COMMAND")
        }
        words = Array(arguments.operands.dropFirst())
        guard !words.isEmpty else {
            throw UsageError("no program is given; write lat record \(SafeText.line(file)) -- COMMAND")
        }
        self.file = file.hasPrefix("/") ? file : FileManager.default.currentDirectoryPath + "/" + file
        let name = arguments.value(Self.mode) ?? Cassette.Mode.once.rawValue
        guard let mode = Cassette.Mode(rawValue: name) else {
            throw UsageError("\"\(SafeText.line(name))\" is not a mode; --mode is once, none, new or all")
        }
        self.mode = mode
    }

    static func operandKind(after operands: [String]) -> ValueKind { operands.isEmpty ? .file : .text }

    func run(_ console: Console) async throws -> ExitCode {
        let before = try content()
        var failures: [Int32] = [-1, -1]
        pipe(&failures)
        defer { for descriptor in failures { close(descriptor) } }
        for descriptor in failures { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(failures[0], F_SETFL, O_NONBLOCK)
        let variables = [
            "LAT_CASSETTE": file, "LAT_CASSETTE_MODE": mode.rawValue,
            Cassette.failurePipe: "/proc/\(getpid())/fd/\(failures[1])",
        ]
        let code = try await ChildCommand(words, environment: variables).end()
        var byte: UInt8 = 0
        // The program has said why the file cannot be written.
        if read(failures[0], &byte, 1) == 1 { return code == .success ? .usage : code }
        let after = try content()
        if mode == .none || mode == .once && before != nil { return code }
        if after == nil {
            console.note(
                "lat: nothing was recorded; the program must use Cassette.fromEnvironment(), and end by itself")
        } else if after != before {
            console.note("lat: recorded in \(SafeText.line(file))")
        }
        return code
    }

    /// The file; `nil` when there is none.
    ///
    /// - Throws: ``UsageError`` when it is not a cassette.
    private func content() throws(UsageError) -> Data? {
        // Checks even a file that will be replaced: it may be a program, named by mistake in place of the cassette.
        _ = try UsageError.checked(Cassette(file, mode: mode == .all ? .new : mode))
        return FileManager.default.contents(atPath: file)
    }
}
