import Glibc

/// The command line of LATNetworking.
@main
struct Lat {
    static func main() async {
        // A reader that went away is seen as EPIPE where it is written to, and ended quietly there.
        signal(SIGPIPE, SIG_IGN)
        let console = Console.standard
        let arguments = Array(CommandLine.arguments.dropFirst())
        let code = await Interrupts.run { await Lat.run(arguments, console) }
        exit(code.rawValue)
    }

    /// Runs what the arguments say. Everything that can go wrong is on the console when it returns.
    static func run(_ arguments: [String], _ console: Console) async -> ExitCode {
        do {
            return try await Invocation(arguments).run(console)
        } catch let error as UsageError {
            console.complain(error.message)
            return .usage
        } catch let problem as TableProblem {
            problem.show(on: console)
            return .usage
        } catch let error as Output.Failure {
            return error.isClosed ? .closedPipe : console.fail(error)
        } catch is CancellationError {
            return .interrupted
        } catch {
            console.complain("\(error)")
            return .network
        }
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
