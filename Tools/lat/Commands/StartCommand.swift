import DomainTables
import FoundationEssentials
import LATInspect
import LATNetworking

/// `lat start ROW …`: makes the call of a row of the table, and shows the response.
struct StartCommand: Command {
    let server: String
    let parameters: [String: JSONValue]
    let headers: HTTPHeaders
    let table: TableArgument
    let timeout: Duration?
    let output: String?
    /// How all pages of a list are read; `nil` for one response.
    let pages: PageArguments?
    let format: OutputFormat
    /// All arguments, also for messages that name the option that was given.
    let arguments: ParsedArguments

    var isVerbose: Bool { arguments.contains(RequestCommand.verbose) }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        server = try Self.server(arguments.operands)
        var parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        var headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        for item in arguments.operands.dropFirst() {
            try Self.add(try RequestItem(item), to: &parameters, &headers)
        }
        (self.parameters, self.headers) = (parameters, headers)
        table = try TableArgument(arguments)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        output = try OutputArgument.parse(arguments)
        format = try OutputFormat(arguments)
        pages = try PageArguments(arguments, without: [], format)
    }

    func run(_ console: Console) async throws -> ExitCode { try await StartRun(command: self, console: console).run() }

    static func operandKind(after operands: [String]) -> ValueKind { operands.isEmpty ? .row : .parameter }

    private static func server(_ operands: [String]) throws(UsageError) -> String {
        guard let server = operands.first else {
            throw UsageError("ROW is missing; write lat start ROW, such as lat start user.detail -p id=42")
        }
        if URLParts(server).isAbsolute {
            let url = SafeText.line(server)
            throw UsageError("\"\(url)\" is a URL, not a row of the table; write lat request GET \(url)")
        }
        return server
    }

    /// Adds an argument after the row to what the options give: `id=42`, `id:=42`, `id==42`, `X-Trace:1`.
    static func add(
        _ item: RequestItem, to parameters: inout [String: JSONValue], _ headers: inout HTTPHeaders
    ) throws(UsageError) {
        switch item.kind {
        case .header:
            if item.value.isEmpty { headers[item.name] = nil } else { headers.append(item.name, item.value) }
        case .emptyHeader: headers.append(item.name, "")
        case .text, .textFile, .json, .jsonFile, .query:
            guard parameters[item.name] == nil else {
                throw UsageError(
                    "\"\(SafeText.line(item.name))\" is given twice; for several values write "
                        + "'\(SafeText.line(item.name)):=[\"a\",\"b\"]'")
            }
            parameters[item.name] = try RequestContent.value(of: item)
        case .headerFile, .queryFile, .file:
            throw UsageError(
                "\"\(item.shown)\" is not for lat start; write name=text, name:=json, name=@FILE or Name:value")
        }
    }
}

// MARK: Help

extension StartCommand {
    static let name = "start"
    static let summary = "Makes the call of a row of the table, and shows the response."
    static let usage = "ROW [NAME=VALUE…] [options]"

    static let parameter = Option(
        "--parameter", "-p", value: "K=V", repeats: true, kind: .parameter,
        help: "A parameter: k=v for text, k:=json for numbers, Booleans, lists, objects and null. Those named in the "
            + "braces of the row's path go there, the others into query or body.")
    static let timeout = Option(
        "--timeout", value: "TIME",
        help: "The time limit of the whole call: 500ms, 10s. Default: that of the row, or 60s.")

    static let options =
        [
            parameter, RequestCommand.header, TableArgument.table, TableArgument.environment, timeout,
            OutputArgument.option, RequestCommand.verbose, OutputFormat.option,
        ] + PageArguments.options

    static let details = """
        ROW is a name under servers in the table; lat domains list shows the rows. The
        row sets the URL, method, headers, timeouts, retries and TLS settings. NAME=VALUE
        is short for -p NAME=VALUE, and Name:value for -H. On a terminal, lat asks for
        the parameters that are missing: those of the path, and those that the row's
        documented says are required. Where a domain has oauth2, lat login DOMAIN gets
        its token. Where a row names an authenticator, which only a program has, give
        the token with -H.

        Examples
          lat start user.detail id=42
          lat start user.detail -p id=42 --environment dev --format json
          lat start order.list --all-pages --max-pages 20
          lat start user.save id=42 name=Ada age:=36 --table Config/domains.json5

        Exit codes: 0 success, 1 the server answered with a failure, in its status or
        its envelope (the body is still shown), 2 the command line or the table cannot
        be used, 3 no response, 130 interrupted.
        """
}

/// One run of `lat start`, from reading the table to the last byte shown.
private struct StartRun {
    let command: StartCommand
    let console: Console

    /// - Throws: ``TableProblem``, ``UsageError``, `Output.Failure` or `CancellationError`. Failures of the call are
    ///   shown, and decide the returned code.
    func run() async throws -> ExitCode {
        var table = try command.table.read()
        let route = try route(in: table)
        try table.replaceAuthenticator(of: command.server, route, by: command.headers)
        let parameters = try await parameters(of: route)
        let file = try command.output.map { name throws(UsageError) in try OutputFile(name) }
        defer { file?.discard() }

        if let pages = command.pages { return try await run(pages, file, table, route, parameters) }
        let start = ContinuousClock.now
        let answer = try await answer(from: table, by: route, parameters)
        let total = ContinuousClock.now - start
        if command.isVerbose { trace(answer, total, hiding: route.secrets) }

        let isForFile = answer.error == nil && answer.response?.status != 304
        var body: Data?
        if let response = answer.response {
            let receiver = BodyReceiver(console: console)
            body = try await receiver.receive(response, into: isForFile ? file : nil, command.format)
        }
        if command.format == .json {
            // The URL of a call that failed before it was sent.
            let url = try? route.url(parameters.mapValues { $0.string ?? $0.description })
            let report = RequestReport(
                method: route.method?.rawValue ?? "", url: answer.error?.request?.url ?? url ?? route.path,
                response: answer.response, body: body, file: isForFile ? command.output : nil, timings: answer.timings,
                total: total, error: answer.error, server: command.server, envelope: answer.envelope)
            try console.print(report.json)
        } else if let error = answer.error {
            console.complain(error, ErrorWords(command.arguments))
        }
        return answer.error.map { ExitCode($0) } ?? .success
    }

    /// Reads all pages of a list, as the row says.
    private func run(
        _ pages: PageArguments, _ file: OutputFile?, _ table: DomainTable, _ route: DomainTable.ResolvedRoute,
        _ parameters: [String: JSONValue]
    ) async throws -> ExitCode {
        let paging = pages.paging(of: route.settings.pages?.rule)
        let writer = PageWriter(
            console: console, file: file, items: paging.items, showsHeads: command.isVerbose)
        let error: NetworkError?
        do {
            var call = EntityCall(
                Route(server: ServerName(command.server)), parameters: parameters.isEmpty ? nil : parameters
            ).headers(command.headers)
            if let timeout = command.timeout { call = call.timeout(timeout) }
            error = try await writer.write(call.pages(paging, on: manager(table)), \.response)
        } catch let failure as NetworkError {
            error = failure
        }
        guard let error else { return .success }
        console.complain(error, ErrorWords(command.arguments))
        return ExitCode(error)
    }

    // MARK: Preparing

    /// - Throws: ``UsageError`` for an unknown name or a row without a method.
    private func route(in table: DomainTable) throws(UsageError) -> DomainTable.ResolvedRoute {
        let route = try UsageError.checked(table.resolve(server: ServerName(command.server)))
        guard route.method != nil else {
            throw UsageError(
                "the row \"\(command.server)\" in \(table.name) has no method; add method: \"GET\" to it")
        }
        return route
    }

    private func manager(_ table: DomainTable) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration.inspected
        configuration.headers = RequestSettings.headers
        configuration.domains = table
        // There is only one call, so later changes of the file do not matter.
        configuration.domainsObserver = { _ in }
        configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
        if command.isVerbose { configuration.accessories.append(SentTrace(console)) }
        return try CentralRequestManager(configuration: configuration)
    }

    // MARK: Calling

    private func answer(
        from table: DomainTable, by route: DomainTable.ResolvedRoute, _ parameters: [String: JSONValue]
    ) async throws -> Answer {
        do {
            let reply = try await manager(table).startRequest(
                server: ServerName(command.server), parameters: parameters.isEmpty ? nil : parameters,
                timeout: command.timeout, headers: command.headers)
            return Answer(response: reply.response, envelope: reply.envelope)
        } catch let error as NetworkError {
            switch error.kind {
            case .decoding where !route.hasEnvelope:
                // Without an envelope every 2xx is a success, and its body need not be JSON.
                return Answer(response: error.response)
            case .httpStatus, .business, .decoding:
                // The response of a failure is shown too.
                let envelope = route.hasEnvelope ? error.businessFailure?.envelope : nil
                return Answer(response: error.response, envelope: envelope, error: error)
            default:
                return Answer(error: error)
            }
        }
    }

    // MARK: Showing

    private func trace(_ answer: Answer, _ total: Duration, hiding secrets: Secrets) {
        let style = console.errStyle
        if answer.response?.source == .simulated {
            console.note(style.dim("*") + " the table simulates this call")
        }
        if let response = answer.response {
            RequestTrace.lines(of: response, hiding: secrets, style).forEach(console.note)
        }
        if let timings = answer.timings {
            console.note(RequestTrace.line(of: timings, total: timings.total ?? total, style))
        }
    }
}

// MARK: Parameters of the path

extension StartRun {
    /// The parameters with those of the path. On a terminal, asks for those that are missing. Checks all.
    ///
    /// - Throws: ``UsageError`` when the user cannot be asked or gave no answer, or when a value cannot be in a path.
    ///   `CancellationError` after Ctrl-C.
    private func parameters(of route: DomainTable.ResolvedRoute) async throws -> [String: JSONValue] {
        let parameters = try await completed(route)
        for name in route.pathParameters {
            switch parameters[name] {
            case .null, .array, .object:
                let shown = SafeText.line(parameters[name]?.description ?? "")
                throw UsageError("{\(name)} in the path \(route.path) cannot be \(shown); write \(name)=TEXT")
            default: break
            }
        }
        _ = try UsageError.checked(route.url(parameters.mapValues { $0.string ?? $0.description }))
        return parameters
    }

    private func completed(_ route: DomainTable.ResolvedRoute) async throws -> [String: JSONValue] {
        let given = command.parameters
        let missing = MissingParameter.all(of: route, given: given)
        guard let first = missing.first else { return given }
        let known = Set(route.pathParameters).union(route.settings.documented.parameters.map { Array($0.keys) } ?? [])
        let others = given.keys.filter { !known.contains($0) }.sorted()
        guard console.canAsk, NearestName.of(first.name, among: others) == nil else {
            throw UsageError(message(missing, others, route))
        }
        console.note(console.errStyle.dim(SafeText.line(Self.address(of: route))))
        var parameters = given
        for parameter in missing { parameters[parameter.name] = try await typed(parameter) }
        return parameters
    }

    /// The method and the URL with its parameters in braces.
    private static func address(of route: DomainTable.ResolvedRoute) -> String {
        let base = route.baseURLs.first ?? ""
        let url =
            route.isAbsolute ? route.path : "\(base.hasSuffix("/") ? String(base.dropLast()) : base)/\(route.path)"
        return [route.method?.rawValue ?? "", HTTPAddress.redacted(url)].joined(separator: " ")
    }

    private func typed(_ parameter: MissingParameter) async throws -> JSONValue {
        let name = SafeText.line(parameter.name)
        while true {
            guard let line = try await console.ask(parameter.isText ? name : "\(name) (\(parameter.type))") else {
                console.note("")
                throw UsageError(
                    "no value was typed for \(name); write lat start \(command.server) \(parameter.argument)")
            }
            if line.isEmpty {
                let what = parameter.isInPath ? "is a part of the path and" : "is required and"
                console.note("\(name) \(what) cannot be empty; Ctrl-C ends lat")
            } else if parameter.isText {
                return .string(line)
            } else if let value = try? JSONValue(parsing: line), parameter.takes(value) {
                return value
            } else {
                console.note("\(name) is of the type \(parameter.type) of JSON; Ctrl-C ends lat")
            }
        }
    }

    private func message(
        _ missing: [MissingParameter], _ others: [String], _ route: DomainTable.ResolvedRoute
    ) -> String {
        let server = command.server
        let values = missing.count == 1 ? "a value" : "values"
        let isOfPath = missing.allSatisfy(\.isInPath)
        let list = missing.map { isOfPath ? "{\($0.name)}" : SafeText.line($0.name) }.listed
        let needs = "\(isOfPath ? "the path \(route.path) of " : "")\"\(server)\" needs \(values) for \(list)"
        if let first = missing.first, let near = NearestName.of(first.name, among: others) {
            return "\(needs); did you mean \(SafeText.line(first.name)) by \"\(SafeText.line(near))\"?"
        }
        let arguments = missing.map(\.argument).joined(separator: " ")
        return "\(needs); write lat start \(server) \(arguments)"
    }
}

/// A parameter that a call needs and that was not given.
private struct MissingParameter {
    let name: String
    let isInPath: Bool
    let note: DomainTable.ParameterNote

    /// Those of the path, then those that the document requires, by name.
    static func all(of route: DomainTable.ResolvedRoute, given: [String: JSONValue]) -> [MissingParameter] {
        let path = route.pathParameters.map { MissingParameter(name: $0, isInPath: true, note: .string) }
        let documented = (route.settings.documented.parameters ?? [:]).sorted { $0.key < $1.key }
            .filter { name, note in
                !note.isOptional && !route.pathParameters.contains(name) && route.settings.parameters[name] == nil
            }
        return (path + documented.map { MissingParameter(name: $0.key, isInPath: false, note: $0.value) })
            .filter { given[$0.name] == nil }
    }

    var isText: Bool { note.isText }
    var type: String { note.rawValue }
    /// As it is written on the command line.
    var argument: String { SafeText.line(name) + (isText ? "=VALUE" : ":=JSON") }

    func takes(_ value: JSONValue) -> Bool {
        switch note {
        case .integer: value.int != nil
        case .number: value.double != nil
        case .boolean: value.bool != nil
        case .array: value.array != nil
        case .object: value.object != nil
        default: true
        }
    }
}
