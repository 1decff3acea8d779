import FoundationEssentials
import LATInspect
import LATNetworking

/// One run of `lat upload`, from checking the files to the last byte shown.
struct UploadRun {
    let command: UploadCommand
    let console: Console

    /// - Throws: ``UsageError``, `Output.Failure` or `CancellationError`. Failures of the upload are shown, and decide
    ///   the returned code.
    func run() async throws -> ExitCode {
        try checkFiles()
        let start = ContinuousClock.now
        let (resumable, upload): (UploadProtocol.Choice?, UploadTask<HTTPResponse>)
        do {
            (resumable, upload) = try await self.upload()
        } catch let error as NetworkError {
            return console.fail(error, command.arguments)
        }
        if let note = resumable?.note(on: command.url) { console.note("lat: \(note)") }
        var answer = try await answer(of: upload)
        if let error = answer.error { answer.error = resumable?.explain(error, at: command.url) ?? error }
        let total = ContinuousClock.now - start
        var body: Data?
        if let response = answer.response {
            body = try await BodyReceiver(console: console).receive(response, into: nil, command.format)
        }
        if command.format == .json {
            try console.print(report(answer, body, upload, resumable, total))
        } else if let error = answer.error {
            console.complain(error, ErrorWords(command.arguments))
        } else if console.errTerminal.isTerminal {
            console.note(Self.summary(upload, total, console.errStyle))
        }
        return answer.error.map { ExitCode($0) } ?? .success
    }

    private func checkFiles() throws(UsageError) {
        switch command.content {
        case .whole(let path): try RequestContent.checkSendable(path, "\(UploadCommand.body.name): ")
        case .parts(let files):
            for file in files { try RequestContent.checkSendable(file.path, "\(UploadCommand.file.name): ") }
        }
    }

    // MARK: Sending

    private func upload() async throws -> (UploadProtocol.Choice?, UploadTask<HTTPResponse>) {
        var configuration = CentralRequestManager.Configuration.inspected
        configuration.headers = RequestSettings.headers
        configuration.setProxy(command.arguments)
        configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
        if command.resumable != nil {
            configuration.retries = try command.arguments.number(UploadCommand.retries, 0...1_000) ?? 3
        }
        if let user = command.user {
            let authentication = Authentication.basic(user: user.name, password: user.password)
            configuration.interceptors = [RequestChange { $0.authentication = authentication }]
        }
        let choice = try await UploadProtocol.choose(command, configuration)
        let resumable = choice?.settings
        if resumable?.style == .s3 {
            configuration.signer = try UploadCommand.signer(ProcessInfo.processInfo.environment)
        }
        let manager = try CentralRequestManager(configuration: configuration)
        let parameters = UploadProtocol.parameters(command, resumable)
        let upload =
            switch (command.content, resumable) {
            case (.parts(let files), _):
                manager.upload(
                    command.url, method: command.method, files: files.map { UploadFile(name: $0.name, path: $0.path) },
                    parameters: parameters, timeout: command.timeout, headers: command.headers)
            case (.whole(let path), let resumable?):
                manager.upload(
                    command.url, method: command.method, body: .file(path), resumable: resumable,
                    parameters: parameters, timeout: command.timeout, headers: command.headers)
            case (.whole(let path), nil):
                manager.upload(
                    command.url, method: command.method, body: .file(path), parameters: parameters,
                    timeout: command.timeout, headers: command.headers)
            }
        return (choice, upload)
    }

    private func answer(of upload: UploadTask<HTTPResponse>) async throws -> Answer {
        try await withTaskCancellationHandler {
            let bars = UploadBars(on: console)
            var told = ResumableUpload.Resumption()
            func tell() {
                guard let now = upload.resumption, now != told else { return }
                defer { told = now }
                guard let note = note(of: now, after: told, upload.currentProgress) else { return }
                bars.clear()
                console.note("lat: \(note)")
            }
            for await progress in upload.progress {
                tell()
                bars.update(progress)
            }
            tell()
            bars.update(upload.currentProgress)
            bars.clear()
            do {
                // After Ctrl-C, too, the upload ends by itself: it notes for the next run what the server has.
                return Answer(response: try await Task { try await upload.value }.value)
            } catch let error as NetworkError {
                if error.kind == .cancelled {
                    if let resumption = upload.resumption {
                        console.note("lat: \(Self.interruption(resumption, upload.currentProgress))")
                    }
                    throw CancellationError()
                }
                // The response of a failure is shown too.
                return Answer(response: error.kind == .httpStatus ? error.response : nil, error: error)
            }
        } onCancel: {
            // After Ctrl-C the same command goes on.
            upload.cancel(keepingProgress: true)
        }
    }

    // MARK: Reporting

    /// What an upload that can go on does with an earlier run; `nil` without news.
    private func note(
        of now: ResumableUpload.Resumption, after told: ResumableUpload.Resumption, _ progress: TransferProgress
    ) -> String? {
        if let restart = now.restart, restart != told.restart {
            return switch restart {
            case .fileChanged: "the file has changed since the earlier run, so it is sent from its beginning"
            case .forgotten:
                "the server does not know the earlier upload any more, so the file is sent from its beginning"
            }
        }
        guard now.byteCount != told.byteCount, now.byteCount > 0 else { return nil }
        let total = progress.total.map { " of \(Quantity.bytes($0))" } ?? ""
        return "goes on after \(Quantity.bytes(now.byteCount))\(total), which the server has"
    }

    /// The message after Ctrl-C, with how to go on.
    private static func interruption(_ resumption: ResumableUpload.Resumption, _ progress: TransferProgress) -> String {
        let total = progress.total.map { " of \(Quantity.bytes($0))" } ?? ""
        let next =
            resumption.canContinue
            ? "run the same command to go on" : "nothing of it can be continued, since the server keeps no part of it"
        return "stopped after \(Quantity.bytes(progress.completed))\(total); \(next)"
    }

    private static func summary(_ upload: UploadTask<HTTPResponse>, _ time: Duration, _ style: Style) -> String {
        let progress = upload.currentProgress
        let earlier = upload.resumption?.byteCount ?? 0
        let files = progress.files.count == 1 ? "1 file" : "\(Quantity.grouped(progress.files.count)) files"
        let rate = Quantity.rate(progress.completed - earlier, in: time)
        return style.green(style.sign("✓", "+"))
            + " \(files), \(Quantity.bytes(progress.completed)) in \(Quantity.duration(time)) (\(rate))"
            + (earlier > 0 ? ", \(Quantity.bytes(earlier)) of it sent earlier" : "")
            + (upload.resumption?.url.map { ", at \(SafeText.line(URLParts.redacted($0)))" } ?? "")
    }

    private func report(
        _ answer: Answer, _ body: Data?, _ upload: UploadTask<HTTPResponse>, _ resumable: UploadProtocol.Choice?,
        _ total: Duration
    ) -> JSONValue {
        let progress = upload.currentProgress
        let report = RequestReport(
            method: "\(HTTPMethod(command.method))", url: command.url, response: answer.response, body: body, file: nil,
            timings: answer.timings, total: total, error: answer.error)
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
        if let resumption = upload.resumption {
            object["resumable"] = resumption.canContinue ? .text(resumable?.settings.style.rawValue) : .bool(false)
            object["resumed"] = .int(resumption.byteCount)
            object["uploadURL"] = .text(resumption.url)
        }
        return .object(object)
    }
}
