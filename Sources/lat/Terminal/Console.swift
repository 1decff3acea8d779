import FoundationEssentials
import Glibc

/// Where a command writes: results to one side, everything about them to the other.
struct Console: Sendable {
    let out: Output
    let err: Output
    let outTerminal: Terminal
    let errTerminal: Terminal

    /// Standard output and standard error.
    static var standard: Console {
        let environment = ProcessInfo.processInfo.environment
        return Console(
            out: Output(descriptor: STDOUT_FILENO, name: "standard output"),
            err: Output(descriptor: STDERR_FILENO, name: "standard error"),
            outTerminal: Terminal(isTerminal: isatty(STDOUT_FILENO) == 1, environment: environment),
            errTerminal: Terminal(isTerminal: isatty(STDERR_FILENO) == 1, environment: environment))
    }

    var outStyle: Style { Style(outTerminal) }
    var errStyle: Style { Style(errTerminal) }

    func print(_ line: String) throws(Output.Failure) { try out.write(line + "\n") }

    /// A line about what goes on. Nobody to read it is no reason to stop.
    func note(_ line: String) { try? err.write(line + "\n") }

    /// One line that says what is wrong.
    func complain(_ message: String) {
        note(errStyle.red("lat:") + " " + SafeText.line(message))
    }

    /// Complains about output that could not be written.
    func fail(_ failure: Output.Failure) -> ExitCode {
        complain(failure.message)
        return .usage
    }
}
