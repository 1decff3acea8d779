import DomainTables

/// Generates the members of `DomainName` and `ServerName`.
struct NameGenerator {
    /// The diagnostics, in the format of a compiler.
    private(set) var problems: [String] = []
    private(set) var hasFailed = false

    private let arguments: GeneratorArguments
    private var domains: [Member] = []
    private var servers: [Member] = []

    private struct Member {
        var swiftName: String
        var name: Located<String>
        var comment: String
    }

    init(_ arguments: GeneratorArguments) { self.arguments = arguments }

    mutating func read(_ path: String) {
        do throws(SourceFile.Problem) {
            read(try SourceFile.bytes(of: path), name: path)
        } catch {
            problems.append("\(path): error: \(error.reason)")
            hasFailed = true
        }
    }

    mutating func read(_ bytes: [UInt8], name: String) {
        let reading = DomainTableFile.read(bytes, name: name)
        problems += reading.diagnostics.map(\.description)
        if !reading.errors.isEmpty { hasFailed = true }
        let source = SourceText(bytes, name: name)
        for domain in reading.file.domains {
            add(
                domain.name, "`\(domain.row.baseURL.map { HTTPAddress.redacted($0) } ?? "")`", "domain", source,
                to: \.domains)
        }
        for server in reading.file.servers {
            let method = server.row.method.map { "\($0.rawValue.uppercased()) " } ?? ""
            let text = "`\(method)\(server.row.path ?? "")` of `\(server.row.domain?.rawValue ?? "")`"
            add(server.name, text, "server", source, to: \.servers)
        }
    }

    private mutating func add(
        _ name: Located<String>, _ comment: String, _ kind: String, _ source: SourceText,
        to list: WritableKeyPath<NameGenerator, [Member]>
    ) {
        guard let swiftName = SwiftName.member(for: name.value) else {
            return fail(
                name, source, "the \(kind) \(QuotedText.of(name.value)) has no letter or digit for a Swift name")
        }
        if let other = self[keyPath: list].first(where: { $0.swiftName == swiftName }) {
            return fail(
                name, source,
                "the \(kind)s \(QuotedText.of(other.name.value)) (line \(other.name.position.line)) and "
                    + "\(QuotedText.of(name.value)) both become \(swiftName) in Swift; rename one")
        }
        self[keyPath: list].append(Member(swiftName: swiftName, name: name, comment: comment))
    }

    private mutating func fail(_ name: Located<String>, _ source: SourceText, _ message: String) {
        problems.append(DomainTable.Diagnostic(.error, at: name.range, of: source, message).description)
        hasFailed = true
    }

    /// The content of the Swift file.
    var text: String {
        let files = arguments.tables.map(shortened).joined(separator: ", ")
        var lines = ["// Generated from \(files) by DomainTablePlugin. Edit the table, not this file.", ""]
        lines.append("\(arguments.isPublic ? "public " : "")import LATNetworking")
        lines += ["", "/// The rows of `domains`."] + body("DomainName", domains)
        lines += ["", "/// The rows of `servers`."] + body("ServerName", servers)
        return lines.joined(separator: "\n") + "\n"
    }

    private func body(_ type: String, _ members: [Member]) -> [String] {
        let access = arguments.isPublic ? "public " : ""
        var lines = ["extension \(type) {"]
        for member in members {
            let position = member.name.position
            let place = "\(shortened(position.file)):\(position.line)"
            // Names in the table may contain line breaks; the comment must not.
            let comment = member.comment.map { $0.isNewline ? " " : String($0) }.joined()
            let literal = QuotedText.literal(member.name.value)
            lines.append("    /// \(comment), \(place).")
            lines.append("    \(access)static let \(member.swiftName): \(type) = \(literal)")
        }
        if !members.isEmpty { lines.append("") }
        lines.append("    /// All rows, in the order of the table.")
        let list = members.map { ".\($0.swiftName)" }.joined(separator: ", ")
        lines.append("    \(access)static let all: [\(type)] = [\(list)]")
        return lines + ["}"]
    }

    private func shortened(_ file: String) -> String {
        guard let root = arguments.root, file.hasPrefix(root) else { return file }
        return String(file.dropFirst(root.count))
    }
}
