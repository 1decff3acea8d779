import LATNetworking

/// One run of `lat download`.
struct DownloadRun {
    private let command: DownloadCommand
    private let console: Console

    init(_ command: DownloadCommand, _ console: Console) {
        self.command = command
        self.console = console
    }

    /// - Throws: `Output.Failure`, `CancellationError`; failures of the download are shown and end in the code returned.
    func run() async throws -> ExitCode {
        let manager: CentralRequestManager
        do {
            manager = try CentralRequestManager(configuration: configuration)
        } catch let error as NetworkError {
            console.complain(error.description)
            return ExitCode(error)
        }
        let start = ContinuousClock.now
        let download = manager.download(request, to: command.output, segments: command.segments, options: options)
        let bar = Task { await show(download) }
        let result = await withTaskCancellationHandler {
            await outcome(of: download)
        } onCancel: {
            download.cancel(keepingProgress: true)
        }
        await bar.value
        return try tell(result, download, ContinuousClock.now - start)
    }

    private var configuration: CentralRequestManager.Configuration {
        var configuration = CentralRequestManager.Configuration()
        configuration.timeout = nil
        configuration.retries = command.retries
        if let timeout = command.connectTimeout { configuration.connectTimeout = timeout }
        if let timeout = command.idleTimeout { configuration.idleTimeout = timeout }
        if let proxy = command.proxy { configuration.proxy = proxy.isEmpty ? .none : .url(proxy) }
        return configuration
    }

    private var request: HTTPRequest {
        var request = HTTPRequest(
            "GET", command.url, headers: RequestSettings.headers.merging(command.headers))
        if let user = command.user { request.authentication = .basic(user: user.name, password: user.password) }
        return request
    }

    private var options: DownloadOptions {
        var options = DownloadOptions()
        options.existingFile = command.existingFile
        options.digest = command.digest
        options.resumesEarlierRun = command.resumes
        options.reservesSpace = command.reservesSpace
        return options
    }

    /// The outcome, also when this task is cancelled: then the download is, and ends by itself.
    private func outcome(of download: Download) async -> Result<DownloadedFile, NetworkError> {
        await Task.detached {
            do {
                return .success(try await download.value)
            } catch {
                return .failure(error as? NetworkError ?? NetworkError(.other, message: "\(error)", underlying: error))
            }
        }.value
    }

    private func show(_ download: Download) async {
        let line = ProgressLine(DownloadReport.label(command), on: console.err, console.errTerminal, isActive: true)
        defer { line.clear() }
        for await progress in download.progress { line.update(progress.completed, of: progress.total) }
    }

    // MARK: Telling

    private func tell(
        _ result: Result<DownloadedFile, NetworkError>, _ download: Download, _ time: Duration
    ) throws -> ExitCode {
        if command.format == .json {
            try console.print(
                DownloadReport.json(command, result, download.currentProgress, time))
        }
        switch result {
        case .success(let file):
            if command.format == .text, console.errTerminal.isTerminal {
                console.note(DownloadReport.summary(file, time))
            }
            return .success
        case .failure(let error):
            if command.format == .text || error.kind == .cancelled {
                let isKept = error.kind == .cancelled && download.isResumable && download.currentProgress.completed > 0
                if isKept {
                    console.note(DownloadReport.interruption(download.currentProgress))
                } else {
                    console.complain(error.description)
                }
            }
            return ExitCode(error)
        }
    }
}
