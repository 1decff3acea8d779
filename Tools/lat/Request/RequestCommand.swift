import FoundationEssentials
import LATNetworking

/// `lat request [METHOD] URL [ITEM…]`, or `lat URL`: sends one request and shows the response.
struct RequestCommand: Command {
    /// The source of the body, before anything is read.
    enum Content: Hashable, Sendable {
        case jsonFile(String)
        case jsonText(String)
        case jsonInput
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
    let output: String?
    let timeout: Duration?
    let connectTimeout: Duration?
    let idleTimeout: Duration?
    let retries: Int
    let redirects: RedirectPolicy?
    /// The HAR file; `nil` for none.
    let har: String?
    let authentication: Authentication?
    let cookies: String?
    let cache: CachePolicy?
    let connection: ConnectionArguments
    /// How all pages of a list are read; `nil` for one response.
    let pages: PageArguments?
    let format: OutputFormat
    /// All arguments, also for messages that name the option that was given.
    let arguments: ParsedArguments

    var isForm: Bool { arguments.contains(Self.form) }
    var downloads: Bool { arguments.contains(Self.download) }
    var proxy: String? { arguments.value(Self.proxy) }
    /// Whether the head of the response is shown. The response to `HEAD` has nothing else.
    var showsHead: Bool { arguments.contains(Self.include) || isHead }
    /// Whether the head is all of the response, and so what the file of `-o` gets.
    var isHead: Bool { method.uppercased() == "HEAD" }
    var usesDictionaries: Bool { arguments.contains(Self.dictionaries) }
    var isVerbose: Bool { arguments.contains(Self.verbose) }
    var printsCurl: Bool { arguments.contains(Self.curl) }
    var usesPager: Bool { !arguments.contains(Self.noPager) }
    var usesHTTP2: Bool { arguments.contains(Self.http2) }
    var unixSocket: String? { arguments.value(Self.unixSocket) }
    /// The policy of `--http3` or `--http3-only`; `nil` without them.
    var http3: HTTPVersionPolicy? {
        arguments.contains(Self.http3Only) ? .http3Only : arguments.contains(Self.http3) ? .http3 : nil
    }

    /// The method: the one given, or `POST` with a body and `GET` without.
    var method: String { line.method ?? (hasBody ? "POST" : "GET") }
    var url: String { line.url }
    var followsRedirects: Bool { redirects != RedirectPolicy.none }

    /// Whether files besides that of the response are written, and must be complete at the end.
    var keepsFiles: Bool { cookies != nil || har != nil || connection.keepsFiles }

    private var hasBody: Bool {
        content != nil || !files.isEmpty || line.items.contains { $0.isField || $0.kind == .file }
    }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        line = try RequestLine(arguments.operands)
        parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        headers = try HeaderArgument.parse(arguments.values(Self.header), of: Self.header)
        files = try Self.files(arguments.values(Self.file), of: Self.file)
        content = try Self.content(arguments, line, hasFiles: !files.isEmpty)
        output = try arguments.contains(Self.download) ? Self.target(arguments) : OutputArgument.parse(arguments)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        connectTimeout = try DurationArgument.parse(arguments, of: Self.connectTimeout)
        idleTimeout = try DurationArgument.parse(arguments, of: Self.idleTimeout)
        retries = try arguments.number(Self.retry, 0...1_000) ?? 0
        redirects = try Self.redirects(arguments)
        har = try arguments.file(Self.har, "write --har FILE")
        if har != nil, let other = [Self.curl, Self.download].first(where: arguments.contains) {
            throw UsageError("\(Self.har.name) and \(other.name) cannot be combined; leave one of them out")
        }
        authentication = try Self.authentication(arguments)
        cookies = try arguments.file(Self.cookies, "write -b FILE")
        cache = try CacheArgument.parse(arguments, of: Self.cache)
        if arguments.contains(Self.dictionaries), cache != .http {
            throw UsageError("\(Self.dictionaries.name) needs the cache of HTTP; add \(Self.cache.name) http")
        }
        connection = try ConnectionArguments(arguments, url: line.url)
        format = try OutputFormat(arguments)
        pages = try PageArguments(
            arguments, without: [Self.download, Self.curl, Self.include, Self.har, Self.file], format)
    }

    func run(_ console: Console) async throws -> ExitCode {
        do {
            if printsCurl { return try await RequestSender(command: self, console: console).printCurl() }
            if downloads { return try await RequestSender(command: self, console: console).download() }
            return try await RequestRun(command: self, console: console).run()
        } catch let error as NetworkError {
            return console.fail(error, arguments)
        }
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
        let limit = try arguments.number(maxRedirects, 0...1_000)
        try arguments.refuse(noFollow, with: maxRedirects)
        return arguments.contains(noFollow) ? RedirectPolicy.none : limit.map { .follow(limit: $0) }
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
        try arguments.refuse(user, with: bearer)
        if let token = arguments.value(bearer) {
            guard !token.isEmpty else { throw UsageError("\(bearer.name) is empty; write \(bearer.name) TOKEN") }
            return .bearer(token: token)
        }
        guard let (name, password) = try user(arguments) else {
            if arguments.contains(digest) {
                throw UsageError("\(digest.name) needs credentials; add -u USER:PASSWORD")
            }
            return nil
        }
        return arguments.contains(digest)
            ? .digest(user: name, password: password) : .basic(user: name, password: password)
    }

    static func user(_ arguments: ParsedArguments) throws(UsageError) -> (name: String, password: String)? {
        guard let text = arguments.value(user) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        // The argument may be only a password, so the message does not repeat it.
        guard parts.count == 2 else { throw UsageError("\(user.name) has no colon; write USER:PASSWORD") }
        return (String(parts[0]), String(parts[1]))
    }
}

// MARK: Body

extension RequestCommand {
    /// The one body that the arguments describe.
    ///
    /// - Throws: ``UsageError`` when there are two.
    private static func content(
        _ arguments: ParsedArguments, _ line: RequestLine, hasFiles: Bool
    ) throws(UsageError) -> Content? {
        let whole = line.items.filter { $0.kind == .file && $0.name.isEmpty }
        let fields = line.items.filter { $0.isField || $0.kind == .file && !$0.name.isEmpty }
        var names = [json, data].filter(arguments.contains).map(\.name)
        if line.document != nil { names.append("the JSON after the URL") }
        names += whole.map { "\"\($0.shown)\"" }
        // A form, items and files make one body together.
        let parts =
            (arguments.contains(form) ? [form.name] : [])
            + (hasFiles ? [file.name] : []) + (fields.first.map { ["the item \"\($0.shown)\""] } ?? [])
        if names.count > 1 || !names.isEmpty && !parts.isEmpty {
            throw UsageError(
                "\((names + parts).joined(separator: " and ")) cannot be combined; a request has one body, so give one "
                    + "of them")
        }
        if let field = fields.first, let text = arguments.values(parameter).first {
            throw UsageError(
                "\(parameter.name) \"\(SafeText.line(text))\" and the item \"\(field.shown)\" cannot "
                    + "be combined; write both as items, name==text for the query")
        }
        if let document = line.document { return .jsonText(document) }
        if let file = whole.first { return file.value == "-" ? .input : .file(file.value) }
        if let source = arguments.value(json) { return try jsonContent(source) }
        if let text = arguments.value(data) { return try dataContent(text) }
        return arguments.contains(form) && !hasFiles && fields.isEmpty ? .form : nil
    }

    private static func jsonContent(_ source: String) throws(UsageError) -> Content {
        if source.hasPrefix("{") || source.hasPrefix("[") { return .jsonText(source) }
        let path = source.hasPrefix("@") ? String(source.dropFirst()) : source
        guard !path.isEmpty else {
            throw UsageError(
                "\(json.name) \"\(source)\" names no file; write a file, JSON, or - for standard input")
        }
        return path == "-" ? .jsonInput : .jsonFile(path)
    }

    private static func dataContent(_ text: String) throws(UsageError) -> Content {
        guard text.hasPrefix("@") else { return .text(text) }
        let path = String(text.dropFirst())
        guard !path.isEmpty else {
            throw UsageError(
                "\(data.name) \"@\" names no file; write @FILE, or @- for standard input")
        }
        return path == "-" ? .input : .file(path)
    }
}
