import FoundationEssentials
import LATNetworking

/// Takes the body of a response where it belongs, and shows how far it is.
struct BodyReceiver {
    private let console: Console

    init(_ console: Console) { self.console = console }

    /// Where a body goes: into the file when there is one, into the report, or to whoever reads standard output.
    func sink(_ file: OutputFile?, _ format: OutputFormat) -> BodySink {
        if let file { return .file(file) }
        if format == .json { return .memory }
        return console.outTerminal.isTerminal ? .terminal : .pipe
    }

    /// - Returns: The body, when it is kept.
    /// - Throws: ``NetworkError`` when it broke off, `Output.Failure`, `CancellationError`.
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
        let label = Self.label(file.name)
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
        // Of a body that was there already the time says nothing.
        let rate = response.body.isStream ? Self.rate(completed, in: time) : ""
        console.note("\(label)  \(Quantity.bytes(completed))\(rate)")
    }

    private static func rate(_ count: Int64, in time: Duration) -> String {
        let perSecond = Quantity.bytes(Int64(Double(count) / max(time.inSeconds, 0.000_1)))
        return " in \(Quantity.duration(time)) (\(perSecond)/s)"
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
            console.note("lat: a binary body\(size) is not shown here; write it to a file with -o FILE")
        }
    }

    /// The bytes to come, when known: the length tells of the bytes on the wire, not of what they decompress to.
    private static func length(of response: HTTPResponse) -> Int64? {
        guard !response.headers.contains("Content-Encoding") else { return nil }
        return response.headers["Content-Length"].flatMap { Int64($0) }
    }

    /// The last component of a path, cut to what a line can spare.
    private static func label(_ path: String) -> String {
        let name = SafeText.line(path.split(separator: "/").last.map(String.init) ?? path)
        return name.count <= 24 ? name : name.prefix(12) + "…" + name.suffix(11)
    }
}
