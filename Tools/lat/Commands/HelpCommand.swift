import DomainTables
import LATNetworking

/// `lat help [COMMAND]`: shows the commands.
struct HelpCommand: Command {
    static let name = "help"
    static let summary = "Shows the commands, or explains one of them."
    static let usage = "[COMMAND]"
    static let details = """
        Examples
          lat help
          lat help start
        """

    /// The command to explain; `nil` for all of them.
    let topic: (any Command.Type)?

    init(topic: (any Command.Type)?) { self.topic = topic }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard arguments.operands.count <= 1 else {
            throw UsageError("help explains one command; write lat help \(SafeText.line(arguments.operands[0]))")
        }
        topic = if let name = arguments.operands.first { try Commands.named(name) } else { nil }
    }

    static func operandKind(after operands: [String]) -> ValueKind {
        operands.isEmpty ? .choices(Commands.choices) : .text
    }

    func run(_ console: Console) async throws -> ExitCode {
        let (style, width) = (console.outStyle, console.textWidth)
        try console.out.write(
            topic.map { HelpText.explaining($0, style, width: width) } ?? HelpText.overview(style, width: width))
        return .success
    }
}

/// `lat --version`.
struct VersionCommand: Command {
    static let name = "version"
    static let summary = "Shows the version."
    static let usage = ""
    static let version = CurlTransport.version

    init(_ arguments: ParsedArguments = ParsedArguments()) throws(UsageError) {}

    func run(_ console: Console) async throws -> ExitCode {
        try console.print("lat \(Self.version)")
        return .success
    }
}

/// The commands, in the order of help.
enum Commands {
    static let all: [any Command.Type] = [
        RequestCommand.self, StartCommand.self, RunCommand.self, EventsCommand.self, LinesCommand.self,
        WebSocketCommand.self, DownloadCommand.self, UploadCommand.self, OutboxCommand.self, LoginCommand.self,
        LogoutCommand.self,
        DomainsCommand.self,
        OpenAPICommand.self,
        FleetCommand.self, CacheCommand.self, InspectCommand.self,
        RecordCommand.self, ProbeCommand.self, DoctorCommand.self, DeviceCommand.self, DemoCommand.self,
        CompletionsCommand.self, ManCommand.self, HelpCommand.self,
    ]

    static let choices = all.map { ValueKind.Choice($0.name, $0.summary) }

    static func isNamed(_ name: String) -> Bool { all.contains { $0.name == name } }

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
