import FoundationEssentials
import LATNetworking

/// One run of `lat upload`, from looking at the files to the last byte shown.
struct UploadRun {
    private let command: UploadCommand
    private let console: Console

    init(_ command: UploadCommand, _ console: Console) {
        self.command = command
        self.console = console
    }

    /// - Throws: ``UsageError``, `Output.Failure` or `CancellationError`; failures of the upload are shown and end in
    ///   the code returned.
    func run() async throws -> ExitCode {
        try checkFiles()
        let clock = ContinuousClock()
        let start = clock.now
        let upload: UploadTask<HTTPResponse>
        do {
            upload = try self.upload()
        } catch let error as NetworkError {
            console.complain(error.description)
            return ExitCode(error)
        }
        let answer = try await answer(of: upload)
        let total = clock.now - start
        var body: Data?
        if let response = answer.response {
            let receiver = BodyReceiver(console)
            body = try await receiver.receive(response, into: receiver.sink(nil, command.format))
        }
        if command.format == .json {
            try console.print(report(answer, body, upload.currentProgress, total))
        } else if let error = answer.error {
            console.complain(error.description)
        } else if console.errTerminal.isTerminal {
            console.note(Self.summary(upload.currentProgress, total, console.errStyle))
        }
        return answer.error.map { ExitCode($0) } ?? .success
    }

    private func checkFiles() throws(UsageError) {
        switch command.content {
        case .whole(let path): try RequestContent.checkReadable(path, of: UploadCommand.body)
        case .parts(let files):
            for file in files { try RequestContent.checkReadable(file.path, of: UploadCommand.file) }
        }
    }

    // MARK: Sending

    /// What came, and what is wrong with it.
    private struct Answer {
        var response: HTTPResponse?
        var error: NetworkError?
    }

    private func upload() throws -> UploadTask<HTTPResponse> {
        var configuration = CentralRequestManager.Configuration()
        configuration.headers = RequestSettings.headers
        if let proxy = command.proxy { configuration.proxy = proxy.isEmpty ? .none : .url(proxy) }
        if let user = command.user {
            configuration.interceptors = [Credentials(name: user.name, password: user.password)]
        }
        let manager = try CentralRequestManager(configuration: configuration)
        let parameters = command.parameters.isEmpty ? nil : command.parameters
        switch command.content {
        case .parts(let files):
            return manager.upload(
                command.url, method: command.method, files: files.map { UploadFile(name: $0.name, path: $0.path) },
                parameters: parameters, timeout: command.timeout, headers: command.headers)
        case .whole(let path):
            return manager.upload(
                command.url, method: command.method, body: .file(path), parameters: parameters,
                timeout: command.timeout, headers: command.headers)
        }
    }

    private func answer(of upload: UploadTask<HTTPResponse>) async throws -> Answer {
        try await withTaskCancellationHandler {
            let bars = UploadBars(on: console.err, console.errTerminal)
            for await progress in upload.progress { bars.update(progress) }
            bars.clear()
            do {
                return Answer(response: try await upload.value)
            } catch let error as NetworkError {
                if error.kind == .cancelled { throw CancellationError() }
                // The answer that came is shown, be it a failure.
                return Answer(response: error.kind == .httpStatus ? error.response : nil, error: error)
            }
        } onCancel: {
            upload.cancel()
        }
    }

    /// Basic authentication for each request.
    private struct Credentials: Interceptor {
        let name: String
        let password: String

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            var request = request
            request.authentication = .basic(user: name, password: password)
            return try await next(request)
        }
    }

    // MARK: Reporting

    private static func summary(_ progress: UploadProgress, _ time: Duration, _ style: Style) -> String {
        let files = progress.files.count == 1 ? "1 file" : "\(Quantity.grouped(progress.files.count)) files"
        let rate = Quantity.bytes(Int64(Double(progress.completed) / max(time.inSeconds, 0.000_1)))
        return style.green(style.sign("✓", "+"))
            + " \(files), \(Quantity.bytes(progress.completed)) in \(Quantity.duration(time)) (\(rate)/s)"
    }

    private func report(
        _ answer: Answer, _ body: Data?, _ progress: UploadProgress, _ total: Duration
    ) -> JSONValue {
        let report = RequestReport(
            method: "\(HTTPMethod(command.method))", url: command.url, response: answer.response, body: body, file: nil,
            timings: answer.response?.timings ?? answer.error?.timings, total: total, error: answer.error)
        var object = report.json.object ?? [:]
        let paths: [String] =
            switch command.content {
            case .whole(let path): [path]
            case .parts(let files): files.map(\.path)
            }
        object["files"] = .array(
            zip(progress.files, paths).map { file, path in
                [
                    "name": .string(file.name), "path": .string(path), "state": .string(file.state.rawValue),
                    "completed": .int(file.completed), "total": file.total.map { .int($0) } ?? .null,
                ]
            })
        return .object(object)
    }
}
