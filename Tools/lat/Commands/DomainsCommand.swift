import DomainTables
import LATFleet
import LATNetworking

/// `lat domains check|list|explain|diff|push|pull`: shows the table of domains and servers, and shares it.
struct DomainsCommand: Command {
    enum Action: Hashable, Sendable {
        case check
        case list
        case explain(String)
        case diff([String])
        case push
        case pull(url: String?)
    }

    static let name = "domains"
    static let summary = "Checks, explains, compares and shares the table of domains."
    static let usage =
        "check [FILE] | list | explain NAME|URL | diff [FILE|URL] [FILE|URL] | push [FILE] | pull [URL] [options]"
    static let options =
        [TableArgument.table, TableArgument.environment, FleetArgument.fleet, FleetArgument.key]
        + TableSharing.options + [Option.authority, OutputFormat.option]
    static let details = """
          check      whether the table is valid, and if not, every mistake with its line
          list       the domains with their base URLs, the rows with their paths
          explain    where a call goes, and which line of the table set each value
          diff       what the second table changes in the first, row by row
          push       checks a file, shows what it changes, and writes it to the Redis
          pull       prints the table that the Redis or the URL has

        A table on a Redis is named by --fleet and --key, or by LAT_FLEET_URL for push, pull
        and diff. With --fleet, list and explain show that table, and diff compares it with a
        file. push is refused when the revision is not that of --expect, or when somebody else
        pushed at the same time.

        Examples
          lat domains check
          lat domains list --environment dev
          lat domains explain user.detail
          lat domains explain http://127.0.0.1:8080/get
          lat domains diff --fleet redis://r.example.org
          lat domains push --fleet redis://r.example.org --dry-run
          lat domains push --fleet redis://r.example.org --expect 7 --sign table.key
          lat domains pull https://r.example.org/t.json5 --public-key table.pub

        Exit codes: 0 success, 1 the revision has moved, 2 the table is invalid, or has no such
        name, 3 the Redis or the server cannot be used. Of diff: 0 equal, 1 different, 2 trouble.
        """

    static let actions = [
        ValueKind.Choice("check", "Whether the table is valid"), .init("list", "The domains and rows"),
        .init("explain", "Where a call goes, and why"), .init("diff", "What one table changes in another"),
        .init("push", "Writes a file to the Redis"), .init("pull", "Prints the table of the Redis or a URL"),
    ]

    static func operandKind(after operands: [String]) -> ValueKind {
        switch operands {
        case []: .choices(actions)
        case ["check"], ["push"], ["diff"]: .file
        case ["explain"]: .rowOrDomain
        default: operands.first == "diff" && operands.count == 2 ? .file : .text
        }
    }

    let action: Action
    let table: TableArgument
    /// The Redis; `nil` for a command that uses none.
    let fleet: FleetArgument?
    let sharing: TableSharing
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        var table = try TableArgument(arguments)
        action = try Self.action(arguments.operands, &table)
        self.table = table
        let fleet = try FleetArgument(arguments)
        var (isRequired, compared) = (false, 0)
        switch action {
        case .push, .pull(url: nil): isRequired = true
        case .diff(let operands):
            compared = operands.count + (table.file == nil ? 0 : 1)
            isRequired = compared < 2
            if fleet.isGiven { compared += 1 }
        default: break
        }
        // `LAT_FLEET_URL` is used only by a command that needs a Redis.
        self.fleet = isRequired || fleet.isGiven ? fleet : nil
        sharing = try TableSharing(arguments, for: action)
        format = try OutputFormat(arguments)
        guard compared < 3 else {
            throw UsageError(
                "diff compares two tables, but \(compared == 3 ? "three" : "four") are named; leave some out")
        }
        guard fleet.isGiven, !isRequired else { return }
        if case .pull = action {
            throw UsageError("pull prints one table, but --fleet and a URL are named; leave one of them out")
        }
        if case .check = action {
            throw UsageError("check reads a file; write lat domains pull --fleet URL -o FILE, and check FILE")
        }
        if table.file != nil {
            throw UsageError(
                "--table and --fleet name two tables; leave one out, or compare them with lat domains diff")
        }
    }

    private static func action(
        _ operands: [String], _ table: inout TableArgument
    ) throws(UsageError) -> Action {
        guard let word = operands.first else {
            throw UsageError("the action is missing; write lat domains check, list, explain NAME, diff, push or pull")
        }
        let hint = "lat domains --help shows the usage"
        switch word {
        case "check", "push":
            try UsageError.refuse(operands, after: table.file == nil ? 2 : 1, hint)
            if operands.count > 1 { table.file = operands[1] }
            return word == "check" ? .check : .push
        case "list":
            try UsageError.refuse(operands, after: 1, hint)
            return .list
        case "explain":
            guard operands.count > 1 else {
                throw UsageError("NAME is missing; write lat domains explain NAME, or a URL in its place")
            }
            try UsageError.refuse(operands, after: 2, hint)
            return .explain(operands[1])
        case "diff":
            try UsageError.refuse(operands, after: 3, hint)
            return .diff(Array(operands.dropFirst()))
        case "pull":
            try UsageError.refuse(operands, after: 2, hint)
            if operands.count > 1, case .file(let name) = TablePlace(operand: operands[1]) {
                throw UsageError("\(SafeText.line(name)) is no URL; write -o \(SafeText.line(name)) to write to a file")
            }
            return .pull(url: operands.count > 1 ? operands[1] : nil)
        default:
            let shown = SafeText.line(word)
            let near = NearestName.of(word, among: actions.map(\.name)).map { "did you mean \($0)?" }
            throw UsageError(
                "lat domains knows no \"\(shown)\"; "
                    + (near ?? "write lat domains check, list, explain NAME, diff, push or pull"))
        }
    }

    func run(_ console: Console) async throws -> ExitCode {
        do {
            return try await act(console)
        } catch let error as NetworkError where error.kind != .cancelled {
            console.complain(error.message)
            return .network
        }
    }

    private func act(_ console: Console) async throws -> ExitCode {
        switch action {
        case .check: return try check(console)
        case .list:
            let report = TableReport(table: try await read())
            try console.print(report.listValue, or: report.list(console.outStyle), as: format)
        case .explain(let name): try explain(name, TableReport(table: await read()), console)
        case .diff(let operands): return try await diff(operands, console)
        case .push: return try await push(console)
        case .pull(let url): try await pull(url, console)
        }
        return .success
    }

    /// The table of the file, or of the Redis.
    private func read() async throws -> DomainTable {
        guard let fleet else { return try table.read() }
        let publicKey = try sharing.publicKey()
        return try await fleet.using { connection in
            let source = fleet.source(on: connection, publicKey)
            let text = try await TablePlace.text(of: source)
            do throws(NetworkError) {
                var table = try DomainTable(text.version, from: source.feed)
                table.environment = self.table.environment ?? DomainTable.environmentOfProcess
                return table
            } catch {
                throw TableProblem(text.name, error)
            }
        }
    }

    private func check(_ console: Console) throws -> ExitCode {
        let result = Result { () throws(TableProblem) in try table.read() }
        switch (result, format) {
        case (.success(let table), .text):
            console.note(table.warnings)
            try console.print(TableReport(table: table).summary)
        case (.success(let table), .json): try console.print(TableReport.check(table.name, table, nil))
        case (.failure(let problem), .text): problem.show(on: console)
        case (.failure(let problem), .json): try console.print(TableReport.check(table.path, nil, problem))
        }
        return if case .success = result { .success } else { .usage }
    }

    private func explain(_ name: String, _ report: TableReport, _ console: Console) throws {
        do {
            try console.print(
                report.explanationValue(of: name), or: report.explanation(of: name, console.outStyle), as: format)
        } catch let error as NetworkError {
            throw UsageError(error.message)
        }
    }
}
