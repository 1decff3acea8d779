import DomainTables
import FoundationEssentials
import HTTPCore
import LATInspect
import LATNetworking

/// One run of a file: sends its requests in order, and keeps what became of them.
struct FileRun {
    private let file: HTTPFile
    private let requests: [HTTPFile.Request]
    /// The folder of the file with a slash at its end; empty for the current one.
    private let folder: String
    private let command: RunCommand
    private let console: Console
    private let table: DomainTable?
    private var scope: RunScope
    private var manager: CentralRequestManager?
    private(set) var report: RunReport

    private var style: Style { console.outStyle }

    /// Reads the file and its environment. Sends nothing.
    ///
    /// - Throws: ``RunProblem``, ``TableProblem``, ``UsageError``.
    init(_ path: String, _ command: RunCommand, _ console: Console) throws {
        self.command = command
        self.console = console
        folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        let content = try RequestContent.contents(of: path, "")
        guard let text = String(validating: content, as: UTF8.self) else {
            throw RunProblem("\(SafeText.line(path)) is not UTF-8 text; give a .http file")
        }
        file = try HTTPFile(text, name: path)
        console.note(file.warnings)
        let environment = try RunEnvironment(command.environment, folder: folder, table: command.table)
        let dotenv = RunEnvironment.dotenv(in: folder)
        scope = RunScope(
            RunOutside(variable: { ProcessInfo.processInfo.environment[$0] }, dotenv: { dotenv[$0] }))
        scope.given = command.variables
        scope.environment = environment.variables
        scope.domains = environment.domains
        for variable in file.variables { scope.definitions[variable.name] = variable.value }
        requests = try file.chosen(command.names, in: scope)
        table = environment.table
        if let problem = environment.tableProblem {
            guard !requests.contains(where: \.mayNameRow) else { throw problem }
            console.note(
                "lat: warning: the table cannot be used, so its rows and base URLs are not known here; lat domains check "
                    + "says why")
        }
        report = RunReport(file: path, start: Date())
    }

    /// - Parameter skipsAll: Whether a file before this one has failed, so that nothing is sent.
    mutating func run(skipsAll: Bool) async throws {
        let width = min(SafeText.widestLabel, requests.map { label($0).count }.max() ?? 0)
        var isSkipped = skipsAll
        defer { skipRest() }
        for request in requests {
            var entry = self.entry(of: request)
            do {
                if !isSkipped { try await run(request, &entry) }
                try Task.checkCancellation()
            } catch {
                if !isSkipped, case .skipped = entry.outcome {
                    let failure = RunReport.Failure(
                        place: place(request.target.range), message: "the run was interrupted")
                    entry.outcome = .error(failure, .interrupted)
                }
                report.entries.append(entry)
                throw error
            }
            report.entries.append(entry)
            switch command.format {
            case .json: try console.print(String(decoding: report.json(of: entry).data(), as: UTF8.self))
            case .text:
                for line in RunReport.lines(of: entry, nameWidth: width, style) { try console.print(line) }
            }
            if !command.goesOn, !RunReport.failures(of: entry).isEmpty { isSkipped = true }
        }
        await manager?.shutdown()
    }

    /// Notes the requests that are left as skipped.
    mutating func skipRest() {
        let rest = requests.dropFirst(report.entries.count).map { entry(of: $0) }
        report.entries += rest
    }

    private func entry(of request: HTTPFile.Request) -> RunReport.Entry {
        let text = request.target.text
        let target = request.mayNameRow ? String(text.prefix { $0 != " " }) : Secrets.standard.shown(url: text)
        return RunReport.Entry(
            name: label(request), method: request.method ?? "GET", target: target, outcome: .skipped)
    }

    private func label(_ request: HTTPFile.Request) -> String {
        request.name ?? "line \(file.source.position(of: request.target.start).line)"
    }

    private func place(_ range: Range<Int>) -> String { file.source.position(of: range.lowerBound).fileAndLine }

    // MARK: One request

    private mutating func run(_ request: HTTPFile.Request, _ entry: inout RunReport.Entry) async throws {
        // Later requests do not use what an earlier one has left under its names, which may be another user's.
        defer {
            for capture in request.captures where !entry.captured.contains(capture.name) {
                scope.captured[capture.name] = nil
            }
            if entry.status == nil, let name = request.name { scope.exchanges[name] = nil }
        }
        let made: RunRequest
        do throws(RunProblem) {
            made = try RunRequest(request, &scope, of: file.source, table: table) { path throws(UsageError) in
                try RequestContent.contents(of: path.hasPrefix("/") ? path : folder + path, "")
            }
        } catch {
            fail(&entry, with: error)
            return
        }
        (entry.method, entry.target) = (made.method, made.shownTarget)
        let start = ContinuousClock.now
        let answer: Answer
        do {
            answer = try await self.answer(to: made, request)
        } catch let error as UsageError {
            let failure = RunReport.Failure(place: place(request.target.range), message: error.message)
            entry.outcome = .error(failure, .usage)
            return
        }
        entry.duration = ContinuousClock.now - start
        let exchange = answer.response.map { response in
            RunExchange(
                request: answer.error?.request ?? made.httpRequest(url: response.url), response: response,
                duration: entry.duration)
        }
        if command.isVerbose, let exchange { try show(exchange) }
        // Only after these errors the response is whole.
        if let error = answer.error, exchange == nil || error.kind != .httpStatus && error.businessFailure == nil {
            let failure = RunReport.Failure(
                place: place(request.target.range), message: ErrorWords(command.arguments).message(of: error))
            entry.outcome = .error(failure, ExitCode(error))
            return
        }
        guard let exchange else { return }
        entry.status = exchange.response.status
        if let name = request.name { scope.exchanges[name] = exchange }
        do throws(RunProblem) {
            try judge(exchange, answer.error, request, &entry)
            if let output = request.output { try save(exchange, output) }
        } catch {
            fail(&entry, with: error)
        }
    }

    /// Notes that a request could not be made or judged, and shows where.
    private func fail(_ entry: inout RunReport.Entry, with problem: RunProblem) {
        if command.format == .text { console.note(problem.diagnostics) }
        let first = problem.diagnostics.first
        let failure = RunReport.Failure(
            place: first?.position.fileAndLine ?? file.source.name, message: first?.message ?? problem.message)
        entry.outcome = .error(failure, .usage)
    }

    /// Tests the response, and keeps what the request captures.
    private mutating func judge(
        _ exchange: RunExchange, _ error: NetworkError?, _ request: HTTPFile.Request, _ entry: inout RunReport.Entry
    ) throws(RunProblem) {
        var failures: [RunReport.Failure] = []
        entry.assertions = request.assertions.count
        if !request.assertions.contains(where: { $0.subject == .status }) {
            let place = place(request.target.range)
            if let error {
                failures.append(
                    RunReport.Failure(place: place, message: ErrorWords(command.arguments).message(of: error)))
            } else if exchange.response.status >= 400 {
                let reason = exchange.response.reason
                let status = reason.isEmpty ? "\(exchange.response.status)" : "\(exchange.response.status) \(reason)"
                failures.append(
                    RunReport.Failure(
                        place: place, message: "the server answered \(status); # @assert status == … allows it"))
            }
        }
        for assertion in request.assertions {
            let operand = try assertion.operand.map { operand throws(RunProblem) in
                try scope.expanded(operand, of: file.source)
            }
            guard let reason = assertion.failure(in: exchange, operand ?? "") else { continue }
            failures.append(RunReport.Failure(place: place(assertion.range), message: "\(assertion.text): \(reason)"))
        }
        for capture in request.captures {
            guard let value = capture.subject.value(in: exchange), !value.isNull else {
                let message = "there is nothing to keep as \(capture.name); check the path, or see the response with -v"
                failures.append(RunReport.Failure(place: place(capture.range), message: message))
                continue
            }
            scope.captured[capture.name] = value
            entry.captured.append(capture.name)
        }
        entry.outcome = failures.isEmpty ? .passed : .failed(failures)
    }

    // MARK: Sending

    /// - Throws: ``UsageError`` for a row that only a program can call; `CancellationError`.
    private mutating func answer(to made: RunRequest, _ request: HTTPFile.Request) async throws -> Answer {
        do {
            switch made.target {
            case .url(let url):
                var sent = made.httpRequest(url: url)
                if !request.followsRedirects { sent.redirects = .none }
                sent.timeout = request.timeout ?? command.timeout ?? .seconds(60)
                if let timeout = request.connectTimeout { sent.connectTimeout = timeout }
                return Answer(response: try await manager(request).send(sent))
            case .row(let name, let parameters):
                return try await answer(ofRow: name, parameters, made, request)
            }
        } catch let error as NetworkError {
            if error.kind == .cancelled { throw CancellationError() }
            return Answer(response: error.response, error: error)
        }
    }

    private mutating func answer(
        ofRow name: String, _ parameters: [String: JSONValue], _ made: RunRequest, _ request: HTTPFile.Request
    ) async throws -> Answer {
        guard var table else { return Answer() }
        let route = try UsageError.checked(table.resolve(server: ServerName(name)))
        var headers = made.headers
        // The engine writes the field, and its value is not known here.
        if made.authentication != nil { headers["Authorization"] = "" }
        let hasOwnToken = try table.replaceAuthenticator(of: name, route, by: headers)
        let manager = try hasOwnToken ? makeManager(table, keepsCookies: request.keepsCookies) : manager(request)
        do {
            var options = RequestOptions(timeout: request.timeout ?? command.timeout, headers: made.headers)
            if !request.followsRedirects { options.redirects = .none }
            if let timeout = request.connectTimeout { options.connectTimeout = timeout }
            if let authentication = made.authentication { options.authentication = authentication }
            let reply = try await EntityCall(
                Route(server: ServerName(name)), parameters: parameters.isEmpty ? nil : parameters, files: [], options,
                as: JSONValue.self
            ).reply(on: manager)
            return Answer(response: reply.response, envelope: reply.envelope)
        } catch let error as NetworkError where !route.hasEnvelope {
            // Without an envelope every 2xx is a success, and its body need not be JSON.
            guard case .decoding = error.kind, let response = error.response else { throw error }
            return Answer(response: response)
        }
    }

    /// The manager of the file, whose requests share cookies and connections.
    private mutating func manager(_ request: HTTPFile.Request) throws -> CentralRequestManager {
        guard request.keepsCookies else { return try makeManager(table, keepsCookies: false) }
        if let manager { return manager }
        let made = try makeManager(table, keepsCookies: true)
        manager = made
        return made
    }

    private func makeManager(_ table: DomainTable?, keepsCookies: Bool) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration.inspected
        configuration.headers = RequestSettings.headers
        if let table { configuration.domains = table }
        configuration.domainsObserver = { _ in }
        if keepsCookies { configuration.cookies = .memory }
        configuration.setProxy(command.arguments)
        configuration.tls.caFile = command.arguments.value(Option.authority)
        if command.arguments.contains(ConnectionArguments.insecure) {
            configuration.tls.disableCertificateVerification()
        }
        configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
        if command.isVerbose { configuration.accessories.append(SentTrace(console)) }
        configuration.warningHandler = { [console] in console.note("lat: warning: \(SafeText.line($0))") }
        return try CentralRequestManager(configuration: configuration)
    }

    // MARK: Output

    private func show(_ exchange: RunExchange) throws {
        RequestTrace.lines(of: exchange.response, console.errStyle).forEach(console.note)
        guard !exchange.body.isEmpty, command.format == .text else { return }
        let isText = exchange.response.text.map { !$0.utf8.contains(0) } ?? false
        let json = console.outTerminal.isTerminal ? JSONLayout.text(of: exchange.body, style: style) : nil
        try console.print(
            json ?? (isText ? exchange.text : "(\(Quantity.bytes(Int64(exchange.body.count))) that are not text)"))
    }

    private mutating func save(_ exchange: RunExchange, _ output: HTTPFile.Output) throws(RunProblem) {
        let name = try scope.expanded(output.path, of: file.source)
        var path = name.hasPrefix("/") ? name : folder + name
        if !output.replaces {
            // A number before the extension, as JetBrains adds it.
            let dot = path.lastIndex { $0 == "." || $0 == "/" }.flatMap { path[$0] == "." ? $0 : nil } ?? path.endIndex
            let (stem, end) = (path[..<dot], path[dot...])
            var number = 0
            while FileManager.default.fileExists(atPath: path) {
                number += 1
                path = "\(stem)-\(number)\(end)"
            }
        }
        do {
            let file = try OutputFile(path, of: output.replaces ? ">>!" : ">>")
            try file.output.write(exchange.body)
            try file.complete()
        } catch {
            let message = (error as? UsageError)?.message ?? (error as? Output.Failure)?.message
            throw RunProblem(at: output.path.range, of: file.source, SafeText.line(message ?? "\(error)"))
        }
    }
}

extension RunRequest {
    /// The request for the engine.
    func httpRequest(url: String) -> HTTPRequest {
        var request = HTTPRequest(method, url)
        for (name, value) in headers { request.headers.append(name, value) }
        request.body = body.map { .data($0) }
        if let authentication { request.authentication = authentication }
        if usesHTTP1 { request.version = .http1 }
        if usesHTTP2 { request.version = .http2PriorKnowledge }
        return request
    }
}
