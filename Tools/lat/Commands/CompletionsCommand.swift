/// `lat completions bash|zsh|fish`: prints the script that completes command lines of `lat` in a shell.
struct CompletionsCommand: Command {
    enum Action: Hashable, Sendable {
        case script(Shell)
        /// Prints the words that can complete a line. The scripts call it.
        case candidates([String])
    }

    enum Shell: String, CaseIterable, Sendable {
        case bash, zsh, fish
    }

    static let name = "completions"
    static let summary = "Prints the script that completes lat in a shell."
    static let usage = "bash|zsh|fish"
    static let details = """
        With it, the Tab key completes commands, options, their values, and files. Names
        of rows, domains and environments come from the table, as it is at that moment.

        Write one of these lines, for your shell, into the file on the right:

          bash    source <(lat completions bash), in ~/.bashrc
          zsh     source <(lat completions zsh), in ~/.zshrc, below compinit
          fish    lat completions fish | source, in ~/.config/fish/config.fish

        Examples
          lat completions bash
          lat completions fish
        """

    let action: Action

    init(_ arguments: ParsedArguments) throws(UsageError) {
        let names = "bash, zsh or fish"
        guard let word = arguments.operands.first else {
            throw UsageError("the shell is missing; write lat completions and then \(names)")
        }
        if word == "candidates" {
            action = .candidates(Array(arguments.operands.dropFirst()))
            return
        }
        guard let shell = Shell(rawValue: word) else {
            throw UsageError("there are no completions for \"\(SafeText.line(word))\"; write \(names)")
        }
        try UsageError.refuse(arguments.operands, after: 1, "write lat completions \(shell.rawValue)")
        action = .script(shell)
    }

    static func operandKind(after operands: [String]) -> ValueKind {
        operands.isEmpty ? .choices(Shell.allCases.map { ValueKind.Choice($0.rawValue) }) : .text
    }

    func run(_ console: Console) async throws -> ExitCode {
        switch action {
        case .script(let shell): try console.out.write(CompletionScript.text(for: shell))
        case .candidates(let words):
            let candidates = Candidates(for: words) { try? $0.read() }
            for line in candidates.lines { try console.print(line) }
        }
        return .success
    }
}

extension RequestCommand {
    static func operandKind(after operands: [String]) -> ValueKind {
        switch operands.count {
        case 0: .methodOrURL
        case 1 where !URLArgument.isURL(operands[0]): .url
        default: .file(after: "@")
        }
    }
}
