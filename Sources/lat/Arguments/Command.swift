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

/// An option of a command: how it is written, and what help says of it.
struct Option: Hashable, Sendable {
    /// The name with two dashes, `--header`.
    let name: String
    /// The letter with one dash, `-H`.
    let letter: String?
    /// What stands for the value in help, `FILE`; `nil` for a switch.
    let value: String?
    /// Whether it may be given more than once.
    let repeats: Bool
    /// One or more sentences for help.
    let help: String

    init(_ name: String, _ letter: String? = nil, value: String? = nil, repeats: Bool = false, help: String) {
        self.name = name
        self.letter = letter
        self.value = value
        self.repeats = repeats
        self.help = help
    }

    /// Understood by every command.
    static let help = Option("--help", "-h", help: "Shows this.")

    /// As in a list of options: `-H, --header 'K: V'`.
    var form: String {
        (letter.map { "\($0), " } ?? "    ") + name + (value.map { " \($0)" } ?? "")
    }

    func isNamed(_ text: String) -> Bool { text == name || text == letter }
}

/// A command line that cannot be used: one sentence that names the argument and the next step.
struct UsageError: Error, Hashable {
    let message: String

    init(_ message: String) { self.message = message }

    /// - Throws: ``UsageError`` for the first operand behind so many, with what to write instead.
    static func refuse(_ operands: [String], after count: Int, _ hint: String) throws(UsageError) {
        guard operands.count > count else { return }
        throw UsageError("\"\(SafeText.line(operands[count]))\" is one argument too many; \(hint)")
    }
}
