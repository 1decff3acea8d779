import LATNetworking

/// `lat doctor [URL]`: goes to a server step by step and says where it fails, and what to do about it.
struct DoctorCommand: Command {
    /// `nil` for looking only at this machine.
    let url: String?
    let timeout: Duration
    let proxy: String?
    let authority: String?
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        url = arguments.operands.first
        if arguments.operands.count > 1 {
            throw UsageError(
                "\"\(SafeText.line(arguments.operands[1]))\" is one argument too many; lat doctor looks at one URL")
        }
        if let url, !url.contains("://") {
            throw UsageError("\"\(SafeText.line(url))\" is no URL; write lat doctor https://\(SafeText.line(url))/")
        }
        timeout = try DurationArgument.parse(arguments, of: Self.timeout) ?? .seconds(5)
        proxy = arguments.value(RequestCommand.proxy)
        authority = arguments.value(AuthorityArgument.option)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        var configuration = CentralRequestManager.Configuration()
        configuration.timeout = timeout
        configuration.connectTimeout = timeout
        if let proxy { configuration.proxy = proxy.isEmpty ? .none : .url(proxy) }
        if let authority { configuration.tls.caFile = authority }
        let examination: DoctorExamination
        do {
            examination = try DoctorExamination(url: url, timeout: timeout, configuration: configuration)
        } catch let error as NetworkError where error.kind == .invalidRequest {
            throw UsageError(error.message)
        }
        let report = DoctorReport(console.outStyle)
        var steps: [DoctorStep] = []
        for await step in examination.steps {
            steps.append(step)
            if format == .text { for line in report.lines(of: step) { try console.print(line) } }
        }
        try Task.checkCancellation()
        if format == .json {
            try console.print(DoctorReport.json(url, steps))
        } else {
            try console.print(report.verdict(steps))
        }
        return DoctorReport.exitCode(steps)
    }
}

// MARK: Help

extension DoctorCommand {
    static let name = "doctor"
    static let summary = "Goes to a server step by step: name, TCP, TLS, HTTP; says what to do."
    static let usage = "[URL] [options]"

    static let timeout = Option("--timeout", value: "1s|500ms", help: "The longest a step may take. Default: 5s.")

    static let options = [timeout, RequestCommand.proxy, AuthorityArgument.option, OutputFormat.option]

    static let details = """
        Without a URL it looks only at this machine: what its libcurl can do, how it is
        connected, which proxies are set.

        Examples
          lat doctor
          lat doctor https://example.org/
          lat doctor https://intranet.example.org/ --ca authority.pem --timeout 2s

        Exit codes: 0 all is well, 1 the server answers with a failure, 2 the command
        line cannot be used, 3 there is no way to the server, 130 interrupted.
        """
}
