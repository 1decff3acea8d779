import LATNetworking

/// `lat probe NAME|URL…`: tries whether servers can be connected to.
struct ProbeCommand: Command {
    /// Names of domains, and URLs.
    let targets: [String]
    let timeout: Duration
    let watches: Bool
    let interval: Duration
    let check: ReachabilityConfiguration.AnswerCheck?
    let proxy: String?
    let table: TableArgument
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        targets = arguments.operands
        guard !targets.isEmpty else {
            throw UsageError("NAME or URL is missing; write lat probe daxiang, or lat probe https://example.org/")
        }
        if let empty = targets.first(where: \.isEmpty) {
            throw UsageError("\"\(empty)\" names nothing; give the name of a domain, or a URL")
        }
        timeout = try DurationArgument.parse(arguments, of: Self.timeout) ?? .seconds(5)
        watches = arguments.contains(Self.watch)
        let interval = try DurationArgument.parse(arguments, of: Self.interval)
        if interval != nil, !watches { throw UsageError("--interval is for --watch; add --watch, or leave it out") }
        self.interval = interval ?? .seconds(2)
        check = try Self.check(arguments)
        proxy = arguments.value(RequestCommand.proxy)
        table = try TableArgument(arguments)
        format = try OutputFormat(arguments)
    }

    private static func check(
        _ arguments: ParsedArguments
    ) throws(UsageError) -> ReachabilityConfiguration.AnswerCheck? {
        guard let text = arguments.value(Self.check) else { return nil }
        let parts = text.split(separator: "=", omittingEmptySubsequences: false)
        guard parts.count > 1, let last = parts.last else { return .init(path: text) }
        guard let status = Int(last), (100...599).contains(status) else {
            throw UsageError("--check \"\(SafeText.line(text))\" ends in no status; write --check /health=200")
        }
        return .init(path: parts.dropLast().joined(separator: "="), status: status)
    }

    func run(_ console: Console) async throws -> ExitCode { try await ProbeRun(self, console).run() }
}

// MARK: Help

extension ProbeCommand {
    static let name = "probe"
    static let summary = "Tries whether servers can be connected to; nothing is sent."
    static let usage = "NAME|URL… [options]"

    static let timeout = Option(
        "--timeout", value: "1s|500ms", help: "The longest a try may take: name, connection and TLS. Default: 5s.")
    static let watch = Option(
        "--watch", "-w",
        help:
            "Goes on until Ctrl-C and shows every change, at once when the network changes. With --format json a line "
            + "for each.")
    static let interval = Option("--interval", value: "TIME", help: "How often --watch tries again. Default: 2s.")
    static let check = Option(
        "--check", value: "PATH[=STATUS]",
        help: "Asks for PATH as well and expects STATUS, 204 unless given: tells a captive portal from the server.")

    static let options = [
        timeout, watch, interval, check, RequestCommand.proxy, TableArgument.table, TableArgument.environment,
        OutputFormat.option,
    ]

    static let details = """
        Names are domains of the table, whose mirrors are tried too. The latency is that
        of the connection, without the look-up of the name and without TLS.

        Examples
          lat probe daxiang
          lat probe https://example.org/ http://127.0.0.1:8080/ --timeout 1s
          lat probe daxiang --watch
          lat probe https://example.org/ --check /generate_204

        Exit codes: 0 all can be reached, 2 the command line or the table cannot be
        used, 3 one of them cannot be reached, 130 interrupted.
        """
}
