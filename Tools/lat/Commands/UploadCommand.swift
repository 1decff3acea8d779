import FoundationEssentials
import LATInspect
import LATNetworking

/// `lat upload URL --file NAME=PATH …`: uploads files and shows the progress of each.
struct UploadCommand: Command {
    enum Content: Hashable, Sendable {
        /// The parts of a multipart body.
        case parts([RequestCommand.File])
        /// One file as the whole body.
        case whole(String)
    }

    let url: String
    let method: String
    let content: Content
    /// How the upload goes on after a failure; `nil` for an upload in one request.
    let resumable: ResumableUpload?
    let parameters: [String: JSONValue]
    let headers: HTTPHeaders
    let timeout: Duration?
    let user: (name: String, password: String)?
    let format: OutputFormat
    /// All arguments, also for messages that name the option that was given.
    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        url = try URLArgument.only(
            Array(arguments.operands.prefix(1)),
            "write lat upload URL --file NAME=PATH, such as lat upload http://127.0.0.1:8080/photos --file img=a.png",
            "files are given with --file NAME=PATH")
        try UsageError.refuse(arguments.operands, after: 2, "one file may follow the URL; others are given with --file")
        content = try Self.content(arguments)
        resumable = try Self.resumable(arguments, content)
        method = try Self.method(arguments, content)
        parameters = try ParameterArgument.parse(arguments.values(Self.parameter), of: Self.parameter)
        headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        user = try RequestCommand.user(arguments)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode { try await UploadRun(command: self, console: console).run() }
}

// MARK: Help

extension UploadCommand {
    static let name = "upload"
    static let summary = "Uploads files, and shows the progress of each."
    static let usage = "URL [FILE] [--file NAME=PATH…] [options]"

    static let file = Option(
        "--file", "-F", value: "NAME=PATH", repeats: true,
        help:
            "A file and the name of its field. Repeat it for more files: all go into one multipart/form-data body.")
    static let body = Option("--body", value: "PATH", help: "One file as the whole body, as FILE.")
    static let resumableOption = Option(
        "--resumable", value: "tus|standard|s3", isValueOptional: true,
        kind: .choices(ResumableUpload.Style.allCases.map { .init($0.rawValue) }),
        help:
            "Sends FILE in parts by tus 1.0, the IETF draft or S3; without a name, by what the server speaks. The same command "
            + "goes on where it stopped.")
    static let partSize = Option(
        "--part-size", value: "BYTES", help: "With --resumable: the largest part. Default: a hundredth, at least 4 MiB."
    )
    static let parallel = Option(
        "--parallel", "-n", value: "N", help: "With --resumable tus or s3: how many parts are sent side by side.")
    static let journal = Option(
        "--journal", value: "DIR", help: "With --resumable: the folder of the journal. Default: that of FILE.")
    static let noResume = Option(
        "--no-resume", help: "With --resumable: starts from the beginning, and removes what the server has.")
    static let retries = Option(
        "--retries", value: "N", help: "With --resumable: how often a part is repeated. Default: 3.")
    static let parameter = Option(
        "--parameter", "-p", value: "K=V", repeats: true,
        help: "A form field beside the files: k=v, or k:=json. With --body it goes into the query.")
    static let methodOption = Option(
        "--method", "-X", value: "METHOD", help: "POST, PUT, PATCH or another. Default: POST, and PUT with --body.")
    static let timeout = Option(
        "--timeout", value: "TIME",
        help:
            "The time limit of the upload, or with --resumable of each request: 30s, 10m. Default: none while bytes move."
    )
    static let options = [
        file, body, resumableOption, partSize, parallel, journal, noResume, retries, parameter, RequestCommand.header,
        methodOption, timeout, RequestCommand.proxy, RequestCommand.user,
        OutputFormat.option,
    ]

    static func operandKind(after operands: [String]) -> ValueKind { operands.isEmpty ? .text : .file }

    static let details = """
        On a terminal, a bar for each file and one for the total show the progress. The
        body of the response is shown at the end.

        With --resumable, a journal beside FILE tells where the upload is on the server.
        After Ctrl-C, an error or a crash, the same command goes on from there, if FILE
        is still the same. Without a name, the protocol is that of the journal, or OPTIONS
        asks the server what it speaks; one that speaks nothing of it gets an ordinary
        upload. S3 takes the key from the environment, as other programs do:
        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION.

        Examples
          lat upload http://127.0.0.1:8080/photos --file img=a.png -p title=Holiday
          lat upload http://127.0.0.1:8080/photos -F img=a.png -F img=b.png -F doc=c.pdf
          lat upload http://127.0.0.1:8080/report.pdf --body report.pdf
          lat upload http://127.0.0.1:8080/report.pdf report.pdf --resumable

        Exit codes: 0 success, 1 the status is not a success (the body is still shown),
        2 the command line or a file cannot be used, 3 no response, 130 interrupted.
        """
}

// MARK: Arguments

extension UploadCommand {
    private static func content(_ arguments: ParsedArguments) throws(UsageError) -> Content {
        let files = try RequestCommand.files(arguments.values(file), of: file)
        if arguments.operands.count > 1, arguments.contains(body) {
            throw UsageError("FILE and \(body.name) cannot be combined; a request has one body, so give one of them")
        }
        let operand = arguments.operands.dropFirst().first
        if operand == "" { throw UsageError("FILE \"\" names no file; write lat upload URL FILE") }
        let named = try arguments.file(body, "write --body PATH")
        guard let path = operand ?? named else {
            guard !files.isEmpty else {
                throw UsageError(
                    "no file is given; write lat upload URL FILE, or --file NAME=PATH for a part of a form")
            }
            return .parts(files)
        }
        guard files.isEmpty else {
            let other = operand == nil ? body.name : "FILE"
            throw UsageError("--file and \(other) cannot be combined; a request has one body, so give one of them")
        }
        return .whole(path)
    }

    private static func resumable(_ arguments: ParsedArguments, _ content: Content) throws(UsageError)
        -> ResumableUpload?
    {
        guard let name = arguments.value(resumableOption) else {
            for option in [partSize, parallel, journal, noResume, retries] where arguments.contains(option) {
                throw UsageError("\(option.name) belongs to \(resumableOption.name); add \(resumableOption.name) tus")
            }
            return nil
        }
        guard case .whole = content else {
            throw UsageError("\(resumableOption.name) needs one file as the whole body; write lat upload URL FILE")
        }
        // Without a name, the server is asked before the upload.
        guard let style = name.isEmpty ? .standard : ResumableUpload.Style(rawValue: name) else {
            throw UsageError(
                "\(resumableOption.name) \"\(SafeText.line(name))\" is unknown; write tus, standard or s3")
        }
        return try settings(arguments, style)
    }

    /// The settings of an upload by a protocol, with the number of parts that is usual for it.
    static func settings(_ arguments: ParsedArguments, _ style: ResumableUpload.Style) throws(UsageError)
        -> ResumableUpload
    {
        var upload = ResumableUpload(
            style, partSize: try arguments.number(partSize, ResumableUpload.limits.partSize).map(Int64.init),
            parallel: try arguments.number(parallel, ResumableUpload.limits.parallel))
        upload.journalFolder = try arguments.file(journal, "write --journal DIR")
        upload.resumesEarlierRun = !arguments.contains(noResume)
        return upload
    }

    /// The signer of S3, from the variables that Amazon's programs read.
    static func signer(_ variables: [String: String]) throws(UsageError) -> AWSSigner {
        guard let id = variables["AWS_ACCESS_KEY_ID"], let secret = variables["AWS_SECRET_ACCESS_KEY"] else {
            throw UsageError(
                "\(resumableOption.name) s3 needs a key; set the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        }
        return try UsageError.checked(
            try AWSSigner(
                accessKeyID: id, secretAccessKey: secret, sessionToken: variables["AWS_SESSION_TOKEN"],
                region: variables["AWS_REGION"] ?? variables["AWS_DEFAULT_REGION"] ?? "us-east-1", service: "s3"))
    }

    private static func method(_ arguments: ParsedArguments, _ content: Content) throws(UsageError) -> String {
        guard let method = arguments.value(methodOption) else {
            if case .whole = content { return "PUT" }
            return "POST"
        }
        guard HTTPMethod(method).isToken else {
            throw UsageError(
                "\(methodOption.name) \"\(SafeText.line(method))\" is not a method; write POST, PUT or another "
                    + "word of letters")
        }
        guard !["GET", "HEAD"].contains(method.uppercased()) else {
            throw UsageError("\(methodOption.name) \(method) cannot carry files; write POST, PUT or PATCH")
        }
        return method
    }
}
