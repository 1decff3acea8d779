import FoundationEssentials
import Glibc
import Synchronization

/// A text on a terminal. A text that is longer than the screen is shown by a pager.
///
/// The text is held back until it fills more than one screen, until its end, or until ``release()``.
final class Screen: Sendable {
    private struct State {
        /// The text so far; `nil` once it has been shown.
        var held: Data?
        var rows: RowCount
        var pager: Pager?
        var isClosed = false
    }

    private let console: Console
    private let state: Mutex<State>

    init(_ console: Console, usesPager: Bool) {
        self.console = console
        let size = Terminal.size(of: console.out.descriptor)
        let mayPage = usesPager && console.outTerminal.isTerminal && console.outTerminal.canRedraw && size.rows > 1
        state = Mutex(State(held: mayPage ? Data() : nil, rows: RowCount(columns: size.columns, limit: size.rows - 1)))
    }

    /// Whether the reader has left the pager, so that nothing more is shown.
    var isClosed: Bool { state.withLock(\.isClosed) }

    func write(_ data: Data) throws(Output.Failure) {
        try state.withLock { state throws(Output.Failure) in
            guard var held = state.held else { return try show(data, &state) }
            held.append(data)
            state.held = held
            guard state.rows.add(data) else { return }
            state.pager = Pager.start()
            state.held = nil
            try show(held, &state)
        }
    }

    /// Shows the text held so far, and all that follows as it arrives.
    func release() {
        state.withLock { state in
            guard let held = state.held else { return }
            state.held = nil
            try? show(held, &state)
        }
    }

    /// Shows the rest, and waits until the reader has left the pager.
    func close() async {
        release()
        let pager = state.withLock { state in
            state.isClosed = true
            return state.pager
        }
        await pager?.close()
    }

    private func show(_ data: Data, _ state: inout State) throws(Output.Failure) {
        guard let pager = state.pager else { return try console.out.write(data) }
        do {
            try pager.output.write(data)
        } catch {
            state.isClosed = true
        }
    }
}

/// Counts the rows that a text takes on a terminal.
struct RowCount {
    let columns: Int
    let limit: Int
    private var rows = 0
    private var column = 0
    private var isInEscape = false

    init(columns: Int, limit: Int) {
        self.columns = columns
        self.limit = limit
    }

    /// Adds bytes. Returns whether the text now takes more rows than the limit.
    mutating func add(_ bytes: Data) -> Bool {
        for character in String(decoding: bytes, as: UTF8.self) where rows <= limit {
            switch character {
            case _ where isInEscape: isInEscape = !("@"..."~").contains(character) || character == "["
            case "\u{1B}": isInEscape = true
            case "\n", "\r\n":
                rows += 1
                column = 0
            default:
                column += character.columns
                if column > columns {
                    rows += 1
                    column = character.columns
                }
            }
        }
        return rows > limit
    }
}

/// The program of `$PAGER`, or `less`, that shows a long text.
struct Pager {
    let output: Output
    private let program: ChildCommand

    /// Starts the pager; `nil` when there is none.
    static func start() -> Pager? {
        let environment = ProcessInfo.processInfo.environment
        let command = environment["PAGER"] ?? "less"
        guard let program = command.split(separator: " ").first, program != "cat",
            isInstalled(String(program), environment["PATH"] ?? "/usr/bin:/bin")
        else { return nil }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return nil }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { Glibc.close(ends[0]) }
        // The same options as git sets: less ends when the text fits, shows colours, and leaves the text on the screen.
        let variables = environment["LESS"] == nil ? ["LESS": "FRX"] : [:]
        guard let pager = try? ChildCommand(["/bin/sh", "-c", command], environment: variables, input: ends[0]) else {
            Glibc.close(ends[1])
            return nil
        }
        Interrupts.setPaging(true)
        return Pager(output: Output(descriptor: ends[1], name: "the pager"), program: pager)
    }

    /// Ends the text, and waits until the reader has left the pager.
    func close() async {
        Glibc.close(output.descriptor)
        await program.uninterruptedEnd()
        Interrupts.setPaging(false)
    }

    private static func isInstalled(_ program: String, _ path: String) -> Bool {
        if program.contains("/") { return access(program, X_OK) == 0 }
        return path.split(separator: ":").contains { access("\($0)/\(program)", X_OK) == 0 }
    }
}
