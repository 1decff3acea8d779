import FoundationEssentials
import LATNetworking

/// `lat download URL -o FILE …`: fetches a file, and goes on where an earlier run ended.
struct DownloadCommand: Command {
    let url: String
    let output: String
    let segments: Int
    let digest: DownloadDigest?
    let existingFile: ExistingFilePolicy
    let resumes: Bool
    let reservesSpace: Bool
    let retries: Int
    let headers: HTTPHeaders
    let user: (name: String, password: String)?
    let connectTimeout: Duration?
    let idleTimeout: Duration?
    let proxy: String?
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        url = try Self.url(arguments.operands)
        output = try Self.output(arguments)
        segments = try NumberArgument.parse(arguments, of: Self.segments, 1...64) ?? 1
        digest = try Self.digest(arguments)
        existingFile = try Self.existingFile(arguments)
        resumes = !arguments.contains(Self.noResume)
        reservesSpace = arguments.contains(Self.reserve)
        retries = try NumberArgument.parse(arguments, of: Self.retries, 0...1_000) ?? 3
        headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        user = try RequestCommand.user(arguments)
        connectTimeout = try DurationArgument.parse(arguments, of: RequestCommand.connectTimeout)
        idleTimeout = try DurationArgument.parse(arguments, of: Self.idleTimeout)
        proxy = arguments.value(RequestCommand.proxy)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        try await DownloadRun(command: self, console: console).run()
    }
}

// MARK: Help

extension DownloadCommand {
    static let name = "download"
    static let summary = "Downloads a file, and goes on where an earlier run ended."
    static let usage = "URL -o FILE|FOLDER [options]"

    static let output = Option(
        "--output", "-o", value: "FILE|FOLDER",
        help: "Where it goes. In a folder it gets the name that the server or the URL gives it. Default: this folder.")
    static let segments = Option(
        "--segments", "-n", value: "N", help: "Fetches it over N connections, where the server has ranges. Default: 1.")
    static let sha256 = Option(
        "--sha256", value: "HEX", help: "The SHA-256 the file must have; with another it does not appear.")
    static let digest = Option(
        "--digest", value: "NAME:HEX", help: "The same with md5, sha1, sha256, sha384 or sha512.")
    static let existing = Option(
        "--existing", value: "overwrite|skip|fail", help: "What to do about a file that is there. Default: overwrite.")
    static let noResume = Option("--no-resume", help: "Starts over, whatever an earlier run left.")
    static let reserve = Option("--reserve", help: "Takes the space for the whole file before its first byte.")
    static let retries = Option(
        "--retries", value: "N", help: "How often it goes on after the connection broke. Default: 3.")
    static let idleTimeout = Option("--idle-timeout", value: "TIME", help: "The longest silence. Default: 60s.")
    static let options = [
        output, segments, sha256, digest, existing, noResume, reserve, retries, RequestCommand.header,
        RequestCommand.user, RequestCommand.connectTimeout, idleTimeout, RequestCommand.proxy, OutputFormat.option,
    ]

    static let details = """
        What has come lies beside the target as FILE.part, with a journal; the same
        command goes on from there, after Ctrl-C, an error or a crash, when the server
        confirms that the content is still the same.

        Examples
          lat download http://127.0.0.1:8080/big.iso -o big.iso --segments 4
          lat download http://127.0.0.1:8080/big.iso -o images/ --sha256 9f86d081…

        Exit codes: 0 ok, 1 the status is no success or the digest is another, 2 the
        command line or the target cannot be used, 3 no answer or it broke off, 130
        interrupted.
        """
}

// MARK: Arguments

extension DownloadCommand {
    private static func url(_ operands: [String]) throws(UsageError) -> String {
        guard let url = operands.first else {
            throw UsageError("URL is missing; write lat download URL -o FILE")
        }
        try UsageError.refuse(operands, after: 1, "the file is named with -o FILE")
        return try URLArgument.checked(url)
    }

    private static func output(_ arguments: ParsedArguments) throws(UsageError) -> String {
        guard let name = arguments.value(output) else { return "." }
        guard !name.isEmpty else { throw UsageError("\(output.name) \"\" names no file; write -o FILE") }
        guard name != "-" else {
            throw UsageError("\(output.name) - cannot be resumed; write lat request GET URL for standard output")
        }
        return name
    }

    private static func digest(_ arguments: ParsedArguments) throws(UsageError) -> DownloadDigest? {
        guard !(arguments.contains(sha256) && arguments.contains(digest)) else {
            throw UsageError("\(sha256.name) and \(digest.name) do not go together; give one of them")
        }
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
                "\(option.name) \"\(SafeText.line(digest.hexadecimal))\" is not \(digits) hexadecimal digits, as a "
                    + "\(digest.algorithm.rawValue) has")
        }
        return digest
    }

    private static func existingFile(_ arguments: ParsedArguments) throws(UsageError) -> ExistingFilePolicy {
        guard let text = arguments.value(existing) else { return .overwrite }
        guard let policy = ExistingFilePolicy(rawValue: text) else {
            throw UsageError("\(existing.name) \"\(SafeText.line(text))\" is unknown; write overwrite, skip or fail")
        }
        return policy
    }
}

/// One run of `lat download`.
private struct DownloadRun {
    let command: DownloadCommand
    let console: Console

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

/// What is said of a download that is over: pure functions.
enum DownloadReport {
    /// The last component of a path or URL, cut to what a line can spare.
    static func label(_ command: DownloadCommand) -> String {
        let path = command.output == "." || command.output.hasSuffix("/") ? command.url : command.output
        return SafeText.label(path.split(separator: "/").last.map(String.init) ?? path)
    }

    /// `big.iso  4.00 GiB in 12.3 s (333 MiB/s), 1.20 GiB of it were there`
    static func summary(_ file: DownloadedFile, _ time: Duration) -> String {
        let name = SafeText.line(file.path)
        if file.isSkipped { return "\(name)  is there already and was left alone" }
        let rate = Quantity.rate(file.receivedByteCount, in: time)
        let resumed = file.resumedByteCount > 0 ? ", \(Quantity.bytes(file.resumedByteCount)) of it were there" : ""
        return "\(name)  \(Quantity.bytes(file.byteCount)) in \(Quantity.duration(time)) (\(rate))\(resumed)"
    }

    /// How to go on after Ctrl-C.
    static func interruption(_ progress: DownloadProgress) -> String {
        let total = progress.total.map { " of \(Quantity.bytes($0))" } ?? ""
        return "lat: stopped after \(Quantity.bytes(progress.completed))\(total); the same command goes on from there"
    }

    /// One object; what is not known is null.
    static func json(
        _ command: DownloadCommand, _ result: Result<DownloadedFile, NetworkError>, _ progress: DownloadProgress,
        _ time: Duration
    ) -> JSONValue {
        var object: [String: JSONValue] = [
            "url": .string(command.url), "milliseconds": .milliseconds(time),
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
            object["digest"] = file.digest.map { .string($0) } ?? .null
            object["status"] = .int(Int64(file.response.status))
            object["url"] = .string(file.response.url)
        case .failure(let error):
            let (kind, detail) = error.kind.names
            object["status"] = error.response.map { .int(Int64($0.status)) } ?? .null
            object["error"] = [
                "kind": .string(kind), "detail": detail.map { .string($0) } ?? .null, "message": .string(error.message),
            ]
        }
        return .object(object)
    }
}
