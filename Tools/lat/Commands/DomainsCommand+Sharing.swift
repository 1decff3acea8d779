import Cryptography
import DomainTables
import FoundationEssentials
import Glibc
import LATFleet
import LATNetworking
import LATStorage

/// The options of `lat domains` for a table that is shared.
struct TableSharing: Sendable {
    static let expect = Option(
        "--expect", value: "REVISION",
        help: "With push: the revision that the Redis must have; 0 for no table. Default: what it has now.")
    static let revision = Option(
        "--revision", value: "NUMBER",
        help: "With push: the new revision, above the present one. Needed after a loss of data. Default: one more.")
    static let sign = Option(
        "--sign", value: "KEYFILE", help: "With push: signs the table with this Ed25519 private key in PEM.")
    static let dryRun = Option("--dry-run", help: "With push: checks and shows what would change, and writes nothing.")
    static let publicKey = Option(
        "--public-key", value: "KEY|FILE",
        help: "Uses only a table that the owner of this Ed25519 key has signed. The key is base64, or a file in PEM.")
    static let options = [expect, revision, sign, dryRun, publicKey, OutputArgument.option]

    let expected: Int64?
    let revision: Int64?
    let output: String?
    private let arguments: ParsedArguments

    var isDryRun: Bool { arguments.contains(Self.dryRun) }
    var authority: String? { arguments.value(Option.authority) }

    init(_ arguments: ParsedArguments, for action: DomainsCommand.Action) throws(UsageError) {
        self.arguments = arguments
        let others = [Self.expect, Self.revision, Self.sign, Self.dryRun]
        if action != .push, let option = others.first(where: arguments.contains) {
            throw UsageError("\(option.name) is for lat domains push; leave it out")
        }
        if case .pull = action {
        } else if arguments.contains(OutputArgument.option) {
            throw UsageError("\(OutputArgument.option.name) is for lat domains pull; leave it out")
        }
        expected = try arguments.number(Self.expect, 0...Int.max).map { Int64($0) }
        revision = try arguments.number(Self.revision, 1...Int.max).map { Int64($0) }
        output = try OutputArgument.parse(arguments)
    }

    /// Reads the key that signs; `nil` when none is named.
    func privateKey() throws(UsageError) -> Ed25519.PrivateKey? {
        guard let keyFile = arguments.value(Self.sign) else { return nil }
        let bytes = try Self.file(keyFile, Self.sign)
        do throws(Ed25519.Problem) {
            return try Ed25519.PrivateKey(pem: String(decoding: bytes, as: UTF8.self))
        } catch {
            throw UsageError("\(Self.sign.name) \(SafeText.line(keyFile)) \(error.reason)")
        }
    }

    /// Reads the key that a table must be signed with, as text; `nil` when none is named.
    func publicKey() throws(UsageError) -> String? {
        guard let text = arguments.value(Self.publicKey) else { return nil }
        let isFile = access(text, F_OK) == 0
        let key = isFile ? String(decoding: try Self.file(text, Self.publicKey), as: UTF8.self) : text
        do throws(Ed25519.Problem) {
            return try Ed25519.PublicKey(text: key).text
        } catch {
            let advice = isFile ? "" : ", nor the name of a file"
            throw UsageError("\(Self.publicKey.name) \"\(SafeText.line(text))\" \(error.reason)\(advice)")
        }
    }

    private static func file(_ path: String, _ option: Option) throws(UsageError) -> [UInt8] {
        do throws(SourceFile.Problem) {
            return try SourceFile.bytes(of: path)
        } catch {
            throw UsageError("\(option.name) \"\(SafeText.line(path))\" cannot be read: \(error.reason)")
        }
    }
}

extension DomainsCommand {
    // MARK: diff

    /// Unlike the other actions, `diff` has one exit code for all failures, as diff(1) has.
    func diff(_ operands: [String], _ console: Console) async throws -> ExitCode {
        do {
            let places = places(of: operands)
            let from = try await places.from.read(try sharing.publicKey(), sharing.authority)
            let to = try await places.to.read(try sharing.publicKey(), sharing.authority)
            _ = (try from.check(), try to.check())
            let report = DifferenceReport(from: from, to: to)
            if format == .json {
                try console.print(report.value)
            } else if report.difference.isEmpty {
                let isLayout = from.version.bytes != to.version.bytes
                try console.print(
                    isLayout ? "the rows are the same; comments or layout differ" : "the tables are the same")
            } else {
                try console.print(console.outStyle.red("--- \(SafeText.line(from.title))"))
                try console.print(console.outStyle.green("+++ \(SafeText.line(to.title))"))
                for line in report.lines(console.outStyle) { try console.print(line) }
                try console.print(report.summary)
            }
            return report.difference.isEmpty ? .success : .failure
        } catch let error as NetworkError where error.kind != .cancelled {
            throw UsageError(error.message)
        } catch let error as FleetError {
            throw UsageError(error.message)
        }
    }

    /// The two places to compare. They are the first two in this order: the Redis, the operands, the table of `--table`
    /// or of this folder.
    private func places(of operands: [String]) -> (from: TablePlace, to: TablePlace) {
        let named = operands.map { TablePlace(operand: $0) }
        let all = (fleet.map { [TablePlace.fleet($0)] } ?? []) + named + [.file(table.path)]
        return (all[0], all[1])
    }

    // MARK: push

    func push(_ console: Console) async throws -> ExitCode {
        guard let argument = fleet else { throw UsageError("no Redis is named; write --fleet redis://HOST:PORT") }
        let address = "\(try argument.configuration())"
        if table.file == nil { _ = try table.read() }
        let file = try await TablePlace.file(table.path).read(nil, nil)
        console.note(try file.check(isShared: true))
        return try await argument.using { fleet in
            try await push(TablePush(table: FleetTable(fleet, argument.key), address: address, file: file), console)
        }
    }

    private func push(_ push: TablePush, _ console: Console) async throws -> ExitCode {
        let (current, present) = try await push.current(console)
        if let expected = sharing.expected, expected != present {
            let note = current.map { "\(present), \($0.note)" } ?? (present > 0 ? "\(present)" : "not there")
            console.complain(
                "revision \(expected) of \(push.name) was expected, but it is \(note); \(TablePush.advice)")
            return .failure
        }
        guard present < .max else {
            throw UsageError("\(push.name) has the highest revision there is, \(present); push to another --key")
        }
        let revision = sharing.revision ?? present + 1
        guard revision > present else {
            throw UsageError("--revision \(revision) is not above revision \(present), which \(push.name) has")
        }
        let report = push.report(against: current)
        if format == .text, !report.difference.isEmpty {
            for line in report.lines(console.outStyle) { try console.print(line) }
            try console.print(report.summary)
        }
        let key = try sharing.privateKey()
        let signature = try key.map { key in
            try key.signature(of: Data(push.signedHead(revision) + push.file.version.bytes))
        }
        if let current, current.bytes == push.file.version.bytes, sharing.revision == nil,
            signature == nil || push.isSigned(current, by: key)
        {
            return try end(push, report, present, "has this table as revision \(present) already", console)
        }
        if sharing.isDryRun {
            return try end(push, report, nil, "would get revision \(revision); --dry-run writes nothing", console)
        }
        let result = try await push.table.push(
            push.file.version.bytes, expecting: present, as: revision, author: Self.author, signature: signature)
        switch result {
        case .pushed:
            let how = signature == nil ? "" : ", signed"
            return try end(push, report, revision, "has revision \(revision) now\(how)", console)
        case .moved(let revision, let note):
            console.complain("\(push.name) has revision \(revision) now, \(note); \(TablePush.advice)")
            return .failure
        }
    }

    private func end(
        _ push: TablePush, _ report: DifferenceReport, _ revision: Int64?, _ sentence: String, _ console: Console
    ) throws -> ExitCode {
        if format == .json {
            var value = report.value
            value["revision"] = revision.map { .int($0) } ?? .null
            value["message"] = .string("\(push.name) \(sentence)")
            try console.print(value)
        } else {
            try console.print("\(SafeText.line(push.name)) \(sentence)")
        }
        return .success
    }

    /// The user and the machine, which the table shows to others.
    private static var author: String {
        let user = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "uid \(geteuid())"
        return "\(user)@\(DeviceInfo().hostName ?? "unknown")"
    }

    // MARK: pull

    func pull(_ url: String?, _ console: Console) async throws {
        guard let place = url.map({ TablePlace.url($0) }) ?? fleet.map({ .fleet($0) }) else {
            throw UsageError("no Redis is named; write --fleet redis://HOST:PORT, or a URL")
        }
        let text = try await place.read(try sharing.publicKey(), sharing.authority)
        var bytes = Data(text.version.bytes)
        if format == .json {
            var value = text.value
            value["table"] = .string(String(decoding: bytes, as: UTF8.self))
            bytes = Data((value.description + "\n").utf8)
        }
        if let name = sharing.output {
            // What is no table does not replace one.
            console.note(try text.check())
            let file = try OutputFile(name)
            try file.output.write(bytes)
            try file.complete()
        } else {
            try console.out.write(bytes)
        }
        if format == .text { console.note(console.errStyle.dim(SafeText.line(text.title))) }
    }
}

/// What is pushed, and where to.
private struct TablePush {
    let table: FleetTable
    let address: String
    let file: TableText

    static let advice = "compare it with lat domains diff, then push again"

    var name: String { "\(address) \(table.key)" }

    func signedHead(_ revision: Int64) -> [UInt8] { FleetTable.signedHead(name: table.name, revision: revision) }

    /// The version in the Redis now; `nil` when it has no usable table. The revision is 0 when it has no table at all.
    func current(_ console: Console) async throws -> (FleetTable.Version?, revision: Int64) {
        switch try await table.read() {
        case .version(let version): return (version, version.revision)
        case .unusable(let problem, nil): throw UsageError("\(name) \(problem)")
        case .unusable(let problem, let revision?):
            console.note("\(SafeText.line(name)) \(SafeText.line(problem))")
            return (nil, revision)
        case .nothing, .unchanged: return (nil, 0)
        }
    }

    func report(against current: FleetTable.Version?) -> DifferenceReport {
        let from = current.map { version in
            TableText(
                name: "\(table.key)@\(version.revision)", source: name,
                version: TableVersion(bytes: version.bytes, revision: "\(version.revision)", note: version.note))
        }
        return DifferenceReport(from: from, to: file)
    }

    /// Whether a version is signed with this key.
    func isSigned(_ version: FleetTable.Version, by key: Ed25519.PrivateKey?) -> Bool {
        guard let signature = version.signature, let publicKey = try? key?.publicKey() else { return false }
        return publicKey.verifies(signature, of: Data(signedHead(version.revision) + version.bytes))
    }
}
