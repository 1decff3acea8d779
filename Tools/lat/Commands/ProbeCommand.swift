import FoundationEssentials
import LATNetworking
import Synchronization

/// `lat probe NAME|URL…`: checks whether servers can be connected to.
struct ProbeCommand: Command {
    /// The names of domains, and URLs.
    let targets: [String]
    let timeout: Duration
    let interval: Duration
    let check: Reachability.Configuration.ResponseCheck?
    let table: TableArgument
    let format: OutputFormat
    let arguments: ParsedArguments

    var watches: Bool { arguments.contains(Self.watch) }

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        targets = arguments.operands
        guard !targets.isEmpty else {
            throw UsageError("NAME or URL is missing; write lat probe demo, or lat probe https://example.org/")
        }
        for target in targets {
            guard !target.isEmpty else { throw UsageError("\"\" names nothing; give the name of a domain, or a URL") }
            if URLParts(target).isAbsolute { _ = try URLArgument.checked(target) }
        }
        timeout = try DurationArgument.parse(arguments, of: Self.timeout) ?? .seconds(5)
        interval = try DurationArgument.parse(arguments, of: Self.interval) ?? .seconds(2)
        if arguments.contains(Self.interval), !arguments.contains(Self.watch) {
            throw UsageError("--interval is for --watch; add --watch, or leave it out")
        }
        check = try Self.check(arguments)
        table = try TableArgument(arguments)
        format = try OutputFormat(arguments)
    }

    private static func check(
        _ arguments: ParsedArguments
    ) throws(UsageError) -> Reachability.Configuration.ResponseCheck? {
        guard let text = arguments.value(Self.check) else { return nil }
        guard !text.isEmpty else { throw UsageError("--check \"\" names no path; write --check /health=200") }
        let parts = text.split(separator: "=", omittingEmptySubsequences: false)
        guard parts.count > 1, let last = parts.last else { return .init(path: text) }
        guard let status = Int(last), (100...599).contains(status) else {
            throw UsageError("--check \"\(SafeText.line(text))\" does not end in a status; write --check /health=200")
        }
        return .init(path: parts.dropLast().joined(separator: "="), status: status)
    }

    static func operandKind(after operands: [String]) -> ValueKind { .domain }

    func run(_ console: Console) async throws -> ExitCode { try await ProbeRun(command: self, console: console).run() }
}

// MARK: Help

extension ProbeCommand {
    static let name = "probe"
    static let summary = "Checks whether servers can be connected to, without a request."
    static let usage = "NAME|URL… [options]"

    static let timeout = Option(
        "--timeout", value: "TIME", help: "The time limit of one probe, with name and TLS: 500ms, 1s. Default: 5s.")
    static let watch = Option(
        "--watch", "-w",
        help:
            "Repeats until Ctrl-C, at once when the network changes, and shows every change. With --format json, each "
            + "change is one line.")
    static let interval = Option(
        "--interval", value: "TIME", help: "The time between two probes; at first shorter after a failure. Default: 2s."
    )
    static let check = Option(
        "--check", value: "PATH[=STATUS]",
        help:
            "Also requests PATH and expects STATUS, by default 204. This finds a captive portal, a network's login page."
    )

    static let options = [
        timeout, watch, interval, check, RequestCommand.proxy, TableArgument.table, TableArgument.environment,
        OutputFormat.option,
    ]

    static let details = """
        NAME is a domain of the table; its mirrors are probed too. The latency is that
        of the connection, without looking the name up and without TLS.

        Examples
          lat probe demo
          lat probe http://127.0.0.1:8080/ https://example.org/ --timeout 1s
          lat probe http://127.0.0.1:8080/ --check /get=200
          lat probe demo --watch

        Exit codes: 0 all can be reached, 2 the command line or the table cannot be
        used, 3 at least one cannot be reached, 130 interrupted.
        """
}

/// One run of `lat probe`.
private struct ProbeRun {
    let command: ProbeCommand
    let console: Console

    func run() async throws -> ExitCode {
        let manager = try manager()
        return command.watches ? try await watch(manager) : try await once(manager)
    }

    private func manager() throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        // The table is needed only for names.
        if command.table.file != nil || command.targets.contains(where: { !URLParts($0).isAbsolute }) {
            configuration.domains = try table()
        }
        configuration.setProxy(command.arguments)
        configuration.reachability.timeout = command.timeout
        configuration.reachability.check = command.check
        configuration.reachability.ttl = command.interval
        configuration.reachability.failureTTL = min(command.interval, .seconds(1))
        return try CentralRequestManager(configuration: configuration)
    }

    /// - Throws: ``UsageError`` for an address that is neither in the table nor a URL.
    private func table() throws -> DomainTable {
        let table = Result { () throws(TableProblem) in try command.table.read() }
        let domains = (try? table.get().domainNames.map(\.rawValue)) ?? []
        let addresses = command.targets.filter { $0.contains { $0 == "." || $0 == ":" } && !URLParts($0).isAbsolute }
        if let address = addresses.first(where: { !domains.contains($0) }) {
            let whole = try URLArgument.checked(address) + (address.contains("/") ? "" : "/")
            throw UsageError(
                "\"\(SafeText.line(address))\" is neither a domain of the table nor a URL; write lat probe "
                    + SafeText.line(whole))
        }
        return try table.get()
    }

    // MARK: Once

    private func once(_ manager: CentralRequestManager) async throws -> ExitCode {
        let reports = try await reports(manager)
        try Task.checkCancellation()
        let table = ProbeTable(reports: reports)
        try console.print(table.json, or: table.lines(console.outStyle), as: command.format)
        for report in reports where command.format == .text {
            if let error = report.error { console.complain("\(report.target): \(ErrorWords().message(of: error))") }
        }
        return reports.allSatisfy(\.status.isReachable) ? .success : .network
    }

    /// Probes all targets at once, and returns the reports in the order of the command line.
    ///
    /// - Throws: ``UsageError`` for an unknown name.
    private func reports(_ manager: CentralRequestManager) async throws -> [Reachability.Report] {
        let reachability = manager.reachability
        let found = await withTaskGroup(of: (Int, Reachability.Report).self) { group in
            for (index, target) in command.targets.enumerated() {
                group.addTask { (index, await reachability.report(of: target)) }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        let reports = command.targets.indices.compactMap { found[$0] }
        for report in reports where report.status.reason == .unknownName {
            throw UsageError(report.error?.message ?? "\"\(report.target)\" cannot be probed")
        }
        return reports
    }

    // MARK: Watching

    private func watch(_ manager: CentralRequestManager) async throws -> ExitCode {
        let reachability = manager.reachability
        let view = ProbeView(console, command.format)
        var reports = try await reports(manager)
        try view.show(reports, changed: nil)
        // A name that is given twice is watched once.
        let targets = Set(command.targets)
        let (changes, continuation) = AsyncStream.makeStream(of: Reachability.Report.self)
        let followers = targets.map { target in
            Task {
                for await _ in reachability.updates(of: target) {
                    continuation.yield(await reachability.report(of: target))
                }
                continuation.finish()
            }
        }
        defer { for follower in followers { follower.cancel() } }
        for await report in changes {
            for index in reports.indices where reports[index].target == report.target {
                let isChange =
                    ProbeTable.words(reports[index].status) != ProbeTable.words(report.status)
                    || reports[index].status.address != report.status.address
                reports[index] = report
                try view.show(reports, changed: isChange ? index : nil)
            }
        }
        return .interrupted
    }
}

/// The reports on the probed servers as lines and as JSON: a pure value.
struct ProbeTable {
    var reports: [Reachability.Report]

    private static let heads = ["name", "status", "latency", "address"]

    /// A header line, then a line for each server, none wider than the columns.
    func lines(_ style: Style, columns: Int = .max) -> [String] {
        let rows = ([Self.heads] + reports.map(Self.cells)).aligned
        return [line(rows[0], columns) { text, _ in style.dim(text) }]
            + zip(reports, rows.dropFirst()).map { report, cells in
                line(cells, columns) { text, column in
                    column == 1 ? Self.painted(text, report.status, style) : text
                }
            }
    }

    private func line(_ cells: [String], _ columns: Int, _ paint: (String, Int) -> String) -> String {
        var line = ""
        var room = columns
        for (column, cell) in cells.enumerated() {
            let text = column == cells.count - 1 ? cell : cell + "  "
            let shown = String(text.prefix(max(0, room)))
            room -= shown.count
            line += paint(shown, column)
        }
        return line
    }

    private static func cells(_ report: Reachability.Report) -> [String] {
        [
            SafeText.line(report.target), words(report.status), report.status.latency.map(Quantity.duration) ?? "",
            SafeText.line(report.status.address ?? ""),
        ]
    }

    /// The status in words: `reachable`, `unreachable: refused`.
    static func words(_ status: Reachability.Status) -> String {
        name(status) + (status.reason.map { ": \($0.rawValue)" } ?? "")
    }

    private static func name(_ status: Reachability.Status) -> String {
        switch status {
        case .unknown: "unknown"
        case .reachable: "reachable"
        case .unreachable: "unreachable"
        }
    }

    static func painted(_ text: String, _ status: Reachability.Status, _ style: Style) -> String {
        switch status {
        case .unknown: style.dim(text)
        case .reachable: style.green(text)
        case .unreachable: style.red(text)
        }
    }

    /// The output of `--format json`.
    var json: JSONValue {
        [
            "reachable": .bool(reports.allSatisfy(\.status.isReachable)),
            "targets": .array(reports.map(Self.value)),
        ]
    }

    /// One server. The latency is in milliseconds; unknown values are null.
    static func value(_ report: Reachability.Report) -> JSONValue {
        [
            "name": .string(report.target),
            "url": report.url.isEmpty ? .null : .string(report.url),
            "status": .string(name(report.status)),
            "latency": .milliseconds(report.status.latency),
            "address": .text(report.status.address),
            "reason": .text(report.status.reason?.rawValue),
            "message": .text(report.error?.message),
            "time": .text(report.date?.ISO8601Format()),
        ]
    }
}

/// Shows the changes of watched servers: on a terminal as a table that redraws itself, elsewhere as a line for each
/// change.
final class ProbeView: Sendable {
    private let console: Console
    private let format: OutputFormat
    /// How many lines of the last table are on the screen; `nil` before the first.
    private let drawn = Mutex<Int?>(nil)

    init(_ console: Console, _ format: OutputFormat) {
        self.console = console
        self.format = format
    }

    private var redraws: Bool { format == .text && console.outTerminal.canRedraw }

    /// - Parameter changed: the index of the server that changed, `nil` for none. On a terminal every call shows all
    ///   servers. Elsewhere the first call shows all, and later calls show only the server that changed.
    func show(_ reports: [Reachability.Report], changed: Int?) throws {
        try drawn.withLock { drawn in
            if redraws {
                let lines = ProbeTable(reports: reports).lines(console.outStyle, columns: console.out.columns)
                let up = drawn.map { "\u{1B}[\($0)A" } ?? ""
                try console.out.write(up + lines.map { "\r\($0)\u{1B}[K\n" }.joined())
                drawn = lines.count
                return
            }
            let shown = drawn == nil ? Array(reports.indices) : changed.map { [$0] } ?? []
            drawn = 0
            for index in shown { try print(reports[index]) }
        }
    }

    private func print(_ report: Reachability.Report) throws {
        if format == .json { return try console.out.write(ProbeTable.value(report).description + "\n") }
        let style = console.outStyle
        let facts = [report.status.latency.map(Quantity.duration), report.status.address].compactMap { $0 }
        let time = (report.date ?? .now).ISO8601Format()
        try console.print(
            [
                time, SafeText.line(report.target),
                ProbeTable.painted(ProbeTable.words(report.status), report.status, style),
            ]
            .joined(separator: "  ") + (facts.isEmpty ? "" : "  " + facts.joined(separator: "  ")))
    }
}
