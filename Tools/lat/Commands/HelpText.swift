import LATNetworking

/// The help texts, made from the descriptions of the commands.
enum HelpText {
    /// Below this width, the help of an option is below its name, not beside it.
    private static let narrow = 64

    static let exitCodes = [
        HelpBlock.Term(name: "0", text: "success"),
        HelpBlock.Term(name: "1", text: "the server answered, but with a failure"),
        HelpBlock.Term(name: "2", text: "the command line, the table or a file cannot be used"),
        HelpBlock.Term(name: "3", text: "no response, or an incomplete one"),
        HelpBlock.Term(name: "130", text: "interrupted by Ctrl-C"),
    ]

    private static let requests = [
        "lat :8080/get", "lat :8080/get q==swift X-Trace:1", "lat POST :8080/orders name=Ada age:=36",
    ]

    static func overview(_ style: Style, width: Int = Terminal.standardWidth) -> String {
        let layout = HelpLayout(style: style, width: width)
        var text = layout.paragraph("lat \(VersionCommand.version) sends HTTP requests, and runs the calls of a table.")
        text += "\n" + layout.usage("lat [METHOD] URL [ITEM…] [options]", "lat COMMAND [arguments] [options]")
        text += "\n" + layout.block(.examples(requests))
        text += "\n" + style.bold("Commands") + "\n"
        text += layout.terms(Commands.all.map { HelpBlock.Term(name: $0.name, text: $0.summary) })
        text += "\n" + style.bold("Exit codes") + "\n" + layout.terms(exitCodes)
        return text + "\n"
            + layout.paragraph(
                "lat request --help explains requests, lat COMMAND --help a command. lat --version shows the version.")
    }

    static func explaining(_ command: any Command.Type, _ style: Style, width: Int = Terminal.standardWidth) -> String {
        let layout = HelpLayout(style: style, width: width)
        var text = layout.paragraph(command.summary) + "\n"
        text += layout.usage(["lat", command.name, command.usage].filter { !$0.isEmpty }.joined(separator: " "))
        let blocks = HelpBlock.reading(command.details)
        // The description is above the options. Examples and exit codes are below them.
        let end = blocks.firstIndex { if case .examples = $0 { true } else { false } } ?? blocks.endIndex
        for block in blocks[..<end] { text += "\n" + layout.block(block) }
        text += "\n" + style.bold("Options") + "\n"
        for option in command.options + [.help] { text += layout.option(option, isNarrow: width < narrow) }
        for block in blocks[end...] { text += "\n" + layout.block(block) }
        return text
    }
}

/// Lays the parts of help out in lines of a width.
private struct HelpLayout {
    let style: Style
    let width: Int

    private static let optionColumn = 30

    func paragraph(_ text: String) -> String { lines(text.wrapped(to: width)) }

    /// Begins a line for each form of a command line. A form with `|` breaks only before `|`, any other form only outside
    /// brackets.
    func usage(_ forms: String...) -> String {
        let title = "Usage: "
        return forms.enumerated().map { index, form in
            let rows = usageRows(form, width - title.count)
            let head = index == 0 ? style.bold("Usage:") + " " : margin(title.count)
            return head + rows.joined(separator: "\n" + margin(title.count + 4)) + "\n"
        }.joined()
    }

    private func usageRows(_ line: String, _ width: Int) -> [String] {
        let hasAlternatives = line.contains(" | ")
        let blank: Character = "\u{A0}"
        var depth = 0
        var glued = ""
        for (index, character) in zip(line.indices, line) {
            if character == "[" { depth += 1 } else if character == "]" { depth -= 1 }
            let isBreak = hasAlternatives ? line[line.index(after: index)...].hasPrefix("| ") : depth == 0
            glued.append(character == " " && !isBreak ? blank : character)
        }
        // All rows but the first are indented by four.
        return glued.wrapped(to: width - 4).map { String($0.map { $0 == blank ? " " : $0 }) }
    }

    func block(_ block: HelpBlock) -> String {
        switch block {
        case .paragraph(let text): paragraph(text)
        case .terms(let terms): self.terms(terms)
        case .examples(let commands):
            style.bold("Examples") + "\n"
                + commands.map { lines(ShellLine.wrapped($0, to: width - 2).map { "  " + $0 }) }.joined()
        }
    }

    /// Names on the left in bold, their texts on the right.
    func terms(_ terms: [HelpBlock.Term]) -> String {
        let column = 4 + (terms.map(\.name.count).max() ?? 0)
        return terms.map { term in entry("  " + term.name, term.text, column: column) }.joined()
    }

    func option(_ option: Option, isNarrow: Bool) -> String {
        guard isNarrow else { return entry("  " + option.form, option.help, column: Self.optionColumn) }
        // The blanks for a missing letter align names in a column, which does not exist here.
        let form = option.form.drop { $0 == " " }
        return style.bold("  \(form)") + "\n" + lines(option.help.wrapped(to: width - 6).map { margin(6) + $0 })
    }

    private func entry(_ name: String, _ text: String, column: Int) -> String {
        let rows = text.wrapped(to: width - column)
        let isBeside = name.count + 2 <= column
        var entry = style.bold(name)
        for (index, row) in rows.enumerated() {
            entry += index == 0 && isBeside ? margin(column - name.count) + row : "\n" + margin(column) + row
        }
        return entry + "\n"
    }

    private func margin(_ count: Int) -> String { String(repeating: " ", count: max(0, count)) }

    private func lines(_ rows: [String]) -> String { rows.map { $0 + "\n" }.joined() }
}
