import FoundationEssentials
import HTTPCore
import LATNetworking

/// Writes the body of a response, and shows the progress.
struct BodyReceiver {
    let console: Console
    /// Whether a text that is longer than the terminal is shown by a pager.
    var usesPager = false
    /// Whether the head goes where the body goes, because there is no body.
    var headIsContent = false

    /// Writes the body to the file if there is one. Otherwise writes it to standard output, or returns it with `--format json`.
    ///
    /// - Parameter head: Lines to show before the body.
    /// - Throws: ``NetworkError`` when the body was incomplete, `Output.Failure`, `CancellationError`.
    func receive(
        _ response: HTTPResponse, head: [String] = [], into file: OutputFile?, _ format: OutputFormat
    ) async throws -> Data? {
        let head = head.isEmpty ? "" : head.joined(separator: "\n") + "\n\n"
        let isShown = file == nil && format == .text && console.outTerminal.isTerminal
        if isShown {
            try await show(response, head)
            return nil
        }
        if !head.isEmpty { try (headIsContent ? file?.output ?? console.out : console.out).write(head) }
        if let file {
            try await save(response, to: file)
        } else if format == .json {
            return try await response.body.collect(upTo: 1 << 31)
        } else {
            _ = try await copy(response, to: console.out, "receiving")
        }
        return nil
    }

    private func save(_ response: HTTPResponse, to file: OutputFile) async throws {
        let label = SafeText.label(file.name.split(separator: "/").last.map(String.init) ?? file.name)
        let start = ContinuousClock.now
        let completed = try await copy(response, to: file.output, label)
        try Task.checkCancellation()
        if let fault = response.cutFault("read the body without a file") {
            throw NetworkError(.connectionLost, message: fault, response: response)
        }
        try file.complete()
        guard console.errTerminal.isTerminal else { return }
        let time = ContinuousClock.now - start
        // A body that is not a stream had already arrived, so the measured time is not that of the transfer.
        let rate =
            response.body.isStream ? " in \(Quantity.duration(time)) (\(Quantity.rate(completed, in: time)))" : ""
        console.note("\(label)  \(Quantity.bytes(completed))\(rate)")
    }

    /// - Returns: How many bytes were copied.
    private func copy(_ response: HTTPResponse, to output: Output, _ label: String) async throws -> Int64 {
        let total = Self.length(of: response)
        let progress = ProgressLine(label, on: console)
        defer { progress.clear() }
        var completed: Int64 = 0
        for try await chunk in response.body {
            try output.write(chunk)
            completed += Int64(chunk.count)
            progress.update(completed, of: total)
        }
        return completed
    }

    private func show(_ response: HTTPResponse, _ head: String) async throws {
        let screen = Screen(console, usesPager: usesPager)
        var body = TerminalBody(response, screen, console.outStyle)
        // A text that arrives slowly is shown as it arrives, without a pager. JSON is formatted when it is complete.
        let pagerDelay = Task {
            try await Task.sleep(for: .milliseconds(300))
            screen.release()
        }
        if body.isFormatted { pagerDelay.cancel() }
        var failure: (any Error)?
        do {
            defer { pagerDelay.cancel() }
            try screen.write(Data(head.utf8))
            if body.isEndless { screen.release() }
            for try await chunk in response.body {
                try body.write(chunk)
                if body.isBinary || screen.isClosed { break }
            }
        } catch {
            failure = error
        }
        do { try body.finish() } catch { failure = failure ?? error }
        await screen.close()
        if let failure { throw failure }
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

/// A body on a terminal: JSON formatted, text in the terminal's own charset, binary content omitted.
struct TerminalBody {
    /// The largest JSON that is formatted, or text whose charset is changed. A longer body is shown unchanged.
    private static let layoutLimit = 4 << 20

    private let screen: Screen
    private let style: Style
    private var held: Data?
    /// The charset of the body; `nil` for UTF-8, and for JSON, which has no other.
    private let charset: Charset?
    private var lastByte = UInt8(ascii: "\n")
    private(set) var isBinary = false
    /// Whether the body is a sequence of messages, each to be shown when it arrives.
    let isEndless: Bool
    /// Whether the body is formatted when it is complete.
    var isFormatted: Bool { held != nil }

    init(_ response: HTTPResponse, _ screen: Screen, _ style: Style) {
        self.screen = screen
        self.style = style
        let type = (response.headers["Content-Type"] ?? "").lowercased()
        isEndless = ["json-seq", "ndjson", "event-stream", "jsonl"].contains { type.contains($0) }
        let isJSON = type.contains("json")
        let charset = Charset.declared(in: type)
        let isKnown = isJSON || isEndless || ["utf-8", "utf8", "us-ascii", "ascii"].contains(charset.name)
        self.charset = isKnown ? nil : charset
        held = isJSON && !isEndless || self.charset != nil ? Data() : nil
    }

    /// Writes a chunk. After a binary one, nothing more is shown.
    mutating func write(_ chunk: Data) throws(Output.Failure) {
        // Text in UTF-16 has such bytes.
        if chunk.contains(0), charset?.name.contains("16") != true { isBinary = true }
        guard !isBinary else { return }
        guard held != nil else { return try show(chunk) }
        held?.append(chunk)
        if let held, held.count > Self.layoutLimit {
            self.held = nil
            try show(held)
        }
    }

    /// Ends the body, complete or not.
    mutating func finish() throws(Output.Failure) {
        guard !isBinary else { return }
        if let charset, let text = held.flatMap(charset.decode) {
            try show(Data(text.utf8))
        } else if let held, !held.isEmpty {
            if let text = JSONLayout.text(of: held, style: style) { return try screen.write(Data((text + "\n").utf8)) }
            try show(held)
        }
        // The shell's prompt must begin on a new line.
        if lastByte != UInt8(ascii: "\n") { try screen.write(Data([UInt8(ascii: "\n")])) }
    }

    private mutating func show(_ bytes: Data) throws(Output.Failure) {
        try screen.write(bytes)
        lastByte = bytes.last ?? lastByte
    }
}
