import LATNetworking

/// `lat download URL -o FILE …`: fetches a file, and goes on where an earlier run ended.
struct DownloadCommand: Command {
    let url: String
    let output: String
    let segments: Int
    let digest: DownloadDigest?
    let existingFile: ExistingFilePolicy
    let resumes: Bool
    let reservesSpace: Bool
    let retries: Int
    let headers: HTTPHeaders
    let user: (name: String, password: String)?
    let connectTimeout: Duration?
    let idleTimeout: Duration?
    let proxy: String?
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        url = try Self.url(arguments.operands)
        output = try Self.output(arguments)
        segments = try Self.number(arguments, of: Self.segments, 1...64) ?? 1
        digest = try Self.digest(arguments)
        existingFile = try Self.existingFile(arguments)
        resumes = !arguments.contains(Self.noResume)
        reservesSpace = arguments.contains(Self.reserve)
        retries = try Self.number(arguments, of: Self.retries, 0...1_000) ?? 3
        headers = try HeaderArgument.parse(arguments.values(Self.header), of: Self.header)
        user = try Self.user(arguments)
        connectTimeout = try DurationArgument.parse(arguments, of: Self.connectTimeout)
        idleTimeout = try DurationArgument.parse(arguments, of: Self.idleTimeout)
        proxy = arguments.value(Self.proxy)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode { try await DownloadRun(self, console).run() }
}

// MARK: Help

extension DownloadCommand {
    static let name = "download"
    static let summary = "Downloads a file, and goes on where an earlier run ended."
    static let usage = "URL -o FILE|FOLDER [options]"

    static let output = Option(
        "--output", "-o", value: "FILE|FOLDER",
        help: "Where it goes. In a folder it gets the name that the server or the URL gives it. Default: this folder.")
    static let segments = Option(
        "--segments", "-n", value: "N", help: "Fetches it over N connections, where the server has ranges. Default: 1.")
    static let sha256 = Option(
        "--sha256", value: "HEX", help: "The SHA-256 the file must have; with another it does not appear.")
    static let digest = Option(
        "--digest", value: "NAME:HEX", help: "The same with md5, sha1, sha256, sha384 or sha512.")
    static let existing = Option(
        "--existing", value: "overwrite|skip|fail", help: "What to do about a file that is there. Default: overwrite.")
    static let noResume = Option("--no-resume", help: "Starts over, whatever an earlier run left.")
    static let reserve = Option("--reserve", help: "Takes the space for the whole file before its first byte.")
    static let retries = Option(
        "--retries", value: "N", help: "How often it goes on after the connection broke. Default: 3.")
    static let header = Option(
        "--header", "-H", value: "'K: V'", repeats: true, help: "A header, as with lat request.")
    static let user = Option("--user", "-u", value: "USER:PASSWORD", help: "Credentials for Basic authentication.")
    static let connectTimeout = Option(
        "--connect-timeout", value: "TIME", help: "The longest until a connection stands. Default: 10s.")
    static let idleTimeout = Option("--idle-timeout", value: "TIME", help: "The longest silence. Default: 60s.")
    static let proxy = Option(
        "--proxy", value: "URL", help: "Goes through a proxy; \"\" for none. Default: what http_proxy and the like say."
    )
    static let options = [
        output, segments, sha256, digest, existing, noResume, reserve, retries, header, user, connectTimeout,
        idleTimeout,
        proxy, OutputFormat.option,
    ]

    static let details = """
        What has come lies beside the target as FILE.part, with a journal; the same
        command goes on from there, after Ctrl-C, an error or a crash, when the server
        confirms that the content is still the same.

        Examples
          lat download http://127.0.0.1:8080/big.iso -o big.iso --segments 4
          lat download http://127.0.0.1:8080/big.iso -o images/ --sha256 9f86d081…

        Exit codes: 0 ok, 1 the status is no success or the digest is another, 2 the
        command line or the target cannot be used, 3 no answer or it broke off, 130
        interrupted.
        """
}

// MARK: Arguments

extension DownloadCommand {
    private static func url(_ operands: [String]) throws(UsageError) -> String {
        guard let url = operands.first else {
            throw UsageError("URL is missing; write lat download URL -o FILE")
        }
        guard operands.count == 1 else {
            throw UsageError(
                "\"\(SafeText.line(operands[1]))\" is one argument too many; the file is named with -o FILE")
        }
        let scheme = url.lowercased()
        guard scheme.hasPrefix("http://") || scheme.hasPrefix("https://") else {
            let shown = SafeText.line(url)
            let hint = url.contains("://") ? "only http and https are spoken" : "did you mean \"http://\(shown)\"?"
            throw UsageError("URL \"\(shown)\" does not begin with http:// or https://; \(hint)")
        }
        return url
    }

    private static func output(_ arguments: ParsedArguments) throws(UsageError) -> String {
        guard let name = arguments.value(output) else { return "." }
        guard !name.isEmpty else { throw UsageError("\(output.name) \"\" names no file; write -o FILE") }
        guard name != "-" else {
            throw UsageError("\(output.name) - cannot be resumed; write lat request GET URL for standard output")
        }
        return name
    }

    private static func number(
        _ arguments: ParsedArguments, of option: Option, _ range: ClosedRange<Int>
    ) throws(UsageError) -> Int? {
        guard let text = arguments.value(option) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "\(option.name) \"\(SafeText.line(text))\" is not a number from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }

    private static func digest(_ arguments: ParsedArguments) throws(UsageError) -> DownloadDigest? {
        guard !(arguments.contains(sha256) && arguments.contains(digest)) else {
            throw UsageError("\(sha256.name) and \(digest.name) do not go together; give one of them")
        }
        if let digits = arguments.value(sha256) { return try checked(DownloadDigest(.sha256, digits), sha256) }
        guard let text = arguments.value(digest) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let algorithm = DownloadDigest.Algorithm(rawValue: parts[0].lowercased()) else {
            let names = DownloadDigest.Algorithm.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("\(digest.name) \"\(SafeText.line(text))\" is not NAME:HEX with a NAME of \(names)")
        }
        return try checked(DownloadDigest(algorithm, String(parts[1])), digest)
    }

    private static func checked(_ digest: DownloadDigest, _ option: Option) throws(UsageError) -> DownloadDigest {
        let digits = [.md5: 32, .sha1: 40, .sha256: 64, .sha384: 96, .sha512: 128][digest.algorithm] ?? 0
        guard digest.hexadecimal.count == digits, digest.hexadecimal.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
            throw UsageError(
                "\(option.name) \"\(SafeText.line(digest.hexadecimal))\" is not \(digits) hexadecimal digits, as a "
                    + "\(digest.algorithm.rawValue) has")
        }
        return digest
    }

    private static func existingFile(_ arguments: ParsedArguments) throws(UsageError) -> ExistingFilePolicy {
        guard let text = arguments.value(existing) else { return .overwrite }
        guard let policy = ExistingFilePolicy(rawValue: text) else {
            throw UsageError("\(existing.name) \"\(SafeText.line(text))\" is unknown; write overwrite, skip or fail")
        }
        return policy
    }

    private static func user(_ arguments: ParsedArguments) throws(UsageError) -> (name: String, password: String)? {
        guard let text = arguments.value(user) else { return nil }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        // The value may be a password alone, so it is not repeated.
        guard parts.count == 2 else { throw UsageError("\(user.name) has no colon; write USER:PASSWORD") }
        return (String(parts[0]), String(parts[1]))
    }
}
