import HTTPCore

extension ValueKind<Paging> {
    static var pages: Self {
        ValueKind(
            ValueForm(
                #"`"link"`, or an object with one of `address`, `cursor`, `number` and `offset`"#,
                schema: ##"{ "$ref": "#/$defs/paging" }"##),
            read: { reader, node, _ in reader.pages(node) }, text: { $0.text })
    }
}

/// The reader of `pages`.
extension TableReader {
    /// The members that say where the next page is, and the members that only some of them have.
    private static let pageStyles = ["address", "cursor", "number", "offset"]
    private static let pageDetails = [
        "parameter": ["cursor"], "first": ["number", "offset"], "items": ["number", "offset"],
    ]

    mutating func pages(_ node: JSON5Node) -> Paging? {
        if case .string(let word) = node.value {
            if word == "link" { return .link }
            reportChoice(node, word, "pages", ["link"])
            return nil
        }
        guard case .object = node.value else {
            reportType(node, "\"pages\"", "\"link\" or an object { … }")
            return nil
        }
        guard let row = fields(of: node, in: .pages, called: "\"pages\"") else { return nil }
        let styles = Self.pageStyles.filter { row[$0] != nil }
        if styles.isEmpty, row.mistyped.isEmpty {
            report(
                node.range,
                "\"pages\" does not say where the next page is; add \"address\", \"cursor\", \"number\" or \"offset\", "
                    + "or write pages: \"link\"", expected: "one of \"address\", \"cursor\", \"number\" and \"offset\"")
        }
        if styles.count > 1 {
            let words = styles.map { "\"\($0)\"" }.joined(separator: " and ")
            report(
                node.range, "\"pages\" has \(words), but a page says in one way which one is next; leave one of them",
                expected: "one of \(words)")
        }
        for (key, owners) in Self.pageDetails.sorted(by: { $0.key < $1.key }) {
            guard let member = row[key], row.mistyped.isEmpty, styles.filter(owners.contains).isEmpty else { continue }
            let words = owners.map { "\"\($0)\"" }.joined(separator: " or ")
            report(
                member.range, "\"\(key)\" belongs to \(words) of the pages; add it, or leave \"\(key)\" out",
                expected: words)
        }
        let first = integer(row["first"], "first", 0...1_000_000_000)?.value
        let items = path(row["items"], "items") ?? ""
        let expected = "the name of a parameter"
        var paging = Paging.link
        if let path = path(row["address"], "address") { paging = .address(at: path) }
        if let path = path(row["cursor"], "cursor") {
            paging = .cursor(at: path, parameter: name(row["parameter"], "parameter", expected)?.value ?? "cursor")
        }
        if let number = name(row["number"], "number", expected)?.value {
            paging = .number(number, first: first ?? 1, items: items)
        }
        if let offset = name(row["offset"], "offset", expected)?.value {
            paging = .offset(offset, first: first ?? 0, items: items)
        }
        paging.limit = integer(row["maxPages"], "maxPages", 1...1_000_000)?.value
        return paging
    }
}

extension Paging {
    /// The value as `explain` shows it.
    fileprivate var text: String {
        let text =
            switch style {
            case .link: "link"
            case .address(let path): "address at \(path)"
            case .cursor(let path, let parameter): "cursor at \(path) as \(parameter)"
            case .number(let parameter, let first, _): "number as \(parameter) from \(first)"
            case .offset(let parameter, let first, _): "offset as \(parameter) from \(first)"
            }
        return limit.map { "\(text), at most \($0) pages" } ?? text
    }
}
