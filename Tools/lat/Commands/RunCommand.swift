import FoundationEssentials
import LATNetworking

/// `lat run FILE.http…`: sends the requests of files, and tests their responses.
struct RunCommand: Command {
    static let name = "run"
    static let summary = "Sends the requests of .http files, and tests the responses."
    static let usage = "FILE.http… [options]"

    static let environment = Option(
        "--env", value: "NAME", kind: .environment,
        help: "The environment: of http-client.env.json beside the file, of the table, or of both.")
    static let only = Option(
        "--name", value: "NAME", repeats: true,
        help: "Sends only the request of this name, and before it those whose responses it needs.")
    static let variable = Option(
        "--variable", value: "K=V", repeats: true, help: "Sets a variable. It takes precedence over all others.")
    static let goOn = Option("--continue", help: "Goes on after a request that failed.")
    static let junit = Option("--junit", value: "FILE", help: "Writes the results in the XML of JUnit, for CI servers.")
    static let verbose = Option(
        "--verbose", "-v", help: "Shows all requests and responses. Secrets in their heads are hidden.")
    static let timeout = Option("--timeout", "-m", value: "TIME", help: "The time limit of each request. Default: 60s.")

    static let options = [
        environment, only, variable, goOn, junit, verbose, timeout, TableArgument.table, RequestCommand.proxy,
        Option.authority, ConnectionArguments.insecure, OutputFormat.option,
    ]

    static let details = """
        FILE has requests as JetBrains' HTTP Client and the REST Client of VS Code write them. Lines that begin with ###
        are between them. A request may name a row of the table in place of a URL: GET user.detail id=42.

          @host = http://h       sets a variable; {{host}} is replaced by it
          {{$uuid}}              is computed, as {{$timestamp}} and {{$randomInt 1 9}}
          {{$processEnv HOME}}   is a variable of the shell
          # @name a              names a request
          {{a.response.body.$}}  is a part of its response
          # @capture t = $.t     keeps a part of the response as {{t}}
          # @assert $.n == 200   tests status, header NAME, $.path, body or duration
          < ./file.json          is the content of a file, as the body or in it

        Without an assertion about the status, a status of 400 or more is a failure. JavaScript is not run. The run
        ends at the first failure.

        Examples
          lat run api.http
          lat run api.http --env dev --name login -v
          lat run smoke.http --continue --junit results.xml

        Exit codes: 0 all requests passed, 1 a response is not what it should be, 2 a file or a variable cannot be used,
        3 no response, 130 interrupted.
        """

    let files: [String]
    let environment: String?
    let names: [String]
    let variables: [String: String]
    let goesOn: Bool
    let junit: String?
    let timeout: Duration?
    let table: TableArgument
    let format: OutputFormat
    let arguments: ParsedArguments

    var isVerbose: Bool { arguments.contains(Self.verbose) }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        files = arguments.operands
        guard !files.isEmpty else { throw UsageError("no file is given; write lat run requests.http") }
        environment = arguments.value(Self.environment)
        names = arguments.values(Self.only)
        var variables: [String: String] = [:]
        for text in arguments.values(Self.variable) {
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, HTTPFileParser.isName(parts[0]) else {
                throw UsageError("\(Self.variable.name) \"\(SafeText.line(text))\" is not of the form NAME=VALUE")
            }
            variables[String(parts[0])] = String(parts[1])
        }
        self.variables = variables
        goesOn = arguments.contains(Self.goOn)
        junit = try arguments.file(Self.junit, "write --junit FILE")
        if let junit, files.contains(junit) {
            throw UsageError("--junit \"\(SafeText.line(junit))\" would replace the requests; name another file")
        }
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        table = try TableArgument(arguments)
        format = try OutputFormat(arguments)
    }

    static func operandKind(after operands: [String]) -> ValueKind { .file }

    func run(_ console: Console) async throws -> ExitCode {
        // All files are read first, so that a mistake in the last one is found before anything is sent.
        do {
            let runs = try files.map { try FileRun($0, self, console) }
            return try await run(runs, console)
        } catch let problem as RunProblem {
            problem.show(on: console)
            return .usage
        }
    }

    private func run(_ runs: [FileRun], _ console: Console) async throws -> ExitCode {
        // Found out before anything is sent.
        let file = try junit.map { name throws(UsageError) in try OutputFile(name, of: Self.junit.name) }
        defer { file?.discard() }
        var reports: [RunReport] = []
        var interruption: (any Error)?
        for var run in runs {
            do {
                if interruption == nil {
                    try await run.run(skipsAll: !goesOn && reports.contains { $0.code != .success })
                }
            } catch {
                interruption = error
            }
            run.skipRest()
            reports.append(run.report)
        }
        if let file {
            try file.output.write(RunReport.junit(reports))
            try file.complete()
        }
        if let interruption { throw interruption }
        if format == .text { try console.print(RunReport.summary(reports, console.outStyle)) }
        return reports.map(\.code).first { $0 != .success } ?? .success
    }
}
