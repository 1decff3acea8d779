import DomainTables
import HTTPCore

/// Puts the rows of an import into the text of a table. What the last import wrote and nobody has changed since follows the
/// document; everything else stays as it is, to the byte.
package struct TableEditor {
    package private(set) var text: String
    /// What was added, changed and removed, by the names of rows.
    package private(set) var added: [String] = []
    package private(set) var changed: [String] = []
    package private(set) var removed: [String] = []
    /// Where the document and a person say different things, and the person's word stands.
    package private(set) var kept: [String] = []

    /// The rows as they were written.
    package private(set) var table: ImportedTable

    private let restored: Set<String>
    private let document: JSON5Document
    private var edits: [(range: Range<Int>, text: String)] = []

    /// - Parameters:
    ///   - text: the table; `nil` for none yet.
    ///   - base: ``ImportedTable/json`` of the last import; `nil` for the first.
    ///   - restored: The rows that come back if a person has removed them.
    package init(
        _ text: String?, file: String, base: JSONValue?, new: ImportedTable, restoring restored: Set<String> = []
    ) throws(ImportProblem) {
        self.restored = restored
        table = new
        guard let text else {
            self.text = Self.fresh(new)
            if let problem = Self.problem(of: self.text, file) { throw Self.refusal(file, problem) }
            document = JSON5Document([], name: file)
            added = [new.domain] + new.rows.map(\.name)
            return
        }
        self.text = text
        document = JSON5Document(Array(text.utf8), name: file)
        guard let root = document.root, document.diagnostics.isEmpty, case .object(let members) = root.value else {
            let reason = document.diagnostics.first?.description ?? "\(file) is not an object"
            throw ImportProblem("\(Self.firstLine(reason)); correct the table, and import again")
        }
        if base?["domain"] == nil || base?["foreign"]?.bool == true, case .object(let domains)? = members["domains"],
            let own = domains[new.domain]
        {
            table = new.beside(JSONValue(own))
        }
        merge("domains", [(new.domain, new.domainRow)], base?["domain"].map { [new.domain: $0] } ?? [:], members, root)
        merge("servers", table.rows, base?["rows"]?.object ?? [:], members, root)
        var bytes = Array(text.utf8)
        // Of two insertions at one place, the first stands before the second.
        for (_, edit) in edits.enumerated().sorted(by: {
            ($0.element.range.lowerBound, $0.offset) > ($1.element.range.lowerBound, $1.offset)
        }) {
            bytes.replaceSubrange(edit.range, with: edit.text.utf8)
        }
        self.text = String(decoding: bytes, as: UTF8.self)
        guard let problem = Self.problem(of: self.text, file) else { return }
        // Lines of the table as it was, where its mistake is not that of the new rows.
        if let old = Self.problem(of: text, file) { throw ImportProblem("\(old); correct the table, and import again") }
        throw Self.refusal(file, problem)
    }

    /// For rows that the table cannot have.
    private static func refusal(_ file: String, _ problem: Substring) -> ImportProblem {
        ImportProblem(
            "\(file) would not be valid with the new rows: \(problem); correct the document, or choose without what it names"
        )
    }

    private static func problem(of text: String, _ file: String) -> Substring? {
        do {
            _ = try DomainTable(json5: text, name: file, environment: nil)
            return nil
        } catch {
            return firstLine(error.message)
        }
    }

    /// A message without the line of the table and the mark below it, for which `lat domains check` is there.
    private static func firstLine(_ message: String) -> Substring { message.prefix { !$0.isNewline } }

    private static func fresh(_ table: ImportedTable) -> String {
        var lines = ["{", "  domains: {"]
        if !table.comment.isEmpty {
            // The names of the authenticators that the app provides.
            let words = "Authenticators: \(table.comment)."
            lines += Comments.lines(words, indent: 4).map { $0.replacing("///", with: "//") }
        }
        lines.append(JSON5Text.member(table.domain, table.domainRow, indent: 4))
        lines += ["  },", "  servers: {"]
        lines += table.rows.map { JSON5Text.member($0.name, $0.row, indent: 4) }
        return (lines + ["  },", "}"]).joined(separator: "\n") + "\n"
    }

    // MARK: Rows

    private mutating func merge(
        _ section: String, _ new: [(name: String, row: Node)], _ base: [String: JSONValue], _ members: [JSON5Member],
        _ root: JSON5Node
    ) {
        guard let node = members.first(where: { $0.key == section })?.value, case .object(let rows) = node.value else {
            let lines = new.map { JSON5Text.member($0.name, $0.row, indent: 4) }
            insert(["  \(section): {"] + lines + ["  },"], into: root, members)
            added += new.map(\.name)
            return
        }
        var lines: [String] = []
        for (name, row) in new {
            let current = rows.first { $0.key == name }
            switch (current, base[name]) {
            case (nil, let base) where base == nil || restored.contains(name):
                lines.append(JSON5Text.member(name, row, indent: 4))
                added.append(name)
            case (nil, _):
                kept.append(
                    "\(name) was removed from the table and stays out, so calls of its type fail; name its operation with "
                        + "--operations to have it back")
            case (let current?, let base): update(current, base, row)
            }
        }
        let names = Set(new.map(\.name))
        for (name, base) in base.sorted(by: { $0.key < $1.key }) where !names.contains(name) {
            guard let current = rows.first(where: { $0.key == name }) else { continue }
            if let work = work(on: current, writtenAs: base) {
                kept.append("\(name) is not in the document any more; it \(work), and stays")
            } else {
                remove(current)
                removed.append(name)
            }
        }
        insert(lines, into: node, rows)
    }

    /// Changes the members of a row that are as the last import wrote them.
    private mutating func update(_ row: JSON5Member, _ base: JSONValue?, _ new: Node) {
        guard case .object(let members) = row.value.value else { return }
        guard let base else {
            let others = zip(new.members?.names ?? [], new.members?.values ?? []).filter { name, value in
                members[name].map { JSONValue($0) } != value.json
            }
            guard !others.isEmpty else { return }
            let words = others.map { "\($0): \(JSON5Text.inline($1))" }.joined(separator: ", ")
            return kept.append("\(row.key) is in the table already, and stays as it is; the document says \(words)")
        }
        if edit(row.value, members, base, new, row.key) { changed.append(row.key) }
    }

    /// Changes the members of an object that are as the last import wrote them, and returns whether there are any.
    private mutating func edit(
        _ node: JSON5Node, _ members: [JSON5Member], _ base: JSONValue?, _ new: Node, _ path: String
    ) -> Bool {
        var lines: [String] = []
        var isChanged = false
        let names = Set(new.members?.names ?? [])
        for (name, value) in zip(new.members?.names ?? [], new.members?.values ?? []) where base?[name] != value.json {
            let current = members.first { $0.key == name }
            let now = current.map { JSONValue($0.value.value) }
            if now == value.json { continue }
            let words = "\(path): the document says \(name): \(JSON5Text.inline(value)), and the table has"
            guard now == base?[name] else {
                kept.append("\(words) been edited")
                continue
            }
            guard let current else {
                lines.append(JSON5Text.member(name, value, indent: 0))
                isChanged = true
                continue
            }
            if !hasComment(current.value) {
                edits.append((current.value.range, JSON5Text.inline(value)))
                isChanged = true
            } else if case .object(let parts) = current.value.value, value.members != nil {
                if edit(current.value, parts, now, value, "\(path).\(name)") { isChanged = true }
            } else {
                kept.append("\(words) a comment there")
            }
        }
        for (name, old) in (base?.object ?? [:]).sorted(by: { $0.key < $1.key }) where !names.contains(name) {
            guard let current = members.first(where: { $0.key == name }) else { continue }
            if let work = work(on: current, writtenAs: old) {
                kept.append("\(path): the document has no \(name) any more; it \(work), and stays")
            } else {
                remove(current)
                isChanged = true
            }
        }
        insert(lines, into: node, members)
        return isChanged
    }

    // MARK: Text

    private var bytes: [UInt8] { document.source.bytes }

    /// Inserts members, each with its comma, after the last one of an object.
    private mutating func insert(_ lines: [String], into node: JSON5Node, _ members: [JSON5Member]) {
        guard !lines.isEmpty else { return }
        let close = node.range.upperBound - 1
        guard let last = members.last else {
            edits.append((close..<close, "\n" + lines.joined(separator: "\n") + "\n" + indent(of: node)))
            return
        }
        let end = last.value.range.upperBound
        let comma = self.comma(after: end)
        if comma == nil { edits.append((end..<end, ",")) }
        let start = comma.map { $0 + 1 } ?? end
        // After a comment in the same line, which belongs to the member before it.
        var line = start
        while line < bytes.count, bytes[line] != 0x0A, bytes[line] != 0x0D {
            line = self.end(ofCommentAt: line) ?? line + 1
        }
        if line < close {
            let blank = indent(of: last)
            let text = lines.map { $0.hasPrefix(" ") ? $0 : blank + $0 }.joined(separator: "\n")
            edits.append((line..<line, "\n" + text))
        } else {
            let text = lines.map { String($0.drop { $0 == " " }) }.joined(separator: " ")
            edits.append((start..<start, " " + (text.hasSuffix(",") ? String(text.dropLast()) : text)))
        }
    }

    /// What a person has done to a member since an import wrote it; `nil` for nothing.
    private func work(on member: JSON5Member, writtenAs old: JSONValue) -> String? {
        if JSONValue(member.value.value) != old { return "was edited" }
        return hasComment(member) ? "has a comment" : nil
    }

    /// Whether a person's comment would go with a member, or would be left without it: one within it, behind it in the same
    /// line, or in the line above.
    private func hasComment(_ member: JSON5Member) -> Bool {
        let (start, end) = (member.keyRange.lowerBound, member.value.range.upperBound)
        if let lineStart = bytes[..<start].lastIndex(of: 0x0A) {
            let above = bytes[..<lineStart].lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
            let first = bytes[above..<lineStart].first { $0 != 0x20 && $0 != 0x09 }
            if first == UInt8(ascii: "/") || first == UInt8(ascii: "*") { return true }
        }
        let isWithin = bytes[member.keyRange.upperBound..<member.value.range.lowerBound].contains(UInt8(ascii: "/"))
        if isWithin || hasComment(member.value) { return true }
        let after = comma(after: end).map { $0 + 1 } ?? end
        return bytes[after...].first { $0 != 0x20 && $0 != 0x09 } == UInt8(ascii: "/")
    }

    /// Whether there is a comment between the parts of a value: outside strings, a slash begins nothing else.
    private func hasComment(_ node: JSON5Node) -> Bool {
        let parts: [Range<Int>]
        switch node.value {
        case .array(let elements):
            if elements.contains(where: hasComment) { return true }
            parts = elements.map(\.range)
        case .object(let members):
            if members.contains(where: { hasComment($0.value) }) { return true }
            parts = members.flatMap { [$0.keyRange, $0.value.range] }
        default: return false
        }
        var start = node.range.lowerBound
        for part in parts + [node.range.upperBound..<node.range.upperBound] {
            if bytes[start..<part.lowerBound].contains(UInt8(ascii: "/")) { return true }
            start = part.upperBound
        }
        return false
    }

    private mutating func remove(_ member: JSON5Member) {
        var start = member.keyRange.lowerBound
        var end = comma(after: member.value.range.upperBound).map { $0 + 1 } ?? member.value.range.upperBound
        let lineStart = bytes[..<start].lastIndex { $0 == 0x0A }.map { $0 + 1 } ?? 0
        let isAlone = bytes[lineStart..<start].allSatisfy { $0 == 0x20 || $0 == 0x09 }
        if isAlone, let lineEnd = bytes[end...].firstIndex(of: 0x0A),
            bytes[end..<lineEnd].allSatisfy({ $0 == 0x20 || $0 == 0x0D })
        {
            (start, end) = (lineStart, lineEnd + 1)
        } else {
            while end < bytes.count, bytes[end] == 0x20 { end += 1 }
        }
        edits.append((start..<end, ""))
    }

    /// The comma after a value, with nothing but white space and comments between.
    private func comma(after offset: Int) -> Int? {
        var index = offset
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: ","): return index
            case 0x20, 0x09, 0x0A, 0x0D: index += 1
            default:
                guard let end = self.end(ofCommentAt: index) else { return nil }
                index = end
            }
        }
        return nil
    }

    /// The end of the comment that begins at a place, before the end of its line; `nil` for none.
    private func end(ofCommentAt start: Int) -> Int? {
        let rest = bytes[start...]
        if rest.starts(with: "//".utf8) { return rest.firstIndex { $0 == 0x0A || $0 == 0x0D } ?? bytes.count }
        guard rest.starts(with: "/*".utf8) else { return nil }
        var end = start + 2
        while end < bytes.count, !bytes[end...].starts(with: "*/".utf8) { end += 1 }
        return min(end + 2, bytes.count)
    }

    private func indent(of member: JSON5Member) -> String { indent(at: member.keyRange.lowerBound) }
    private func indent(of node: JSON5Node) -> String { indent(at: node.range.lowerBound) }

    private func indent(at offset: Int) -> String {
        let lineStart = bytes[..<offset].lastIndex { $0 == 0x0A }.map { $0 + 1 } ?? 0
        return String(decoding: bytes[lineStart...].prefix { $0 == 0x20 || $0 == 0x09 }, as: UTF8.self)
    }
}

extension [JSON5Member] {
    fileprivate subscript(name: String) -> JSON5Node.Value? { first { $0.key == name }?.value.value }
}
