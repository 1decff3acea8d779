import HTTPCore

/// What another version of a table changes, row by row. Comments, layout and the order of rows do not count, and equal values
/// may be written differently: `"60s"` is `"1m"`, `1e4` is `10000`.
package struct TableDifference: Sendable {
    package enum Change: String, Sendable {
        case added, removed, changed
    }

    /// A setting of a row. Passwords in URLs, and secret members of objects in arrays, are hidden in the texts.
    package struct Value: Hashable, Sendable {
        /// The keys that lead to it, such as `headers` and `X-App`.
        package var path: [String]
        /// The value in JSON's notation, but with control characters escaped as in Swift; `nil` where it is not set.
        package var old: String?
        package var new: String?
    }

    package struct Row: Sendable {
        /// `table` for what is beside the rows, `defaults`, `domains` or `servers`.
        package var section: String
        /// The name of the row; empty for `table` and `defaults`.
        package var name: String
        package var change: Change
        /// The settings that differ; of an added or removed row all of them.
        package var values: [Value]
    }

    /// The rows that differ, section by section: those of the new version in its order, then the removed ones.
    package let rows: [Row]

    package var isEmpty: Bool { rows.isEmpty }

    /// Compares two texts. What cannot be read counts as empty.
    package init(from old: [UInt8], to new: [UInt8]) {
        let (old, new) = (Self.members(of: old), Self.members(of: new))
        rows = ["table", "defaults", "domains", "servers"].flatMap { section -> [Row] in
            let (before, after) = (Self.rows(of: old[section], section), Self.rows(of: new[section], section))
            let known = Dictionary(before.map { ($0.name, $0.node) }) { first, _ in first }
            let names = Set(after.map(\.name))
            return after.compactMap { Self.row(section, $0.name, known[$0.name], $0.node) }
                + before.filter { !names.contains($0.name) }.compactMap { Self.row(section, $0.name, $0.node, nil) }
        }
    }

    package func count(_ change: Change) -> Int { rows.count { $0.change == change } }

    private static func members(of bytes: [UInt8]) -> [String: JSON5Node] {
        guard let root = JSON5Document(bytes, name: "").root, case .object(let members) = root.value else { return [:] }
        var sections = Dictionary(members.map { ($0.key, $0.value) }) { first, _ in first }
        let settings = members.filter { $0.key == "production" }
        sections["table"] = settings.isEmpty ? nil : JSON5Node(.object(settings), at: root.range)
        return sections
    }

    private static func rows(of node: JSON5Node?, _ section: String) -> [(name: String, node: JSON5Node)] {
        if section == "defaults" || section == "table" { return node.map { [("", $0)] } ?? [] }
        guard case .object(let members)? = node?.value else { return [] }
        return members.map { ($0.key, $0.value) }
    }

    private static func row(_ section: String, _ name: String, _ old: JSON5Node?, _ new: JSON5Node?) -> Row? {
        let before = old.map { leaves(of: $0, []) } ?? []
        let after = new.map { leaves(of: $0, []) } ?? []
        let known = Dictionary(before.map { ($0.path, $0) }) { first, _ in first }
        let paths = Set(after.map(\.path))
        let values =
            after.compactMap { leaf -> Value? in
                let previous = known[leaf.path]
                guard previous?.meaning != leaf.meaning else { return nil }
                return Value(path: leaf.path, old: previous?.text, new: leaf.text)
            } + before.filter { !paths.contains($0.path) }.map { Value(path: $0.path, old: $0.text, new: nil) }
        guard !values.isEmpty || (old == nil) != (new == nil) else { return nil }
        let change: Change = old == nil ? .added : new == nil ? .removed : .changed
        return Row(section: section, name: name, change: change, values: values)
    }

    // MARK: Values

    private struct Leaf {
        var path: [String]
        var text: String
        /// The value as it is compared: two values are equal when these texts are.
        var meaning: String
    }

    /// The keys that lead to a duration in a row.
    private static let durations = Set(
        RowKey.all.flatMap { key in
            key.form.durations.map { [key.group?.rawValue, key.member].compactMap(\.self) + $0 }
        })

    private static func leaves(of node: JSON5Node, _ path: [String]) -> [Leaf] {
        guard case .object(let members) = node.value, !members.isEmpty else {
            return [Leaf(path: path, text: json(node, isShown: true), meaning: meaning(of: node, path))]
        }
        return members.flatMap { leaves(of: $0.value, path + [$0.key]) }
    }

    private static func meaning(of node: JSON5Node, _ path: [String]) -> String {
        guard case .string(let text) = node.value else { return json(node, isShown: false) }
        guard durations.contains(path) else { return QuotedText.literal(text) }
        let sliding = path == ["ttl"] && text.hasPrefix("sliding ") ? "sliding " : ""
        return DurationText.parse(String(text.dropFirst(sliding.count))).map { "\(sliding)\($0)" }
            ?? QuotedText.literal(text)
    }

    /// - Parameter isShown: Whether secrets are hidden.
    private static func json(_ node: JSON5Node, isShown: Bool) -> String {
        switch node.value {
        case .null: "null"
        case .bool(let flag): "\(flag)"
        case .number(let number):
            switch number.exact {
            case .double(let double): Int64(exactly: double).map { "\($0)" } ?? "\(double)"
            case let exact?: "\(exact)"
            case .none: number.text
            }
        case .string(let text): QuotedText.literal(isShown ? HTTPAddress.redacted(text) : text)
        case .array(let elements): "[" + elements.map { json($0, isShown: isShown) }.joined(separator: ", ") + "]"
        case .object(let members):
            "{"
                + members.map { member in
                    let isHidden = isShown && Secrets.standard.contains(member: member.key)
                    let value = isHidden ? Secrets.placeholder : json(member.value, isShown: isShown)
                    return "\(QuotedText.literal(member.key)): \(value)"
                }.joined(separator: ", ") + "}"
        }
    }
}
