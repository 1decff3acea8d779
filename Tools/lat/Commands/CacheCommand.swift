import DomainTables
import FoundationEssentials
import Glibc
import LATNetworking
import ResponseCache

/// `lat cache report|explain|clear`: reports on a folder of stored responses, and clears it.
struct CacheCommand: Command {
    enum Action: Hashable, Sendable {
        case report
        case explain(URLQuestion)
        case clear(CacheSelection)
    }

    /// The request to explain.
    struct URLQuestion: Hashable, Sendable {
        var url: String
        var policy: CachePolicy
        var headers: HTTPHeaders
        var user: String?
    }

    static let name = "cache"
    static let summary = "Reports on a cache folder, explains what it does with a request, and clears it."
    static let usage = "report | explain URL | clear SELECTION [options]"

    static let directory = Option(
        "--directory", value: "DIR", help: "The folder. Default: $XDG_CACHE_HOME/lat, or ~/.cache/lat.")
    static let url = Option("--url", value: "URL", help: "Selects the responses of a URL.")
    static let prefix = Option("--prefix", value: "TEXT", help: "Selects the responses whose URL begins with TEXT.")
    static let domain = Option(
        "--domain", value: "NAME", kind: .domain, help: "Selects the responses of a domain in the table.")
    static let server = Option(
        "--server", value: "NAME", kind: .row, help: "Selects the responses of a row under servers in the table.")
    static let user = Option(
        "--user", value: "NAME", help: "Selects the responses of a user. With explain: the user who asks.")
    static let olderThan = Option("--older-than", value: "TIME", help: "Selects responses older than TIME: 30m, 12h.")
    static let all = Option("--all", help: "Selects all responses, pinned ones too.")
    static let policy = Option(
        "--cache", value: "POLICY", help: "With explain: the policy of the request, as in lat request. Default: http.")
    static let header = Option(
        "--header", "-H", value: "'K: V'", repeats: true,
        help: "With explain: a header field of the request, such as credentials or a field that Vary names.")
    static let options = [
        directory, url, prefix, domain, server, user, olderThan, all, policy, header, OutputFormat.option,
    ]

    static let details = """
          report     how much is stored, by domain, server and user
          explain    what the cache would do with a GET, and why, without sending it
          clear      removes the responses that one of the options selects

        SELECTION is one of --url, --prefix, --domain, --server, --user, --older-than and
        --all. Of an encrypted cache, report shows only the size, and clear takes only
        --all or --older-than: everything else needs the key. --all also clears the
        values that an app stores beside its responses, and so does --older-than if
        they are encrypted.

        Examples
          lat cache report --directory /var/cache/app
          lat cache explain http://127.0.0.1:8080/get -H 'Accept-Language: de'
          lat cache clear --prefix http://127.0.0.1:8080/ --directory /var/cache/app
          lat cache clear --older-than 12h

        Exit codes: 0 success, 2 the command line or the folder cannot be used.
        """

    static let actions = [
        ValueKind.Choice("report", "How much is stored"), .init("explain", "What the cache would do with a GET"),
        .init("clear", "Removes what an option selects"),
    ]

    static func operandKind(after operands: [String]) -> ValueKind {
        operands.isEmpty ? .choices(actions) : .text
    }

    let action: Action
    let directory: String
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard let word = arguments.operands.first else {
            throw UsageError("the action is missing; write lat cache report, explain URL or clear SELECTION")
        }
        try UsageError.refuse(
            arguments.operands, after: word == "explain" ? 2 : 1, "lat cache --help shows the usage")
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
                throw UsageError("the selection is missing; write lat cache clear --prefix TEXT, or --all")
            }
            guard selections.count == 1 else {
                throw UsageError("clear takes one selection; run it once for each")
            }
            action = .clear(selection)
        default:
            let hint = NearestName.of(word, among: Self.actions.map(\.name)).map { "did you mean \($0)?" }
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
            url: try URLArgument.checked(arguments.operands[1]),
            policy: try CacheArgument.parse(arguments, of: policy) ?? .http,
            headers: try HeaderArgument.parse(arguments.values(header), of: header), user: user)
    }

    private static func selections(_ arguments: ParsedArguments) throws(UsageError) -> [CacheSelection] {
        var selections: [CacheSelection] = []
        // A variable of the shell that is not set must not select everything, or nothing.
        for option in [url, prefix, domain, server, user] where arguments.value(option) == "" {
            throw UsageError("\(option.name) \"\" selects nothing; give it a text, or write --all")
        }
        if let text = arguments.value(url) {
            let url = try URLArgument.checked(text)
            selections.append(.url(CanonicalURL(url)?.text ?? url))
        }
        if let prefix = arguments.value(prefix) { selections.append(.urlPrefix(prefix)) }
        if let domain = arguments.value(domain) { selections.append(.domain(domain)) }
        if let server = arguments.value(server) { selections.append(.server(server)) }
        if let user = arguments.value(user) { selections.append(.partition(user)) }
        if let age = try DurationArgument.parse(arguments, of: olderThan, upTo: DurationArgument.longestAge) {
            selections.append(.storedBefore(Date(timeIntervalSinceNow: -(age / .seconds(1)))))
        }
        if arguments.contains(all) { selections.append(.all) }
        return selections
    }

    private static var standardDirectory: String {
        let environment = ProcessInfo.processInfo.environment
        // The XDG specification says to ignore a path that is not absolute.
        if let base = environment["XDG_CACHE_HOME"], base.hasPrefix("/") { return base + "/lat" }
        return (environment["HOME"] ?? "") + "/.cache/lat"
    }

    func run(_ console: Console) async throws -> ExitCode {
        var status = stat()
        guard stat(directory, &status) == 0 else {
            throw UsageError("there is no folder \(SafeText.line(directory)); name one with --directory DIR")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw UsageError("\(SafeText.line(directory)) is a file; name a folder with --directory DIR")
        }
        do {
            var options = DiskStore.Options()
            options.collectionInterval = nil
            // A store evicts entries beyond its limits when it writes. The app's limits are unknown here, so there are none.
            options.byteLimit = .max
            options.minimumFreeBytes = 0
            let store = try DiskStore(directory: directory, options: options)
            let damaged = damagedIndex
            defer {
                if let file = damagedIndex, file != damaged {
                    console.complain(
                        "warning: the index of the cache was damaged, and what it had is lost; it is now "
                            + DiskLayout(directory).damagedIndex)
                }
            }
            switch action {
            case .report:
                let report = CacheReport(
                    directory: directory, usage: try await store.usage(), entries: try await store.entries(.all))
                try console.print(report.value, or: report.lines(console.outStyle), as: format)
            case .explain(let question):
                let report = try await Self.explain(question, store)
                try console.print(report.value, or: report.lines(console.outStyle), as: format)
            case .clear(let selection):
                let removed = try await selection == .all ? store.remove(.all) : store.removeResponses(selection)
                let report = CacheReport(directory: directory, usage: try await store.usage(), removed: removed)
                try console.print(report.value, or: report.lines(console.outStyle), as: format)
            }
            return .success
        } catch let error as NetworkError {
            throw UsageError(ErrorWords().message(of: error))
        }
    }

    /// The number of the file that the store has set aside; `nil` if there is none.
    private var damagedIndex: ino_t? {
        var status = stat()
        return stat(DiskLayout(directory).damagedIndex, &status) == 0 ? status.st_ino : nil
    }

    private static func explain(_ question: URLQuestion, _ store: DiskStore) async throws -> CacheExplanationReport {
        var configuration = CentralRequestManager.Configuration()
        configuration.cacheStore = store
        let manager = try CentralRequestManager(configuration: configuration)
        // The request that `lat request` would send.
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

/// The output of `lat cache`: lines for people, one object for programs. A pure value.
struct CacheReport {
    let directory: String
    /// The amount stored now.
    let usage: CacheUsage
    /// The stored entries; empty when only the sizes are known.
    var entries: [CacheEntry] = []
    /// The amount removed; `nil` when nothing was to be removed.
    var removed: CacheUsage?

    private static let groups: [(name: String, of: @Sendable (CacheEntry) -> String?)] = [
        ("domains", { $0.domain }), ("servers", { $0.server }), ("users", { $0.partition }),
    ]

    /// The total, `12 responses, 3.40 MiB in /var/cache/app`, then the amounts by domain, server and user.
    func lines(_ style: Style) -> [String] {
        let folder = SafeText.line(directory)
        if let removed { return ["removed \(Self.amount(removed)); \(Self.amount(usage)) left in \(folder)"] }
        var lines = [style.bold("\(Self.amount(usage)) in \(folder)")]
        let pinned = entries.count { $0.isPinned }
        if pinned > 0 { lines.append("  \(Quantity.grouped(pinned)) pinned") }
        let values = entries.count { $0.isValue }
        if values > 0 { lines.append("  \(Quantity.grouped(values)) stored by the app as values") }
        for group in Self.groups {
            let sums = sums(group.of)
            guard !sums.isEmpty else { continue }
            lines.append(group.name)
            let rows = sums.map { [SafeText.line($0.name), Self.amount($0.usage)] }
            lines += rows.aligned.map { "  " + $0.joined(separator: "  ") }
        }
        return lines
    }

    var value: JSONValue {
        var value: JSONValue = ["directory": .string(directory), "stored": Self.value(usage)]
        if let removed {
            value["removed"] = Self.value(removed)
            return value
        }
        value["pinned"] = .int(Int64(entries.count { $0.isPinned }))
        value["values"] = .int(Int64(entries.count { $0.isValue }))
        for group in Self.groups {
            value[group.name] = .array(
                sums(group.of).map { sum in
                    var item = Self.value(sum.usage)
                    item["name"] = .string(sum.name)
                    return item
                })
        }
        return value
    }

    /// The amounts by name, the largest first.
    private func sums(_ name: (CacheEntry) -> String?) -> [(name: String, usage: CacheUsage)] {
        var sums: [String: CacheUsage] = [:]
        for entry in entries {
            guard let name = name(entry) else { continue }
            sums[name, default: CacheUsage()].entryCount += 1
            sums[name, default: CacheUsage()].byteCount += entry.bodyByteCount
        }
        return sums.map { (name: $0.key, usage: $0.value) }
            .sorted { ($1.usage.byteCount, $0.name) < ($0.usage.byteCount, $1.name) }
    }

    private static func amount(_ usage: CacheUsage) -> String {
        let word = usage.entryCount == 1 ? "response" : "responses"
        return "\(Quantity.grouped(usage.entryCount)) \(word), \(Quantity.bytes(usage.byteCount))"
    }

    private static func value(_ usage: CacheUsage) -> JSONValue {
        ["entries": .int(Int64(usage.entryCount)), "bytes": .int(usage.byteCount)]
    }
}

/// The output of `lat cache explain`: lines for people, one object for programs. A pure value.
struct CacheExplanationReport {
    let explanation: CacheExplanation
    /// Whether the folder has encrypted entries, which cannot be read here.
    var isSealed = false

    /// The lines, with names on the left and the verdict in bold.
    func lines(_ style: Style) -> [String] {
        var lines = explanation.lines.map { line in
            let text = SafeText.line(line.text)
            return style.dim(line.name.padded(toEnd: 11)) + " " + (line.name == "verdict" ? style.bold(text) : text)
        }
        if isSealed {
            lines.append("the cache is encrypted: its entries for this URL need the key")
        }
        return lines
    }

    var value: JSONValue {
        let verdict = Self.verdict(explanation.verdict)
        var value: JSONValue = [
            "method": .string(explanation.method.rawValue), "url": .string(explanation.url),
            "policy": .string(explanation.policy.name), "policySource": .string(explanation.policySource.rawValue),
            "verdict": .string(verdict.name), "standsIn": .bool(explanation.standsIn),
            "stored": .array(explanation.stored.map(Self.value)),
            "elsewhere": .int(Int64(explanation.others.count)), "sealed": .bool(isSealed),
        ]
        if let reason = verdict.reason { value["reason"] = .string(reason) }
        if let partition = explanation.partition { value["user"] = .string(partition) }
        return value
    }

    private static func value(_ stored: CacheExplanation.Stored) -> JSONValue {
        var value: JSONValue = [
            "status": .int(Int64(stored.entry.status)), "bytes": .int(stored.entry.bodyByteCount),
            "tier": .string(stored.entry.tier.rawValue), "age": .double(stored.age),
            "vary": .array(stored.entry.headers[values: "Vary"].map { .string($0) }),
            "pinned": .bool(stored.entry.isPinned),
        ]
        value["lifetime"] = stored.lifetime.map { .double($0) }
        value["etag"] = stored.entry.headers["ETag"].map { .string($0) }
        value["lastModified"] = stored.entry.headers["Last-Modified"].map { .string($0) }
        value["notUsed"] = stored.miss.map { .string("\($0)") }
        return value
    }

    private static func verdict(_ verdict: CacheExplanation.Verdict) -> (name: String, reason: String?) {
        switch verdict {
        case .answers: ("answers", nil)
        case .answersStale(let isRefreshed): (isRefreshed ? "answersStaleAndRefreshes" : "answersStale", nil)
        case .answersFirst: ("answersFirst", nil)
        case .revalidates(let miss): ("revalidates", "\(miss)")
        case .fetches(let miss): ("fetches", "\(miss)")
        case .fails(let miss): ("fails", "\(miss)")
        case .bypasses(let refusal): ("bypasses", "\(refusal)")
        }
    }
}
