/// `lat man`: prints the manual page.
struct ManCommand: Command {
    static let name = "man"
    static let summary = "Prints the manual page."
    static let usage = ""
    static let details = """
        The page has the texts of help of all commands, in the format of man(1).

        Examples
          lat man | man -l -
          lat man > ~/.local/share/man/man1/lat.1

        The folder in the second line must exist. Once that line has run, man lat shows the page.
        """

    init(_ arguments: ParsedArguments) throws(UsageError) {
        try UsageError.refuse(arguments.operands, after: 0, "write lat man | man -l - to read the page")
    }

    func run(_ console: Console) async throws -> ExitCode {
        try console.out.write(ManualPage.text)
        return .success
    }
}

/// The manual page in the macros of man(7).
enum ManualPage {
    private static let variables = [
        HelpBlock.Term(name: "LAT_ENVIRONMENT", text: "The environment of the table, when --environment is not given."),
        HelpBlock.Term(name: "LAT_FLEET_URL", text: "The Redis of the fleet, when --fleet is not given."),
        HelpBlock.Term(name: "XDG_CACHE_HOME", text: "The folder that contains the cache. Default: ~/.cache."),
        HelpBlock.Term(
            name: "http_proxy, https_proxy, all_proxy, no_proxy", text: "The proxies, when --proxy is not given."),
        HelpBlock.Term(name: "NO_COLOR", text: "When it is set and not empty, nothing is coloured."),
    ]
    private static let files = [
        HelpBlock.Term(
            name: TableArgument.standardPath, text: "The table of domains and servers, in the current folder."),
        HelpBlock.Term(name: "~/.cache/lat", text: "The cache of lat request --cache."),
    ]

    static var text: String {
        var page = [
            #".TH LAT 1 "" "lat \#(VersionCommand.version)" "User Commands""#,
            ".SH NAME", #"lat \- sends HTTP requests, and runs the calls of a table"#,
            ".SH SYNOPSIS", #".B lat"#, #"\fICOMMAND\fR [\fIarguments\fR] [\fIoptions\fR]"#,
            ".br", ".B lat", #"[\fIMETHOD\fR] \fIURL\fR [\fIITEM\fR\[u2026]] [\fIoptions\fR]"#,
            ".SH DESCRIPTION", "A URL or a method instead of a command is a request.",
            "Each command has its own arguments and options. Options may come before and after arguments.",
            #"After \fB\-\-\fR nothing is an option."#,
            ".SH COMMANDS",
        ]
        for command in Commands.all { page += section(of: command) }
        page += [".SH EXIT STATUS"] + terms(HelpText.exitCodes)
        page += [".SH ENVIRONMENT"] + terms(variables)
        page += [".SH FILES"] + terms(files)
        page += [".SH SEE ALSO", ".BR curl (1)"]
        return page.map { $0 + "\n" }.joined()
    }

    private static func section(of command: any Command.Type) -> [String] {
        let usage = [command.name, command.usage].filter { !$0.isEmpty }.joined(separator: " ")
        var lines = [".SS \"\(escaped(usage))\"", escaped(command.summary)]
        for option in command.options {
            let names = [option.letter, option.name].compactMap { $0 }.map { #"\fB\#(escaped($0))\fR"# }
            let value = option.value.map { #" \fI\#(escaped($0))\fR"# } ?? ""
            lines += [".TP", names.joined(separator: ", ") + value, escaped(option.help)]
        }
        for block in HelpBlock.reading(command.details) {
            switch block {
            case .paragraph(let text): lines += [".PP", escaped(text)]
            case .terms(let terms): lines += self.terms(terms)
            case .examples(let commands):
                lines += [".PP", "Examples:", ".PP", ".nf", ".RS 4"] + commands.map(escaped) + [".RE", ".fi"]
            }
        }
        return lines
    }

    private static func terms(_ terms: [HelpBlock.Term]) -> [String] {
        terms.flatMap { [".TP", #"\fB\#(escaped($0.name))\fR"#, escaped($0.text)] }
    }

    /// The characters that mean something to roff.
    private static let escapes: [Unicode.Scalar: String] = [
        "\\": #"\e"#, "-": #"\-"#, "'": #"\(aq"#, "\"": #"\(dq"#, "`": #"\(ga"#, "^": #"\(ha"#, "~": #"\(ti"#,
    ]

    private static func escaped(_ text: String) -> String {
        let escaped = text.unicodeScalars.map { scalar in
            if let escape = escapes[scalar] { return escape }
            if scalar.isASCII { return String(scalar) }
            return "\\[u\(String(scalar.value, radix: 16, uppercase: true).padded(toStart: 4, with: "0"))]"
        }.joined()
        // A line that begins with a dot is a command of roff.
        return escaped.hasPrefix(".") ? #"\&"# + escaped : escaped
    }
}
