import LATNetworking

/// `lat domains check|list|explain`: looks at the table of domains and servers.
struct DomainsCommand: Command {
    enum Action: Hashable, Sendable {
        /// Whether the file is in order, and what is wrong with it.
        case check
        /// What there is.
        case list
        /// Which line set each value of a call.
        case explain(String)
    }

    static let name = "domains"
    static let summary = "Checks, lists and explains the table of domains and servers."
    static let usage = "check [FILE] | list | explain NAME|URL [options]"
    static let options = [TableArgument.table, TableArgument.environment, OutputFormat.option]
    static let details = """
          check      whether the table is in order; if not, every mistake with its line
          list       the domains with their base URLs, the servers with their paths
          explain    where a call goes, and which line of the table set each value

        Examples
          lat domains check
          lat domains list --environment staging
          lat domains explain user.detail
          lat domains explain https://app.example.org/api/v1/users/42

        Exit codes: 0 ok, 2 the table is broken, or has no such name.
        """

    let action: Action
    let table: TableArgument
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        var table = try TableArgument(arguments)
        action = try Self.action(arguments.operands, &table)
        self.table = table
        format = try OutputFormat(arguments)
    }

    private static func action(
        _ operands: [String], _ table: inout TableArgument
    ) throws(UsageError) -> Action {
        guard let word = operands.first else {
            throw UsageError("what to do with the table is missing; write lat domains check, list or explain NAME")
        }
        switch word {
        case "check":
            if operands.count > 1, table.file == nil {
                table.file = operands[1]
            } else if operands.count > 1 {
                throw surplus(operands[1])
            }
            if operands.count > 2 { throw surplus(operands[2]) }
            return .check
        case "list":
            if operands.count > 1 { throw surplus(operands[1]) }
            return .list
        case "explain":
            guard operands.count > 1 else {
                throw UsageError("what to explain is missing; write lat domains explain NAME, or a URL in its place")
            }
            if operands.count > 2 { throw surplus(operands[2]) }
            return .explain(operands[1])
        default:
            let shown = SafeText.line(word)
            let hint = NearestName.of(word, among: ["check", "list", "explain"]).map { "did you mean \($0)?" }
            throw UsageError(
                "lat domains knows no \"\(shown)\"; " + (hint ?? "write lat domains check, list or explain NAME"))
        }
    }

    private static func surplus(_ operand: String) -> UsageError {
        UsageError("\"\(SafeText.line(operand))\" is one argument too many; lat domains --help shows how it is written")
    }

    func run(_ console: Console) async throws -> ExitCode {
        switch action {
        case .check: return try check(console)
        case .list: try list(TableReport(table: table.read()), console)
        case .explain(let name): try explain(name, TableReport(table: table.read()), console)
        }
        return .success
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

    private func list(_ report: TableReport, _ console: Console) throws {
        if format == .json { return try console.print(report.listValue) }
        for line in report.list(console.outStyle) { try console.print(line) }
    }

    private func explain(_ name: String, _ report: TableReport, _ console: Console) throws {
        do {
            if format == .json { return try console.print(report.explanationValue(of: name)) }
            for line in try report.explanation(of: name, console.outStyle) { try console.print(line) }
        } catch let error as NetworkError {
            throw UsageError(error.message)
        }
    }
}
