import Cryptography
import DomainTables
import LATFleet
import LATNetworking

/// A place that has the text of a table: a file, a URL, or the Redis of a fleet.
enum TablePlace: Sendable {
    case file(String)
    case url(String)
    case fleet(FleetArgument)

    /// An operand: a URL, or else the name of a file.
    init(operand: String) {
        self = operand.hasPrefix("http://") || operand.hasPrefix("https://") ? .url(operand) : .file(operand)
    }

    /// - Parameter publicKey: the key that the signature is checked with. A file has no signature.
    /// - Throws: ``TableProblem``, ``UsageError``, ``FleetError`` or ``NetworkError``.
    func read(_ publicKey: String?, _ authority: String?) async throws -> TableText {
        switch self {
        case .file(let path):
            // A missing file has the same message as in the other commands.
            do throws(SourceFile.Problem) {
                return TableText(name: path, version: TableVersion(bytes: try SourceFile.bytes(of: path), revision: ""))
            } catch {
                let reason = error.isMissing ? "is not there" : error.reason
                throw TableProblem("the table \(SafeText.line(path)) \(reason); check the path")
            }
        case .url(let url):
            var tls = TLSConfiguration()
            tls.caFile = authority
            return try await Self.text(of: .url(url, publicKey: publicKey, tls: tls, copy: .none, files: "."))
        case .fleet(let argument):
            return try await argument.using { fleet in
                try await Self.text(of: argument.source(on: fleet, publicKey))
            }
        }
    }

    static func text(of source: DomainTable.Source) async throws -> TableText {
        switch try await source.feed.read(after: nil, within: .seconds(30)) {
        case .version(let version):
            try DomainTable.checkSignature(of: version, from: source.feed)
            return TableText(
                name: source.feed.tableName(at: version.revision), source: source.description, version: version)
        case .refused(let error): throw error
        case .unchanged: throw TableProblem("\(source) answered with no table")
        }
    }
}

/// The text of a table, and where it is.
struct TableText: Sendable {
    /// The name in diagnostics.
    let name: String
    /// Where it is; `nil` for a file.
    var source: String?
    let version: TableVersion

    /// The place for people: `redis://… lat:table:domains, revision 8, pushed by ada@host at …`.
    var title: String {
        guard let source else { return name }
        return [source, "revision \(version.revision)", version.note].compactMap { $0 }.joined(separator: ", ")
    }

    /// Checks the table. The files that a shared one names are relative paths without `..`.
    ///
    /// - Parameter isShared: Default: whether it is from elsewhere.
    /// - Throws: ``TableProblem`` with all mistakes.
    func check(isShared: Bool? = nil) throws(TableProblem) -> [DomainTable.Diagnostic] {
        let files = isShared ?? (source != nil) ? AllowedFiles.below : .any
        let reading = DomainTableFile.read(version.bytes, name: name, files: files)
        guard reading.errors.isEmpty else { throw TableProblem(name, reading.diagnostics) }
        return reading.diagnostics
    }

    var value: JSONValue {
        [
            "source": .string(source ?? name), "revision": source == nil ? .null : .string(version.revision),
            "note": .text(version.note),
        ]
    }
}

/// The output of `lat domains diff`, and of `push`.
struct DifferenceReport {
    let from: TableText?
    let to: TableText
    let difference: TableDifference
    private let secrets: Secrets

    init(from: TableText?, to: TableText) {
        self.from = from
        self.to = to
        difference = TableDifference(from: from?.version.bytes ?? Array("{}".utf8), to: to.version.bytes)
        var secrets = Secrets.standard
        for text in [from, to].compactMap({ $0 }) {
            let file = DomainTableFile.read(text.version.bytes, name: text.name).file
            let settings = [file.defaults] + file.domains.map(\.row.settings) + file.servers.map(\.row.settings)
            for name in settings.flatMap({ $0.secretHeaders ?? [] }) { secrets.insert(header: name) }
        }
        self.secrets = secrets
    }

    /// The rows that change, each with its changed values. Empty when nothing changes.
    func lines(_ style: Style) -> [String] {
        var lines: [String] = []
        var section = ""
        for row in difference.rows {
            if row.section != section {
                section = row.section
                lines.append(style.bold(section))
            }
            if !row.name.isEmpty { lines.append("  " + Self.painted(SafeText.line(row.name), row.change, style)) }
            let width = row.values.map { Self.name($0).count }.max() ?? 0
            for value in row.values { lines.append("    " + line(value, width, style)) }
        }
        return lines
    }

    /// `1 row changed, 2 added, 1 removed`.
    var summary: String {
        let changes = [TableDifference.Change.changed, .added, .removed].filter { difference.count($0) > 0 }
        return changes.enumerated().map { index, change in
            let count = difference.count(change)
            let noun = index > 0 ? "" : count == 1 ? "row " : "rows "
            return "\(count) \(noun)\(change.rawValue)"
        }.joined(separator: ", ")
    }

    var value: JSONValue {
        [
            "isSame": .bool(difference.isEmpty), "from": from?.value ?? JSONValue.null, "to": to.value,
            "rows": .array(
                difference.rows.map { row in
                    [
                        "section": .string(row.section), "name": .string(row.name),
                        "change": .string(row.change.rawValue),
                        "values": .array(
                            row.values.map { value in
                                [
                                    "setting": .string(Self.name(value)), "old": shown(value.old, value),
                                    "new": shown(value.new, value),
                                ]
                            }),
                    ]
                }),
        ]
    }

    private func line(_ value: TableDifference.Value, _ width: Int, _ style: Style) -> String {
        let name = Self.name(value).padded(toEnd: width)
        let (old, new) = (shown(value.old, value).string, shown(value.new, value).string)
        switch (old, new) {
        case (let old?, let new?):
            return "\(Self.painted(name, .changed, style))  \(old) \(style.sign("→", "->")) \(new)"
        case (let old?, nil): return Self.painted("\(name)  \(old)", .removed, style)
        case (nil, let new?): return Self.painted("\(name)  \(new)", .added, style)
        case (nil, nil): return name
        }
    }

    /// The value, or a placeholder for a secret.
    private func shown(_ text: String?, _ value: TableDifference.Value) -> JSONValue {
        guard let text else { return .null }
        let last = value.path.last ?? ""
        let isSecret =
            last == "password"
            || value.path.first == "headers" && secrets.contains(header: last)
            || value.path.first == "parameters" && value.path.dropFirst().contains(where: secrets.contains(parameter:))
        return .string(isSecret && text != "null" ? Secrets.placeholder : SafeText.line(text))
    }

    private static func name(_ value: TableDifference.Value) -> String {
        SafeText.line(value.path.joined(separator: "."))
    }

    private static func painted(_ text: String, _ change: TableDifference.Change, _ style: Style) -> String {
        switch change {
        case .added: style.green("+ \(text)")
        case .removed: style.red("- \(text)")
        case .changed: style.magenta("~ \(text)")
        }
    }
}
