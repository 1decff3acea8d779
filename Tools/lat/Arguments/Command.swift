import LATNetworking

/// A command of `lat`. It is made from its arguments without side effects, and then run.
protocol Command: Sendable {
    /// The word after `lat`.
    static var name: String { get }
    /// One line that says what it does.
    static var summary: String { get }
    /// The arguments in the usage line: `METHOD URL [options]`.
    static var usage: String { get }
    /// Its options, without `--help`.
    static var options: [Option] { get }
    /// The description, the examples and the exit codes in help, in the form that ``HelpBlock`` reads.
    static var details: String { get }
    /// The kind of the next argument that is not an option, so that completions can propose values.
    ///
    /// - Parameter operands: the arguments before it that are not options.
    static func operandKind(after operands: [String]) -> ValueKind

    /// - Throws: ``UsageError`` that names the argument and the next step.
    init(_ arguments: ParsedArguments) throws(UsageError)

    func run(_ console: Console) async throws -> ExitCode
}

extension Command {
    static var options: [Option] { [] }
    static var details: String { "" }
    static func operandKind(after operands: [String]) -> ValueKind { .text }
}

/// An option of a command, with its text in help.
struct Option: Hashable, Sendable {
    /// The name with two dashes, `--header`.
    let name: String
    /// The letter with one dash, `-H`.
    let letter: String?
    /// The placeholder of the value in help, `FILE`; `nil` for a switch.
    let value: String?
    /// Whether the option may be given without a value. It then has the value that follows only if ``kind`` lists it.
    let isValueOptional: Bool
    let repeats: Bool
    /// What the value is, so that completions can propose it.
    let kind: ValueKind
    let help: String

    /// - Parameter kind: Default: what the placeholder says, see ``ValueKind/init(placeholder:)``.
    init(
        _ name: String, _ letter: String? = nil, value: String? = nil, isValueOptional: Bool = false,
        repeats: Bool = false, kind: ValueKind? = nil, help: String
    ) {
        self.name = name
        self.letter = letter
        self.value = value
        self.isValueOptional = isValueOptional
        self.repeats = repeats
        self.kind = kind ?? ValueKind(placeholder: value ?? "")
        self.help = help
    }

    /// An option of every command.
    static let help = Option("--help", "-h", help: "Shows this help.")
    static let authority = Option(
        "--ca", value: "FILE", help: "Trusts the certificate authorities in this PEM file instead of the system's.")

    /// The form in help: `-H, --header 'K: V'`.
    var form: String {
        (letter.map { "\($0), " } ?? "    ") + name + (value.map { isValueOptional ? " [\($0)]" : " \($0)" } ?? "")
    }

    func isNamed(_ text: String) -> Bool { text == name || text == letter }

    /// Whether the word after the option is its value.
    func takes(_ word: String) -> Bool {
        guard isValueOptional else { return true }
        guard case .choices(let choices) = kind else { return false }
        return choices.contains { $0.name == word }
    }
}

/// An unusable command line, in one sentence that names the argument and the next step.
struct UsageError: Error, Hashable {
    let message: String

    init(_ message: String) { self.message = message }

    /// The value. An error of the library becomes a ``UsageError``.
    static func checked<Value>(_ value: @autoclosure () throws -> Value) throws(UsageError) -> Value {
        do {
            return try value()
        } catch {
            throw UsageError((error as? NetworkError)?.message ?? "\(error)")
        }
    }

    /// - Throws: ``UsageError`` for the first operand after `count`, with what to write instead.
    static func refuse(_ operands: [String], after count: Int, _ hint: String) throws(UsageError) {
        guard operands.count > count else { return }
        throw UsageError("\"\(SafeText.line(operands[count]))\" is one argument too many; \(hint)")
    }
}
