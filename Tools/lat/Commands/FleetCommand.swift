import DomainTables
import LATFleet
import LATNetworking

/// `lat fleet status`: shows the Redis of a fleet, and what it holds.
struct FleetCommand: Command {
    static let name = "fleet"
    static let summary = "Shows the state of the Redis that processes share."
    static let usage = "status [options]"
    static let options = [FleetArgument.fleet, Option.authority, OutputFormat.option]
    static let details = """
          status     whether the Redis can be used, how fast it is, and what it holds

        Keys are counted by kind: table, cache, lease, limit and others. If
        there are more than 20,000, a part of them is counted. Each table is listed with the
        revisions that processes use.

        Examples
          lat fleet status --fleet redis://r.example.org
          lat fleet status --fleet redis://r.example.org --format json

        Exit codes: 0 the Redis can be used, 1 it answers but takes no writes, 2 the command
        line cannot be used, 3 the Redis cannot be reached.
        """

    static let actions = [ValueKind.Choice("status", "The state of the Redis, and what it holds")]

    static func operandKind(after operands: [String]) -> ValueKind {
        operands.isEmpty ? .choices(actions) : .text
    }

    let fleet: FleetArgument
    let format: OutputFormat

    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard let word = arguments.operands.first else {
            throw UsageError("the action is missing; write lat fleet status")
        }
        guard word == "status" else {
            throw UsageError("lat fleet knows no \"\(SafeText.line(word))\"; write lat fleet status")
        }
        try UsageError.refuse(arguments.operands, after: 1, "lat fleet --help shows the usage")
        format = try OutputFormat(arguments)
        fleet = try FleetArgument(arguments)
    }

    func run(_ console: Console) async throws -> ExitCode {
        let connection = try fleet.made()
        var report = FleetReport(address: "\(try fleet.configuration())")
        do throws(FleetError) {
            try await connection.connect(within: .seconds(3))
            let tables = try await permitted(&report.notes) { () throws(FleetError) in
                try await FleetTable.list(on: connection)
            }
            report.tables = tables ?? []
            report.contents = try await permitted(&report.notes) { () throws(FleetError) in
                try await FleetContents.read(from: connection)
            }
        } catch {
            report.problem = error.message
        }
        report.status = connection.status
        await connection.shutdown()
        try console.print(report.value, or: report.lines(console.outStyle), as: format)
        for note in report.notes where format == .text { console.note(SafeText.line(note)) }
        if format == .text, let problem = report.problem { console.complain(problem) }
        return report.code
    }

    /// Returns what the body returns; `nil`, with a note, for what the user of the Redis may not see.
    private func permitted<Value>(
        _ notes: inout [String], _ body: () async throws(FleetError) -> Value
    ) async throws(FleetError) -> Value? {
        do throws(FleetError) {
            return try await body()
        } catch {
            guard error.kind == .permission else { throw error }
            notes.append("not shown: \(error.message)")
            return nil
        }
    }
}

/// The output of `lat fleet status`. A pure value.
struct FleetReport {
    let address: String
    var status = FleetStatus()
    var contents: FleetContents?
    var tables: [FleetTable.Entry] = []
    /// What the user of the Redis may not see.
    var notes: [String] = []
    /// Why the Redis cannot be used.
    var problem: String?

    var code: ExitCode {
        guard problem == nil else { return .network }
        return contents?.refusesWrites == true || status.isReplica ? .failure : .success
    }

    private var state: String {
        guard problem == nil else { return "cannot be used" }
        if status.isReplica { return "a read-only replica" }
        guard let contents, contents.refusesWrites else { return "ready" }
        return contents.refusal == nil ? "full, takes no writes" : "takes no writes"
    }

    func lines(_ style: Style) -> [String] {
        var rows: [(String, String?)] = [
            ("version", status.serverVersion), ("latency", status.latency.map { Quantity.duration($0) }),
            ("breaker", status.breaker.rawValue),
        ]
        if let contents {
            let limit = contents.maxMemory > 0 ? " of \(Quantity.bytes(contents.maxMemory))" : ", no limit"
            let kinds = contents.kinds.map { "\($0.name) \(Quantity.grouped($0.count))" }.joined(separator: ", ")
            let part = contents.isPartial ? ", counted in a part of the keys" : ""
            let keys = kinds.isEmpty ? "" : ", of this fleet: \(kinds)\(part)"
            rows += [
                ("writes", contents.refusal),
                ("memory", "\(Quantity.bytes(contents.usedMemory))\(limit), \(contents.policy)"),
                ("clients", Quantity.grouped(contents.clientCount)),
                ("evicted", Quantity.grouped(contents.evictedCount) + " keys since it started"),
                ("keys", Quantity.grouped(contents.keyCount) + keys),
            ]
        }
        for table in tables {
            let signed = table.version.signature == nil ? "" : ", signed"
            let size = Quantity.bytes(Int64(table.byteCount))
            let facts = "revision \(table.version.revision), \(table.version.note), \(size)\(signed)"
            rows.append(("table \(table.name)", table.problem.map { "cannot be used: \($0)" } ?? facts))
            let revisions = Dictionary(grouping: table.followers, by: \.revision).sorted { $0.key > $1.key }
            for (revision, users) in revisions {
                let noun = users.count == 1 ? "follower uses" : "followers use"
                rows.append(("", "\(Quantity.grouped(users.count)) \(noun) revision \(revision)"))
            }
            for user in table.followers {
                rows.append(("", user.refusal.map { "\(user.name) does not use the newest: \($0)" }))
            }
        }
        let colour = code == .success ? style.green : style.red
        return ["\(style.bold(SafeText.line(address)))  \(colour(state))"] + style.columns(rows).map { "  \($0)" }
    }

    var value: JSONValue {
        let latency = status.latency.map { $0 / .milliseconds(1) }
        var value: JSONValue = [
            "address": .string(address), "state": .string(status.state.rawValue),
            "breaker": .string(status.breaker.rawValue), "isReplica": .bool(status.isReplica),
            "isUsable": .bool(code == .success), "problem": .text(problem),
            "notes": .array(notes.map { .string($0) }),
            "version": .text(status.serverVersion),
            "latencyMilliseconds": latency.map { .double($0) } ?? JSONValue.null,
            "tables": .array(
                tables.map { table in
                    [
                        "name": .string(table.name), "problem": .text(table.problem),
                        "revision": .int(table.version.revision),
                        "author": .string(table.version.author),
                        "time": .string(FleetTable.text(of: table.version.time)),
                        "bytes": .int(Int64(table.byteCount)), "isSigned": .bool(table.version.signature != nil),
                        "followers": .array(
                            table.followers.map { user in
                                [
                                    "name": .string(user.name), "revision": .int(user.revision),
                                    "refusal": .text(user.refusal),
                                ]
                            }),
                    ]
                }),
        ]
        if let contents {
            value["refusal"] = .text(contents.refusal)
            value["memory"] = .int(contents.usedMemory)
            value["maxMemory"] = .int(contents.maxMemory)
            value["maxMemoryPolicy"] = .string(contents.policy)
            value["clients"] = .int(Int64(contents.clientCount))
            value["evictedKeys"] = .int(Int64(contents.evictedCount))
            value["keys"] = .int(Int64(contents.keyCount))
            value["keysByKind"] = .object(
                Dictionary(contents.kinds.map { ($0.name, .int(Int64($0.count))) }) { first, _ in first })
            value["isCountPartial"] = .bool(contents.isPartial)
        }
        return value
    }
}
