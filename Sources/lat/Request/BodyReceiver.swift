import FoundationEssentials
import LATNetworking

/// Writes the body of a response to its sink, and shows the progress.
struct BodyReceiver {
    private let console: Console

    init(_ console: Console) { self.console = console }

    /// The sink of a body: the file if there is one, memory for a JSON report, otherwise standard output.
    func sink(_ file: OutputFile?, _ format: OutputFormat) -> BodySink {
        if let file { return .file(file) }
        if format == .json { return .memory }
        return console.outTerminal.isTerminal ? .terminal : .pipe
    }

    /// - Returns: The body when it is kept.
    /// - Throws: ``NetworkError`` when it was incomplete, `Output.Failure`, `CancellationError`.
    func receive(_ response: HTTPResponse, into sink: BodySink) async throws -> Data? {
        switch sink {
        case .memory: return try await response.body.collect(upTo: 1 << 31)
        case .file(let file): try await save(response, to: file)
        case .pipe: try await copy(response)
        case .terminal: try await show(response)
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

    private func show(_ response: HTTPResponse) async throws {
        var body = TerminalBody(response, console)
        do {
            for try await chunk in response.body {
                try body.write(chunk)
                if body.isBinary { break }
            }
        } catch {
            try body.finish()
            throw error
        }
        try body.finish()
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
}

/// A body on a terminal.
struct TerminalBody {
    /// The largest JSON that is formatted. A longer body is shown unchanged.
    private static let layoutLimit = 4 << 20

    private let console: Console
    private var held: Data?
    private var lastByte = UInt8(ascii: "\n")
    private(set) var isBinary = false

    init(_ response: HTTPResponse, _ console: Console) {
        self.console = console
        let type = (response.headers["Content-Type"] ?? "").lowercased()
        held = type.contains("json") && !type.contains("seq") && !type.contains("ndjson") ? Data() : nil
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
            if let text = JSONLayout.text(of: held, style: console.outStyle) {
                try console.print(text)
                return
            }
            try show(held)
        }
        // The shell's prompt belongs on a line of its own.
        if lastByte != UInt8(ascii: "\n") { try console.print("") }
    }

    private mutating func show(_ bytes: Data) throws(Output.Failure) {
        try console.out.write(bytes)
        lastByte = bytes.last ?? lastByte
    }
}
