import Dispatch
import FoundationEssentials
import Glibc
import Synchronization

/// A prompt at the bottom of a terminal. Lines appear above it while the user types.
///
/// The terminal delivers each key at once and echoes none, so that the typed text can be drawn again below a new line.
/// Ctrl-C stays a signal.
final class LinePrompt: Sendable {
    private struct State {
        var editor = LineEditor()
        var isClosed = false
    }

    /// The settings of the terminal before a prompt changed them; `nil` while no prompt is open.
    private static let before = Mutex<termios?>(nil)

    private let console: Console
    private let state = Mutex(State())
    // Dispatch sources may be used from any thread, but are not marked `Sendable`.
    nonisolated(unsafe) private let source: any DispatchSourceRead
    private let lines: AsyncStream<String>
    private let reader: AsyncStream<String>.Continuation

    /// - Parameter console: the console. Standard input and output must be a terminal.
    init(_ console: Console) {
        self.console = console
        var settings = termios()
        tcgetattr(STDIN_FILENO, &settings)
        Self.before.withLock { [settings] in $0 = settings }
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        (lines, reader) = AsyncStream.makeStream()
        source = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO, queue: .global())
        source.setEventHandler { [weak self] in self?.read() }
        source.resume()
        draw()
    }

    func close() {
        let isFirst = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard isFirst else { return }
        source.cancel()
        reader.finish()
        Self.restoreTerminal()
        try? console.out.write("\r\u{1B}[K")
    }

    /// Restores the settings of the terminal. ``Interrupts`` calls it before it ends the process at once.
    static func restoreTerminal() {
        guard var settings = before.withLock({ $0.take() }) else { return }
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// The next line that was typed; `nil` after Ctrl-D.
    ///
    /// - Throws: `CancellationError` when the current task was cancelled.
    func next() async throws -> String? {
        for await line in lines { return line }
        try Task.checkCancellation()
        return nil
    }

    /// Shows a line above the prompt.
    func show(_ line: String) throws(Output.Failure) {
        try state.withLock { state throws(Output.Failure) in
            let prompt = state.isClosed ? "" : Self.text(state.editor, console)
            try console.out.write("\r\u{1B}[K" + line + "\n" + prompt)
        }
    }

    private func draw() {
        state.withLock { state in
            guard !state.isClosed else { return }
            try? console.out.write("\r\u{1B}[K" + Self.text(state.editor, console))
        }
    }

    /// The prompt with the end of what is typed, in one row.
    private static func text(_ editor: LineEditor, _ console: Console) -> String {
        let room = max(10, Terminal.width(of: console.out.descriptor) - 4)
        return console.outStyle.bold(">") + " " + SafeText.line(editor.line).suffix(columns: room)
    }

    private func read() {
        guard let bytes = LineInput.bytes() else { return reader.finish() }
        let events = state.withLock { state in bytes.compactMap { state.editor.type($0) } }
        for event in events {
            switch event {
            case .line(let line): reader.yield(line)
            case .end: reader.finish()
            }
        }
        draw()
    }
}

/// A line that is being typed, byte by byte: a pure value.
struct LineEditor: Equatable {
    enum Event: Equatable {
        case line(String)
        case end
    }

    private var bytes: [UInt8] = []
    /// Whether the next byte belongs to an escape sequence, such as that of an arrow key. Its bytes are ignored.
    private var isInEscape = false

    /// The typed text. A character of which bytes are missing is U+FFFD.
    var line: String { String(decoding: bytes, as: UTF8.self) }

    mutating func type(_ byte: UInt8) -> Event? {
        if isInEscape {
            isInEscape = !(0x40...0x7E).contains(byte) || byte == UInt8(ascii: "[") || byte == UInt8(ascii: "O")
            return nil
        }
        switch byte {
        case 0x0A, 0x0D:
            defer { bytes = [] }
            return .line(line)
        case 0x04: if bytes.isEmpty { return .end }
        case 0x15: bytes = []
        case 0x08, 0x7F: bytes = Array(String(line.dropLast()).utf8)
        case 0x1B: isInEscape = true
        case 0x00..<0x20: break
        default: bytes.append(byte)
        }
        return nil
    }
}

/// A line of standard input.
struct InputLine: Sendable {
    /// The first is 1.
    let number: Int
    /// The line without its end.
    let bytes: [UInt8]

    /// - Throws: ``UsageError`` for bytes that are not UTF-8.
    func text() throws(UsageError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UsageError("line \(number) of standard input is not UTF-8; convert it, with iconv(1) for example")
        }
        return text
    }
}

/// Standard input, read without blocking a thread of Swift's tasks.
enum LineInput {
    /// How many lines are read ahead.
    static let ahead = 16

    /// Reads the available bytes, none after an interruption; `nil` at the end.
    static func bytes() -> ArraySlice<UInt8>? {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = Glibc.read(STDIN_FILENO, &buffer, buffer.count)
        if count < 0, errno == EINTR || errno == EAGAIN { return [] }
        return count > 0 ? buffer[..<count] : nil
    }

    /// The next line of a terminal; `nil` at the end. Throws `CancellationError` when the current task was cancelled.
    static func line() async throws -> String? {
        let (chunks, reader) = AsyncStream<ArraySlice<UInt8>>.makeStream()
        let source = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO, queue: .global())
        source.setEventHandler {
            guard let bytes = LineInput.bytes() else { return reader.finish() }
            // The next line belongs to the next caller.
            if bytes.last == UInt8(ascii: "\n") { source.cancel() }
            reader.yield(bytes)
        }
        source.resume()
        defer { source.cancel() }
        var line: [UInt8] = []
        for await bytes in chunks {
            line += bytes
            // A terminal gives one line at a time. Bytes without a line end come from a Ctrl-D within the line.
            if line.last == UInt8(ascii: "\n") { return String(decoding: line.dropLast(), as: UTF8.self) }
        }
        try Task.checkCancellation()
        return nil
    }

    /// - Parameter read: returns the next line without its end; `nil` at the end.
    static func lines(
        _ read: @escaping @Sendable () -> [UInt8]? = standardLines()
    ) -> AsyncMapSequence<AsyncStream<InputLine>, InputLine> {
        let (lines, reader) = AsyncStream<InputLine>.makeStream()
        // It starts at 0, because a semaphore must not be destroyed while it is below its initial value.
        let room = DispatchSemaphore(value: 0)
        for _ in 0..<ahead { room.signal() }
        DispatchQueue.global().async {
            for number in 1... {
                room.wait()
                guard let line = read() else { return reader.finish() }
                if case .terminated = reader.yield(InputLine(number: number, bytes: line)) { return }
            }
        }
        return lines.map { line in
            room.signal()
            return line
        }
    }

    /// Reads the lines of standard input byte by byte: `readLine()` replaces what is not UTF-8.
    static func standardLines() -> @Sendable () -> [UInt8]? {
        // Only the thread that reads ahead uses it.
        nonisolated(unsafe) let file = fdopen(STDIN_FILENO, "r")
        return {
            var (text, capacity) = (UnsafeMutablePointer<CChar>?.none, 0)
            defer { free(text) }
            guard let file, case let count = getline(&text, &capacity, file), count > 0 else { return nil }
            var line = UnsafeRawBufferPointer(start: text, count: count)[...]
            if line.last == UInt8(ascii: "\n") { line.removeLast() }
            if line.count < count, line.last == UInt8(ascii: "\r") { line.removeLast() }
            return Array(line)
        }
    }
}

extension Console {
    /// Whether the user can be asked: standard input and standard error are a terminal.
    var canAsk: Bool { errTerminal.isTerminal && isatty(STDIN_FILENO) == 1 }

    /// Asks on standard error for a line of standard input. Returns `nil` when the input ended, as with Ctrl-D, and throws
    /// `CancellationError` after Ctrl-C.
    func ask(_ question: String) async throws -> String? {
        try err.write(errStyle.bold("\(SafeText.line(question)):") + " ")
        do {
            return try await LineInput.line()
        } catch {
            // The terminal has shown ^C in this line.
            note("")
            throw error
        }
    }
}
