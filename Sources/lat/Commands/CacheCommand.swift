import FoundationEssentials
import LATNetworking
import ResponseCache

/// `lat cache report|explain|clear`: looks at a folder of stored responses, and clears it.
struct CacheCommand: Command {
    enum Action: Hashable, Sendable {
        /// How much is stored, of which domains, servers and users.
        case report
        /// What the cache would do with a GET of a URL, and why.
        case explain(URLQuestion)
        /// Removes what is selected.
        case clear(CacheSelection)
    }

    /// The request that is explained.
    struct URLQuestion: Hashable, Sendable {
        var url: String
        var policy: CachePolicy
        var headers: HTTPHeaders
        var user: String?
    }

    static let name = "cache"
    static let summary = "Reports what a cache folder holds, explains what it would do, and clears it."
    static let usage = "report | explain URL | clear SELECTION [options]"

    static let directory = Option(
        "--directory", value: "DIR", help: "The folder. Default: $XDG_CACHE_HOME/lat, or ~/.cache/lat.")
    static let url = Option("--url", value: "URL", help: "Selects the responses of a URL.")
    static let prefix = Option("--prefix", value: "TEXT", help: "Selects those whose URL begins so.")
    static let domain = Option("--domain", value: "NAME", help: "Selects those of a domain's row.")
    static let server = Option("--server", value: "NAME", help: "Selects those of a server's row.")
    static let user = Option("--user", value: "NAME", help: "Selects those of a user; explain: asks as that user.")
    static let olderThan = Option("--older-than", value: "TIME", help: "Selects those that came longer ago: 30m, 12h.")
    static let all = Option("--all", help: "Selects all of them, pinned ones too.")
    static let policy = Option(
        "--cache", value: "POLICY", help: "explain: the policy of the request, as with lat request. Default: http.")
    static let header = Option(
        "--header", "-H", value: "'K: V'", repeats: true,
        help: "explain: a header of the request; credentials and what Vary names count.")
    static let options = [
        directory, url, prefix, domain, server, user, olderThan, all, policy, header, OutputFormat.option,
    ]

    static let details = """
          report     how much is stored, and of which domains, servers and users
          explain    what it would do with a GET of a URL, and why; sends nothing
          clear      removes what one of the options selects

        Examples
          lat cache report --directory /var/cache/app
          lat cache explain https://app.example.org/cities -H 'Accept-Language: de'
          lat cache clear --prefix https://app.example.org/ --directory /var/cache/app
          lat cache clear --older-than 12h

        A cache that is encrypted is reported by its size only, and cleared with --all
        or --older-than: the rest needs the key. --all also clears the values that an
        app keeps beside its responses.

        Exit codes: 0 ok, 2 the command line or the folder cannot be used.
        """

    let action: Action
    let directory: String
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard let word = arguments.operands.first else {
            throw UsageError("what to do with the cache is missing; write lat cache report or lat cache clear --all")
        }
        let operandCount = word == "explain" ? 2 : 1
        if arguments.operands.count > operandCount {
            let shown = SafeText.line(arguments.operands[operandCount])
            throw UsageError("\"\(shown)\" is one argument too many; lat cache --help shows how it is written")
        }
        if word != "explain", let option = [Self.policy, Self.header].first(where: { arguments.contains($0) }) {
            throw UsageError("\(option.name) is for lat cache explain; leave it out")
        }
        let selections = try Self.selections(arguments)
        switch word {
        case "report":
            guard selections.isEmpty else {
                throw UsageError(
                    "report takes no selection; write lat cache report, or clear to remove what is selected")
            }
            action = .report
        case "explain":
            action = .explain(try Self.question(arguments, selections))
        case "clear":
            guard let selection = selections.first else {
                throw UsageError("what to clear is missing; write lat cache clear --prefix TEXT, or --all")
            }
            guard selections.count == 1 else {
                throw UsageError("clear takes one selection; call it once for each")
            }
            action = .clear(selection)
        default:
            let hint = NearestName.of(word, among: ["report", "explain", "clear"]).map { "did you mean \($0)?" }
            throw UsageError(
                "lat cache knows no \"\(SafeText.line(word))\"; " + (hint ?? "write lat cache report, explain or clear")
            )
        }
        directory = arguments.value(Self.directory) ?? Self.standardDirectory
        if directory.isEmpty { throw UsageError("--directory \"\" names no folder; write --directory DIR") }
        format = try OutputFormat(arguments)
    }

    private static func question(
        _ arguments: ParsedArguments, _ selections: [CacheSelection]
    ) throws(UsageError) -> URLQuestion {
        guard arguments.operands.count > 1 else {
            throw UsageError("the URL to explain is missing; write lat cache explain URL")
        }
        let user = arguments.value(user)
        guard selections.isEmpty || user != nil && selections.count == 1 else {
            throw UsageError("explain takes a URL and no selection; write lat cache explain URL [--user NAME]")
        }
        return URLQuestion(
            url: arguments.operands[1], policy: try CacheArgument.parse(arguments, of: policy) ?? .http,
            headers: try HeaderArgument.parse(arguments.values(header), of: header), user: user)
    }

    private static func selections(_ arguments: ParsedArguments) throws(UsageError) -> [CacheSelection] {
        var selections: [CacheSelection] = []
        if let url = arguments.value(url) { selections.append(.url(url)) }
        if let prefix = arguments.value(prefix) { selections.append(.urlPrefix(prefix)) }
        if let domain = arguments.value(domain) { selections.append(.domain(domain)) }
        if let server = arguments.value(server) { selections.append(.server(server)) }
        if let user = arguments.value(user) { selections.append(.partition(user)) }
        if let age = try DurationArgument.parse(arguments, of: olderThan) {
            selections.append(.storedBefore(Date(timeIntervalSinceNow: -age.inSeconds)))
        }
        if arguments.contains(all) { selections.append(.all) }
        return selections
    }

    private static var standardDirectory: String {
        let environment = ProcessInfo.processInfo.environment
        // An XDG path that is not absolute is to be ignored, says its specification.
        if let base = environment["XDG_CACHE_HOME"], base.hasPrefix("/") { return base + "/lat" }
        return (environment["HOME"] ?? "") + "/.cache/lat"
    }

    func run(_ console: Console) async throws -> ExitCode {
        guard FileManager.default.fileExists(atPath: directory) else {
            throw UsageError("there is no folder \(SafeText.line(directory)); name one with --directory DIR")
        }
        do {
            var options = DiskStore.Options()
            options.collectionInterval = nil
            // A look at it must not prune by limits that are not its owner's.
            options.byteLimit = .max
            options.minimumFreeBytes = 0
            let store = try DiskStore(directory: directory, options: options)
            let lines: [String]
            let value: JSONValue
            switch action {
            case .report:
                let report = CacheReport(
                    directory: directory, usage: try await store.usage(), entries: try await store.entries(.all))
                (lines, value) = (report.lines(console.outStyle), report.value)
            case .explain(let question):
                let report = try await Self.explain(question, store)
                (lines, value) = (report.lines(console.outStyle), report.value)
            case .clear(let selection):
                let removed = try await store.remove(selection)
                let report = CacheReport(directory: directory, usage: try await store.usage(), removed: removed)
                (lines, value) = (report.lines(console.outStyle), report.value)
            }
            if format == .json {
                try console.print(value)
            } else {
                for line in lines { try console.print(line) }
            }
            return .success
        } catch let error as NetworkError {
            throw UsageError(error.message)
        }
    }

    private static func explain(_ question: URLQuestion, _ store: DiskStore) async throws -> CacheExplanationReport {
        var configuration = CentralRequestManager.Configuration()
        configuration.cacheStore = store
        let manager = try CentralRequestManager(configuration: configuration)
        // What lat request would send.
        var request = HTTPRequest("GET", question.url, headers: RequestSettings.headers.merging(question.headers))
        request.cachePolicy = question.policy
        request.cachePartition = question.user
        let explanation = try await manager.cache.explain(request)
        guard explanation.stored.isEmpty, try await store.usage().entryCount > 0 else {
            return CacheExplanationReport(explanation: explanation)
        }
        return CacheExplanationReport(explanation: explanation, isSealed: try await store.entries(.all).isEmpty)
    }
}
