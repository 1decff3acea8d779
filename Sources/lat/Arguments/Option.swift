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
