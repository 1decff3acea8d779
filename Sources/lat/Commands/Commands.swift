/// The commands there are, in the order of help.
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

/// A whole command line, understood.
struct Invocation {
    /// What is to run.
    let command: any Command

    /// - Parameter arguments: what follows the name of the program.
    /// - Throws: ``UsageError``.
    init(_ arguments: [String]) throws(UsageError) {
        guard let first = arguments.first else {
            throw UsageError("no command is given; lat help lists the commands")
        }
        switch first {
        case "--version", "-V":
            command = VersionCommand()
        case "--help", "-h":
            command = HelpCommand(topic: nil)
        case _ where first.hasPrefix("-"):
            throw UsageError(
                "unknown option \(SafeText.line(first)) before the command; write lat COMMAND, as lat help shows")
        default:
            let type = try Commands.named(first)
            let parser = ArgumentParser(options: type.options + [.help])
            let rest = Array(arguments.dropFirst())
            // Whoever asks for help gets it, whatever else is wrong with the line.
            if rest.prefix(while: { $0 != "--" }).contains(where: Option.help.isNamed) {
                command = HelpCommand(topic: type)
            } else {
                command = try type.init(try parser.parse(rest))
            }
        }
    }

    func run(_ console: Console) async throws -> ExitCode { try await command.run(console) }
}
