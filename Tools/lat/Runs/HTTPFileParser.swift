import DomainTables
import LATNetworking

/// Reads the lines of a `.http` file. It goes on after a mistake, so that all are reported at once.
struct HTTPFileParser {
    typealias Template = HTTPFile.Template

    /// Where the lines of a request are.
    private enum Place {
        case before, head, body
    }

    private let source: SourceText
    private var rest: ArraySlice<Template>
    private(set) var variables: [HTTPFile.Variable] = []
    private(set) var requests: [HTTPFile.Request] = []
    private(set) var diagnostics: [DomainTable.Diagnostic] = []
    private var place = Place.before
    /// The request that is being read. It has no target until its first line is found.
    private var request = HTTPFile.Request(target: Template(text: "", start: 0))
    /// Where the name of the request is.
    private var nameRange: Range<Int>?
    /// The offsets of the names so far.
    private var names: [String: Int] = [:]

    init(_ source: SourceText) {
        self.source = source
        var lines: [Template] = []
        var next = source.bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        while next < source.bytes.count {
            let line = source.line(of: next)
            lines.append(Template(text: source.text(next..<line.upperBound), start: next))
            next = line.upperBound + 1
            if next < source.bytes.count, source.bytes[next - 1] == 0x0D, source.bytes[next] == 0x0A { next += 1 }
        }
        rest = lines[...]
    }

    mutating func run() {
        while let line = rest.popFirst() {
            if line.text.hasPrefix("###") {
                finish()
                let title = line.trimmed(after: 3)
                request.name = title.text.isEmpty ? nil : title.text
                nameRange = title.range
                continue
            }
            switch place {
            case .before: readBefore(line)
            case .head: readHead(line)
            case .body: readBody(line)
            }
        }
        finish()
    }

    private mutating func finish() {
        if place != .before {
            let hasRemarks = mayEndWithRemark
            while case .text(let line)? = request.body.last, line.isBlank || line.isRemark && !hasRemarks {
                request.body.removeLast()
            }
            requests.append(request)
            let body = request.body.compactMap { if case .text(let line) = $0 { line } else { nil } }
            let lines = Set(body.map(\.start))
            for template in request.templates {
                let isBody = lines.contains(template.start)
                guard let range = RunScope.unclosed(in: template, isBody: isBody) else { continue }
                complain(range, "this variable is not closed; write {{name}}")
            }
            if let name = request.name, let nameRange {
                if let first = names[name] {
                    complain(
                        nameRange,
                        "the request of line \(source.position(of: first).line) has this name, too; --name and "
                            + "{{\(SafeText.line(name)).response…}} mean only one of them", .warning)
                } else {
                    names[name] = nameRange.lowerBound
                }
            }
        } else if let assertion = request.assertions.first {
            complain(assertion.range, "this assertion belongs to no request; put it after ### and before the next one")
        }
        request = HTTPFile.Request(target: Template(text: "", start: 0))
        nameRange = nil
        place = .before
    }

    private mutating func complain(
        _ range: Range<Int>, _ message: String, _ severity: DomainTable.Diagnostic.Severity = .error
    ) {
        diagnostics.append(DomainTable.Diagnostic(severity, at: range, of: source, message))
    }

    /// Whether a line that begins with `#` or `//` may be the last one of the body. Otherwise it is a remark before the next
    /// request: a text without a type, JSON, XML and forms do not end with one.
    private var mayEndWithRemark: Bool {
        let type = request.headers.last { $0.name.text.lowercased() == "content-type" }?.value.text.lowercased()
        return type.map { type in !["json", "xml", "form-", "graphql"].contains { type.contains($0) } } ?? false
    }

    // MARK: Before the request

    private mutating func readBefore(_ line: Template) {
        let text = line.trimmed()
        if text.text.isEmpty || readDirective(text) || readScript(text) { return }
        if text.text.hasPrefix("@") { return readVariable(text) }
        guard !text.text.hasPrefix("#"), !text.text.hasPrefix("//") else { return }
        for word in ["import ", "run "] where text.text.hasPrefix(word) {
            return complain(
                text.range, "lat does not know \(word)of other files; name both files: lat run a.http b.http", .warning)
        }
        readRequestLine(text)
        place = .head
    }

    private mutating func readVariable(_ line: Template) {
        guard let equals = line.text.firstIndex(of: "=") else {
            return complain(line.range, "a variable has no value; write @name = value")
        }
        let name = line.text[line.text.index(after: line.text.startIndex)..<equals].trimmedBlanks
        guard Self.isName(name) else {
            return complain(
                line.range, "\"\(SafeText.line(name))\" is not a name of a variable; use letters, digits, _, - and .")
        }
        let value = line.trimmed(after: line.text[...equals].utf8.count)
        if let range = RunScope.unclosed(in: value) { complain(range, "this variable is not closed; write {{name}}") }
        variables.append(HTTPFile.Variable(name: name, value: value))
    }

    static func isName(_ text: some StringProtocol) -> Bool {
        guard let first = text.first, first.isLetter || first == "_" else { return false }
        return text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" || $0 == "." }
    }

    private mutating func readRequestLine(_ line: Template) {
        var target = line
        let first = line.text.prefix { $0 != " " && $0 != "\t" }
        if first.count < line.text.count, RequestLine.begins(with: String(first)), !URLArgument.isURL(String(first)) {
            let method = first.uppercased()
            if ["WEBSOCKET", "GRPC", "RSOCKET"].contains(method) {
                let hint = method == "WEBSOCKET" ? "use lat ws" : "leave it out"
                complain(line.start..<line.start + first.utf8.count, "lat run sends no \(method) requests; \(hint)")
            }
            request.method = method
            target = line.trimmed(after: first.utf8.count)
        }
        takeVersion(from: &target)
        let word = target.text.lowercased()
        if word.isEmpty || HTTPMethod(word).rawValue != word {
            complain(line.range, "the request has no URL; write GET http://host/path")
        }
        request.target = target
    }

    /// Removes `HTTP/1.1`, also with a remark in parentheses, from the end of a target.
    private mutating func takeVersion(from target: inout Template) {
        guard let mark = target.text.ranges(of: " HTTP/").last else { return }
        request.version = target.text[mark.lowerBound...].trimmedBlanks
        target.text = target.text[..<mark.lowerBound].trimmedBlanks
    }

    // MARK: The head

    private mutating func readHead(_ line: Template) {
        let text = line.trimmed()
        guard !text.text.isEmpty else {
            place = .body
            return
        }
        if readDirective(text) || text.text.hasPrefix("#") || text.text.hasPrefix("//") || readHandler(text) { return }
        let isIndented = line.text.first == " " || line.text.first == "\t"
        if request.headers.isEmpty, isIndented || text.text.hasPrefix("?") || text.text.hasPrefix("&") {
            var line = text
            takeVersion(from: &line)
            request.targetLines.append(line)
        } else if isIndented, let last = request.headers.indices.last {
            // The offset of the first part stands for both.
            request.headers[last].value.text += " " + text.text
        } else if let colon = text.text.firstIndex(of: ":"), colon > text.text.startIndex {
            let name = Template(text: text.text[..<colon].trimmedBlanks, start: text.start)
            let isName = name.text.contains("{{") || HTTPMethod(name.text).isToken
            guard isName else {
                return complain(name.range, "\"\(SafeText.line(name.text))\" is not the name of a header field")
            }
            request.headers.append(
                HTTPFile.Field(name: name, value: text.trimmed(after: text.text[...colon].utf8.count)))
        } else {
            complain(
                text.range, "this line is no header field: it has no colon; put an empty line before the body")
        }
    }

    // MARK: The body

    private mutating func readBody(_ line: Template) {
        let text = line.trimmed()
        if readDirective(text) || readHandler(text) { return }
        if line.text.hasPrefix("<@") || line.text.hasPrefix("< "), !line.text.hasPrefix("< {%") {
            let expands = line.text.hasPrefix("<@")
            let mark = line.text.prefix { $0 != " " }
            let path = line.trimmed(after: mark.utf8.count)
            if expands, !["<@", "<@utf8", "<@utf-8", "<@UTF-8"].contains(mark) {
                return complain(
                    line.start..<line.start + mark.utf8.count,
                    "lat reads files as UTF-8; write <@ \(SafeText.line(path.text))")
            }
            if !path.text.isEmpty { return request.body.append(.file(path, expands: expands)) }
        }
        request.body.append(.text(line))
    }

    /// What comes after a body: a handler, or where the response goes.
    private mutating func readHandler(_ line: Template) -> Bool {
        if line.text.hasPrefix("<> ") { return true }
        if line.text.hasPrefix(">> ") || line.text.hasPrefix(">>! ") {
            let replaces = line.text.hasPrefix(">>!")
            request.output = HTTPFile.Output(path: line.trimmed(after: replaces ? 4 : 3), replaces: replaces)
            return true
        }
        guard line.text.hasPrefix("> {%") || line.text.hasPrefix("> ") && line.text.hasSuffix(".js") else {
            return false
        }
        skipScript(line, "handler", "write # @assert and # @capture in its place")
        return true
    }

    /// A script that runs before the request.
    private mutating func readScript(_ line: Template) -> Bool {
        guard line.text.hasPrefix("< {%") || line.text.hasPrefix("< ") && line.text.hasSuffix(".js") else {
            return false
        }
        skipScript(line, "script", "set its variables with @name = value or --variable")
        return true
    }

    private mutating func skipScript(_ line: Template, _ kind: String, _ hint: String) {
        complain(line.range, "lat runs no JavaScript, so this \(kind) is skipped; \(hint)", .warning)
        guard line.text.contains("{%"), !line.text.contains("%}") else { return }
        while let next = rest.first, !next.text.hasPrefix("###") {
            rest.removeFirst()
            if next.text.contains("%}") { return }
        }
        complain(line.range, "this \(kind) is not closed; end it with a line %}")
    }

    // MARK: Directives

    private static let known = [
        "name", "assert", "capture", "prompt", "note", "no-redirect", "no-cookie-jar", "no-log", "no-auto-encoding",
        "timeout",
        "connection-timeout",
    ]

    /// Reads a comment such as `# @name login`. A comment with another word after the `@` is only a comment, unless it is
    /// similar to one of ours.
    private mutating func readDirective(_ line: Template) -> Bool {
        let mark = line.text.hasPrefix("#") ? 1 : line.text.hasPrefix("//") ? 2 : 0
        let content = line.trimmed(after: mark)
        guard mark > 0, content.text.hasPrefix("@") else { return false }
        let word = content.text.dropFirst().prefix { !$0.isWhitespace }
        let value = content.trimmed(after: 1 + word.utf8.count)
        switch word {
        case "name": (request.name, nameRange) = (value.text, value.range)
        case "note", "no-log", "no-auto-encoding": break
        case "no-redirect": request.followsRedirects = false
        case "no-cookie-jar": request.keepsCookies = false
        case "prompt":
            request.prompts.append(Template(text: String(value.text.prefix { $0 != " " }), start: value.start))
        case "timeout": request.timeout = duration(value)
        case "connection-timeout": request.connectTimeout = duration(value)
        case "capture": readCapture(value)
        case "assert":
            do throws(RunExpressionError) {
                request.assertions.append(try RunAssertion(value))
            } catch {
                complain(error.range, error.message)
            }
        default:
            guard let nearest = NearestName.of(String(word), among: Self.known) else { return false }
            complain(content.range, "unknown word @\(SafeText.line(String(word))); did you mean @\(nearest)?")
        }
        if word == "name", !Self.isName(value.text.replacing(" ", with: "")) {
            complain(
                value.range, "\"\(SafeText.line(value.text))\" is not a name of a request; use letters, digits, _ and -"
            )
        }
        return true
    }

    private mutating func readCapture(_ line: Template) {
        let form = "write # @capture token = $.access_token"
        guard let equals = line.text.firstIndex(of: "=") else {
            return complain(line.range, "a capture has no =; \(form)")
        }
        let name = line.text[..<equals].trimmedBlanks
        guard Self.isName(name) else {
            return complain(line.range, "\"\(SafeText.line(name))\" is not a name of a variable; \(form)")
        }
        do throws(RunExpressionError) {
            var reader = RunExpressionReader(line.trimmed(after: line.text[...equals].utf8.count))
            let subject = try reader.subject()
            try reader.end()
            request.captures.append(HTTPFile.Capture(name: name, subject: subject, range: line.range))
        } catch {
            complain(error.range, error.message)
        }
    }

    /// A time as JetBrains writes it: seconds, or with a unit.
    private mutating func duration(_ value: Template) -> Duration? {
        let text = value.text.replacing(" ", with: "")
        let isNumber = Int(text) != nil
        guard let time = DurationText.parse(isNumber ? text + "s" : text), time > .zero else {
            complain(value.range, "\"\(SafeText.line(value.text))\" is not a duration; write 500 ms, 10 s or 2 m")
            return nil
        }
        return time
    }
}

extension HTTPFile.Template {
    var isBlank: Bool { text.allSatisfy { $0 == " " || $0 == "\t" } }

    var isRemark: Bool { text.hasPrefix("#") || text.hasPrefix("//") }

    /// The text after some bytes, without blanks at its ends.
    func trimmed(after count: Int = 0) -> HTTPFile.Template {
        let after = String(Substring(text.utf8.dropFirst(count)))
        let blanks = after.utf8.prefix { $0 == 0x20 || $0 == 0x09 }.count
        return HTTPFile.Template(text: after[...].trimmedBlanks, start: start + count + blanks)
    }
}

extension StringProtocol {
    /// The text without blanks at its ends.
    var trimmedBlanks: String {
        var text = Substring(self).drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return String(text)
    }
}
