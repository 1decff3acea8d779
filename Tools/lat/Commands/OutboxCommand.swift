import FoundationEssentials
import Glibc
import LATNetworking
import Platform

/// `lat outbox list|retry|drop|send`: shows the requests that wait in a folder, and works on them.
struct OutboxCommand: Command {
    enum Action: String, CaseIterable, Sendable {
        case list, retry, drop, send

        var summary: String {
            switch self {
            case .list: "Shows what waits, and the dead letters with their reasons"
            case .retry: "Lets dead letters wait again, and sends waiting entries at once"
            case .drop: "Removes entries"
            case .send: "Sends what waits, until nothing does"
            }
        }
    }

    static let name = "outbox"
    static let summary = "Shows the requests that wait in a folder, retries, drops and sends them."
    static let usage = "list | retry | drop | send FOLDER [ID…] [options]"

    static let dead = Option("--dead", help: "Selects the dead letters: refused, expired and given up.")
    static let all = Option("--all", help: "Selects all entries.")
    static let limit = Option("--limit", value: "N", help: "Shows at most N entries. Default: 100.")
    static let baseURL = Option(
        "--base-url", value: "URL", kind: .text, help: "With send: the base URL of requests whose URL is a path.")
    static let timeout = Option(
        "--timeout", value: "TIME", help: "With send: ends after TIME: 30s, 10m. Default: never.")
    static let options = [
        dead, all, limit, baseURL, timeout, RequestCommand.header, TableArgument.table, TableArgument.environment,
        OutputFormat.option,
    ]

    static let details = """
          list     shows what waits, and the dead letters with their reasons
          retry    lets dead letters wait again, and sends waiting entries at once
          drop     removes entries
          send     sends what waits, until nothing does

        FOLDER is that of an Outbox, which other processes may use at the same time.
        ID is the number in the list. With send, this process sends if no other does;
        rows come from the table, and credentials from -H, since lat has none of the
        program's authenticators. Entries that name a handler stay for the program.

        Examples
          lat outbox list /var/lib/app/outbox
          lat outbox retry /var/lib/app/outbox 17 18
          lat outbox drop /var/lib/app/outbox --dead
          lat outbox send /var/lib/app/outbox --table Config/domains.json5

        Exit codes: 0 success, 1 there are dead letters (list, send), 2 the command line,
        the table or the folder cannot be used, 3 entries still wait after --timeout, 130
        interrupted.
        """

    static let actions = Action.allCases.map { ValueKind.Choice($0.rawValue, $0.summary) }

    static func operandKind(after operands: [String]) -> ValueKind {
        operands.isEmpty ? .choices(actions) : operands.count == 1 ? .folder : .text
    }

    let action: Action
    let folder: String
    let ids: [Int64]
    let selectsDead: Bool
    let selectsAll: Bool
    let limit: Int
    let base: String?
    let timeout: Duration?
    let headers: HTTPHeaders
    let table: TableArgument
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard let word = arguments.operands.first else {
            throw UsageError("the action is missing; write lat outbox list FOLDER")
        }
        guard let action = Action(rawValue: word) else {
            throw UsageError(
                "lat outbox knows no \"\(SafeText.line(word))\"; write list, retry, drop or send")
        }
        guard arguments.operands.count > 1, !arguments.operands[1].isEmpty else {
            throw UsageError("FOLDER is missing; write lat outbox \(word) FOLDER")
        }
        self.action = action
        folder = arguments.operands[1]
        var ids: [Int64] = []
        for text in arguments.operands.dropFirst(2) {
            guard let id = Int64(text), id > 0 else {
                throw UsageError("\"\(SafeText.line(text))\" is not the number of an entry; lat outbox list shows them")
            }
            ids.append(id)
        }
        self.ids = ids
        selectsDead = arguments.contains(Self.dead)
        selectsAll = arguments.contains(Self.all)
        let isSelective = action == .retry || action == .drop
        if isSelective, ids.isEmpty, !selectsDead, !selectsAll {
            throw UsageError("name the entries by their ID, or select them with --dead or --all")
        }
        if isSelective, !ids.isEmpty, selectsDead || selectsAll {
            throw UsageError("give either IDs, or --dead or --all")
        }
        if !isSelective, !ids.isEmpty {
            throw UsageError("\"\(ids[0])\" is one argument too many; lat outbox \(word) takes only FOLDER")
        }
        limit = try arguments.number(Self.limit, 1...1_000_000) ?? 100
        base = arguments.value(Self.baseURL)
        if let base { _ = try URLArgument.checked(base) }
        timeout = try DurationArgument.parse(arguments, of: Self.timeout)
        headers = try HeaderArgument.parse(arguments.values(RequestCommand.header), of: RequestCommand.header)
        table = try TableArgument(arguments)
        format = try OutputFormat(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        guard access(folder + "/outbox.sqlite", F_OK) == 0 else {
            let error = SystemError()
            guard error.code == ENOENT || error.code == ENOTDIR else {
                throw UsageError("the outbox in \(SafeText.line(folder)) cannot be read: \(error.text)")
            }
            throw UsageError(
                "there is no outbox in \(SafeText.line(folder)); name the folder that the program gives to Outbox(folder:)"
            )
        }
        var configuration = CentralRequestManager.Configuration.inspected
        configuration.baseURL = base
        var outboxConfiguration = Outbox.Configuration()
        if action == .send {
            if table.file != nil || access(TableArgument.standardPath, F_OK) == 0 {
                configuration.domains = try table.read()
            }
            configuration.headers = RequestSettings.headers.merging(headers)
        } else {
            // Other processes send.
            outboxConfiguration.limit = 0
        }
        let manager = try CentralRequestManager(configuration: configuration)
        let outbox = try Outbox(folder: folder, manager: manager, configuration: outboxConfiguration)
        if let damage = outbox.damage { console.complain(damage.message) }
        let code: ExitCode
        switch action {
        case .list: code = try await list(outbox, console)
        case .retry, .drop: code = try await change(outbox, console)
        case .send: code = try await send(outbox, console)
        }
        await outbox.close()
        return code
    }

    // MARK: Actions

    private func list(_ outbox: Outbox, _ console: Console) async throws -> ExitCode {
        let states = Set(Outbox.State.allCases.filter { !selectsDead || $0.isDead })
        let entries = try await outbox.entries(states, limit: limit)
        let load = try await outbox.load
        let report = OutboxReport(entries: entries, load: load)
        try console.print(report.value, or: report.lines(console.outStyle), as: format)
        return load.dead > 0 ? .failure : .success
    }

    private func change(_ outbox: Outbox, _ console: Console) async throws -> ExitCode {
        var ids = ids
        if ids.isEmpty {
            // What the server has accepted is not sent again.
            let states = Set(
                Outbox.State.allCases.filter { selectsAll && (action == .drop || $0 != .answered) || $0.isDead })
            while case let page = try await outbox.entries(states, after: ids.last ?? 0, limit: 1_000), !page.isEmpty {
                ids += page.map(\.id)
            }
        }
        var changed: [Int64] = []
        var code = ExitCode.success
        for start in stride(from: 0, to: ids.count, by: 500) {
            let some = Array(ids[start..<min(start + 500, ids.count)])
            let done = try await action == .retry ? outbox.retry(some) : outbox.drop(some)
            changed += done
            for id in Set(some).subtracting(done).sorted() {
                do {
                    if action == .retry { try await outbox.retry(id) } else { try await outbox.drop(id) }
                    changed.append(id)
                } catch let error as NetworkError where [.unknownName, .unsupported].contains(error.kind) {
                    console.complain(error.message)
                    code = .failure
                }
            }
        }
        let word = action == .retry ? "retried" : "dropped"
        let count = changed.count == 1 ? "1 entry" : "\(changed.count) entries"
        try console.print([word: .array(changed.map { .int($0) })], or: ["\(word) \(count)"], as: format)
        return code
    }

    private func send(_ outbox: Outbox, _ console: Console) async throws -> ExitCode {
        try await outbox.sendNow()
        let changes = outbox.changes
        let reporter = Task {
            for await change in changes {
                switch change {
                case .succeeded(let entry, let response): console.note("\(entry.id): \(response.status)")
                case .failed(let entry, let error), .died(let entry, let error):
                    console.note("\(entry.id): \(SafeText.line(error.message))")
                case .trouble(let error): console.complain(error.message)
                default: break
                }
            }
        }
        let isDone = await withTaskGroup(of: Bool.self) { group in
            group.addTask { (try? await outbox.waitUntilSent(awaitsHandlers: false)) != nil }
            if let timeout {
                group.addTask {
                    try? await Task.sleep(for: timeout)
                    return false
                }
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        let load = try await outbox.load
        // Ends the changes, after those that were reported.
        await outbox.close()
        await reporter.value
        try Task.checkCancellation()
        let report = OutboxReport(entries: [], load: load)
        try console.print(report.value, or: report.lines(console.outStyle), as: format)
        return !isDone ? .network : load.dead > 0 ? .failure : .success
    }
}

/// The output of `lat outbox`. A pure value.
struct OutboxReport {
    let entries: [Outbox.Entry]
    let load: Outbox.Load

    func lines(_ style: Style) -> [String] {
        var facts = ["\(Quantity.grouped(load.waiting)) waiting"]
        if load.answered > 0 { facts.append("\(Quantity.grouped(load.answered)) answered, with a handler to run") }
        facts.append("\(Quantity.grouped(load.dead)) dead")
        facts.append(Quantity.bytes(load.size))
        if let oldest = load.oldest { facts.append("the oldest for \(Quantity.duration(oldest))") }
        facts.append(load.sender.map { "sent by process \($0)" } ?? "no process sends")
        return entries.map { line($0, style) } + [facts.joined(separator: ", ")]
    }

    private func line(_ entry: Outbox.Entry, _ style: Style) -> String {
        let state = entry.state.isDead ? style.red(entry.state.rawValue) : entry.state.rawValue
        var words = ["\(entry.id)", state, entry.method ?? "", SafeText.line(entry.address)].filter { !$0.isEmpty }
        if let group = entry.group { words.append("group \(SafeText.line(group))") }
        if entry.attempts > 0 { words.append("\(entry.attempts)×") }
        if let next = entry.nextAttempt { words.append("again in \(Self.time(until: next))") }
        if let reason = entry.reason { words.append("– " + SafeText.line(reason)) }
        return words.joined(separator: "  ")
    }

    private static func time(until date: Date) -> String {
        Quantity.duration(.milliseconds(Int64(max(0, date.timeIntervalSinceNow) * 1_000)))
    }

    var value: JSONValue {
        [
            "waiting": .int(Int64(load.waiting)), "answered": .int(Int64(load.answered)),
            "dead": .int(Int64(load.dead)),
            "bytes": .int(load.size), "oldestSeconds": JSONValue(load.oldest.map { $0 / .seconds(1) }),
            "sender": JSONValue(load.sender), "entries": .array(entries.map(Self.value)),
        ]
    }

    private static func value(_ entry: Outbox.Entry) -> JSONValue {
        [
            "id": .int(entry.id), "state": .string(entry.state.rawValue), "method": JSONValue(entry.method),
            "address": .string(entry.address), "group": JSONValue(entry.group),
            "supersedes": JSONValue(entry.supersedes), "tag": JSONValue(entry.tag), "handler": JSONValue(entry.handler),
            "priority": .string("\(entry.priority)"), "idempotencyKey": .string(entry.idempotencyKey),
            "bytes": .int(entry.size), "added": .string(text(entry.added)),
            "expires": JSONValue(entry.expires.map(text)), "attempts": .int(Int64(entry.attempts)),
            "nextAttempt": JSONValue(entry.nextAttempt.map(text)), "reason": JSONValue(entry.reason),
            "status": JSONValue(entry.status),
        ]
    }

    private static func text(_ date: Date) -> String { date.formatted(.iso8601) }
}
