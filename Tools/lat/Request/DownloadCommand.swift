import FoundationEssentials
import LATInspect
import LATNetworking

/// `lat download URL -o FILE …`: downloads a file, and resumes an earlier run.
struct DownloadCommand: Command {
    let url: String
    let output: String
    let segments: Int
    let digest: DownloadDigest?
    let existingFile: ExistingFilePolicy?
    let retries: Int
    let headers: HTTPHeaders
    let user: (name: String, password: String)?
    let connectTimeout: Duration?
    let idleTimeout: Duration?
    let format: OutputFormat
    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        url = try URLArgument.only(
            arguments.operands, "write lat download URL -o FILE", "name the file with -o FILE")
        output = try Self.output(arguments)
        segments = try arguments.number(Self.segments, 1...64) ?? 1
        digest = try Self.digest(arguments)
        existingFile = try arguments.choice(Self.existing, "overwrite, skip or fail")
        retries = try arguments.number(Self.retries, 0...1_000) ?? 3
        headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        user = try RequestCommand.user(arguments)
        connectTimeout = try DurationArgument.parse(arguments, of: RequestCommand.connectTimeout)
        idleTimeout = try DurationArgument.parse(arguments, of: Self.idleTimeout)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        var run = DownloadRun(
            request: request, path: output, segments: segments, format: format, arguments: arguments,
            configuration: configuration, console: console)
        if let existingFile { run.options.existingFile = existingFile }
        run.options.digest = digest
        run.options.resumesEarlierRun = !arguments.contains(Self.noResume)
        run.options.reservesSpace = arguments.contains(Self.reserve)
        return try await run.run()
    }

    private var configuration: CentralRequestManager.Configuration {
        var configuration = CentralRequestManager.Configuration.inspected
        configuration.timeout = nil
        configuration.retries = retries
        if let connectTimeout { configuration.connectTimeout = connectTimeout }
        if let idleTimeout { configuration.idleTimeout = idleTimeout }
        configuration.setProxy(arguments)
        return configuration
    }

    private var request: HTTPRequest {
        var request = HTTPRequest("GET", url, headers: RequestSettings.headers.merging(headers))
        if let user { request.authentication = .basic(user: user.name, password: user.password) }
        return request
    }
}

// MARK: Help

extension DownloadCommand {
    static let name = "download"
    static let summary = "Downloads a file, or resumes a download that stopped."
    static let usage = "URL [-o FILE|FOLDER] [options]"

    static let output = Option(
        "--output", "-o", value: "FILE|FOLDER",
        help: "Where the file goes. In a folder it gets its name from the server or the URL. Default: this folder.")
    static let segments = Option(
        "--segments", "-n", value: "N",
        help: "Uses N connections, if the server can send parts of the file. Default: 1.")
    static let sha256 = Option(
        "--sha256", value: "HEX", help: "The SHA-256 that the file must have. If it has another, no file appears.")
    static let digest = Option(
        "--digest", value: "NAME:HEX",
        help: "As --sha256, for another digest: NAME is md5, sha1, sha256, sha384 or sha512.")
    static let existing = Option(
        "--existing", value: "overwrite|skip|fail",
        help: "What to do if the file exists. Default: overwrite, but fail for a name that only the server chose.")
    static let noResume = Option("--no-resume", help: "Starts from the beginning, even if an earlier run left a part.")
    static let reserve = Option("--reserve", help: "Reserves the disk space for the whole file at the start.")
    static let retries = Option(
        "--retries", value: "N", help: "How often to resume after a broken connection. Default: 3.")
    static let idleTimeout = Option(
        "--idle-timeout", value: "TIME", help: "How long no byte may arrive before the download fails. Default: 60s.")
    static let options = [
        output, segments, sha256, digest, existing, noResume, reserve, retries, RequestCommand.header,
        RequestCommand.user, RequestCommand.connectTimeout, idleTimeout, RequestCommand.proxy, OutputFormat.option,
    ]

    static let details = """
        The bytes received so far are in FILE.part beside the target, with a journal.
        After Ctrl-C, an error or a crash, the same command resumes from there, if the
        server confirms that the content is still the same.

        Examples
          lat download http://127.0.0.1:8080/big.iso -o big.iso --segments 4
          lat download http://127.0.0.1:8080/big.iso -o images/ --existing skip

        Exit codes: 0 success, 1 the status is not a success or the digest differs,
        2 the command line or the target cannot be used, 3 no response or an
        incomplete one, 130 interrupted.
        """
}

// MARK: Arguments

extension DownloadCommand {
    private static func output(_ arguments: ParsedArguments) throws(UsageError) -> String {
        guard let name = try arguments.file(output, "write -o FILE") else { return "." }
        guard name != "-" else {
            throw UsageError("\(output.name) - cannot be resumed; write lat request GET URL for standard output")
        }
        return name
    }

    private static func digest(_ arguments: ParsedArguments) throws(UsageError) -> DownloadDigest? {
        try arguments.refuse(sha256, with: digest)
        if let digits = arguments.value(sha256) { return try checked(DownloadDigest(.sha256, digits), sha256) }
        guard let text = arguments.value(digest) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let algorithm = DownloadDigest.Algorithm(rawValue: parts[0].lowercased()) else {
            let names = DownloadDigest.Algorithm.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("\(digest.name) \"\(SafeText.line(text))\" is not NAME:HEX with a NAME of \(names)")
        }
        return try checked(DownloadDigest(algorithm, String(parts[1])), digest)
    }

    private static func checked(_ digest: DownloadDigest, _ option: Option) throws(UsageError) -> DownloadDigest {
        let digits = [.md5: 32, .sha1: 40, .sha256: 64, .sha384: 96, .sha512: 128][digest.algorithm] ?? 0
        guard digest.hexadecimal.count == digits, digest.hexadecimal.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
            throw UsageError(
                "\(option.name) \"\(SafeText.line(digest.hexadecimal))\" is not \(digits) hexadecimal digits, the length of "
                    + "\(digest.algorithm.rawValue); copy all of it")
        }
        return digest
    }
}

/// One run of `lat download`, or of `lat request --download`.
struct DownloadRun {
    let request: HTTPRequest
    /// The target: a file or a folder.
    let path: String
    var segments = 1
    var options = DownloadOptions()
    /// How many connections are opened before the download starts.
    var prewarm = 0
    let format: OutputFormat
    /// The arguments, for messages.
    let arguments: ParsedArguments
    let configuration: CentralRequestManager.Configuration
    let console: Console

    /// - Throws: `Output.Failure`. Failures of the download and its cancellation are shown, and decide the returned code.
    func run() async throws -> ExitCode {
        let manager: CentralRequestManager
        do {
            var configuration = configuration
            configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
            manager = try CentralRequestManager(configuration: configuration)
            if prewarm > 0 { try await manager.prewarm(request.url, connections: prewarm) }
        } catch let error as NetworkError {
            return console.fail(error, arguments)
        }
        let start = ContinuousClock.now
        let download = manager.download(request, to: path, segments: segments, options: options)
        let bar = Task { await show(download) }
        let result = await withTaskCancellationHandler {
            await outcome(of: download)
        } onCancel: {
            download.cancel(keepingProgress: true)
        }
        await bar.value
        let code = try tell(result, download, ContinuousClock.now - start)
        await manager.shutdown()
        return code
    }

    /// The outcome. It is awaited in a detached task, so that cancelling this task does not end the wait before the
    /// cancelled download has ended.
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
        let line = ProgressLine(label, on: console)
        defer { line.clear() }
        for await progress in download.progress { line.update(progress.completed, of: progress.total) }
    }

    // MARK: Reporting

    private func tell(
        _ result: Result<DownloadedFile, NetworkError>, _ download: Download, _ time: Duration
    ) throws -> ExitCode {
        if format == .json {
            try console.print(json(result, download.currentProgress, time))
        }
        switch result {
        case .success(let file):
            if format == .text, console.errTerminal.isTerminal {
                console.note(Self.summary(file, time))
            }
            return .success
        case .failure(let error):
            let isCancelled = error.kind == .cancelled
            if isCancelled, download.isResumable, download.currentProgress.completed > 0 {
                console.note(Self.interruption(download.currentProgress))
            } else if isCancelled || format == .text {
                console.complain(error, ErrorWords(arguments))
            }
            return ExitCode(error)
        }
    }
}

extension DownloadRun {
    /// The last component of a path or URL, shortened to fit beside other facts.
    private var label: String {
        let path = path == "." || path.hasSuffix("/") ? request.url : path
        return SafeText.label(path.split(separator: "/").last.map(String.init) ?? path)
    }

    /// A summary such as `big.iso  4.00 GiB in 12.3 s (233 MiB/s), 1.20 GiB of it resumed`.
    private static func summary(_ file: DownloadedFile, _ time: Duration) -> String {
        let name = SafeText.line(file.path)
        if file.isSkipped { return "\(name)  exists and was left unchanged" }
        let rate = Quantity.rate(file.receivedByteCount, in: time)
        let resumed = file.resumedByteCount > 0 ? ", \(Quantity.bytes(file.resumedByteCount)) of it resumed" : ""
        return "\(name)  \(Quantity.bytes(file.byteCount)) in \(Quantity.duration(time)) (\(rate))\(resumed)"
    }

    /// The message after Ctrl-C, with how to resume.
    private static func interruption(_ progress: TransferProgress) -> String {
        let total = progress.total.map { " of \(Quantity.bytes($0))" } ?? ""
        return "lat: stopped after \(Quantity.bytes(progress.completed))\(total); run the same command to resume"
    }

    /// One object; unknown values are null.
    private func json(
        _ result: Result<DownloadedFile, NetworkError>, _ progress: TransferProgress, _ time: Duration
    ) -> JSONValue {
        var object: [String: JSONValue] = [
            "url": .string(request.url), "milliseconds": .milliseconds(time),
            "completed": .int(progress.completed), "total": progress.total.map { .int($0) } ?? .null,
            "path": .null, "byteCount": .null, "skipped": .bool(false), "resumed": .null, "received": .null,
            "digest": .null, "status": .null, "error": .null,
        ]
        switch result {
        case .success(let file):
            object["path"] = .string(file.path)
            object["byteCount"] = .int(file.byteCount)
            object["skipped"] = .bool(file.isSkipped)
            object["resumed"] = .int(file.resumedByteCount)
            object["received"] = .int(file.receivedByteCount)
            object["digest"] = .text(file.digest)
            object["status"] = .int(Int64(file.response.status))
            object["url"] = .string(file.response.url)
        case .failure(let error):
            let (kind, detail) = error.kind.names
            object["status"] = error.response.map { .int(Int64($0.status)) } ?? .null
            object["error"] = [
                "kind": .string(kind), "detail": .text(detail),
                "message": .string(ErrorWords(arguments).message(of: error)),
            ]
        }
        return .object(object)
    }
}
