import FoundationEssentials
import LATNetworking

/// One run of `lat request`, from reading the body's files to the last byte shown.
struct RequestRun {
    private let command: RequestCommand
    private let console: Console

    init(_ command: RequestCommand, _ console: Console) {
        self.command = command
        self.console = console
    }

    /// - Throws: ``UsageError``, `Output.Failure` or `CancellationError`; failures of the request are shown and end in
    ///   the code returned.
    func run() async throws -> ExitCode {
        let content = try RequestContent(command)
        let file = try command.output.map { name throws(UsageError) in try OutputFile(name) }
        defer { file?.discard() }

        let clock = ContinuousClock()
        let start = clock.now
        let answer = try await answer(to: content)
        let headTime = clock.now - start
        if let response = answer.response, command.isVerbose {
            RequestTrace.lines(of: response, console.errStyle).forEach(console.note)
        }

        let bodyStart = clock.now
        // A status that is no success, and 304, which brings nothing, leave the file alone.
        let isForFile = answer.error == nil && answer.response?.status != 304
        var outcome = Outcome(error: answer.error)
        if let response = answer.response {
            outcome = try await receive(response, into: isForFile ? file : nil, answer.error)
        }
        await answer.manager?.shutdown()
        let total = Self.headTime(answer.timings, headTime) + (clock.now - bodyStart)
        if command.isVerbose, let timings = answer.timings {
            console.note(RequestTrace.line(of: timings, total: total, console.errStyle))
        }
        if command.format == .json {
            try report(answer, outcome, isForFile ? command.output : nil, total)
        } else if let error = outcome.error {
            console.complain(error.description)
        }
        return outcome.error.map { ExitCode($0) } ?? .success
    }

    /// The time to the head by libcurl's clock, which knows nothing of this process's own start. Of a stream its
    /// total may be older than the first byte.
    private static func headTime(_ timings: Timings?, _ ownTime: Duration) -> Duration {
        let times = [timings?.total, timings?.firstByte].compactMap { $0 }
        return times.max() ?? ownTime
    }

    // MARK: Sending

    /// The head of what came, and what is wrong with it.
    private struct Answer {
        var response: HTTPResponse?
        var error: NetworkError?
        /// What sent the request, when it keeps files that are to be whole at the end.
        var manager: CentralRequestManager?

        var timings: Timings? { response?.timings ?? error?.timings }
    }

    private func answer(to content: RequestContent) async throws -> Answer {
        let progress = ProgressLine("sending", on: console.err, console.errTerminal, isActive: true)
        defer { progress.clear() }
        do {
            let manager = try RequestSettings.manager(for: command, willSend: trace)
            if command.connection.prewarm > 0 {
                try await manager.prewarm(command.url, connections: command.connection.prewarm)
            }
            let response = try await manager.startRequest(
                command.method, command.url, parameters: command.parameters.isEmpty ? nil : command.parameters,
                files: content.files, body: content.body, timeout: command.timeout,
                headers: RequestSettings.headers.merging(command.headers)
            ) { event in
                if event.direction == .upload { progress.update(event.completed, of: event.total) }
            }
            return Answer(response: response, manager: command.connection.keepsFiles ? manager : nil)
        } catch let error as NetworkError {
            // The answer that came is shown, be it a failure.
            return Answer(response: error.kind == .httpStatus ? error.response : nil, error: error)
        }
    }

    private var trace: @Sendable (HTTPRequest) -> Void {
        guard command.isVerbose else { return { _ in } }
        return { [console] request in RequestTrace.lines(of: request, console.errStyle).forEach(console.note) }
    }

    // MARK: Receiving

    private struct Outcome {
        var error: NetworkError?
        /// The body, when it was kept.
        var body: Data?
    }

    private func receive(
        _ response: HTTPResponse, into file: OutputFile?, _ verdict: NetworkError?
    ) async throws -> Outcome {
        if command.showsHead, command.format == .text {
            for line in RequestTrace.head(of: response, console.outStyle) { try console.print(line) }
            try console.print("")
        }
        var outcome = Outcome(error: verdict)
        do {
            let receiver = BodyReceiver(console)
            outcome.body = try await receiver.receive(response, into: receiver.sink(file, command.format))
        } catch let error as NetworkError {
            // The status is the news, also when its body broke off.
            outcome.error = verdict ?? error
        }
        return outcome
    }

    // MARK: Reporting

    private func report(_ answer: Answer, _ outcome: Outcome, _ file: String?, _ total: Duration) throws {
        var report = RequestReport(
            method: "\(HTTPMethod(command.method))", url: command.url,
            response: answer.response ?? outcome.error?.response, body: outcome.body,
            file: outcome.error == nil ? file : nil, timings: answer.timings, total: total,
            error: outcome.error)
        report.showsSource = command.cache != nil
        try console.print(report.json)
    }
}
