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
        let parameters = command.parameters.isEmpty ? nil : command.parameters
        let headers = RequestSettings.headers.merging(content.headers)
        // The recorder gets the bytes of a body only if the call was started as a stream, not if ``RequestSettings`` turns it
        // into one later.
        guard command.har == nil, Inspector.requested == nil else {
            return try await manager.stream(
                command.method, content.url, parameters: parameters, files: content.files, body: content.body,
                timeout: command.timeout, headers: headers)
        }
        return try await manager.startRequest(
            command.method, content.url, parameters: parameters, files: content.files, body: content.body,
            timeout: command.timeout, headers: headers
        ) { event in
            if event.direction == .upload { progress?.update(event.completed, of: event.total) }
        }
    }

    /// Shows with `--verbose` the URL, if it was completed.
    func showURL() {
        guard command.isVerbose, command.line.isCompleted else { return }
        console.note("* \(SafeText.line(Secrets.standard.shown(url: command.url)))")
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
        let manager = try RequestSettings.manager(for: command, console, inner: recorder)
        _ = try await send(content, on: manager)
        guard let request = recorder.recorded else { throw UsageError("the request cannot be composed") }
        return request
    }

    /// Prints the curl command that sends the same request.
    func printCurl() async throws -> ExitCode {
        let request = try await composed()
        let options = command.curlOptions(for: request)
        if let obstacle = CurlCommand.obstacle(in: request, options: options) {
            throw UsageError(
                "--curl: \(obstacle), which no argument of a command can hold; send it from a file (@FILE)")
        }
        try console.print(CurlCommand(.run).text(of: request, options: options))
        if let obstacle = command.redirectObstacle(of: request) {
            console.note(SafeText.line("lat: -L is left out, because curl \(obstacle)"))
        }
        let names = command.optionsWithoutCurl.map(\.name)
        if !names.isEmpty {
            let rest = names.count == 1 ? "it is" : "they are"
            console.note("lat: curl has no option like \(names.joined(separator: ", ")); \(rest) left out")
        }
        return .success
    }

    /// Saves the response in a file, as `lat download` does.
    func download() async throws -> ExitCode {
        var request = try await composed()
        request.streamsBody = false
        showURL()
        return try await DownloadRun(
            request: request, path: command.output ?? ".", prewarm: command.connection.prewarm, format: command.format,
            arguments: command.arguments, configuration: RequestSettings.configuration(for: command, console),
            console: console
        ).run()
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
        if case .text(let text) = command.content, console.errTerminal.isTerminal, CurlWords.isForm(text),
            !content.headers.contains("Content-Type")
        {
            console.note(
                "lat: -d sends the text as text/plain; for a form, as curl sends it, use -f and write name=value")
        }
        let file = try command.output.map { name throws(UsageError) in try OutputFile(name) }
        defer { file?.discard() }
        if let pages = command.pages { return try await run(content, pages, file) }
        let recorder = command.har.map { _ in HARRecorder() }
        do {
            let error = try await run(content, file, recorder)
            let recordError = save(recorder)
            return (error ?? recordError).map { ExitCode($0) } ?? .success
        } catch {
            // A closed pipe or Ctrl-C ends the command, and what was recorded until then is kept.
            _ = save(recorder)
            throw error
        }
    }

    /// Reads all pages of a list.
    private func run(
        _ content: RequestContent, _ pages: PageArguments, _ file: OutputFile?
    ) async throws -> ExitCode {
        let paging = pages.paging()
        let writer = PageWriter(
            console: console, file: file, items: paging.items, showsHeads: command.isVerbose)
        let manager = try RequestSettings.manager(for: command, console)
        let error = try await writer.write(
            manager.pages(
                command.method, content.url, paging, parameters: command.parameters.isEmpty ? nil : command.parameters,
                body: content.body, headers: RequestSettings.headers.merging(content.headers))
        ) { $0 }
        if command.keepsFiles { await manager.shutdown() }
        guard let error else { return .success }
        console.complain(error, ErrorWords(command.arguments))
        return ExitCode(error)
    }

    /// Writes the file of `--har`, and shows an error.
    private func save(_ recorder: HARRecorder?) -> NetworkError? {
        guard let path = command.har, let recorder else { return nil }
        do {
            try recorder.write(to: path)
            return nil
        } catch {
            let failure = error as? NetworkError ?? NetworkError(.storage, message: "\(error)", underlying: error)
            console.complain(failure, ErrorWords(command.arguments))
            return failure
        }
    }

    /// - Returns: The failure of the request, which was shown; `nil` after a success.
    private func run(
        _ content: RequestContent, _ file: OutputFile?, _ recorder: HARRecorder?
    ) async throws -> NetworkError? {
        let start = ContinuousClock.now
        let (answer, writer) = try await answer(to: content, recorder)
        var error = answer.error
        let headTime = ContinuousClock.now - start
        if let response = answer.response, command.isVerbose {
            RequestTrace.lines(of: response, console.errStyle).forEach(console.note)
        }

        let bodyStart = ContinuousClock.now
        // Only a success writes the file, and 304 has no body to write.
        let isForFile = answer.error == nil && answer.response?.status != 304
        var body: Data?
        if let response = answer.response {
            let receiver = BodyReceiver(
                console: console, usesPager: command.usesPager, headIsContent: command.isHead)
            let target = isForFile ? file : nil
            let hasHead = command.showsHead && command.format == .text
            let style = command.isHead && target != nil ? .plain : console.outStyle
            let head = hasHead ? RequestTrace.head(of: response, style) : []
            do {
                body = try await receiver.receive(response, head: head, into: target, command.format)
            } catch let failure as NetworkError {
                // An unsuccessful status is the error to report, even when the body was incomplete.
                error = error ?? failure
            } catch {
                await writer?.shutdown()
                throw error
            }
        }
        let bodyTime = ContinuousClock.now - bodyStart
        await writer?.shutdown()
        // libcurl's time until the head arrived, which does not include the set-up of the manager. It is the larger of two
        // times, because the total of a stream may have been taken before its first byte.
        let measured = [answer.timings?.total, answer.timings?.firstByte].compactMap { $0 }.max()
        let total = (measured ?? headTime) + bodyTime
        if command.isVerbose, let timings = answer.timings {
            console.note(RequestTrace.line(of: timings, total: total, console.errStyle))
        }
        if command.format == .json {
            var report = RequestReport(
                method: "\(HTTPMethod(command.method))", url: content.url,
                response: answer.response ?? error?.response, body: body,
                file: isForFile && error == nil ? command.output : nil, timings: answer.timings, total: total,
                error: error)
            report.showsSource = command.cache != nil
            report.words = ErrorWords(command.arguments)
            try console.print(report.json)
        } else if let error {
            console.complain(error, ErrorWords(command.arguments))
        }
        return error
    }

    /// - Returns: The answer, and the manager if it writes files that must be complete at the end.
    private func answer(
        to content: RequestContent, _ recorder: HARRecorder?
    ) async throws -> (Answer, writer: CentralRequestManager?) {
        let progress = ProgressLine("sending", on: console)
        defer { progress.clear() }
        var writer: CentralRequestManager?
        do {
            let sender = RequestSender(command: command, console: console)
            sender.showURL()
            let manager = try RequestSettings.manager(for: command, console, observer: recorder)
            if command.keepsFiles { writer = manager }
            if command.connection.prewarm > 0 {
                try await manager.prewarm(command.url, connections: command.connection.prewarm)
            }
            return (Answer(response: try await sender.send(content, on: manager, progress: progress)), writer)
        } catch let error as NetworkError {
            // The response of a failure is shown too.
            return (Answer(response: error.kind == .httpStatus ? error.response : nil, error: error), writer)
        }
    }
}
