import FoundationEssentials
import LATNetworking
import LATRealtime

/// `lat ws URL`: shows the messages of a WebSocket as they arrive, and sends some.
struct WebSocketCommand: Command {
    /// The handshake, with the options of `lat request`.
    let request: RequestCommand
    /// Whether the lines of standard input are sent.
    let sendsInput: Bool
    let count: Int?
    let limit: Duration?
    let options: WebSocketOptions

    var messages: [String] { request.arguments.values(Self.send) }
    var protocols: [String] { request.arguments.values(Self.subprotocol) }
    var showsAll: Bool { request.arguments.contains(Self.full) }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        var arguments = arguments
        sendsInput = arguments.operands.dropFirst().contains("-")
        arguments.operands = arguments.operands.filter { $0 != "-" }.map(URLReference.httpForm)
        request = try RequestCommand(arguments)
        guard request.method == "GET" else {
            throw UsageError(
                "a WebSocket has no method and no body; send messages with \(Self.send.name) TEXT, or with - for the "
                    + "lines of standard input")
        }
        count = try arguments.number(Self.count, 1...1_000_000_000)
        limit = try DurationArgument.parse(arguments, of: LiveRun.limit)
        var options = WebSocketOptions(compresses: !arguments.contains(Self.plain))
        if let interval = try DurationArgument.parse(arguments, of: Self.ping) { options.pingInterval = interval }
        if arguments.contains(Self.reconnect) {
            options.reconnection = Reconnection(statuses: [429, 502, 503, 504])
            options.resend = .unsent
        }
        self.options = options
    }

    func run(_ console: Console) async throws -> ExitCode {
        try await WebSocketRun(command: self, console: console).run()
    }
}

// MARK: Help

extension WebSocketCommand {
    static let name = "ws"
    static let summary = "Shows the messages of a WebSocket, and sends some."
    static let usage = "URL [ITEM…] [-] [options]"

    static let send = Option("--send", "-s", value: "TEXT", repeats: true, help: "Sends a message first.")
    static let subprotocol = Option(
        "--subprotocol", value: "NAME", repeats: true, help: "Offers a subprotocol; the preferred one first.")
    static let reconnect = Option(
        "--reconnect", help: "Opens a lost socket again, even after 429, 502, 503 and 504.")
    static let count = Option("--count", "-n", value: "N", help: "Ends after N messages.")
    static let ping = Option("--ping", value: "TIME", help: "Sends a ping after this silence. Default: 30s.")
    static let plain = Option("--no-compress", help: "Offers no compression.")
    static let full = Option("--full", help: "Shows long messages whole. Otherwise a terminal shows one line of each.")

    static let options =
        [send, subprotocol, reconnect, count, LiveRun.limit, ping, plain, full]
        + RequestCommand.options.filter {
            !(PageArguments.options + [
                RequestCommand.json, RequestCommand.data, RequestCommand.form, RequestCommand.file,
                OutputArgument.option, RequestCommand.download, RequestCommand.include, RequestCommand.cache,
                RequestCommand.curl, RequestCommand.noPager, RequestCommand.http2, RequestCommand.http3,
                RequestCommand.http3Only, RequestCommand.idleTimeout, RequestCommand.har, ConnectionArguments.prewarm,
                RequestCommand.dictionaries,
                ConnectionArguments.gzip, ConnectionArguments.trailer, ConnectionArguments.anyDigest,
            ]).contains($0)
        }

    static let details = """
        URL is one of ws, wss, http or https; ITEM is a header field or a parameter of the query, as in lat request. Each
        message is one line: the time and the text. With --format json each is one JSON object in a line.

        With - the lines of standard input are sent, and the socket closes after the last one. On a terminal, what is
        typed is sent line by line; /ping measures the round trip, /close CODE REASON and Ctrl-D close the socket. A line
        that begins with // is sent as a message that begins with /.

        Examples
          lat ws ws://127.0.0.1:8080/chat --for 2s
          lat ws :8080/chat --send '{"join": "lobby"}' --count 1
          lat ws :8080/chat - < messages.txt

        Exit codes: 0 the socket was closed, or --count or --for was reached, 1 the status
        is not a success, or the server closed the socket with another code than 1000 and
        1001, 2 the command line is invalid, 3 no WebSocket, or a lost one, 130 interrupted.
        """
}
