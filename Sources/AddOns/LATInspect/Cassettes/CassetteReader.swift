internal import FoundationEssentials
internal import HTTPCore

struct CassetteReader {
    /// The version of the format that this package writes.
    static let version = 1

    /// Returns the content of a body's file by its name; `nil` when there is none. What it throws says why the file cannot be
    /// read.
    let body: (String) throws -> Data?

    func entries(_ text: String) throws(YAMLProblem) -> [CassetteEntry] {
        var documents = try YAMLReader.documents(text)
        guard !documents.isEmpty else {
            throw YAMLProblem(line: 1, message: "the line \"version: 1\" is missing")
        }
        let head = CassetteNode(value: documents.removeFirst(), name: "the cassette")
        let version = try head.required("version").number()
        guard version <= Self.version else {
            throw head.problem(
                "the cassette has version \(version), and this package reads up to \(Self.version); update it")
        }
        return try documents.map { document throws(YAMLProblem) in
            try entry(CassetteNode(value: document, name: "an entry"))
        }
    }

    private func entry(_ node: CassetteNode) throws(YAMLProblem) -> CassetteEntry {
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
                throw name.problem(
                    "\"\(try name.text())\" is not a kind of error, such as connect or timeout(idle)")
            }
            entry.failure = .init(kind: kind, message: try failure.optional("message")?.text() ?? "")
        }
        guard entry.response != nil || entry.failure != nil else {
            throw node.problem("the entry has neither a response nor a failure")
        }
        return entry
    }

    private func response(_ node: CassetteNode) throws(YAMLProblem) -> CassetteEntry.Response {
        try node.allow([
            "status", "reason", "version", "headers", "body", "base64", "file", "omitted", "pieces", "trailers",
        ])
        let status = try node.required("status")
        var response = CassetteEntry.Response(status: try status.number())
        guard (100...999).contains(response.status) else {
            throw status.problem("the status \(response.status) is not within 100 to 999")
        }
        response.reason = try node.optional("reason")?.text() ?? ""
        if let version = try node.optional("version") {
            guard let value = HTTPResponse.Version(rawValue: try version.text()) else {
                throw version.problem("\"\(try version.text())\" is not a version; write HTTP/1.1 or HTTP/2")
            }
            response.version = value
        }
        response.headers = try fields(node, "headers")
        response.trailers = try fields(node, "trailers")
        response.body = try body(node)
        if let pieces = try node.optional("pieces") { response.pieces = try pieces.numbers() }
        return response
    }

    private func fields(_ node: CassetteNode, _ name: String) throws(YAMLProblem) -> [CassetteEntry.Field] {
        guard let list = try node.optional(name) else { return [] }
        return try list.fields().map { field throws(YAMLProblem) in .init(name: field.name, value: try field.text()) }
    }

    private func messages(_ list: CassetteNode) throws(YAMLProblem) -> [CassetteEntry.Message] {
        try list.fields().map { member throws(YAMLProblem) in
            try member.checkName(within: CassetteEntry.Message.names, of: "messages")
            let text = try member.text()
            var content = SocketMessage.text(text)
            if member.name.hasSuffix("Bytes") {
                guard let data = Data(base64Encoded: text) else {
                    throw member.problem("the text after \(member.name) is not Base64")
                }
                content = .data(data)
            } else if member.name.hasSuffix("Close") {
                let code = text.prefix { $0 != " " }
                guard code.isEmpty || UInt16(code) != nil else {
                    throw member.problem("\"\(text)\" does not begin with the code of a close frame")
                }
                content = .close(code: UInt16(code), reason: String(text.dropFirst(code.count + 1)))
            }
            return .init(isSent: member.name.hasPrefix("sent"), content: content, line: member.line)
        }
    }

    private func body(_ node: CassetteNode) throws(YAMLProblem) -> RecordedBody {
        if let text = try node.optional("body") { return RecordedBody(Data(try text.text().utf8)) }
        if let code = try node.optional("base64") {
            guard let data = Data(base64Encoded: try code.text()) else {
                throw code.problem("the text after base64 is not Base64")
            }
            return RecordedBody(data)
        }
        if let file = try node.optional("file") {
            let name = try file.text()
            do {
                if !name.contains("/"), let data = try body(name) { return RecordedBody(data) }
            } catch {
                throw file.problem("the body's file \"\(name)\" cannot be read: \(NetworkError.reason(of: error))")
            }
            throw file.problem("the body's file \"\(name)\" is missing beside the cassette; restore it")
        }
        guard let count = try node.optional("omitted") else { return .none }
        return .omitted(byteCount: try count.number())
    }
}

/// A value with its name for messages.
private struct CassetteNode {
    let value: YAMLValue
    let name: String

    var line: Int { value.line }

    func problem(_ message: String) -> YAMLProblem { YAMLProblem(line: line, message: message) }

    private func members() throws(YAMLProblem) -> [CassetteNode] {
        guard case .map(let members, _) = value else {
            throw problem("\(name) is \(value.kindName); expected names with values")
        }
        return members.map { CassetteNode(value: $0.value, name: $0.name) }
    }

    func allow(_ names: [String]) throws(YAMLProblem) {
        for member in try members() { try member.checkName(within: names, of: name) }
    }

    func checkName(within names: [String], of parent: String) throws(YAMLProblem) {
        guard !names.contains(name) else { return }
        throw problem("unknown name \"\(name)\" in \(parent); known are \(names.joined(separator: ", "))")
    }

    func optional(_ name: String) throws(YAMLProblem) -> CassetteNode? { try members().first { $0.name == name } }

    func required(_ name: String) throws(YAMLProblem) -> CassetteNode {
        guard let node = try optional(name) else { throw problem("\(self.name) has no \"\(name)\"") }
        return node
    }

    /// The lines `- Name: value` of a list.
    func fields() throws(YAMLProblem) -> [CassetteNode] {
        guard case .list(let elements, _) = value else {
            throw problem("\"\(name)\" must be a list of lines - Name: value")
        }
        return elements.compactMap { element in
            guard case .map(let members, _) = element else { return nil }
            return members.first.map { CassetteNode(value: $0.value, name: $0.name) }
        }
    }

    func text() throws(YAMLProblem) -> String {
        guard case .text(let text, _) = value else {
            throw problem("\"\(name)\" is \(value.kindName); expected a text")
        }
        return text
    }

    func number() throws(YAMLProblem) -> Int {
        guard let number = Int(try text()), number >= 0 else {
            throw problem("\"\(name)\" is \"\(try text())\"; expected a whole number from 0")
        }
        return number
    }

    func numbers() throws(YAMLProblem) -> [Int] {
        guard case .list(let elements, _) = value else {
            throw problem("\"\(name)\" must be a list such as [5, 3]")
        }
        return try elements.map { element throws(YAMLProblem) in try CassetteNode(value: element, name: name).number() }
    }
}
