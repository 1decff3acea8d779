import FoundationEssentials
import LATInspect
import LATNetworking
import Synchronization

/// Sends the request of a command.
struct RequestSender {
    let command: RequestCommand
    let console: Console

    /// Sends the request. The body of the response is a stream.
    func send(
        _ content: RequestContent, on manager: CentralRequestManager, progress: ProgressLine? = nil
    ) async throws -> HTTPResponse {
        // The recorder sees the bytes of a body only if the call was started as a stream. A call that ``RequestSettings``
        // turns into a stream later does not report them.
        guard command.har == nil else {
            return try await manager.stream(
                command.method, content.url, parameters: command.parameters.isEmpty ? nil : command.parameters,
                files: content.files, body: content.body, timeout: command.timeout,
                headers: RequestSettings.headers.merging(content.headers))
        }
        return try await manager.startRequest(
            command.method, content.url, parameters: command.parameters.isEmpty ? nil : command.parameters,
            files: content.files, body: content.body, timeout: command.timeout,
            headers: RequestSettings.headers.merging(content.headers)
        ) { event in
            if event.direction == .upload { progress?.update(event.completed, of: event.total) }
        }
    }

    /// Shows the request with `--verbose`.
    var trace: @Sendable (HTTPRequest) -> Void {
        guard command.isVerbose else { return { _ in } }
        if command.line.isCompleted { console.note("* \(SafeText.line(Secrets.standard.shown(url: command.url)))") }
        return { [console] request in RequestTrace.lines(of: request, console.errStyle).forEach(console.note) }
    }

    // MARK: Without sending

    /// Answers in place of the server, and keeps the request.
    private final class Recorder: Interceptor {
        private let request = Mutex<HTTPRequest?>(nil)

        var recorded: HTTPRequest? { request.withLock { $0 } }

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            self.request.withLock { $0 = request }
            return HTTPResponse(status: 200, url: request.url)
        }
    }

    /// The request as it would be sent.
    private func composed() async throws -> HTTPRequest {
        let content = try RequestContent(command)
        let recorder = Recorder()
        let manager = try RequestSettings.manager(for: command, console, inner: recorder) { _ in }
        _ = try await send(content, on: manager)
        guard let request = recorder.recorded else { throw UsageError("the request cannot be composed") }
        return request
    }

    /// Prints the curl command that sends the same request.
    func printCurl() async throws -> ExitCode {
        do {
            let request = try await composed()
            try console.print(CurlCommand(.run).text(of: request, options: command.curlOptions))
        } catch let error as NetworkError {
            console.complain(error, ErrorWords(command.arguments))
            return ExitCode(error)
        }
        let names = command.optionsWithoutCurl.map(\.name)
        if !names.isEmpty {
            console.note("lat: curl has nothing like \(names.joined(separator: ", ")), so it is left out")
        }
        return .success
    }

    /// Saves the response in a file, as `lat download` does.
    func download() async throws -> ExitCode {
        do {
            var request = try await composed()
            request.streamsBody = false
            trace(request)
            let order = DownloadRun.Order(
                request: request, path: command.output ?? ".", format: command.format, arguments: command.arguments)
            var configuration = RequestSettings.configuration(for: command, console)
            configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
            let manager = try CentralRequestManager(configuration: configuration)
            let code = try await DownloadRun(order: order, manager: manager, console: console).run()
            await manager.shutdown()
            return code
        } catch let error as NetworkError {
            console.complain(error, ErrorWords(command.arguments))
            return ExitCode(error)
        }
    }
}

/// One run of `lat request`, from reading the files of the body to the last byte shown.
struct RequestRun {
    let command: RequestCommand
    let console: Console

    /// - Throws: ``UsageError``, `Output.Failure` or `CancellationError`. Failures of the request are shown, and decide
    ///   the returned code.
    func run() async throws -> ExitCode {
        let content = try RequestContent(command)
        let file = try command.output.map { name throws(UsageError) in try OutputFile(name) }
        defer { file?.discard() }

        let clock = ContinuousClock()
        let start = clock.now
        let recorder = command.har.map { _ in HARRecorder() }
        let answer = try await answer(to: content, recorder)
        let headTime = clock.now - start
        if let response = answer.response, command.isVerbose {
            RequestTrace.lines(of: response, console.errStyle).forEach(console.note)
        }

        let bodyStart = clock.now
        // Only a success writes the file, and 304 has no body to write.
        let isForFile = answer.error == nil && answer.response?.status != 304
        var outcome = Outcome(error: answer.error)
        if let response = answer.response {
            outcome = try await receive(response, into: isForFile ? file : nil, answer.error)
        }
        await answer.manager?.shutdown()
        var recordError: NetworkError?
        if let path = command.har {
            do {
                try recorder?.write(to: path)
            } catch let error as NetworkError {
                recordError = error
                console.complain(error, ErrorWords(command.arguments))
            }
        }
        let total = Self.headTime(answer.timings, headTime) + (clock.now - bodyStart)
        if command.isVerbose, let timings = answer.timings {
            console.note(RequestTrace.line(of: timings, total: total, console.errStyle))
        }
        if command.format == .json {
            try report(answer, outcome, content.url, isForFile ? command.output : nil, total)
        } else if let error = outcome.error {
            console.complain(error, ErrorWords(command.arguments))
        }
        return (outcome.error ?? recordError).map { ExitCode($0) } ?? .success
    }

    /// The time until the head arrived, as libcurl measured it, without the start of this process. It is the larger of
    /// two times, because the total of a stream may have been taken before its first byte.
    private static func headTime(_ timings: Timings?, _ ownTime: Duration) -> Duration {
        let times = [timings?.total, timings?.firstByte].compactMap { $0 }
        return times.max() ?? ownTime
    }

    // MARK: Sending

    /// The head of the response, the error, or both.
    private struct Answer {
        var response: HTTPResponse?
        var error: NetworkError?
        /// The manager that sent the request, when it writes files that must be complete at the end.
        var manager: CentralRequestManager?

        var timings: Timings? { response?.timings ?? error?.timings }
    }

    private func answer(to content: RequestContent, _ recorder: HARRecorder?) async throws -> Answer {
        let progress = ProgressLine("sending", on: console.err, console.errTerminal, isActive: true)
        defer { progress.clear() }
        var writer: CentralRequestManager?
        do {
            let sender = RequestSender(command: command, console: console)
            let manager = try RequestSettings.manager(
                for: command, console, observer: recorder, willSend: sender.trace)
            if command.keepsFiles { writer = manager }
            if command.connection.prewarm > 0 {
                try await manager.prewarm(command.url, connections: command.connection.prewarm)
            }
            return Answer(response: try await sender.send(content, on: manager, progress: progress), manager: writer)
        } catch let error as NetworkError {
            // The response of a failure is shown too.
            return Answer(response: error.kind == .httpStatus ? error.response : nil, error: error, manager: writer)
        }
    }

    // MARK: Receiving

    private struct Outcome {
        var error: NetworkError?
        /// The body when it was kept.
        var body: Data?
    }

    private func receive(
        _ response: HTTPResponse, into file: OutputFile?, _ verdict: NetworkError?
    ) async throws -> Outcome {
        let receiver = BodyReceiver(console, usesPager: command.usesPager)
        let sink = receiver.sink(file, command.format)
        let head = command.showsHead && command.format == .text ? RequestTrace.head(of: response, console.outStyle) : []
        var outcome = Outcome(error: verdict)
        do {
            outcome.body = try await receiver.receive(response, head: head, into: sink)
        } catch let error as NetworkError {
            // An unsuccessful status is the error to report, even when the body was incomplete.
            outcome.error = verdict ?? error
        }
        return outcome
    }

    // MARK: Reporting

    private func report(
        _ answer: Answer, _ outcome: Outcome, _ url: String, _ file: String?, _ total: Duration
    ) throws {
        var report = RequestReport(
            method: "\(HTTPMethod(command.method))", url: url,
            response: answer.response ?? outcome.error?.response, body: outcome.body,
            file: outcome.error == nil ? file : nil, timings: answer.timings, total: total,
            error: outcome.error)
        report.showsSource = command.cache != nil
        report.words = ErrorWords(command.arguments)
        try console.print(report.json)
    }
}
