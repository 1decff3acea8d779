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

/// Converts names of a table to Swift identifiers.
enum SwiftName {
    /// Returns the identifier for a name: `user.detail` → `userDetail`, `GET-token` → `getToken`, `2fa` → `_2fa`. `nil` when
    /// the name has no letter or digit.
    static func member(for name: String) -> String? {
        let words = name.split { !($0.isLetter || $0.isNumber) }.map(String.init)
        guard let first = words.first else { return nil }
        var member = lowercasedStart(first)
        for word in words.dropFirst() { member += word.prefix(1).uppercased() + word.dropFirst() }
        member = String(String.UnicodeScalarView(member.unicodeScalars.filter(\.properties.isXIDContinue)))
        guard let start = member.unicodeScalars.first else { return nil }
        if !start.properties.isXIDStart { member = "_" + member }
        // A name that every type has as a member, or that backticks do not allow, gets an underscore at its end.
        if reserved.contains(member) { return member + "_" }
        return SwiftKeywords.all.contains(member) ? "`\(member)`" : member
    }

    /// Lowercases the capitals at the start, but not the one that begins the next word: `URLCheck` → `urlCheck`.
    private static func lowercasedStart(_ word: String) -> String {
        let capitals = word.prefix { $0.isUppercase }
        let rest = word.dropFirst(capitals.count)
        let taken = capitals.count > 1 && rest.first?.isLetter == true ? capitals.count - 1 : capitals.count
        return word.prefix(taken).lowercased() + word.dropFirst(taken)
    }

    private static let reserved: Set<String> = ["self", "Type", "Protocol", "all", "init"]
}
