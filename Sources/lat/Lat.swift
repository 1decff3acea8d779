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
