import Glibc

/// What the process tells its caller when it ends.
struct ExitCode: Hashable, Sendable {
    let rawValue: Int32

    /// All went well.
    static let success = ExitCode(rawValue: 0)
    /// The server answered and said no, by its status or in its envelope, or a step of the demo went wrong.
    static let failure = ExitCode(rawValue: 1)
    /// The command line, the table, or a file that they name, cannot be used.
    static let usage = ExitCode(rawValue: 2)
    /// There was no answer, or it broke off.
    static let network = ExitCode(rawValue: 3)
    /// Ctrl-C.
    static let interrupted = signal(SIGINT)
    /// Whoever read the output went away; the code a shell gives to a program that SIGPIPE ended.
    static let closedPipe = signal(SIGPIPE)

    /// Ended by a signal, counted as shells do.
    static func signal(_ number: Int32) -> ExitCode { ExitCode(rawValue: 128 + number) }
}
