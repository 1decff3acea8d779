import FoundationEssentials
import Glibc
import Platform

/// The outputs of a command: results go to one, messages about them to the other.
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

    var outStyle: Style { outTerminal.style }
    var errStyle: Style { errTerminal.style }

    /// The columns for texts on standard output: those of the terminal, but no more than are easy to read.
    var textWidth: Int {
        outTerminal.isTerminal ? min(100, Terminal.width(of: out.descriptor)) : Terminal.standardWidth
    }

    func print(_ line: String) throws(Output.Failure) { try out.write(line + "\n") }

    /// Writes a message. A failure to write it does not stop the command.
    func note(_ line: String) { try? err.write(line + "\n") }

    /// Writes an error. It is one line, because programs search for whole lines. On a terminal it is wrapped.
    func complain(_ message: String) {
        let margin = "     "
        let width = errTerminal.isTerminal ? Terminal.width(of: err.descriptor) - margin.count : .max
        let rows = SafeText.line(message).fitted(to: width)
        note(errStyle.red("lat:") + " " + rows.joined(separator: "\n" + margin))
    }
}

/// A descriptor with its name.
struct Output: Sendable {
    /// Why something could not be written.
    struct Failure: Error {
        /// Whether the reader of the pipe has closed it.
        let isClosed: Bool
        let message: String
    }

    let descriptor: Int32
    /// The name in error messages.
    let name: String

    /// The columns for lines that are redrawn. One stays free, because a full line would wrap on some terminals.
    var columns: Int { Terminal.width(of: descriptor) - 1 }

    func write(_ text: String) throws(Failure) { try write(Data(text.utf8)) }

    func write(_ data: Data) throws(Failure) {
        let code = data.withUnsafeBytes { bytes in writeAll(bytes) }
        if code != 0 { throw failure(code) }
    }

    func failure(_ code: Int32) -> Failure {
        Failure(
            isClosed: code == EPIPE,
            message: "\(name) cannot be written: \(SystemError(code: code).text); the output is incomplete")
    }

    /// Returns 0, or `errno`.
    private func writeAll(_ bytes: UnsafeRawBufferPointer) -> Int32 {
        var rest = bytes
        while let address = rest.baseAddress, !rest.isEmpty {
            let count = Glibc.write(descriptor, address, rest.count)
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            } else if errno == EAGAIN {
                // Another process made the descriptor non-blocking.
                var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&entry, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}

/// The abilities of the terminal behind a descriptor.
struct Terminal: Hashable, Sendable {
    /// The columns when the output is not a terminal.
    static let standardWidth = 80

    let isTerminal: Bool
    /// Whether colours may be used: not with `NO_COLOR` or `TERM=dumb`.
    let hasColour: Bool
    /// Whether a line can be redrawn: not with `TERM=dumb`.
    let canRedraw: Bool
    /// Whether characters beyond ASCII can be shown.
    let isUnicode: Bool

    init(isTerminal: Bool, environment: [String: String]) {
        let isDumb = environment["TERM"].map { $0 == "dumb" || $0.isEmpty } ?? true
        // https://no-color.org: set and not empty.
        let isPlain = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
        let charset = locale.lowercased()
        self.isTerminal = isTerminal
        canRedraw = isTerminal && !isDumb
        hasColour = canRedraw && !isPlain
        isUnicode = charset.contains("utf-8") || charset.contains("utf8")
    }

    var style: Style { Style(isColoured: hasColour, isUnicode: isUnicode || !isTerminal) }

    /// The columns of the terminal behind a descriptor, 80 when unknown.
    static func width(of descriptor: Int32) -> Int { size(of: descriptor).columns }

    /// The columns and rows of the terminal behind a descriptor, 80 and 0 when unknown.
    static func size(of descriptor: Int32) -> (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return (80, 0) }
        return (Int(size.ws_col), Int(size.ws_row))
    }
}

/// Terminal colours, where they may be used. They are the terminal's own palette, so they suit its background.
struct Style: Hashable, Sendable {
    let isColoured: Bool
    let isUnicode: Bool

    static let plain = Style(isColoured: false, isUnicode: true)

    func bold(_ text: String) -> String { painted(text, "1") }
    func dim(_ text: String) -> String { painted(text, "2") }
    func red(_ text: String) -> String { painted(text, "31") }
    func green(_ text: String) -> String { painted(text, "32") }
    func magenta(_ text: String) -> String { painted(text, "35") }
    func blue(_ text: String) -> String { painted(text, "34") }
    /// A name beside a value: bold blue, which can be read on a black, a white and a grey background.
    func name(_ text: String) -> String { painted(text, "1;34") }
    /// A number or a truth value: magenta, because yellow cannot be read on white.
    func number(_ text: String) -> String { magenta(text) }

    /// A sign, or its ASCII substitute.
    func sign(_ unicode: String, _ ascii: String) -> String { isUnicode ? unicode : ascii }

    /// Rows of a name and a value, in two columns. Rows without a value are left out.
    func columns(_ rows: [(String, String?)]) -> [String] {
        rows.compactMap { name, value in value.map { [SafeText.line(name), SafeText.line($0)] } }
            .aligned.map { "\(dim($0[0]))  \($0[1])" }
    }

    private func painted(_ text: String, _ code: String) -> String {
        isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}

struct ExitCode: Hashable, Sendable {
    let rawValue: Int32

    static let success = ExitCode(rawValue: 0)
    /// The server answered with a failure, in its status, its envelope or its content. Also: compared tables differ, a
    /// table has another revision than expected, a Redis takes no writes, or a step of the demo failed.
    static let failure = ExitCode(rawValue: 1)
    /// The command line, the table, or a file that they name is unusable.
    static let usage = ExitCode(rawValue: 2)
    /// No response, or an incomplete one.
    static let network = ExitCode(rawValue: 3)
    static let interrupted = signal(SIGINT)
    /// The reader of the output has closed the pipe. Shells report this code for a program that SIGPIPE ended.
    static let closedPipe = signal(SIGPIPE)

    /// Ended by a signal, numbered as shells do.
    static func signal(_ number: Int32) -> ExitCode { ExitCode(rawValue: 128 + number) }
}
