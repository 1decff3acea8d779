import DomainTableFormat
import LATNetworking

/// `lat help [COMMAND]`: shows the commands.
struct HelpCommand: Command {
    static let name = "help"
    static let summary = "Shows the commands, or the usage of one."
    static let usage = "[COMMAND]"

    /// The command to explain; `nil` for all of them.
    let topic: (any Command.Type)?

    init(topic: (any Command.Type)?) { self.topic = topic }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard arguments.operands.count <= 1 else {
            throw UsageError("help explains one command; write lat help \(arguments.operands[0])")
        }
        topic = if let name = arguments.operands.first { try Commands.named(name) } else { nil }
    }

    func run(_ console: Console) async throws -> ExitCode {
        let style = console.outStyle
        try console.out.write(topic.map { HelpText.explaining($0, style) } ?? HelpText.overview(style))
        return .success
    }
}

/// The help texts, made from the descriptions of the commands.
enum HelpText {
    static func overview(_ style: Style) -> String {
        let width = Commands.all.map { $0.name.count }.max() ?? 0
        let commands = Commands.all.map { command in
            "  " + style.bold(command.name.padded(toEnd: width)) + "   " + command.summary
        }
        return """
            lat \(VersionCommand.version), the command line of LATNetworking

            \(style.bold("Usage")): lat COMMAND [arguments]

            \(commands.joined(separator: "\n"))

            lat COMMAND --help explains a command, lat --version shows the version.
            Exit codes: 0 success, 1 the server answered with a failure, 2 the command line
            or the table cannot be used, 3 no response, 130 interrupted.

            """
    }

    static func explaining(_ command: any Command.Type, _ style: Style) -> String {
        var text = "\(command.summary)\n\n\(style.bold("Usage")): lat \(command.name) \(command.usage)\n\n"
        for option in command.options + [.help] { text += entry(option, style) }
        if !command.details.isEmpty { text += "\n\(command.details)\n" }
        return text
    }

    private static let helpColumn = 30
    private static let width = 80

    /// The form of an option on the left, with its help wrapped on the right.
    private static func entry(_ option: Option, _ style: Style) -> String {
        let form = "  " + option.form
        let lines = option.help.wrapped(to: width - helpColumn)
        let margin = String(repeating: " ", count: helpColumn)
        var text = style.bold(form)
        for (index, line) in lines.enumerated() {
            if index > 0 || form.count + 2 > helpColumn {
                text += "\n" + margin + line
            } else {
                text += String(repeating: " ", count: helpColumn - form.count) + line
            }
        }
        return text + "\n"
    }
}

/// `lat --version`.
struct VersionCommand: Command {
    static let name = "version"
    static let summary = "Shows the version."
    static let usage = ""
    static let version = CurlTransport.version

    init() {}

    init(_ arguments: ParsedArguments) throws(UsageError) {}

    func run(_ console: Console) async throws -> ExitCode {
        try console.print("lat \(Self.version)")
        return .success
    }
}

/// The commands, in the order of help.
enum Commands {
    static let all: [any Command.Type] = [
        RequestCommand.self, StartCommand.self, DownloadCommand.self, UploadCommand.self, DomainsCommand.self,
        CacheCommand.self, ProbeCommand.self, DoctorCommand.self, DeviceCommand.self, DemoCommand.self,
        HelpCommand.self,
    ]

    /// - Throws: ``UsageError`` with the nearest name.
    static func named(_ name: String) throws(UsageError) -> any Command.Type {
        if let command = all.first(where: { $0.name == name }) { return command }
        let shown = SafeText.line(name)
        if let nearest = NearestName.of(name, among: all.map { $0.name }) {
            throw UsageError("unknown command \"\(shown)\"; did you mean \"\(nearest)\"?")
        }
        throw UsageError("unknown command \"\(shown)\"; lat help lists the commands")
    }
}
