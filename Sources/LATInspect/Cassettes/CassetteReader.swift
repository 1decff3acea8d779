internal import FoundationEssentials
internal import HTTPCore

/// Reads the text of a cassette.
struct CassetteReader {
    /// The version of the format that this package writes.
    static let version = 1

    /// Returns the content of a body's file by its name; `nil` when there is none.
    let body: (String) -> Data?

    /// The entries of a file, in their order.
    func entries(_ text: String) throws(YAMLProblem) -> [CassetteEntry] {
        var documents = try YAMLReader.documents(text)
        guard !documents.isEmpty else {
            throw YAMLProblem(line: 1, message: "the first line with a version is missing")
        }
        let head = try Node(documents.removeFirst(), "the cassette")
        let version = try head.required("version").number()
        guard version <= Self.version else {
            throw YAMLProblem(
                line: head.line,
                message: "the cassette has version \(version), and this package reads up to \(Self.version); update it")
        }
        var entries: [CassetteEntry] = []
        for document in documents { entries.append(try entry(try Node(document, "an entry"))) }
        return entries
    }

    private func entry(_ node: Node) throws(YAMLProblem) -> CassetteEntry {
        try node.allow(["request", "response", "messages", "failure"])
        let asked = try node.required("request")
        try asked.allow(["method", "url", "headers", "body", "base64", "file", "omitted"])
        var entry = CassetteEntry(
            request: .init(
                method: try asked.required("method").text(), url: try asked.required("url").text(),
                headers: try fields(asked, "headers"), body: try body(asked)))
        entry.line = node.line
        if let answer = try node.optional("response") { entry.response = try response(answer) }
        if let list = try node.optional("messages") { entry.messages = try messages(list) }
        if let failure = try node.optional("failure") {
            try failure.allow(["kind", "message"])
            let name = try failure.required("kind")
            guard let kind = NetworkError.Kind(name: try name.text()) else {
                throw YAMLProblem(
                    line: name.line,
                    message: "\"\(try name.text())\" is not a kind of error, such as connect or timeout(idle)")
            }
            entry.failure = .init(kind: kind, message: try failure.optional("message")?.text() ?? "")
        }
        guard entry.response != nil || entry.failure != nil else {
            throw YAMLProblem(line: node.line, message: "the entry has neither a response nor a failure")
        }
        return entry
    }

    private func response(_ node: Node) throws(YAMLProblem) -> CassetteEntry.Response {
        try node.allow([
            "status", "reason", "version", "headers", "body", "base64", "file", "omitted", "pieces", "trailers",
        ])
        let status = try node.required("status")
        var response = CassetteEntry.Response(status: try status.number())
        guard (100...999).contains(response.status) else {
            throw YAMLProblem(line: status.line, message: "the status \(response.status) is not within 100 to 999")
        }
        response.reason = try node.optional("reason")?.text() ?? ""
        if let version = try node.optional("version") {
            guard let value = HTTPResponse.Version(rawValue: try version.text()) else {
                throw YAMLProblem(
                    line: version.line, message: "\"\(try version.text())\" is not a version; write HTTP/1.1 or HTTP/2")
            }
            response.version = value
        }
        response.headers = try fields(node, "headers")
        response.trailers = try fields(node, "trailers")
        response.body = try body(node)
        if let pieces = try node.optional("pieces") { response.pieces = try pieces.numbers() }
        return response
    }

    private func fields(_ node: Node, _ name: String) throws(YAMLProblem) -> [CassetteEntry.Field] {
        guard let list = try node.optional(name) else { return [] }
        var fields: [CassetteEntry.Field] = []
        for member in try list.fields() {
            fields.append(.init(name: member.name, value: try Node(member.value, member.name).text()))
        }
        return fields
    }

    private func messages(_ list: Node) throws(YAMLProblem) -> [CassetteEntry.Message] {
        var messages: [CassetteEntry.Message] = []
        for member in try list.fields() {
            guard CassetteEntry.Message.names.contains(member.name) else {
                throw YAMLProblem(
                    line: member.value.line,
                    message: "unknown name \"\(member.name)\" in messages; known are "
                        + CassetteEntry.Message.names.joined(separator: ", "))
            }
            let text = try Node(member.value, member.name).text()
            var content = TapedMessage.text(text)
            if member.name.hasSuffix("Bytes") {
                guard let data = Data(base64Encoded: text) else {
                    throw YAMLProblem(line: member.value.line, message: "the text after \(member.name) is not Base64")
                }
                content = .data(data)
            } else if member.name.hasSuffix("Close") {
                let code = text.prefix { $0 != " " }
                guard code.isEmpty || UInt16(code) != nil else {
                    throw YAMLProblem(
                        line: member.value.line, message: "\"\(text)\" does not begin with the code of a close frame")
                }
                content = .close(code: UInt16(code), reason: String(text.dropFirst(code.count + 1)))
            }
            messages.append(.init(isSent: member.name.hasPrefix("sent"), content: content, line: member.value.line))
        }
        return messages
    }

    private func body(_ node: Node) throws(YAMLProblem) -> RecordedBody {
        if let text = try node.optional("body") { return RecordedBody(Data(try text.text().utf8)) }
        if let code = try node.optional("base64") {
            guard let data = Data(base64Encoded: try code.text()) else {
                throw YAMLProblem(line: code.line, message: "the text after base64 is not Base64")
            }
            return RecordedBody(data)
        }
        if let file = try node.optional("file") {
            let name = try file.text()
            guard !name.contains("/"), let data = body(name) else {
                throw YAMLProblem(
                    line: file.line, message: "the body's file \"\(name)\" is missing beside the cassette; restore it")
            }
            return RecordedBody(data)
        }
        return try node.optional("omitted").map { node throws(YAMLProblem) in
            .omitted(byteCount: try node.number())
        } ?? .none
    }
}

/// A value with its name for messages.
private struct Node {
    let value: YAMLValue
    let name: String

    init(_ value: YAMLValue, _ name: String) throws(YAMLProblem) {
        self.value = value
        self.name = name
    }

    var line: Int { value.line }

    private func members() throws(YAMLProblem) -> [YAMLValue.Member] {
        guard case .map(let members, _) = value else {
            throw YAMLProblem(line: line, message: "\(name) is \(value.kindName); expected names with values")
        }
        return members
    }

    func allow(_ names: [String]) throws(YAMLProblem) {
        for member in try members() where !names.contains(member.name) {
            throw YAMLProblem(
                line: member.value.line,
                message: "unknown name \"\(member.name)\" in \(name); known are \(names.joined(separator: ", "))")
        }
    }

    func optional(_ name: String) throws(YAMLProblem) -> Node? {
        guard let member = try members().first(where: { $0.name == name }) else { return nil }
        return try Node(member.value, name)
    }

    func required(_ name: String) throws(YAMLProblem) -> Node {
        guard let node = try optional(name) else {
            throw YAMLProblem(line: line, message: "\(self.name) has no \"\(name)\"")
        }
        return node
    }

    /// The lines `- Name: value` of a list.
    func fields() throws(YAMLProblem) -> [YAMLValue.Member] {
        guard case .list(let elements, _) = value else {
            throw YAMLProblem(line: line, message: "\"\(name)\" must be a list of lines - Name: value")
        }
        return elements.compactMap { element in
            if case .map(let members, _) = element { members.first } else { nil }
        }
    }

    func text() throws(YAMLProblem) -> String {
        guard case .text(let text, _) = value else {
            throw YAMLProblem(line: line, message: "\"\(name)\" is \(value.kindName); expected a text")
        }
        return text
    }

    func number() throws(YAMLProblem) -> Int {
        guard let number = Int(try text()), number >= 0 else {
            throw YAMLProblem(line: line, message: "\"\(name)\" is \"\(try text())\"; expected a whole number")
        }
        return number
    }

    func numbers() throws(YAMLProblem) -> [Int] {
        guard case .list(let elements, _) = value else {
            throw YAMLProblem(line: line, message: "\"\(name)\" must be a list such as [5, 3]")
        }
        var numbers: [Int] = []
        for element in elements { numbers.append(try Node(element, name).number()) }
        return numbers
    }
}
