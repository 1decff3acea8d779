import FoundationEssentials
import Glibc
import LATNetworking
import LATRealtime

/// `lat events [METHOD] URL`: shows the events of an event stream as they arrive.
struct EventsCommand: Command {
    /// The request, with the options of `lat request`.
    let request: RequestCommand
    let count: Int?
    let limit: Duration?
    let options: EventOptions

    var type: String? { request.arguments.value(Self.type) }
    var showsAll: Bool { request.arguments.contains(Self.full) }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        request = try RequestCommand(arguments)
        count = try arguments.number(Self.count, 1...1_000_000_000)
        limit = try DurationArgument.parse(arguments, of: LiveRun.limit)
        options = EventOptions(
            reconnection: arguments.contains(Self.reconnect) ? Reconnection(statuses: [429, 502, 503, 504]) : .never,
            lastEventID: arguments.value(Self.lastEventID) ?? "", endsAt: arguments.value(Self.endsAt))
    }

    func run(_ console: Console) async throws -> ExitCode { try await EventsRun(command: self, console: console).run() }
}

// MARK: Help

extension EventsCommand {
    static let name = "events"
    static let summary = "Shows the events of an event stream as they arrive."
    static let usage = "[METHOD] URL [ITEM…] [options]"

    static let reconnect = Option(
        "--reconnect", help: "Opens a lost stream again, even that of a POST, and even after 429, 502, 503 and 504.")
    static let count = Option("--count", "-n", value: "N", help: "Ends after N events.")
    static let type = Option("--type", value: "TYPE", help: "Shows only events of this type.")
    static let lastEventID = Option("--last-event-id", value: "ID", help: "Begins after the event with this id.")
    static let endsAt = Option(
        "--ends-at", value: "TEXT", help: "Ends at the event with this data or type, such as [DONE].")
    static let full = Option("--full", help: "Shows long events whole. Otherwise a terminal shows one line of each.")

    static let options =
        [reconnect, count, LiveRun.limit, type, lastEventID, endsAt, full]
        + RequestCommand.options.filter {
            !(PageArguments.options + [
                RequestCommand.file, OutputArgument.option, RequestCommand.download, RequestCommand.include,
                RequestCommand.cache, RequestCommand.curl, RequestCommand.noPager, RequestCommand.har,
                RequestCommand.dictionaries, ConnectionArguments.prewarm,
            ]).contains($0)
        }

    static let details = """
        Without METHOD the request is a GET, or a POST with a body. Items are those of lat request. Each event is one line:
        the time, the type, the id and the data. With --format json each is one JSON object in a line.

        Examples
          lat events :8080/prices --reconnect --for 2s
          lat events :8080/chat prompt=Hello --ends-at '[DONE]'
          lat events :8080/prices --count 5 --format json

        Exit codes: 0 the stream ended, or --count or --for was reached, 1 the status is
        not a success, 2 the command line is invalid, 3 no event stream, a lost one, or one
        that ended without the event of --ends-at, 130 interrupted.
        """
}

/// One run of `lat events`.
private struct EventsRun {
    let command: EventsCommand
    let console: Console
    private var live: LiveRun { LiveRun(request: command.request, console: console, limit: command.limit) }

    func run() async throws -> ExitCode {
        let request = command.request
        let content = try RequestContent(request)
        let body = content.files.isEmpty ? content.body : .multipart(content.files)
        let headers: HTTPHeaders = ["User-Agent": RequestSettings.headers["User-Agent"]]
        let stream: EventStream<ServerSentEvent>
        do {
            stream = try live.manager().events(
                request.method, content.url, parameters: request.parameters.isEmpty ? nil : request.parameters,
                body: body, timeout: request.timeout, headers: headers.merging(content.headers),
                options: command.options)
        } catch let error as NetworkError {
            return live.report(error)
        }
        let watcher = Task { [live] in for await state in stream.states { live.line(state).map(console.note) } }
        defer { watcher.cancel() }
        return try live.code(of: await live.result(of: Task { try await read(stream) }))
    }

    private func read(_ stream: EventStream<ServerSentEvent>) async throws {
        var shown = 0
        for try await event in stream where command.type == nil || event.type == command.type {
            try console.print(EventLine(event: event, date: Date()).text(of: command, console))
            shown += 1
            if shown == command.count { return }
        }
    }
}

/// An event as a line of output: a pure value.
struct EventLine {
    let event: ServerSentEvent
    let date: Date

    func text(of command: EventsCommand, _ console: Console) -> String {
        guard command.request.format == .text else { return json.description }
        return line(console.outStyle, columns: LiveText.columns(console, showsAll: command.showsAll))
    }

    /// Time, type, id and data in one line. JSON is coloured.
    ///
    /// - Parameter columns: the width that the line must keep to; `nil` for none.
    func line(_ style: Style, columns: Int? = nil) -> String {
        let type = SafeText.label(event.type).padded(toEnd: 8)
        let id = event.id.isEmpty ? "" : "#" + SafeText.label(event.id) + "  "
        let clock = LiveText.clock(date)
        let head = style.dim(clock) + "  " + style.bold(type) + "  " + style.dim(id)
        let room = columns.map { max(10, $0 - clock.count - type.count - id.count - 4) } ?? .max
        return head + LiveText.content(event.data, style, room: room)
    }

    /// The event with its time, for programs. The member `json` is the parsed data, if the data is JSON.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "time": LiveText.time(date),
            "type": .string(event.type), "id": event.id.isEmpty ? .null : .string(event.id),
            "data": .string(event.data),
        ]
        if let value = try? JSONValue(parsing: event.data) { members["json"] = value }
        return .object(members)
    }
}
