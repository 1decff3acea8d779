import LATNetworking

/// `lat upload URL --file NAME=PATH …`: sends files and shows how far each is.
struct UploadCommand: Command {
    /// What is sent.
    enum Content: Hashable, Sendable {
        /// Parts of a multipart body.
        case parts([RequestCommand.File])
        /// One file as the whole body.
        case whole(String)
    }

    let url: String
    let method: String
    let content: Content
    let parameters: [String: JSONValue]
    let headers: HTTPHeaders
    let timeout: Duration?
    let proxy: String?
    let user: (name: String, password: String)?
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        url = try Self.url(arguments.operands)
        content = try Self.content(arguments)
        method = try Self.method(arguments, content)
        parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        proxy = arguments.value(RequestCommand.proxy)
        user = try RequestCommand.user(arguments)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode { try await UploadRun(self, console).run() }
}

// MARK: Help

extension UploadCommand {
    static let name = "upload"
    static let summary = "Uploads files and shows how far each is."
    static let usage = "URL --file NAME=PATH… [options]"

    static let file = Option(
        "--file", "-F", value: "NAME=PATH", repeats: true,
        help:
            "A file and the name of its field; may be repeated. All go in one multipart/form-data body, in this order.")
    static let body = Option("--body", value: "PATH", help: "One file as the whole body, instead of parts.")
    static let parameter = Option(
        "--parameter", "-p", value: "K=V", repeats: true,
        help: "A form field beside the files, k=v or k:=json. Beside --body it goes into the query.")
    static let methodOption = Option(
        "--method", "-X", value: "METHOD", help: "POST, PUT, PATCH or another. Default: POST, and PUT with --body.")
    static let timeout = Option(
        "--timeout", value: "1s|10m", help: "The longest the whole may take. Default: as long as bytes move.")
    static let options = [
        file, body, parameter, RequestCommand.header, methodOption, timeout, RequestCommand.proxy, RequestCommand.user,
        OutputFormat.option,
    ]

    static let details = """
        On a terminal a bar for each file and one for the whole are drawn while bytes
        move. The answer's body is shown at the end.

        Examples
          lat upload http://127.0.0.1:8080/photos --file img=a.png -p title=Holiday
          lat upload http://127.0.0.1:8080/photos -F img=a.png -F img=b.png -F doc=c.pdf
          lat upload http://127.0.0.1:8080/files/report.pdf --body report.pdf

        Exit codes: 0 ok, 1 the status is no success (the body is still shown), 2 the
        command line or a file cannot be used, 3 no answer, 130 interrupted.
        """
}

// MARK: Arguments

extension UploadCommand {
    private static func url(_ operands: [String]) throws(UsageError) -> String {
        guard let url = operands.first else {
            throw UsageError(
                "URL is missing; write lat upload URL --file NAME=PATH, such as "
                    + "lat upload http://127.0.0.1:8080/photos --file img=a.png")
        }
        guard operands.count == 1 else {
            throw UsageError(
                "\"\(SafeText.line(operands[1]))\" is one argument too many; files are given with --file NAME=PATH")
        }
        let scheme = url.lowercased()
        guard scheme.hasPrefix("http://") || scheme.hasPrefix("https://") else {
            let shown = SafeText.line(url)
            let hint = url.contains("://") ? "only http and https are spoken" : "did you mean \"http://\(shown)\"?"
            throw UsageError("URL \"\(shown)\" does not begin with http:// or https://; \(hint)")
        }
        return url
    }

    private static func content(_ arguments: ParsedArguments) throws(UsageError) -> Content {
        let files = try RequestCommand.files(arguments.values(file), of: file)
        guard let path = arguments.value(body) else {
            guard !files.isEmpty else {
                throw UsageError(
                    "no file is given; write --file NAME=PATH, or --body PATH for a file as the whole body")
            }
            return .parts(files)
        }
        guard files.isEmpty else {
            throw UsageError("--file and --body do not go together; a request has one body, so give one of them")
        }
        guard !path.isEmpty else { throw UsageError("\(body.name) \"\" names no file; write --body PATH") }
        return .whole(path)
    }

    private static func method(_ arguments: ParsedArguments, _ content: Content) throws(UsageError) -> String {
        guard let method = arguments.value(methodOption) else {
            if case .whole = content { return "PUT" }
            return "POST"
        }
        guard HTTPMethod(method).isToken else {
            throw UsageError(
                "\(methodOption.name) \"\(SafeText.line(method))\" is no method; write POST, PUT or another "
                    + "word of letters")
        }
        guard !["GET", "HEAD"].contains(method.uppercased()) else {
            throw UsageError("\(methodOption.name) \(method) carries no files; write POST, PUT or PATCH")
        }
        return method
    }
}
