import FoundationEssentials
import LATNetworking

/// `lat request METHOD URL …`: sends one request and shows the response.
struct RequestCommand: Command {
    /// The source of the body, before anything is read.
    enum Content: Hashable, Sendable {
        /// JSON from a file.
        case jsonFile(String)
        /// JSON from standard input.
        case jsonInput
        /// A text.
        case text(String)
        /// A file, sent unchanged.
        case file(String)
        /// Standard input, sent unchanged.
        case input
        /// The parameters as a form.
        case form
    }

    /// A file of a multipart body.
    struct File: Hashable, Sendable {
        var name: String
        var path: String
    }

    let method: String
    let url: String
    let parameters: [String: JSONValue]
    let headers: HTTPHeaders
    let content: Content?
    let files: [File]
    let output: String?
    let timeout: Duration?
    let connectTimeout: Duration?
    let proxy: String?
    let followsRedirects: Bool
    let showsHead: Bool
    let isVerbose: Bool
    let user: (name: String, password: String)?
    let usesHTTP2: Bool
    /// The policy of `--http3` or `--http3-only`; `nil` without them.
    let http3: HTTPVersionPolicy?
    let unixSocket: String?
    let cache: CachePolicy?
    let connection: ConnectionArguments
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        (method, url) = try Self.target(arguments.operands)
        parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        headers = try HeaderArgument.parse(arguments.values(Self.header), of: Self.header)
        files = try Self.files(arguments.values(Self.file), of: Self.file)
        content = try Self.content(arguments, hasFiles: !files.isEmpty)
        output = try OutputArgument.parse(arguments)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        connectTimeout = try DurationArgument.parse(arguments, of: Self.connectTimeout)
        proxy = arguments.value(Self.proxy)
        followsRedirects = !arguments.contains(Self.noFollow)
        showsHead = arguments.contains(Self.include)
        isVerbose = arguments.contains(Self.verbose)
        user = try Self.user(arguments)
        usesHTTP2 = arguments.contains(Self.http2)
        http3 = arguments.contains(Self.http3Only) ? .http3Only : arguments.contains(Self.http3) ? .http3 : nil
        unixSocket = arguments.value(Self.unixSocket)
        cache = try CacheArgument.parse(arguments, of: Self.cache)
        connection = try ConnectionArguments(arguments)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        try await RequestRun(command: self, console: console).run()
    }
}

// MARK: Help

extension RequestCommand {
    static let name = "request"
    static let summary = "Sends one request and shows the response."
    static let usage = "METHOD URL [options]"

    static let parameter = Option(
        "--parameter", "-p", value: "K=V", repeats: true,
        help: "A parameter: k=v for text, k:=json for numbers, Booleans, lists, objects and null. In the query of GET, "
            + "HEAD and DELETE and of any request with a body; otherwise in a JSON body.")
    static let header = Option(
        "--header", "-H", value: "'K: V'", repeats: true,
        help: "A header field. 'K:' omits a default one, 'K;' sends it empty.")
    static let json = Option("--json", value: "FILE|-", help: "A JSON body from a file or standard input.")
    static let data = Option(
        "--data", "-d", value: "TEXT|@FILE", help: "A body sent unchanged: a text, a file, or standard input with @-.")
    static let form = Option("--form", help: "Sends the parameters as a form instead of JSON.")
    static let file = Option(
        "--file", "-F", value: "NAME=PATH", repeats: true,
        help: "Uploads a file as multipart/form-data, with the parameters as fields.")
    static let timeout = Option(
        "--timeout", value: "1s|500ms", help: "The time limit of the whole request. Default: none while bytes move.")
    static let connectTimeout = Option(
        "--connect-timeout", value: "TIME", help: "The time limit of connecting. Default: 10s.")
    static let proxy = Option(
        "--proxy", value: "URL",
        help:
            "Uses a proxy: http, https, socks4, socks5 or socks5h; \"\" for none. Default: that of http_proxy and "
            + "the related variables.")
    static let noFollow = Option("--no-follow", help: "Shows a redirect instead of following it.")
    static let include = Option("--include", "-i", help: "Shows the head of the response before the body.")
    static let verbose = Option(
        "--verbose", "-v", help: "Shows request, headers and timings on standard error. Secrets are hidden.")
    static let user = Option("--user", "-u", value: "USER:PASSWORD", help: "Credentials for Basic authentication.")
    static let http2 = Option("--http2", help: "Uses HTTP/2 from the start, also without TLS.")
    static let http3 = Option("--http3", help: "Tries HTTP/3, with HTTP/2 beside it. Needs a libcurl with HTTP/3.")
    static let http3Only = Option("--http3-only", help: "Uses only HTTP/3.")
    static let unixSocket = Option("--unix-socket", value: "PATH", help: "Connects to a Unix domain socket.")
    static let cache = Option(
        "--cache", value: "POLICY",
        help:
            "The policy for the cache in $XDG_CACHE_HOME/lat: http, cacheElseNetwork:TIME, networkElseCache, cacheOnly, "
            + "writeOnly or networkOnly. Default: networkOnly.")
    static let options =
        [
            parameter, header, json, data, form, file, OutputArgument.option, timeout, connectTimeout, proxy, noFollow,
            include, verbose, user, http2, http3, http3Only, unixSocket, cache,
        ] + ConnectionArguments.options + [OutputFormat.option]

    static let details = """
        Examples
          lat request GET http://127.0.0.1:8080/search -p q=swift -p page:=2
          lat request POST http://127.0.0.1:8080/orders --json order.json -i
          lat request PUT http://127.0.0.1:8080/photos -F img=a.png -p title=Holiday
          lat request GET http://127.0.0.1:8080/big.iso -o big.iso --timeout 10m

        Exit codes: 0 success, 1 the status is not a success (the body is still shown),
        2 the command line is invalid, 3 no response, 130 interrupted.
        """
}

// MARK: Arguments

extension RequestCommand {
    private static func target(_ operands: [String]) throws(UsageError) -> (method: String, url: String) {
        guard operands.count >= 2 else {
            if let only = operands.first, only.contains("://") {
                throw UsageError("METHOD is missing; write lat request GET \(SafeText.line(only))")
            }
            let missing = operands.isEmpty ? "METHOD and URL are" : "URL is"
            throw UsageError(
                "\(missing) missing; write lat request METHOD URL, such as lat request GET http://127.0.0.1:8080/")
        }
        try UsageError.refuse(
            operands, after: 2, "give parameters with -p name=value, and quote a text with spaces")
        let (method, url) = (operands[0], operands[1])
        guard HTTPMethod(method).isToken else {
            throw UsageError(
                "METHOD \"\(SafeText.line(method))\" is not a method; write GET, POST or another word of letters")
        }
        return (method, try URLArgument.checked(url))
    }

    static func files(_ arguments: [String], of option: Option) throws(UsageError) -> [File] {
        var files: [File] = []
        for argument in arguments {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
                throw UsageError(
                    "\(option.name) \"\(SafeText.line(argument))\" is not of the form NAME=PATH; write "
                        + "-F image=photo.png")
            }
            files.append(File(name: String(parts[0]), path: String(parts[1])))
        }
        return files
    }

    private static func content(_ arguments: ParsedArguments, hasFiles: Bool) throws(UsageError) -> Content? {
        let given = [json, data, form].filter(arguments.contains)
        // Files and `--form` can be combined: the parameters are fields of the same body.
        if given.count > 1 || (hasFiles && given.contains { $0 != form }) {
            let names = (given + (hasFiles ? [file] : [])).map(\.name)
            throw UsageError(
                "\(names.joined(separator: " and ")) cannot be combined; a request has one body, so give one of them")
        }
        if let source = arguments.value(json) { return source == "-" ? .jsonInput : .jsonFile(source) }
        if let text = arguments.value(data) {
            guard text.hasPrefix("@") else { return .text(text) }
            let path = String(text.dropFirst())
            guard !path.isEmpty else {
                throw UsageError("\(data.name) \"@\" names no file; write @FILE, or @- for standard input")
            }
            return path == "-" ? .input : .file(path)
        }
        return arguments.contains(form) && !hasFiles ? .form : nil
    }

    static func user(_ arguments: ParsedArguments) throws(UsageError) -> (name: String, password: String)? {
        guard let text = arguments.value(user) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        // The argument may be only a password, so the message does not repeat it.
        guard parts.count == 2 else { throw UsageError("\(user.name) has no colon; write USER:PASSWORD") }
        return (String(parts[0]), String(parts[1]))
    }
}

/// One run of `lat request`, from reading the files of the body to the last byte shown.
private struct RequestRun {
    let command: RequestCommand
    let console: Console

    /// - Throws: ``UsageError``, `Output.Failure` or `CancellationError`. Failures of the request are shown, and decide
    ///   the returned code.
    func run() async throws -> ExitCode {
        let content = try RequestContent(command)
        let file = try command.output.map { name throws(UsageError) in try OutputFile(name) }
        defer { file?.discard() }

        let clock = ContinuousClock()
        let start = clock.now
        let answer = try await answer(to: content)
        let headTime = clock.now - start
        if let response = answer.response, command.isVerbose {
            RequestTrace.lines(of: response, console.errStyle).forEach(console.note)
        }

        let bodyStart = clock.now
        // Only a success writes the file, and 304 has no body to write.
        let isForFile = answer.error == nil && answer.response?.status != 304
        var outcome = Outcome(error: answer.error)
        if let response = answer.response {
            outcome = try await receive(response, into: isForFile ? file : nil, answer.error)
        }
        await answer.manager?.shutdown()
        let total = Self.headTime(answer.timings, headTime) + (clock.now - bodyStart)
        if command.isVerbose, let timings = answer.timings {
            console.note(RequestTrace.line(of: timings, total: total, console.errStyle))
        }
        if command.format == .json {
            try report(answer, outcome, isForFile ? command.output : nil, total)
        } else if let error = outcome.error {
            console.complain(error.description)
        }
        return outcome.error.map { ExitCode($0) } ?? .success
    }

    /// The time until the head arrived, as libcurl measured it, without the start of this process. It is the larger of
    /// two times, because the total of a stream may have been taken before its first byte.
    private static func headTime(_ timings: Timings?, _ ownTime: Duration) -> Duration {
        let times = [timings?.total, timings?.firstByte].compactMap { $0 }
        return times.max() ?? ownTime
    }

    // MARK: Sending

    /// The head of the response, and the error.
    private struct Answer {
        var response: HTTPResponse?
        var error: NetworkError?
        /// The manager that sent the request, when it writes files that must be complete at the end.
        var manager: CentralRequestManager?

        var timings: Timings? { response?.timings ?? error?.timings }
    }

    private func answer(to content: RequestContent) async throws -> Answer {
        let progress = ProgressLine("sending", on: console.err, console.errTerminal, isActive: true)
        defer { progress.clear() }
        do {
            let manager = try RequestSettings.manager(for: command, willSend: trace)
            if command.connection.prewarm > 0 {
                try await manager.prewarm(command.url, connections: command.connection.prewarm)
            }
            let response = try await manager.startRequest(
                command.method, command.url, parameters: command.parameters.isEmpty ? nil : command.parameters,
                files: content.files, body: content.body, timeout: command.timeout,
                headers: RequestSettings.headers.merging(command.headers)
            ) { event in
                if event.direction == .upload { progress.update(event.completed, of: event.total) }
            }
            return Answer(response: response, manager: command.connection.keepsFiles ? manager : nil)
        } catch let error as NetworkError {
            // The response of a failure is shown too.
            return Answer(response: error.kind == .httpStatus ? error.response : nil, error: error)
        }
    }

    private var trace: @Sendable (HTTPRequest) -> Void {
        guard command.isVerbose else { return { _ in } }
        return { [console] request in RequestTrace.lines(of: request, console.errStyle).forEach(console.note) }
    }

    // MARK: Receiving

    private struct Outcome {
        var error: NetworkError?
        /// The body when it was kept.
        var body: Data?
    }

    private func receive(
        _ response: HTTPResponse, into file: OutputFile?, _ verdict: NetworkError?
    ) async throws -> Outcome {
        if command.showsHead, command.format == .text {
            for line in RequestTrace.head(of: response, console.outStyle) { try console.print(line) }
            try console.print("")
        }
        var outcome = Outcome(error: verdict)
        do {
            let receiver = BodyReceiver(console)
            outcome.body = try await receiver.receive(response, into: receiver.sink(file, command.format))
        } catch let error as NetworkError {
            // An unsuccessful status is the error to report, even when the body was incomplete.
            outcome.error = verdict ?? error
        }
        return outcome
    }

    // MARK: Reporting

    private func report(_ answer: Answer, _ outcome: Outcome, _ file: String?, _ total: Duration) throws {
        var report = RequestReport(
            method: "\(HTTPMethod(command.method))", url: command.url,
            response: answer.response ?? outcome.error?.response, body: outcome.body,
            file: outcome.error == nil ? file : nil, timings: answer.timings, total: total,
            error: outcome.error)
        report.showsSource = command.cache != nil
        try console.print(report.json)
    }
}
