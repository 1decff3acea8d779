import FoundationEssentials
import LATNetworking

/// `lat request [METHOD] URL [ITEM…]`, or `lat URL`: sends one request and shows the response.
struct RequestCommand: Command {
    /// The source of the body, before anything is read.
    enum Content: Hashable, Sendable {
        /// JSON from a file.
        case jsonFile(String)
        /// JSON as given.
        case jsonText(String)
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

    let line: RequestLine
    let parameters: [String: JSONValue]
    let headers: HTTPHeaders
    let content: Content?
    let files: [File]
    let isForm: Bool
    let output: String?
    let downloads: Bool
    let timeout: Duration?
    let connectTimeout: Duration?
    let idleTimeout: Duration?
    let retries: Int
    let proxy: String?
    let redirects: RedirectPolicy?
    let showsHead: Bool
    let isVerbose: Bool
    let printsCurl: Bool
    let usesPager: Bool
    /// The HAR file; `nil` for none.
    let har: String?
    let authentication: Authentication?
    let cookies: String?
    let usesHTTP2: Bool
    /// The policy of `--http3` or `--http3-only`; `nil` without them.
    let http3: HTTPVersionPolicy?
    let unixSocket: String?
    let cache: CachePolicy?
    let connection: ConnectionArguments
    let format: OutputFormat
    /// All arguments, for messages that name the option that was given.
    let arguments: ParsedArguments

    /// The method: the one given, or `POST` with a body and `GET` without.
    var method: String { line.method ?? (hasBody ? "POST" : "GET") }
    var url: String { line.url }
    var followsRedirects: Bool { redirects != RedirectPolicy.none }

    /// Whether files are written besides the response, which must be complete at the end.
    var keepsFiles: Bool { cookies != nil || connection.keepsFiles }

    private var hasBody: Bool {
        content != nil || !files.isEmpty || line.items.contains { $0.isField || $0.kind == .file }
    }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        line = try RequestLine(arguments.operands)
        parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        headers = try HeaderArgument.parse(arguments.values(Self.header), of: Self.header)
        files = try Self.files(arguments.values(Self.file), of: Self.file)
        isForm = arguments.contains(Self.form)
        content = try BodyArgument(arguments, line, hasFiles: !files.isEmpty).content
        downloads = arguments.contains(Self.download)
        output = try downloads ? Self.target(arguments) : OutputArgument.parse(arguments)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        connectTimeout = try DurationArgument.parse(arguments, of: Self.connectTimeout)
        idleTimeout = try DurationArgument.parse(arguments, of: Self.idleTimeout)
        retries = try NumberArgument.parse(arguments, of: Self.retry, 0...1_000) ?? 0
        proxy = arguments.value(Self.proxy)
        redirects = try Self.redirects(arguments)
        showsHead = arguments.contains(Self.include)
        isVerbose = arguments.contains(Self.verbose)
        printsCurl = arguments.contains(Self.curl)
        usesPager = !arguments.contains(Self.noPager)
        har = arguments.value(Self.har)
        if har?.isEmpty == true { throw UsageError("\(Self.har.name) \"\" names no file; write --har FILE") }
        if har != nil, printsCurl || downloads {
            let other = printsCurl ? Self.curl : Self.download
            throw UsageError("\(Self.har.name) and \(other.name) cannot be combined; leave one of them out")
        }
        authentication = try Self.authentication(arguments)
        cookies = arguments.value(Self.cookies)
        if cookies?.isEmpty == true { throw UsageError("\(Self.cookies.name) \"\" names no file; write -b FILE") }
        usesHTTP2 = arguments.contains(Self.http2)
        http3 = arguments.contains(Self.http3Only) ? .http3Only : arguments.contains(Self.http3) ? .http3 : nil
        unixSocket = arguments.value(Self.unixSocket)
        cache = try CacheArgument.parse(arguments, of: Self.cache)
        connection = try ConnectionArguments(arguments, url: line.url)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        if printsCurl { return try await RequestSender(command: self, console: console).printCurl() }
        if downloads { return try await RequestSender(command: self, console: console).download() }
        return try await RequestRun(command: self, console: console).run()
    }
}

// MARK: Arguments

extension RequestCommand {
    private static func target(_ arguments: ParsedArguments) throws(UsageError) -> String? {
        guard let name = arguments.value(OutputArgument.option) else { return nil }
        guard !name.isEmpty, name != "-" else {
            throw UsageError("--output \"\(name)\" names no file for --download; name one, or leave --output out")
        }
        return name
    }

    private static func redirects(_ arguments: ParsedArguments) throws(UsageError) -> RedirectPolicy? {
        let limit = try NumberArgument.parse(arguments, of: maxRedirects, 0...1_000)
        guard arguments.contains(noFollow) else { return limit.map { .follow(limit: $0) } }
        guard limit == nil else {
            throw UsageError("\(noFollow.name) and \(maxRedirects.name) cannot be combined; give one of them")
        }
        return RedirectPolicy.none
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

    private static func authentication(_ arguments: ParsedArguments) throws(UsageError) -> Authentication? {
        guard let token = arguments.value(bearer) else {
            guard let user = try user(arguments) else {
                if arguments.contains(digest) {
                    throw UsageError("\(digest.name) needs credentials; add -u USER:PASSWORD")
                }
                return nil
            }
            return arguments.contains(digest)
                ? .digest(user: user.name, password: user.password) : .basic(user: user.name, password: user.password)
        }
        guard !arguments.contains(user) else {
            throw UsageError("\(user.name) and \(bearer.name) cannot be combined; give one of them")
        }
        guard !token.isEmpty else { throw UsageError("\(bearer.name) is empty; write \(bearer.name) TOKEN") }
        return .bearer(token: token)
    }

    static func user(_ arguments: ParsedArguments) throws(UsageError) -> (name: String, password: String)? {
        guard let text = arguments.value(user) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        // The argument may be only a password, so the message does not repeat it.
        guard parts.count == 2 else { throw UsageError("\(user.name) has no colon; write USER:PASSWORD") }
        return (String(parts[0]), String(parts[1]))
    }
}

/// The one body that the arguments describe.
private struct BodyArgument {
    let content: RequestCommand.Content?

    /// - Throws: ``UsageError`` when there are two.
    init(_ arguments: ParsedArguments, _ line: RequestLine, hasFiles: Bool) throws(UsageError) {
        let whole = line.items.filter { $0.kind == .file && $0.name.isEmpty }
        let fields = line.items.filter { $0.isField || $0.kind == .file && !$0.name.isEmpty }
        var names = [RequestCommand.json, RequestCommand.data].filter(arguments.contains).map(\.name)
        if line.document != nil { names.append("the JSON after the URL") }
        names += whole.map { "\"\($0.shown)\"" }
        // A form, items and files make one body together.
        let parts =
            (arguments.contains(RequestCommand.form) ? [RequestCommand.form.name] : [])
            + (hasFiles ? [RequestCommand.file.name] : []) + (fields.first.map { ["the item \"\($0.shown)\""] } ?? [])
        if names.count > 1 || !names.isEmpty && !parts.isEmpty {
            throw UsageError(
                "\((names + parts).joined(separator: " and ")) cannot be combined; a request has one body, so give one "
                    + "of them")
        }
        if let field = fields.first, let parameter = arguments.values(RequestCommand.parameter).first {
            throw UsageError(
                "\(RequestCommand.parameter.name) \"\(SafeText.line(parameter))\" and the item \"\(field.shown)\" cannot "
                    + "be combined; write both as items, name==text for the query")
        }
        if let document = line.document {
            content = .jsonText(document)
        } else if let file = whole.first {
            content = file.value == "-" ? .input : .file(file.value)
        } else if let source = arguments.value(RequestCommand.json) {
            content = try Self.json(source)
        } else if let text = arguments.value(RequestCommand.data) {
            content = try Self.data(text)
        } else {
            content = arguments.contains(RequestCommand.form) && !hasFiles && fields.isEmpty ? .form : nil
        }
    }

    private static func json(_ source: String) throws(UsageError) -> RequestCommand.Content {
        if source.hasPrefix("{") || source.hasPrefix("[") { return .jsonText(source) }
        let path = source.hasPrefix("@") ? String(source.dropFirst()) : source
        guard !path.isEmpty else {
            throw UsageError(
                "\(RequestCommand.json.name) \"\(source)\" names no file; write a file, JSON, or - for standard input")
        }
        return path == "-" ? .jsonInput : .jsonFile(path)
    }

    private static func data(_ text: String) throws(UsageError) -> RequestCommand.Content {
        guard text.hasPrefix("@") else { return .text(text) }
        let path = String(text.dropFirst())
        guard !path.isEmpty else {
            throw UsageError(
                "\(RequestCommand.data.name) \"@\" names no file; write @FILE, or @- for standard input")
        }
        return path == "-" ? .input : .file(path)
    }
}
