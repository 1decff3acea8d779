import DomainTables
import FoundationEssentials
import LATNetworking

/// The variables of a run, and how `{{name}}` is replaced. It asks the outside only by ``RunOutside``.
struct RunScope: Sendable {
    /// The variables of the command line.
    var given: [String: String] = [:]
    /// What responses left.
    var captured: [String: JSONValue] = [:] { didSet { evaluated = [:] } }
    /// The definitions of the file. The last of a name counts.
    var definitions: [String: HTTPFile.Template] = [:]
    /// The variables of the environment, from `http-client.env.json`.
    var environment: [String: JSONValue] = [:]
    /// The base URLs of the table's domains by their names.
    var domains: [String: String] = [:]
    /// The exchanges of the requests that have a name.
    var exchanges: [String: RunExchange] = [:] { didSet { evaluated = [:] } }
    let outside: RunOutside
    /// What definitions are until a response leaves something new, so that one that many others use is evaluated once.
    private var evaluated: [String: String] = [:]
    /// What `{{$…}}` in a definition is, so that `@id = {{$uuid}}` is the same wherever and whenever it is used.
    private var computed: [ComputedPart: String] = [:]

    private struct ComputedPart: Hashable {
        let definition: String
        let start: Int
    }

    init(_ outside: RunOutside) { self.outside = outside }

    // MARK: Finding

    /// The names between `{{` and `}}`, with their ranges in the text.
    private static func marks(in text: String) -> [(name: String, range: Range<String.Index>)] {
        var marks: [(name: String, range: Range<String.Index>)] = []
        var rest = text[...]
        while let open = rest.firstRange(of: "{{") {
            let inside = rest[open.upperBound...].prefix { $0 != "{" && $0 != "}" && !$0.isNewline }
            let name = inside.trimmedBlanks
            // Other text in braces belongs to the body, such as the template of another language.
            let isName = name.first.map { $0.isLetter || $0 == "_" || $0 == "$" } ?? false
            guard isName, rest[inside.endIndex...].hasPrefix("}}") else {
                rest = rest[rest.index(after: open.lowerBound)...]
                continue
            }
            let end = rest.index(inside.endIndex, offsetBy: 2)
            marks.append((name, open.lowerBound..<end))
            rest = rest[end...]
        }
        return marks
    }

    /// The place of a variable that is not closed, such as `{{host/path`; `nil` for none.
    ///
    /// - Parameter isBody: Whether a blank after the braces makes it other text, such as `a {{ b`.
    static func unclosed(in template: HTTPFile.Template, isBody: Bool = false) -> Range<Int>? {
        let text = template.text
        guard let open = text.ranges(of: "{{").last, !text[open.upperBound...].contains("}}") else { return nil }
        let name = text[open.upperBound...].drop { !isBody && ($0 == " " || $0 == "\t") }
            .prefix { $0.isLetter || $0.isNumber || "_$.-".contains($0) }
        guard let first = name.first, first.isLetter || "_$".contains(first) else { return nil }
        let start = template.start + text[..<open.lowerBound].utf8.count
        return start..<start + text[open.lowerBound..<name.endIndex].utf8.count
    }

    static func names(in text: String) -> [String] { marks(in: text).map(\.name) }

    /// The text with its variables replaced.
    ///
    /// - Throws: ``RunProblem`` at the first variable without a value.
    mutating func expanded(_ template: HTTPFile.Template, of source: SourceText) throws(RunProblem) -> String {
        try expanded(template, of: source, within: [])
    }

    private mutating func expanded(
        _ template: HTTPFile.Template, of source: SourceText, within names: [String]
    ) throws(RunProblem) -> String {
        let marks = Self.marks(in: template.text)
        guard !marks.isEmpty else { return template.text }
        var result = ""
        var end = template.text.startIndex
        for (name, range) in marks {
            result += template.text[end..<range.lowerBound]
            let start = template.start + template.text[..<range.lowerBound].utf8.count
            let place = start..<start + template.text[range].utf8.count
            do throws(Missing) {
                result += try value(of: name, at: place, source, within: names)
            } catch {
                if let problem = error.problem { throw problem }
                throw RunProblem(at: place, of: source, error.message)
            }
            end = range.upperBound
            guard result.utf8.count <= 16 << 20 else {
                throw RunProblem(
                    at: place, of: source, "the variables make a text of more than 16 MiB; send a file: < ./file")
            }
        }
        return result + template.text[end...]
    }

    /// Why a variable has no value.
    struct Missing: Error {
        let message: String
        /// A problem at another place, of a definition that the variable uses.
        var problem: RunProblem?

        init(_ message: String, problem: RunProblem? = nil) {
            self.message = message
            self.problem = problem
        }
    }

    private mutating func value(
        of name: String, at place: Range<Int>, _ source: SourceText, within names: [String]
    ) throws(Missing) -> String {
        if name.hasPrefix("$") {
            let part = names.last.map { ComputedPart(definition: $0, start: place.lowerBound) }
            if let part, let text = computed[part] { return text }
            let text = try RunDynamic(name).value(outside)
            if let part { computed[part] = text }
            return text
        }
        if let text = given[name] { return text }
        if let value = captured[name] { return Self.text(of: value) }
        if let text = evaluated[name] { return text }
        if let definition = definitions[name] {
            guard names.count < 100 else {
                throw Missing(
                    "the variable \"\(SafeText.line(name))\" is the last of 100 that use each other; shorten the chain")
            }
            guard !names.contains(name) else {
                throw Missing("the variable \"\(name)\" is defined by itself; give it a value")
            }
            do throws(RunProblem) {
                let text = try expanded(definition, of: source, within: names + [name])
                evaluated[name] = text
                return text
            } catch {
                throw Missing("", problem: error)
            }
        }
        if let value = Self.member(name, of: .object(environment)) { return Self.text(of: value) }
        if let url = domains[name] { return url }
        if let value = try reference(name) { return value }
        let all = Array(given.keys) + captured.keys + definitions.keys + environment.keys + domains.keys
        let shown = SafeText.line(name)
        let advice =
            NearestName.of(name, among: all.sorted()).map { "did you mean \"\($0)\"?" }
            ?? "define it with @\(shown) = value, in http-client.env.json or with --variable"
        throw Missing("there is no variable \"\(shown)\"; \(advice)")
    }

    private static func text(of value: JSONValue) -> String { value.string ?? value.description }

    /// A member by its name, or by names with dots between them.
    private static func member(_ name: String, of value: JSONValue) -> JSONValue? {
        if let member = value[name] { return member }
        guard let dot = name.firstIndex(of: "."), let inner = value[String(name[..<dot])] else { return nil }
        return member(String(name[name.index(after: dot)...]), of: inner)
    }

    // MARK: Responses

    /// The name, `request` or `response`, and the rest of `login.response.body.$.token`; `nil` for a name that is none.
    private static func parts(of name: String) -> [String]? {
        let parts = name.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        return parts.count >= 3 && ["request", "response"].contains(parts[1]) ? parts : nil
    }

    /// The request of whose exchange a variable is a part; `nil` for one whose value is from the command line, the file, the
    /// environment or the table.
    func exchange(of name: String) -> String? {
        let hasValue =
            given[name] != nil || definitions[name] != nil || domains[name] != nil
            || Self.member(name, of: .object(environment)) != nil
        return hasValue ? nil : Self.parts(of: name)?.first
    }

    /// What VS Code writes for a part of an earlier exchange: `login.response.body.$.token`, `login.response.headers.Location`,
    /// `login.request.body.*`. `nil` for a name that is none.
    private func reference(_ name: String) throws(Missing) -> String? {
        guard let parts = Self.parts(of: name) else { return nil }
        guard let exchange = exchanges[parts[0]] else {
            let advice =
                NearestName.of(parts[0], among: exchanges.keys.sorted()).map { "did you mean \"\($0)\"?" }
                ?? "name a request before this one with # @name"
            throw Missing("no response of \"\(SafeText.line(parts[0]))\" is known; \(advice)")
        }
        let rest = parts.count > 3 ? parts[3] : "*"
        let isRequest = parts[1] == "request"
        switch parts[2] {
        case "status" where !isRequest: return "\(exchange.response.status)"
        case "headers":
            let headers = isRequest ? exchange.request.headers : exchange.response.headers
            guard let value = headers[rest] else {
                throw Missing("the \(parts[1]) of \"\(parts[0])\" has no header field \(SafeText.line(rest))")
            }
            return value
        case "body":
            var body = exchange.body
            if isRequest {
                if case .data(let data)? = exchange.request.body?.content { body = data } else { body = Data() }
            }
            guard rest != "*" else { return String(decoding: body, as: UTF8.self) }
            return try Self.part(rest, of: body, "the body of the \(parts[1]) of \"\(parts[0])\"")
        default:
            throw Missing(
                "\"\(SafeText.line(name))\" names no part of an exchange; write \(parts[0]).response.body.$.path, "
                    + ".response.headers.NAME or .response.status")
        }
    }

    private static func part(_ path: String, of body: Data, _ place: String) throws(Missing) -> String {
        let subject: RunSubject
        do throws(RunExpressionError) {
            var reader = RunExpressionReader(HTTPFile.Template(text: path, start: 0))
            subject = try reader.subject()
            try reader.end()
        } catch {
            throw Missing("\(SafeText.line(path)) is not a path in JSON; write $.name, or * for the whole body")
        }
        guard case .json(let steps) = subject, let json = try? JSONValue(parsing: body) else {
            throw Missing("\(place) is not JSON, so that \(SafeText.line(path)) finds nothing in it")
        }
        guard let value = RunSubject.value(at: steps[...], in: json) else {
            throw Missing("\(place) has nothing at \(SafeText.line(path))")
        }
        return text(of: value)
    }
}
