import FoundationEssentials
import HTTPCore
import LATNetworking
import Synchronization

/// `lat lines [METHOD] URL`: shows the values of JSON lines or of a JSON sequence as they arrive, and sends lines.
struct LinesCommand: Command {
    /// The request, with the options of `lat request`.
    let request: RequestCommand
    let count: Int?
    let limit: Duration?
    let conditions: [RunAssertion]
    let subject: RunSubject?

    var showsAll: Bool { request.arguments.contains(Self.full) }
    var skipsBadLines: Bool { request.arguments.contains(Self.skipBad) }
    var sendsSequence: Bool { request.arguments.contains(Self.sequence) }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        request = try RequestCommand(arguments)
        count = try arguments.number(Self.count, 1...1_000_000_000)
        limit = try DurationArgument.parse(arguments, of: LiveRun.limit)
        conditions = try arguments.values(Self.condition).map { text throws(UsageError) in
            try Self.read(text, Self.condition) { line throws(RunExpressionError) in try RunAssertion(line) }
        }
        subject = try arguments.value(Self.show).map { text throws(UsageError) in
            try Self.read(text, Self.show) { line throws(RunExpressionError) in
                var reader = RunExpressionReader(line)
                let subject = try reader.subject()
                try reader.end()
                return subject
            }
        }
        let others = conditions.map(\.subject) + (subject.map { [$0] } ?? [])
        guard others.allSatisfy(\.isJSON) else {
            throw UsageError("a line has only values: begin with $, such as $.level == error")
        }
        if sendsSequence, request.content != .input {
            throw UsageError("\(Self.sequence.name) is for lines of standard input; add @-")
        }
    }

    private static func read<Value>(
        _ text: String, _ option: Option, _ read: (HTTPFile.Template) throws(RunExpressionError) -> Value
    ) throws(UsageError) -> Value {
        do throws(RunExpressionError) {
            return try read(HTTPFile.Template(text: text, start: 0))
        } catch {
            throw UsageError("\(option.name) \"\(SafeText.line(text))\": \(error.message)")
        }
    }

    func run(_ console: Console) async throws -> ExitCode { try await LinesRun(command: self, console: console).run() }

    /// The line of a value; `nil` for one that a condition leaves out.
    ///
    /// - Parameter columns: the width that a terminal has for it; `nil` for a whole line without colours.
    func line(of bytes: [UInt8], _ style: Style, columns: Int?) throws(UsageError) -> String? {
        guard let value = try? JSONValue(parsing: Data(bytes)), let text = JSONText(Data(bytes)) else { return nil }
        var response = HTTPResponse(status: 200, url: "")
        response.body = ResponseBody(Data(bytes))
        let exchange = RunExchange(request: HTTPRequest("GET", ""), response: response, duration: .zero)
        for condition in conditions {
            let failure = condition.failure(in: exchange, condition.operand?.text ?? "")
            // Its thread cannot be stopped, so there is one at most.
            if failure == RunAssertion.gaveUp { throw UsageError("\(Self.condition.name): \(RunAssertion.gaveUp)") }
            if failure != nil { return nil }
        }
        var line = text.compact(text.whole)
        if case .json(let steps)? = subject {
            guard let part = RunSubject.value(at: steps[...], in: value) else { return nil }
            line = part.string.map { SafeText.line($0) } ?? part.description
        }
        return columns.map { LiveText.content(line, style, room: $0) } ?? line
    }
}

extension LinesCommand {
    static let name = "lines"
    static let summary = "Shows JSON lines as they arrive, and sends lines of standard input."
    static let usage = "[METHOD] URL [ITEM…] [options]"

    static let count = Option("--count", "-n", value: "N", help: "Ends after N values.")
    static let condition = Option(
        "--where", value: "TEST", repeats: true,
        help: "Shows only values that pass, as # @assert of lat run: '$.level == error'.")
    static let show = Option("--show", value: "PATH", help: "Shows this part of each value, such as $.message.")
    static let skipBad = Option(
        "--skip-bad", help: "Leaves out lines that are not JSON, and tells how many at the end.")
    static let sequence = Option("--sequence", help: "Sends a JSON sequence (RFC 7464) instead of JSON lines.")
    static let full = Option("--full", help: "Shows long values whole. Otherwise a terminal shows one line of each.")

    static let options =
        [count, LiveRun.limit, condition, show, skipBad, sequence, full]
        + EventsCommand.options.filter { RequestCommand.options.contains($0) && $0 != OutputFormat.option }

    static let details = """
        Reads NDJSON, JSON Lines and JSON sequences (RFC 7464). Each value is a line, as it was sent, so that jq can read
        it; on a terminal it is coloured and cut at the last column. With @- the lines of standard input are the body, sent
        as they come; each has to be JSON. Items are those of lat request.

        Examples
          lat lines :8080/log --where '$.level == error' --show $.message
          lat lines :8080/log --count 5 | jq .time
          tail -f app.log | lat lines :8080/_bulk @-

        Exit codes: 0 the body ended, or --count or --for was reached, 1 the status is not a success, or a line is not
        JSON, 2 the command line or a line of standard input is invalid, 3 a lost connection, 130 interrupted.
        """
}

/// Counts the lines of standard input that are left out.
private final class SkippedLines: Sendable {
    let count = Atomic(0)
}

/// One run of `lat lines`.
private struct LinesRun {
    let command: LinesCommand
    let console: Console
    private let skipped = SkippedLines()
    private var live: LiveRun { LiveRun(request: command.request, console: console, limit: command.limit) }

    init(command: LinesCommand, console: Console) {
        self.command = command
        self.console = console
    }

    func run() async throws -> ExitCode {
        let result = await live.result(of: Task { try await read(try await open()) })
        note(skipped.count.load(ordering: .relaxed), "of standard input that")
        if case .failure(let error as NetworkError) = result, let mistake = error.underlying as? UsageError {
            throw mistake
        }
        return try live.code(of: result)
    }

    private func open() async throws -> HTTPResponse {
        let request = command.request
        let sendsInput = request.content == .input
        let content = try RequestContent(request, readsInput: !sendsInput)
        let headers: HTTPHeaders = [
            "User-Agent": RequestSettings.headers["User-Agent"],
            "Accept":
                "application/x-ndjson, application/jsonl, application/json-seq, application/json;q=0.9, */*;q=0.1",
        ]
        return try await live.manager().stream(
            request.method, content.url, parameters: request.parameters.isEmpty ? nil : request.parameters,
            files: content.files, body: sendsInput ? input : content.body, timeout: request.timeout,
            headers: headers.merging(content.headers))
    }

    /// The lines of standard input as a body. An empty line is left out.
    private var input: HTTPBody {
        let mark: [UInt8] = command.sendsSequence ? [0x1E] : []
        let lines = LineInput.lines().compactMap {
            [skipped, skips = command.skipsBadLines] (line: InputLine) throws -> Data? in
            do throws(UsageError) {
                return try Self.isEmpty(line) ? nil : Data(mark + line.bytes + [0x0A])
            } catch {
                guard skips else { throw error }
                skipped.count.add(1, ordering: .relaxed)
                return nil
            }
        }
        return .stream(
            lines, contentType: command.sendsSequence ? "application/json-seq" : "application/x-ndjson")
    }

    /// - Throws: ``UsageError`` for a line that is neither empty nor JSON.
    private static func isEmpty(_ line: InputLine) throws(UsageError) -> Bool {
        let text = try line.text()
        guard !text.allSatisfy(\.isWhitespace) else { return true }
        do {
            _ = try JSONValue(parsing: text)
        } catch {
            throw UsageError("line \(line.number) of standard input is not JSON: \(error)")
        }
        return false
    }

    private func note(_ count: Int, _ which: String) {
        guard count > 0 else { return }
        console.note("lat: left out \(count) \(count == 1 ? "line \(which) is" : "lines \(which) are") not JSON")
    }

    private func read(_ response: HTTPResponse) async throws {
        let values = response.values(of: JSONRecordText.self, options: .init(skipsBadLines: command.skipsBadLines))
        let columns = LiveText.columns(console, showsAll: command.showsAll)
        let room = columns ?? (console.outTerminal.isTerminal ? .max : nil)
        var shown = 0
        for try await value in values {
            guard let line = try command.line(of: value.bytes, console.outStyle, columns: room) else { continue }
            try console.print(line)
            shown += 1
            if shown == command.count { break }
        }
        note(values.skippedCount, "that")
    }
}
