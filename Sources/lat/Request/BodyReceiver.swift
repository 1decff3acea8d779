import FoundationEssentials
import LATNetworking

/// Writes the body of a response to its sink, and shows the progress.
struct BodyReceiver {
    private let console: Console
    private let usesPager: Bool

    /// - Parameter usesPager: Whether a text that is longer than the terminal is shown by a pager.
    init(_ console: Console, usesPager: Bool = false) {
        self.console = console
        self.usesPager = usesPager
    }

    /// The sink of a body: the file if there is one, memory for a JSON report, otherwise standard output.
    func sink(_ file: OutputFile?, _ format: OutputFormat) -> BodySink {
        if let file { return .file(file) }
        if format == .json { return .memory }
        return console.outTerminal.isTerminal ? .terminal : .pipe
    }

    /// - Parameter head: Lines to show before the body.
    /// - Returns: The body when it is kept.
    /// - Throws: ``NetworkError`` when it was incomplete, `Output.Failure`, `CancellationError`.
    func receive(_ response: HTTPResponse, head: [String] = [], into sink: BodySink) async throws -> Data? {
        let head = head.isEmpty ? "" : head.joined(separator: "\n") + "\n\n"
        if !head.isEmpty, !sink.isShown { try console.out.write(head) }
        switch sink {
        case .memory: return try await response.body.collect(upTo: 1 << 31)
        case .file(let file): try await save(response, to: file)
        case .pipe: try await copy(response)
        case .terminal: try await show(response, head)
        }
        return nil
    }

    private func save(_ response: HTTPResponse, to file: OutputFile) async throws {
        let total = Self.length(of: response)
        let label = SafeText.label(file.name.split(separator: "/").last.map(String.init) ?? file.name)
        let progress = ProgressLine(label, on: console.err, console.errTerminal, isActive: true)
        defer { progress.clear() }
        let start = ContinuousClock.now
        var completed: Int64 = 0
        for try await chunk in response.body {
            try file.write(chunk)
            completed += Int64(chunk.count)
            progress.update(completed, of: total)
        }
        try Task.checkCancellation()
        try file.complete()
        progress.clear()
        guard console.errTerminal.isTerminal else { return }
        let time = ContinuousClock.now - start
        // A body that is no stream had already arrived, so the measured time says nothing about the transfer.
        let rate =
            response.body.isStream ? " in \(Quantity.duration(time)) (\(Quantity.rate(completed, in: time)))" : ""
        console.note("\(label)  \(Quantity.bytes(completed))\(rate)")
    }

    private func copy(_ response: HTTPResponse) async throws {
        let total = Self.length(of: response)
        let progress = ProgressLine("receiving", on: console.err, console.errTerminal, isActive: true)
        defer { progress.clear() }
        var completed: Int64 = 0
        for try await chunk in response.body {
            try console.out.write(chunk)
            completed += Int64(chunk.count)
            progress.update(completed, of: total)
        }
    }

    private func show(_ response: HTTPResponse, _ head: String) async throws {
        let screen = Screen(console, usesPager: usesPager)
        var body = TerminalBody(response, screen, console.outStyle)
        // A text that arrives slowly is shown as it comes, without a pager. JSON is laid out at its end.
        let pagerDelay = Task {
            try await Task.sleep(for: .milliseconds(300))
            screen.release()
        }
        if body.isLaidOut { pagerDelay.cancel() }
        do {
            defer { pagerDelay.cancel() }
            try screen.write(Data(head.utf8))
            if body.isEndless { screen.release() }
            for try await chunk in response.body {
                try body.write(chunk)
                if body.isBinary || screen.isClosed { break }
            }
        } catch {
            try? body.finish()
            await screen.close()
            throw error
        }
        try body.finish()
        await screen.close()
        if body.isBinary {
            let size = Self.length(of: response).map { " of \(Quantity.bytes($0))" } ?? ""
            console.note("lat: the binary body\(size) is not shown; write it to a file with -o FILE")
        }
    }

    /// The length of the body, when known. `Content-Length` does not count the decompressed bytes.
    private static func length(of response: HTTPResponse) -> Int64? {
        guard !response.headers.contains("Content-Encoding") else { return nil }
        return response.headers["Content-Length"].flatMap { Int64($0) }
    }
}

/// The destination of a response body.
enum BodySink {
    /// Memory, for a report.
    case memory
    /// A file that appears when it is complete.
    case file(OutputFile)
    /// Standard output, unchanged.
    case pipe
    /// A terminal: JSON formatted, binary content omitted.
    case terminal

    /// Whether the body is shown to a person.
    var isShown: Bool { if case .terminal = self { true } else { false } }
}

/// A body on a terminal.
struct TerminalBody {
    /// The largest JSON that is formatted. A longer body is shown unchanged.
    private static let layoutLimit = 4 << 20

    private let screen: Screen
    private let style: Style
    private var held: Data?
    private var lastByte = UInt8(ascii: "\n")
    private(set) var isBinary = false
    /// Whether the body is a sequence of messages, each to be shown when it arrives.
    let isEndless: Bool
    /// Whether the body is laid out when it is complete.
    var isLaidOut: Bool { held != nil }

    init(_ response: HTTPResponse, _ screen: Screen, _ style: Style) {
        self.screen = screen
        self.style = style
        let type = (response.headers["Content-Type"] ?? "").lowercased()
        isEndless = ["json-seq", "ndjson", "event-stream", "jsonl"].contains { type.contains($0) }
        held = type.contains("json") && !isEndless ? Data() : nil
    }

    /// Writes a chunk. After a binary one, nothing more is shown.
    mutating func write(_ chunk: Data) throws(Output.Failure) {
        if chunk.contains(0) { isBinary = true }
        guard !isBinary else { return }
        guard var held else { return try show(chunk) }
        held.append(chunk)
        self.held = held
        if held.count > Self.layoutLimit {
            self.held = nil
            try show(held)
        }
    }

    /// Ends the body, complete or not.
    mutating func finish() throws(Output.Failure) {
        guard !isBinary else { return }
        if let held, !held.isEmpty {
            if let text = JSONLayout.text(of: held, style: style) { return try screen.write(Data((text + "\n").utf8)) }
            try show(held)
        }
        // The shell's prompt belongs on a line of its own.
        if lastByte != UInt8(ascii: "\n") { try screen.write(Data([UInt8(ascii: "\n")])) }
    }

    private mutating func show(_ bytes: Data) throws(Output.Failure) {
        try screen.write(bytes)
        lastByte = bytes.last ?? lastByte
    }
}
