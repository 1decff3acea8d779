import HTTPCore

/// The rows of an import: those that the table gets.
package struct ImportedTable: Sendable {
    package let domain: String
    let domainRow: Node
    private(set) var rows: [(name: String, row: Node)]
    /// The security schemes in words.
    let comment: String
    /// Whether somebody else has written the row of the domain.
    private var isForeign = false

    init(domain: String, domainRow: Node, rows: [(name: String, row: Node)], comment: String) {
        (self.domain, self.domainRow, self.rows, self.comment) = (domain, domainRow, rows, comment)
    }

    /// The names of the authenticators in the rows.
    var authenticators: Set<String> {
        Set(([domainRow] + rows.map(\.row)).compactMap { $0["authenticator"]?.string })
    }

    /// Names and values, for the next import: what differs from them was edited by a person.
    package var json: JSONValue {
        let rows = JSONValue.object(Dictionary(self.rows.map { ($0.name, $0.row.json) }) { first, _ in first })
        return ["domain": domainRow.json, "rows": rows, "foreign": .bool(isForeign)]
    }

    /// The rows beside a row of the domain that somebody else has written, for other rows too: what it does not say of lists,
    /// tokens and secrets, the rows of the calls say themselves.
    func beside(_ own: JSONValue) -> ImportedTable {
        var added: [(String, Node)] = []
        if own["authenticator"] == nil, own["oauth2"] == nil, let authenticator = domainRow["authenticator"] {
            added.append(("authenticator", authenticator))
        }
        if let secrets = domainRow["secretHeaders"], own["secretHeaders"] != secrets.json {
            added.append(("secretHeaders", secrets))
        }
        let arrays = domainRow["query"]?["arrays"].flatMap { own["query"]?["arrays"] == $0.json ? nil : $0 }
        var table = self
        table.isForeign = true
        table.rows = rows.map { name, row in
            guard let members = row.members else { return (name, row) }
            var list = Array(zip(members.names, members.values))
            list += added.filter { !members.names.contains($0.0) }
            let types = row["documented"]?["parameters"]?.members?.values.compactMap(\.string) ?? []
            if let arrays, types.contains(where: { ["array", "object", "any"].contains($0.filter(\.isLetter)) }) {
                let query = row["query"]?.members
                let others = zip(query?.names ?? [], query?.values ?? [])
                list.removeAll { $0.0 == "query" }
                list.append(("query", .object([("arrays", arrays)] + others)))
            }
            return (name, .object(list))
        }
        return table
    }
}

/// Writes values as JSON5 for people: names without quotes, several members in a line.
enum JSON5Text {
    static func name(_ name: String) -> String {
        let isBare =
            name.unicodeScalars.first?.beginsName == true
            && name.unicodeScalars.allSatisfy { $0.beginsName || ("0"..."9").contains($0) }
        return isBare ? name : "\(JSONValue.string(name))"
    }

    static func inline(_ node: Node) -> String {
        switch node.value {
        case .object(let members):
            if members.names.isEmpty { return "{}" }
            return "{ " + self.members(members).joined(separator: ", ") + " }"
        case .array(let elements): return "[" + elements.map(inline).joined(separator: ", ") + "]"
        default: return "\(node.json)"
        }
    }

    private static func members(_ members: Node.Members) -> [String] {
        zip(members.names, members.values).map { "\(name($0)): \(inline($1))" }
    }

    /// A member of an object, in several lines if one would be too long.
    static func member(_ name: String, _ node: Node, indent: Int) -> String {
        let blank = String(repeating: " ", count: indent)
        let line = "\(blank)\(self.name(name)): \(inline(node)),"
        guard line.count > 120, let members = node.members else { return line }
        // A member that is too long for a line has lines of its own.
        let limit = 114 - indent
        var (lines, short): ([String], [String]) = ([], [])
        for (index, text) in self.members(members).enumerated() {
            if text.count <= limit || members.values[index].members == nil {
                short.append(text)
                continue
            }
            if !short.isEmpty {
                lines += SwiftWriter.packed(short, indent: indent + 2)
                lines[lines.count - 1] += ","
            }
            short = []
            lines.append(member(members.names[index], members.values[index], indent: indent + 2))
        }
        if !short.isEmpty { lines += SwiftWriter.packed(short, indent: indent + 2) }
        return (["\(blank)\(self.name(name)): {"] + lines + ["\(blank)},"]).joined(separator: "\n")
    }
}

extension Unicode.Scalar {
    fileprivate var beginsName: Bool { isASCII && (properties.isAlphabetic || self == "_" || self == "$") }
}
