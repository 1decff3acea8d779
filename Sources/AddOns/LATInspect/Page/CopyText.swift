internal import FoundationEssentials
internal import LATNetworking

/// A request as text to run or to compile. If it is made from a record, it contains no secrets.
struct CopyText {
    /// The forms, by their names in the page's addresses.
    enum Form: String, CaseIterable {
        /// A command for curl.
        case curl
        /// A call of a manager.
        case swift
        /// A request entity.
        case entity
        /// A command for HTTPie, or for `lat request`.
        case httpie
    }

    let request: HTTPRequest
    /// The row of the server table that the call belongs to.
    var server: String?
    /// A comment above the text, such as that the body was cut.
    var note: String?

    /// - Parameter request: The request with its fields as they were sent, and a body of bytes, a form of parts, or none.
    init(_ request: HTTPRequest, server: String? = nil, note: String? = nil) {
        var request = request
        // Leaves out the fields of the connection, and those that every client sets itself.
        request.headers.removeAll { name in
            name.hasPrefix(":")
                || ["host", "content-length", "connection", "accept-encoding"].contains(name.lowercased())
        }
        // It names the boundary of the form that was sent.
        if case .multipart = request.body?.content { request.headers["Content-Type"] = nil }
        self.request = request
        self.server = server
        self.note = note
    }

    func text(as form: Form) -> String {
        switch form {
        case .curl where hasNUL, .httpie where hasNUL:
            comment("#") + "# This request has a NUL, which no argument of a command can hold.\n"
        case .curl: comment("#") + curl
        case .httpie: comment("#") + (httpie ?? "# HTTPie has no notation for a part of this request.\n\(curl)")
        case .swift: comment("//") + swift
        case .entity: comment("//") + entity
        }
    }

    /// One line, whatever the note contains.
    private func comment(_ mark: String) -> String { note.map { "\(mark) \(URLText.visible($0))\n" } ?? "" }

    private var hasNUL: Bool {
        ([request.method.rawValue, request.url] + request.headers.flatMap { [$0.name, $0.value] } + [type ?? ""])
            .contains { $0.utf8.contains(0) }
    }

    // MARK: Commands

    private var body: Data? {
        guard case .data(let data) = request.body?.content, !data.isEmpty else { return nil }
        return data
    }

    private var bodyText: String? {
        body.flatMap { String(validating: $0, as: UTF8.self) }.flatMap { $0.utf8.contains(0) ? nil : $0 }
    }

    private var type: String? { request.headers["Content-Type"] ?? request.body?.contentType }

    /// A command that reads the body from standard input when the body is not text.
    private func piped(_ command: String) -> String {
        guard let body, bodyText == nil else { return command }
        return "echo \(body.base64EncodedString()) | base64 -d | \(command)"
    }

    private var curl: String {
        var request = request
        if body != nil, bodyText == nil {
            if let type { request.headers["Content-Type"] = type }
            request.body = .stream(AsyncStream<Data> { $0.finish() })
        }
        return piped(CurlCommand(.run).text(of: request))
    }

    /// `nil` for a form of parts, and for fields that cannot be written: HTTPie removes a backslash before `:`, `;`, `=` and `@`.
    private var httpie: String? {
        if case .multipart = request.body?.content { return nil }
        let isLost = request.headers.contains { field in
            zip(field.value.utf8, field.value.utf8.dropFirst()).contains {
                $0 == UInt8(ascii: "\\") && ":;=@".utf8.contains($1)
            }
        }
        guard !isLost else { return nil }
        var words = ["http"]
        var items: [String]?
        var headers = request.headers
        if let bodyText {
            items = Self.items(of: bodyText)
            if items == nil {
                words.append("--raw=\(bodyText.shellQuoted)")
            } else if headers["Content-Type"]?.lowercased().hasPrefix("application/json") == true {
                headers["Content-Type"] = nil
            }
        }
        let method = request.method.rawValue
        words.append(method.isShellWord ? method : method.shellQuoted)
        words.append(request.url.shellQuoted)
        for (name, value) in headers {
            // Without the backslash, `:@` would name a file, and `:=` a member of the body.
            let mark = Self.isSpecial(value) ? "\\" : ""
            words.append((value.isEmpty ? "\(name);" : "\(name):\(mark)\(value)").shellQuoted)
        }
        if body != nil, !headers.contains("Content-Type"), let type, items == nil {
            words.append("Content-Type:\(type)".shellQuoted)
        }
        words += items ?? []
        return piped(words.joined(separator: " "))
    }

    /// Whether HTTPie would not read this as plain text after the `:` or `=` of an item.
    private static func isSpecial(_ value: String) -> Bool {
        value.utf8.first == UInt8(ascii: "@") || value.utf8.first == UInt8(ascii: "=")
    }

    /// The members of a small JSON object as HTTPie's items; `nil` for other bodies.
    private static func items(of body: String) -> [String]? {
        guard let members = exactMembers(of: body), !members.isEmpty, members.count <= 20,
            // `-` would begin an option, `{` a whole document for `lat`; an empty name makes no item.
            members.keys.allSatisfy({
                $0.utf8.first.map { $0 != UInt8(ascii: "-") && $0 != UInt8(ascii: "{") } ?? false
            })
        else { return nil }
        return members.sorted { $0.key < $1.key }.map { name, member in
            let special = ":;=@\\[]".unicodeScalars.map { ($0, "\\\($0)") }
            let escaped = name.replacingScalars(Dictionary(uniqueKeysWithValues: special))
            // `=@` would name a file, `==` a parameter, and HTTPie may remove a backslash: such texts are written as JSON.
            guard let text = member.string, !isSpecial(text),
                !text.utf8.contains(where: { $0 == UInt8(ascii: "\\") || $0 == 0 })
            else { return "\(escaped):=\(member)".shellQuoted }
            return "\(escaped)=\(text)".shellQuoted
        }
    }

    /// The members of a JSON object in which no number, text or name changes when it is read and written; `nil` for others.
    private static func exactMembers(of body: String) -> [String: JSONValue]? {
        guard let value = try? JSONValue(parsing: Data(body.utf8)), let members = value.object else { return nil }
        var (isText, isEscaped) = (false, false)
        let compact = body.utf8.filter { byte in
            defer {
                if byte == UInt8(ascii: "\""), !isEscaped { isText.toggle() }
                isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
            }
            return isText || !" \t\r\n".utf8.contains(byte)
        }
        // Members are written in another order.
        return compact.sorted() == value.description.utf8.sorted() ? members : nil
    }

    // MARK: Swift

    private var swift: String {
        var arguments = ["\(literal(request.method.rawValue)), \(literal(request.url))"]
        var headers = request.headers
        if let bodyLiteral {
            headers["Content-Type"] = nil
            arguments.append("body: \(bodyLiteral)")
        }
        if !headers.isEmpty { arguments.append("headers: \(dictionary(of: headers, indent: "    "))") }
        return "let response = try await central.startRequest(\n    \(arguments.joined(separator: ",\n    ")))\n"
    }

    private var bodyLiteral: String? {
        if case .multipart(let files)? = request.body?.content {
            return ".multipart([\(files.map(literal).joined(separator: ", "))])"
        }
        guard let body else { return nil }
        let type = type.map { ", contentType: \(literal($0))" } ?? ""
        return bodyText.map { ".data(Data(\(literal($0)).utf8)\(type))" }
            ?? ".data(Data(base64Encoded: \(literal(body.base64EncodedString())))!\(type))"
    }

    private func literal(_ part: UploadFile) -> String {
        let content =
            switch part.source {
            case .path(let path): "path: \(literal(path))"
            case .data(let data): "data: Data(\(literal(String(decoding: data, as: UTF8.self))).utf8)"
            case .stream: "data: Data()"
            }
        let (name, type) = (part.fileName, part.contentType)
        return "UploadFile(name: \(literal(part.name))" + (name.map { ", fileName: \(literal($0))" } ?? "")
            + ", \(content)" + (type.map { ", contentType: \(literal($0))" } ?? "") + ")"
    }

    private var entity: String {
        var lines: [String] = []
        let method = literal(request.method.rawValue)
        let asks = request.method.encodesParametersInQuery
        var (headers, options): (HTTPHeaders, [String]) = (request.headers, [])
        let query = Self.parameters(of: request.url.firstIndex(of: "?").map { request.url[$0...].dropFirst() } ?? "")
        // A row has no query, so that of its call has to be parameters.
        let row = query == nil ? nil : server
        let parameters = row != nil || asks && bodyLiteral == nil ? query ?? [] : []
        lines.append("struct \(name): RequestEntity {")
        if let row {
            lines.append("    // {name} in the row's path takes the parameter or property of that name.")
            lines.append("    static let route = Route(\(method), server: \(literal(row)))")
        } else {
            let url = request.url.prefix { $0 != "#" && (parameters.isEmpty || $0 != "?") }
            // Braces would be parameters of the path.
            let path = url.replacing("{", with: "%7B").replacing("}", with: "%7D")
            lines.append("    static let route = Route(\(method), url: \(literal(String(path))))")
        }
        var own = bodyLiteral
        if own != nil {
            headers["Content-Type"] = nil
            if !asks, parameters.isEmpty, let content = bodyParameters {
                own = nil
                lines += self.parameters(content.members)
                if content.isForm { options.append("parameterEncoding: .form") }
            }
        } else if !asks, !parameters.isEmpty {
            // Without it, the parameters would be the body.
            own = ".data(Data())"
        }
        if !parameters.isEmpty { lines += self.parameters(parameters) }
        if let own { lines.append("    var body: HTTPBody? { \(own) }") }
        if !headers.isEmpty { options.append("headers: \(dictionary(of: headers, indent: "        "))") }
        if !options.isEmpty {
            lines.append("    var options: RequestOptions {")
            lines.append("        RequestOptions(\(options.reversed().joined(separator: ", ")))")
            lines.append("    }")
        }
        return lines.joined(separator: "\n") + "\n}\n\nlet value = try await \(name)().startRequest()\n"
    }

    private func parameters(_ members: [(key: String, value: JSONValue)]) -> [String] {
        let list = members.map { "\(literal($0.key)): \(swiftLiteral($0.value, isNested: false))" }
        let text = list.isEmpty ? ":" : list.joined(separator: ", ")
        return ["    var parameters: Parameters? {", "        [\(text)]", "    }"]
    }

    /// The body as parameters, if they are sent as the same body.
    private var bodyParameters: (members: [(key: String, value: JSONValue)], isForm: Bool)? {
        guard let bodyText else { return nil }
        switch type?.lowercased() {
        case "application/json":
            guard let members = Self.exactMembers(of: bodyText), members.values.allSatisfy(Self.isLiteral) else {
                return nil
            }
            return (members.sorted { $0.key < $1.key }, false)
        case "application/x-www-form-urlencoded": return Self.parameters(of: bodyText[...]).map { ($0, true) }
        default: return nil
        }
    }

    /// The items of a query or form by their names, which no two of them may have.
    private static func parameters(of query: Substring) -> [(key: String, value: JSONValue)]? {
        let items = query.prefix { $0 != "#" }.split(separator: "&").map { item in
            let (name, value) = item.formItems[0]
            return (key: name, value: item.contains("=") ? JSONValue.string(value) : .null)
        }
        // What is no UTF-8 cannot be a text.
        let isExact = items.allSatisfy { !"\($0.key)\($0.value)".unicodeScalars.contains("\u{FFFD}") }
        return isExact && Set(items.map(\.key)).count == items.count ? items : nil
    }

    /// Whether Swift has a literal for a value: numbers of more digits have none.
    private static func isLiteral(_ value: JSONValue) -> Bool {
        switch value {
        case .decimal: false
        case .array(let elements): elements.allSatisfy(isLiteral)
        case .object(let members): members.values.allSatisfy(isLiteral)
        case .null, .bool, .string, .int, .double: true
        }
    }

    /// The name of the entity's type, made of the method and the last fixed part of the path: `PostOrders`.
    private var name: String {
        let parts = request.url.prefix { $0 != "?" && $0 != "#" }.split(separator: "/").dropFirst(2)
        let word = parts.last {
            $0.first?.isLetter == true && $0.allSatisfy { $0.isASCII && ($0.isLetter || $0 == "-" || $0 == "_") }
        }
        let pieces = [request.method.rawValue.lowercased()[...]] + (word ?? "call").split { $0 == "-" || $0 == "_" }
        return String(pieces.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined().filter { $0.isLetter })
    }

    private func dictionary(of headers: HTTPHeaders, indent: String) -> String {
        let fields = headers.map { "\(literal($0.name)): \(literal($0.value))" }
        guard fields.count > 2 else { return "[\(fields.joined(separator: ", "))]" }
        return "[\n" + fields.map { "\(indent)    \($0),\n" }.joined() + "\(indent)]"
    }

    private func swiftLiteral(_ value: JSONValue, isNested: Bool) -> String {
        let text =
            switch value {
            case .null: isNested ? "nil" : "JSONValue.null"
            case .string(let string): literal(string)
            case .array(let elements):
                "[\(elements.map { swiftLiteral($0, isNested: true) }.joined(separator: ", "))]"
            case .object(let members):
                members.isEmpty
                    ? "[:]"
                    : "[\(members.sorted { $0.key < $1.key }.map { "\(literal($0.key)): \(swiftLiteral($0.value, isNested: true))" }.joined(separator: ", "))]"
            default: value.description
            }
        return !isNested && text.hasPrefix("[") ? "\(text) as JSONValue" : text
    }

    /// A literal of Swift, raw where that is easier to read.
    private func literal(_ text: String) -> String {
        let isPlain = !text.unicodeScalars.contains(where: \.controlsTerminal)
        /// Compares bytes: a quote and a combining mark after it are one character, but the quote ends the literal.
        func contains(_ part: String) -> Bool { text.utf8.firstRange(of: part.utf8) != nil }
        if isPlain, !contains("\""), !contains("\\") { return "\"\(text)\"" }
        if isPlain {
            var marks = "#"
            while contains("\"\(marks)") || contains("\\\(marks)") { marks += "#" }
            return "\(marks)\"\(text)\"\(marks)"
        }
        let escaped = text.unicodeScalars.map { scalar in
            switch scalar {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            case "\r": "\\r"
            case "\t": "\\t"
            case _ where scalar.controlsTerminal: "\\u{\(String(scalar.value, radix: 16))}"
            default: String(Character(scalar))
            }
        }
        return "\"\(escaped.joined())\""
    }
}
