/// A command of `lat`: a value made from its arguments, without any effect, and then run.
protocol Command: Sendable {
    /// The word after `lat`.
    static var name: String { get }
    /// What it does, in one line.
    static var summary: String { get }
    /// What stands after the name in usage: `METHOD URL [options]`.
    static var usage: String { get }
    /// Its options, without `--help`.
    static var options: [Option] { get }
    /// What help says below the options.
    static var details: String { get }

    /// - Throws: ``UsageError`` that names the argument and the next step.
    init(_ arguments: ParsedArguments) throws(UsageError)

    func run(_ console: Console) async throws -> ExitCode
}

extension Command {
    static var options: [Option] { [] }
    static var details: String { "" }
}
