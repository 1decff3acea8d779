import DomainTables
import FoundationEssentials
import HTTPCore
import LATNetworking

/// A request of a file with its variables replaced: a pure value but for the files of its body.
struct RunRequest: Sendable {
    enum Target: Hashable, Sendable {
        case url(String)
        /// A row of the table, with its parameters.
        case row(String, [String: JSONValue])
    }

    var method: String
    var target: Target
    var headers = HTTPHeaders()
    var authentication: Authentication?
    var body: Data?
    var usesHTTP1 = false
    var usesHTTP2 = false

    /// The address as it is shown.
    var shownTarget: String {
        switch target {
        case .url(let url): Secrets.standard.shown(url: url)
        case .row(let name, _): name
        }
    }

    /// - Parameters:
    ///   - table: The table whose rows may be named; `nil` for none.
    ///   - read: Reads a file of the body by its path as written.
    /// - Throws: ``RunProblem`` at the text that cannot be used.
    init(
        _ request: HTTPFile.Request, _ scope: inout RunScope, of source: SourceText, table: DomainTable?,
        read: (String) throws(UsageError) -> Data
    ) throws(RunProblem) {
        for prompt in request.prompts where scope.given[prompt.text] == nil {
            throw RunProblem(
                at: prompt.range, of: source,
                "this request asks for \(prompt.text); give it with --variable \(prompt.text)=VALUE")
        }
        method = request.method ?? "GET"
        var graphQL = method == "GRAPHQL"
        if graphQL { method = "POST" }
        for field in request.headers {
            let name = try scope.expanded(field.name, of: source)
            let value = try scope.expanded(field.value, of: source)
            guard HTTPMethod(name).isToken, value.utf8.isFieldValue else {
                throw RunProblem(
                    at: field.value.range, of: source,
                    "the field \(SafeText.line(name)) cannot be sent: it has a control character, or its name has blanks"
                )
            }
            // The REST Client's mark for GraphQL, which is not sent.
            if name.lowercased() == "x-request-type", value.lowercased() == "graphql" {
                graphQL = true
            } else if name.lowercased() == "authorization", let known = Self.authentication(value) {
                authentication = known
            } else {
                headers.append(name, value)
            }
        }
        let hasHTTP2Mark = request.version?.contains("Prior Knowledge") ?? false
        usesHTTP2 = hasHTTP2Mark
        usesHTTP1 = request.version == "HTTP/1.1"
        target = .url("")
        target = try Self.target(request, &scope, source, table, &headers)
        try setBody(request, &scope, source, read, isGraphQL: graphQL)
        guard case .row(let row, var parameters) = target else { return }
        if let method = table.flatMap({ try? $0.server(ServerName(row)).method })?.rawValue {
            guard request.method == nil || request.method == method else {
                throw RunProblem(
                    at: request.target.range, of: source,
                    "the row \"\(row)\" has the method \(method), not \(request.method ?? ""); write \(method) \(row)")
            }
            self.method = method
        }
        // Only what is given, so that the row decides about the encoding.
        if let body {
            guard let members = (try? JSONValue(parsing: body))?.object else {
                throw RunProblem(
                    at: request.target.range, of: source,
                    "the body of a row's request has to be a JSON object, whose members are its parameters")
            }
            if let name = members.keys.sorted().first(where: { parameters[$0] != nil }) {
                throw RunProblem(
                    at: request.target.range, of: source,
                    "\"\(SafeText.line(name))\" is given twice, after the row and in the body; give it once")
            }
            parameters.merge(members) { _, own in own }
            self.body = nil
            headers.removeAll { $0.lowercased() == "content-type" }
        }
        target = .row(row, parameters)
    }

    // MARK: The target

    private static func target(
        _ request: HTTPFile.Request, _ scope: inout RunScope, _ source: SourceText, _ table: DomainTable?,
        _ headers: inout HTTPHeaders
    ) throws(RunProblem) -> Target {
        let rows = table?.serverNames.map(\.rawValue) ?? []
        let name = request.target.text.prefix { $0 != " " && $0 != "\t" }
        let place = request.target.range
        if rows.contains(String(name))
            || name.count < request.target.text.count && request.target.text.contains("=")
                && !name.contains("/") && !name.contains("{{")
        {
            guard rows.contains(String(name)) else {
                throw RunProblem(
                    at: place, of: source,
                    "there is no row \"\(SafeText.line(String(name)))\" in the table"
                        + NearestName.advice(String(name), among: rows, allCalled: "rows"))
            }
            var parameters: [String: JSONValue] = [:]
            let lines = [request.target.trimmed(after: name.utf8.count)] + request.targetLines
            for word in lines.flatMap(Self.words) { try add(word, to: &parameters, &headers, &scope, source) }
            return .row(String(name), parameters)
        }
        var url = ""
        for line in [request.target] + request.targetLines { url += try scope.expanded(line, of: source) }
        if url.hasPrefix("/"), let host = headers["Host"] {
            headers["Host"] = nil
            url = "http://\(host)\(url)"
        }
        guard !url.hasPrefix("/") else {
            throw RunProblem(
                at: place, of: source, "the path has no host; write a whole URL, or a field Host: example.org")
        }
        do throws(UsageError) {
            return .url(try URLArgument.checked(url.replacing(" ", with: "%20")))
        } catch {
            throw RunProblem(at: place, of: source, error.message)
        }
    }

    /// The words of a line. Quotes keep a word together, and so do the braces of a variable.
    private static func words(_ line: HTTPFile.Template) -> [HTTPFile.Template] {
        var words: [HTTPFile.Template] = []
        var word = HTTPFile.Template(text: "", start: line.start)
        var (isOpen, isInBraces, quote) = (false, false, Character?.none)
        var offset = line.start
        for character in line.text {
            defer { offset += character.utf8.count }
            if quote == nil, !isInBraces, character == " " || character == "\t" {
                if isOpen { words.append(word) }
                isOpen = false
                continue
            }
            if !isOpen { word = HTTPFile.Template(text: "", start: offset) }
            isOpen = true
            if character == quote {
                quote = nil
            } else if quote == nil, !isInBraces, character == "\"" || character == "'" {
                quote = character
            } else {
                word.text.append(character)
                isInBraces = isInBraces ? !word.text.hasSuffix("}}") : word.text.hasSuffix("{{")
            }
        }
        return isOpen ? words + [word] : words
    }

    /// Adds an item such as `id=42`, `page:=2` or `X-Trace:1`.
    private static func add(
        _ word: HTTPFile.Template, to parameters: inout [String: JSONValue], _ headers: inout HTTPHeaders,
        _ scope: inout RunScope, _ source: SourceText
    ) throws(RunProblem) {
        // The separator is found before the variables are replaced, so that a value may have any character.
        do throws(UsageError) {
            var item = try RequestItem(word.text)
            guard [.text, .json, .query, .header, .emptyHeader].contains(item.kind) else {
                throw UsageError("\"\(item.shown)\" is not for a row; write name=text, name:=json or Name:value")
            }
            let shown = item.shown
            item.value = try scopeExpanded(item.value, word, &scope, source)
            // The message of the item would show the value of a variable, which may be secret.
            if item.kind == .json, shown != item.shown, (try? JSONValue(parsing: item.value)) == nil {
                throw UsageError("\"\(shown)\" is not JSON when its variables are replaced; for text write name=text")
            }
            try StartCommand.add(item, to: &parameters, &headers)
        } catch {
            throw RunProblem(at: word.range, of: source, error.message)
        }
    }

    private static func scopeExpanded(
        _ value: String, _ word: HTTPFile.Template, _ scope: inout RunScope, _ source: SourceText
    ) throws(UsageError) -> String {
        do throws(RunProblem) {
            let start = word.start + max(0, word.text.utf8.count - value.utf8.count)
            return try scope.expanded(HTTPFile.Template(text: value, start: start), of: source)
        } catch {
            throw UsageError(error.diagnostics.first?.message ?? error.message)
        }
    }

    /// The credentials of `Basic USER PASSWORD` and `Digest USER PASSWORD`, also with a colon between them.
    private static func authentication(_ value: String) -> Authentication? {
        let words = value.split(separator: " ", maxSplits: 1).map(String.init)
        guard words.count == 2 else { return nil }
        let mark = words[1].firstIndex { $0 == " " || $0 == ":" }
        guard let mark else { return nil }
        let (user, password) = (String(words[1][..<mark]), words[1][words[1].index(after: mark)...].trimmedBlanks)
        switch words[0].lowercased() {
        case "basic": return .basic(user: user, password: password)
        case "digest" where !value.contains("="): return .digest(user: user, password: password)
        default: return nil
        }
    }

    // MARK: The body

    private mutating func setBody(
        _ request: HTTPFile.Request, _ scope: inout RunScope, _ source: SourceText,
        _ read: (String) throws(UsageError) -> Data,
        isGraphQL: Bool
    ) throws(RunProblem) {
        guard !request.body.isEmpty else { return }
        let type = (headers["Content-Type"] ?? "").lowercased()
        // The lines of a multipart body end with CR LF (RFC 2046 §5.1.1).
        let lineEnd = type.hasPrefix("multipart/") ? "\r\n" : "\n"
        let isForm = type.hasPrefix("application/x-www-form-urlencoded")
        var data = Data()
        for (index, line) in request.body.enumerated() {
            // A form may have a line for each field.
            if index > 0, !isForm { data += Data(lineEnd.utf8) }
            switch line {
            case .text(let text):
                let expanded = try scope.expanded(text, of: source)
                data += Data((isForm ? expanded.trimmedBlanks : expanded).utf8)
            case .file(let path, let expands):
                let name = try scope.expanded(path, of: source)
                let content: Data
                do throws(UsageError) { content = try read(name) } catch {
                    throw RunProblem(at: path.range, of: source, error.message)
                }
                guard expands else {
                    data += content
                    continue
                }
                guard let text = String(validating: content, as: UTF8.self) else {
                    throw RunProblem(
                        at: path.range, of: source,
                        "the file is not UTF-8 text; write < instead of <@ to send it as it is")
                }
                let inner = SourceText(Array(content), name: name)
                data += Data(try scope.expanded(HTTPFile.Template(text: text, start: 0), of: inner).utf8)
            }
        }
        // The last delimiter ends with a line end, too.
        if type.hasPrefix("multipart/") { data += Data(lineEnd.utf8) }
        if isGraphQL { data = Self.graphQL(data) }
        body = data
        if type.isEmpty {
            let isJSON =
                isGraphQL || (try? JSONValue(parsing: data)).map { $0.object != nil || $0.array != nil } ?? false
            headers.append("Content-Type", isJSON ? "application/json" : "text/plain; charset=utf-8")
        }
    }

    /// The query, and after an empty line its variables, as the JSON of GraphQL over HTTP.
    private static func graphQL(_ body: Data) -> Data {
        let text = String(decoding: body, as: UTF8.self)
        var document: JSONValue = ["query": .string(text)]
        if let blank = text.ranges(of: "\n\n").last,
            let variables = try? JSONValue(parsing: String(text[blank.upperBound...])),
            variables.object != nil
        {
            document = ["query": .string(String(text[..<blank.lowerBound])), "variables": variables]
        }
        return (try? document.data()) ?? body
    }
}
