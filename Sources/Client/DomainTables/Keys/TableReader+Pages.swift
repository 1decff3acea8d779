import HTTPCore

extension ValueKind<DomainTable.Choice<Paging>> {
    static var pages: Self {
        ValueKind(
            ValueForm(
                #"`"link"`, or an object with one of `link`, `address`, `cursor`, `number` and `offset`"#,
                schema: ##"{ "$ref": "#/$defs/paging" }"##
            ).orNull("none"),
            read: { reader, node, _ in reader.choice(node) { $0.pages(node) } },
            text: { $0.rule?.text ?? "null" })
    }
}

extension ValueKind<DomainTable.Choice<Polling>> {
    static var poll: Self {
        ValueKind(
            ValueForm(
                #"`"location"`, or `{ status, done, failed, message, address, header, result, interval, longestInterval, deadline, attempts }`"#,
                schema: ##"{ "$ref": "#/$defs/polling" }"##,
                durations: [["interval"], ["longestInterval"], ["deadline"]]
            ).orNull("none"),
            read: { reader, node, _ in reader.choice(node) { $0.poll(node) } },
            text: { $0.rule?.text ?? "null" })
    }
}

extension ValueKind<DomainTable.Choice<ResumableUpload>> {
    static var uploads: Self {
        ValueKind(
            ValueForm(
                #"`"tus"`, `"standard"`, `"s3"`, or `{ protocol, partSize, parallel, checksums }`"#,
                schema: ##"{ "$ref": "#/$defs/uploads" }"##
            ).orNull("none"),
            read: { reader, node, _ in reader.choice(node) { $0.uploads(node) } },
            text: { $0.rule?.text ?? "null" })
    }
}

/// The readers of `pages`, `poll` and `uploads`.
extension TableReader {
    fileprivate mutating func choice<Rule>(
        _ node: JSON5Node, _ read: (inout TableReader) -> Rule?
    ) -> DomainTable.Choice<Rule>? {
        if case .null = node.value { return .off }
        return read(&self).map { .rule($0) }
    }

    /// The members that say where the next page is, and the members that only some of them have.
    private static let pageStyles = ["link", "address", "cursor", "number", "offset"]
    private static let pageDetails = ["parameter": ["cursor"], "first": ["number", "offset"]]

    mutating func pages(_ node: JSON5Node) -> Paging? {
        guard let row = object(node, "pages", or: "link") else { return node.isWord("link") ? .link : nil }
        let styles = Self.pageStyles.filter { row[$0] != nil }
        if styles.isEmpty, row.mistyped.isEmpty {
            report(
                node.range,
                "\"pages\" does not say where the next page is; add \"link\", \"address\", \"cursor\", \"number\" or "
                    + "\"offset\", or write pages: \"link\"",
                expected: "one of \"link\", \"address\", \"cursor\", \"number\" and \"offset\"")
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
        let expected = "the name of a parameter"
        var paging = Paging.link
        if let relation = name(row["link"], "link", "a relation such as \"next\"")?.value {
            paging = .link(relation: relation)
        }
        if let path = path(row["address"], "address") { paging = .address(at: path) }
        if let path = path(row["cursor"], "cursor") {
            paging = .cursor(at: path, parameter: name(row["parameter"], "parameter", expected)?.value ?? "cursor")
        }
        if let number = name(row["number"], "number", expected)?.value { paging = .number(number, first: first ?? 1) }
        if let offset = name(row["offset"], "offset", expected)?.value { paging = .offset(offset, first: first ?? 0) }
        if row["items"]?.isWord(".") == true {
            paging.items = ""
        } else if let items = path(row["items"], "items") {
            paging.items = items
        }
        paging.limit = integer(row["maxPages"], "maxPages", 1...1_000_000)?.value
        return paging
    }

    mutating func poll(_ node: JSON5Node) -> Polling? {
        guard let row = object(node, "poll", or: "location") else { return node.isWord("location") ? .location : nil }
        var polling = Polling()
        polling.status = path(row["status"], "status")
        for key in ["done", "failed", "message"] where polling.status == nil && row.lacks("status") {
            guard let member = row[key] else { continue }
            report(
                member.range, "\"\(key)\" belongs to \"status\" of the polling; add it, or leave \"\(key)\" out",
                expected: "\"status\"")
        }
        polling.done = row["done"].flatMap { states($0, "done") }
        polling.failed = row["failed"].flatMap { states($0, "failed") }
        if let both = polling.failed?.first(where: { polling.done?.contains($0) == true }), let failed = row["failed"] {
            report(
                failed.range, "\(both) is in \"done\" and in \"failed\"; leave it in one of them",
                expected: "other values than those of \"done\"")
        }
        polling.message = path(row["message"], "message")
        polling.address = path(row["address"], "address")
        if let field = name(row["header"], "header", "the name of a header field"), let node = row["header"] {
            if HTTPText.isToken(field.value) {
                polling.field = field.value
            } else {
                reportType(node, "\"header\"", "the name of a header field")
            }
        }
        polling.result = path(row["result"], "result")
        let interval = duration(row["interval"], "interval")?.value
        let longest = duration(row["longestInterval"], "longestInterval")?.value
        if let interval { polling.interval = interval }
        polling.longestInterval = longest ?? max(polling.longestInterval, polling.interval)
        if let longest, longest < polling.interval, let node = row["longestInterval"] {
            report(
                node.range,
                "\"longestInterval\" is shorter than the interval, which is \(DurationText.text(polling.interval)); make it "
                    + "at least as long", expected: "at least \(DurationText.text(polling.interval))")
        }
        if let deadline = duration(row["deadline"], "deadline")?.value { polling.deadline = deadline }
        polling.attempts = integer(row["attempts"], "attempts", 1...1_000_000)?.value
        return polling
    }

    mutating func uploads(_ node: JSON5Node) -> ResumableUpload? {
        let words = ResumableUpload.Style.allCases.map(\.rawValue)
        guard case .object = node.value else {
            guard case .string(let text) = node.value else {
                reportType(node, "\"uploads\"", "a protocol such as \"tus\", or an object { … }")
                return nil
            }
            guard let style = ResumableUpload.Style(rawValue: text) else {
                reportChoice(node, text, "uploads", words)
                return nil
            }
            return ResumableUpload(style)
        }
        guard let row = fields(of: node, in: .uploads, called: "\"uploads\"") else { return nil }
        let name = name(row["protocol"], "protocol", "a protocol such as \"tus\"")?.value
        if row["protocol"] == nil {
            report(
                node.range, "\"uploads\" does not name its protocol; add protocol: \"tus\", \"standard\" or \"s3\"",
                expected: "\"protocol\"")
        }
        guard let name else { return nil }
        guard let style = ResumableUpload.Style(rawValue: name) else {
            if let member = row["protocol"] { reportChoice(member, name, "protocol", words) }
            return nil
        }
        var upload = ResumableUpload(style)
        upload.partSize = integer(row["partSize"], "partSize", ResumableUpload.limits.partSize).map { Int64($0.value) }
        if let parallel = integer(row["parallel"], "parallel", ResumableUpload.limits.parallel)?.value {
            upload.parallel = parallel
        }
        if let sends = flag(row["checksums"], "checksums")?.value { upload.sendsChecksums = sends }
        return upload
    }

    /// Reads an object; `nil` for the word that stands for one, and for anything else, which is reported.
    private mutating func object(_ node: JSON5Node, _ key: String, or word: String) -> Fields? {
        switch node.value {
        case .object: return fields(of: node, in: TableKey.Place(rawValue: key) ?? .pages, called: "\"\(key)\"")
        case .string(let text):
            if text != word { reportChoice(node, text, key, [word]) }
        default: reportType(node, "\"\(key)\"", "\"\(word)\" or an object { … }")
        }
        return nil
    }

    /// Reads the values of a state.
    private mutating func states(_ node: JSON5Node, _ key: String) -> [JSONValue]? {
        guard let elements = array(node, key, of: "strings, numbers, true and false", hasNumbers: true) else {
            return nil
        }
        return elements.compactMap { element in
            switch element.value {
            case .number, .string, .bool: return JSONValue(element.value)
            case .null, .array, .object:
                reportType(element, "an element of \"\(key)\"", "a string, a number, true or false")
                return nil
            }
        }
    }
}

extension JSON5Node {
    fileprivate func isWord(_ word: String) -> Bool {
        if case .string(let text) = value { text == word } else { false }
    }
}

extension Paging {
    /// The value as `explain` shows it.
    fileprivate var text: String {
        var text =
            switch style {
            case .link(let relation): relation == "next" ? "link" : "link \(relation)"
            case .address(let path): "address at \(path)"
            case .cursor(let path, let parameter): "cursor at \(path) as \(parameter)"
            case .number(let parameter, let first): "number as \(parameter) from \(first)"
            case .offset(let parameter, let first): "offset as \(parameter) from \(first)"
            }
        if let items, !items.isEmpty { text += ", items at \(items)" }
        return limit.map { "\(text), at most \($0) pages" } ?? text
    }
}

extension ResumableUpload {
    /// The value as `explain` shows it.
    fileprivate var text: String {
        var text = style.rawValue
        if let partSize { text += ", parts of \(partSize) bytes" }
        if parallel > 1 { text += ", \(parallel) side by side" }
        return sendsChecksums ? text : text + ", without checksums"
    }
}

extension Polling {
    /// The value as `explain` shows it.
    fileprivate var text: String {
        var text = status.map { "status at \($0)" } ?? "status 202"
        text += address.map { ", address at \($0)" } ?? (field == "Location" ? "" : ", address in \(field)")
        if let result { text += ", result at \(result)" }
        text += ", every \(DurationText.text(interval))"
        if longestInterval > interval { text += " up to \(DurationText.text(longestInterval))" }
        if let deadline { text += ", at most \(DurationText.text(deadline))" }
        return attempts.map { "\(text), at most \($0) answers" } ?? text
    }
}
