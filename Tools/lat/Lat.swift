import Glibc
import LATNetworking

/// The command line of LATNetworking.
@main
struct Lat {
    static func main() async {
        // Without the signal, a write to a closed pipe fails with EPIPE, and the program ends without a message.
        signal(SIGPIPE, SIG_IGN)
        let console = Console.standard
        let arguments = Array(CommandLine.arguments.dropFirst())
        let code = await Interrupts.run { await Lat.run(arguments, console) }
        exit(code.rawValue)
    }

    /// Runs a command line, and reports every error on the console.
    static func run(_ arguments: [String], _ console: Console) async -> ExitCode {
        do {
            return try await Invocation(arguments).command.run(console)
        } catch let error as UsageError {
            console.complain(error.message)
            return .usage
        } catch let problem as TableProblem {
            problem.show(on: console)
            return .usage
        } catch let error as Output.Failure {
            if error.isClosed { return .closedPipe }
            console.complain(error.message)
            return .usage
        } catch is CancellationError {
            return .interrupted
        } catch let error as NetworkError where error.kind == .cancelled && Task.isCancelled {
            return .interrupted
        } catch {
            console.complain("\(error)")
            return .network
        }
    }
}

/// A parsed command line.
struct Invocation {
    let command: any Command

    /// - Parameter arguments: the arguments after the name of the program.
    init(_ arguments: [String]) throws(UsageError) {
        guard let first = arguments.first else {
            throw UsageError("no command is given; lat help lists the commands")
        }
        if first == RequestCommand.name || !Commands.isNamed(first), let answer = CurlWords.answer(to: arguments) {
            throw UsageError(answer)
        }
        switch first {
        case "--version", "-V":
            command = try VersionCommand()
        case "--help", "-h":
            command = HelpCommand(topic: nil)
        case _ where first.hasPrefix("-") && !ArgumentParser(options: RequestCommand.options).knows(first):
            throw UsageError(
                "unknown option \(SafeText.line(first)) before the command; lat help lists the commands")
        default:
            // A URL or a method means a request, whose options may come first.
            let isRequest = first.hasPrefix("-") || !Commands.isNamed(first) && RequestLine.begins(with: first)
            let type = try isRequest ? RequestCommand.self : Commands.named(first)
            let parser = ArgumentParser(options: type.options + [.help])
            let rest = isRequest ? arguments : Array(arguments.dropFirst())
            // --help is obeyed even when the rest of the line is invalid.
            if rest.prefix(while: { $0 != "--" }).contains(where: Option.help.isNamed) {
                command = HelpCommand(topic: type)
            } else {
                let parsed = try parser.parse(rest)
                if first.hasPrefix("-"), let name = parsed.operands.first, Commands.isNamed(name) {
                    throw UsageError(
                        "\(SafeText.line(first)) stands before the command; write lat \(name) first, and options after it"
                    )
                }
                command = try type.init(parsed)
            }
        }
    }
}
