import LATNetworking

/// `lat start SERVER …`: starts a call of the server table and shows the answer.
struct StartCommand: Command {
    let server: String
    let parameters: [String: JSONValue]
    let headers: HTTPHeaders
    let table: TableArgument
    let timeout: Duration?
    let output: String?
    let isVerbose: Bool
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        server = try Self.server(arguments.operands)
        parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        table = try TableArgument(arguments)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        output = try OutputArgument.parse(arguments)
        isVerbose = arguments.contains(RequestCommand.verbose)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode { try await StartRun(self, console).run() }

    private static func server(_ operands: [String]) throws(UsageError) -> String {
        guard let server = operands.first else {
            throw UsageError("SERVER is missing; write lat start SERVER, such as lat start user.detail -p id=42")
        }
        if server.contains("://") {
            throw UsageError("\"\(SafeText.line(server))\" is a URL, not a server; write lat request GET \(server)")
        }
        guard operands.count == 1 else {
            throw UsageError(
                "\"\(SafeText.line(operands[1]))\" is one argument too many; parameters are given with -p name=value")
        }
        return server
    }
}

// MARK: Help

extension StartCommand {
    static let name = "start"
    static let summary = "Starts a call of the server table and shows the answer."
    static let usage = "SERVER [options]"

    static let parameter = Option(
        "--parameter", "-p", value: "K=V", repeats: true,
        help: "A parameter: k=v for text, k:=json for numbers, Booleans, lists, objects and null. Those that the row's "
            + "path names in braces go there, the others into query or body.")
    static let timeout = Option(
        "--timeout", value: "1s|500ms", help: "The longest the whole may take. Default: what the row says, or 60s.")

    static let options = [
        parameter, RequestCommand.header, TableArgument.table, TableArgument.environment, timeout,
        OutputArgument.option, RequestCommand.verbose, OutputFormat.option,
    ]

    static let details = """
        The row of the table says where the call goes and with which method, headers,
        timeouts and retries; lat domains list shows the rows.

        Examples
          lat start user.detail -p id=42
          lat start user.detail -p id=42 --environment staging --format json
          lat start user.save -p id=42 -p name=Ada --table Config/domains.json5

        Exit codes: 0 ok, 1 the server said no, by its status or in its envelope (the
        body is still shown), 2 the command line or the table cannot be used, 3 no
        answer, 130 interrupted.
        """
}
