import FoundationEssentials
import Glibc
import LATNetworking
import LATRealtime

/// One run of `lat ws`.
struct WebSocketRun {
    let command: WebSocketCommand
    let console: Console
    private let start = ContinuousClock.now
    /// What is left of `--for` limits the opening, and then the rest.
    private var live: LiveRun {
        let limit = command.limit.map { max(.zero, $0 - start.duration(to: .now)) }
        return LiveRun(request: command.request, console: console, limit: limit)
    }

    init(command: WebSocketCommand, console: Console) {
        self.command = command
        self.console = console
    }

    func run() async throws -> ExitCode {
        live.line(.connecting).map(console.note)
        let opening = await live.result(of: Task { try await open() })
        guard case .success(let socket) = opening else { return try live.code(of: opening.map { _ in }) }
        let prompt = usesPrompt ? LinePrompt(console) : nil
        defer { prompt?.close() }
        let watcher = Task { [live] in
            var told = 0
            for await state in socket.states {
                told = warn(of: socket, told)
                guard let line = live.line(state) else { continue }
                if let prompt { try? prompt.show(line) } else { console.note(line) }
            }
            _ = warn(of: socket, told)
        }
        let result = await live.result(of: Task { try await talk(socket, prompt) })
        if !Task.isCancelled { await closeIfOpen(socket) }
        watcher.cancel()
        await watcher.value
        prompt?.close()
        guard case .success = result, let closing = socket.closing else { return try live.code(of: result) }
        let isFailure = socket.closedForAFailure
        // A server that closes by itself may not have read all lines.
        let isTold = isFailure || command.sendsInput && closing.isByServer
        if isTold || command.request.isVerbose || prompt != nil { note(closing) }
        if closesAfterInput, !closing.isByServer, !closing.isClean {
            console.complain(
                "the server did not answer the close frame, so it may not have read all lines; look at its log")
            return .network
        }
        return isFailure ? .failure : .success
    }

    /// Warns of each lost connection that was not told yet. Returns how many there were.
    private func warn(of socket: WebSocket, _ told: Int) -> Int {
        let losses = socket.losses
        if command.sendsInput {
            for _ in told..<losses {
                console.note("lat: warning: the connection was lost; lines that were sent may not have arrived")
            }
        }
        return losses
    }

    /// Whether the end of standard input closes the socket.
    private var closesAfterInput: Bool { command.sendsInput && command.count == nil && command.limit == nil }

    /// Whether messages are typed at a prompt: standard input and output are a terminal whose lines can be redrawn,
    /// and neither `-`, `--count` nor `--format json` is given.
    private var usesPrompt: Bool {
        !command.sendsInput && command.request.format == .text && console.outTerminal.isTerminal
            && console.outTerminal.canRedraw && isatty(STDIN_FILENO) == 1 && command.count == nil
    }

    private func open() async throws -> WebSocket {
        let request = command.request
        let content = try RequestContent(request)
        let headers: HTTPHeaders = ["User-Agent": RequestSettings.headers["User-Agent"]]
        var options = command.options
        if let timeout = request.timeout { options.openTimeout = timeout }
        return try await live.manager().webSocket(
            content.url, protocols: command.protocols,
            parameters: request.parameters.isEmpty ? nil : request.parameters,
            headers: headers.merging(content.headers), options: options)
    }

    /// Sends messages, and shows those that arrive, until the socket closes or `--count` is reached.
    private func talk(_ socket: WebSocket, _ prompt: LinePrompt?) async throws {
        for text in command.messages { try await socket.send(text) }
        let input = Task {
            if let prompt {
                try await converse(socket, prompt)
            } else if command.sendsInput {
                do {
                    for await line in LineInput.lines() { try await send(line, to: socket) }
                } catch let mistake as UsageError {
                    _ = try? await socket.close()
                    throw mistake
                }
                // The server's messages after the last line still arrive before its close frame.
                if closesAfterInput { try await socket.close() }
            }
        }
        defer { input.cancel() }
        var shown = 0
        for try await message in socket.messages {
            let line = MessageLine(message: message, date: Date()).text(of: command, console)
            if let prompt { try prompt.show(line) } else { try console.print(line) }
            shown += 1
            if shown == command.count { return }
        }
        // The next line fails. If none comes, nothing is lost.
        guard command.sendsInput, case .failure(let error) = await result(of: input) else { return }
        if error is UsageError || error is NetworkError && !socket.closedForAFailure { throw error }
    }

    private func send(_ line: InputLine, to socket: WebSocket) async throws {
        let text = try line.text()
        do {
            try await socket.send(text)
        } catch {
            let error = error as? NetworkError
            throw NetworkError(
                error?.kind ?? .connectionLost,
                message: "line \(line.number) of standard input was not sent: "
                    + (error?.message ?? "the WebSocket is closed"), request: error?.request)
        }
    }

    /// Sends each typed line, and carries out `/ping` and `/close`. Shows errors, such as that of a ping without a connection.
    private func converse(_ socket: WebSocket, _ prompt: LinePrompt) async throws {
        let style = console.outStyle
        while let line = try await prompt.next() {
            do {
                let words = line.split(separator: " ", maxSplits: 2).map(String.init)
                if line == "/ping" {
                    try prompt.show(style.dim("pong after \(Quantity.duration(try await socket.ping()))"))
                } else if words.first == "/close" {
                    guard let code = UInt16(words.dropFirst().first ?? "1000") else {
                        try prompt.show(
                            style.red("\"\(SafeText.line(words[1]))\" is not a close code; write /close 1000"))
                        continue
                    }
                    try await socket.close(code: .init(rawValue: code), reason: words.count > 2 ? words[2] : "")
                    return
                } else if line.hasPrefix("/"), !line.hasPrefix("//") {
                    try prompt.show(style.dim("/ping, /close CODE REASON; // sends a message that begins with /"))
                } else if !line.isEmpty {
                    let text = line.hasPrefix("//") ? String(line.dropFirst()) : line
                    try await socket.send(text)
                    let sent = MessageLine(message: .text(text), date: Date(), isSent: true)
                    try prompt.show(sent.text(of: command, console))
                }
            } catch let error as NetworkError {
                try prompt.show(style.red(SafeText.line(error.message)))
            }
        }
        try await socket.close()
    }

    /// Closes the socket if it is open. Waits at most a second for the server's close frame.
    private func closeIfOpen(_ socket: WebSocket) async {
        guard socket.state == .open else { return }
        _ = await result(of: Task { _ = try await socket.close() })
    }

    /// Waits for the result of the work, at most a second.
    private func result(of work: Task<Void, any Error>) async -> Result<Void, any Error> {
        await LiveRun(request: command.request, console: console, limit: .seconds(1)).result(of: work)
    }

    private func note(_ closing: WebSocket.Closing) {
        let reason = closing.reason.isEmpty ? "" : " (\(SafeText.line(closing.reason)))"
        let side = closing.isByServer ? "the server" : "this side"
        console.note(console.errStyle.dim("\(side) closed the socket with \(closing.code.rawValue)\(reason)"))
    }
}

extension WebSocket {
    /// Whether the server closed with a code that tells of a failure.
    fileprivate var closedForAFailure: Bool { closing.map { $0.isByServer && !$0.code.isOrdinary } ?? false }
}

/// A message as a line of output: a pure value.
struct MessageLine {
    let message: WebSocket.Message
    let date: Date
    /// Whether it was typed here.
    var isSent = false

    func text(of command: WebSocketCommand, _ console: Console) -> String {
        guard command.request.format == .text else { return json.description }
        return line(console.outStyle, columns: LiveText.columns(console, showsAll: command.showsAll))
    }

    /// Time and text in one line. For a message of bytes, it shows their number and the first 16.
    func line(_ style: Style, columns: Int? = nil) -> String {
        let clock = LiveText.clock(date)
        let head = style.dim(clock) + (isSent ? style.bold(">") + " " : "  ")
        let room = columns.map { max(10, $0 - clock.count - 2) } ?? .max
        switch message {
        case .text(let text): return head + LiveText.content(text, style, room: room)
        case .data(let data):
            let bytes = data.prefix(16).map { String($0, radix: 16).padded(toStart: 2, with: "0") }
            let digits = bytes.joined(separator: " ")
            return head + style.bold(Quantity.bytes(Int64(data.count))) + "  "
                + style.dim(digits + (data.count > 16 ? " " + style.sign("…", "...") : ""))
        }
    }

    /// The message with its time, for programs. The member `json` is the parsed text, if the text is JSON. Bytes are Base64.
    var json: JSONValue {
        var members: [String: JSONValue] = ["time": LiveText.time(date)]
        switch message {
        case .text(let text):
            members["text"] = .string(text)
            if let value = try? JSONValue(parsing: text) { members["json"] = value }
        case .data(let data): members["data"] = .string(data.base64EncodedString())
        }
        return .object(members)
    }
}
