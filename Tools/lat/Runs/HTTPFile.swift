import DomainTables
import LATNetworking

/// A file of requests in the `.http` format of JetBrains' HTTP Client and of the REST Client of VS Code: a pure value.
struct HTTPFile: Sendable {
    /// A text of the file, in which `{{name}}` is replaced when it is used.
    struct Template: Hashable, Sendable {
        var text: String
        /// The offset of its first byte in the file.
        var start: Int

        var range: Range<Int> { start..<start + text.utf8.count }
    }

    /// A definition `@name = value`.
    struct Variable: Hashable, Sendable {
        var name: String
        var value: Template
    }

    struct Field: Hashable, Sendable {
        var name: Template
        var value: Template
    }

    /// A line of a body.
    enum BodyLine: Hashable, Sendable {
        case text(Template)
        /// The content of a file. With `<@` its variables are replaced, too.
        case file(Template, expands: Bool)
    }

    struct Capture: Hashable, Sendable {
        var name: String
        var subject: RunSubject
        var range: Range<Int>
    }

    /// A file that the body of the response is written to.
    struct Output: Hashable, Sendable {
        var path: Template
        /// Whether an existing file is replaced. Otherwise a number is added to the name.
        var replaces: Bool
    }

    struct Request: Hashable, Sendable {
        /// The name after `@name` or `###`; `nil` for none.
        var name: String?
        /// `nil` for `GET`, or the method of the row.
        var method: String?
        /// A URL, a path with a field `Host`, or a row with its parameters.
        var target: Template
        /// The lines that continue the target.
        var targetLines: [Template] = []
        /// The word after the target: `HTTP/1.1`.
        var version: String?
        var headers: [Field] = []
        var body: [BodyLine] = []
        var captures: [Capture] = []
        var assertions: [RunAssertion] = []
        /// The variables that have to be given on the command line.
        var prompts: [Template] = []
        var followsRedirects = true
        var keepsCookies = true
        var timeout: Duration?
        var connectTimeout: Duration?
        var output: Output?

        init(target: Template) { self.target = target }

        /// Whether the target has the form of the name of a row: neither a URL, nor a path, nor a variable.
        var mayNameRow: Bool {
            let name = target.text.prefix { $0 != " " && $0 != "\t" }
            return !name.contains { "/:{".contains($0) }
        }

        /// All texts with variables.
        var templates: [Template] {
            [target] + targetLines + headers.flatMap { [$0.name, $0.value] }
                + body.map { line in
                    switch line {
                    case .text(let text), .file(let text, _): text
                    }
                } + assertions.compactMap(\.operand) + (output.map { [$0.path] } ?? [])
        }
    }

    let source: SourceText
    let variables: [Variable]
    let requests: [Request]
    /// What is not run, such as scripts.
    let warnings: [DomainTable.Diagnostic]

    /// Reads a file.
    ///
    /// - Parameter name: The name of the file in messages.
    /// - Throws: ``RunProblem`` with everything that is wrong in it.
    init(_ text: String, name: String) throws(RunProblem) {
        source = SourceText(Array(text.utf8), name: name)
        var parser = HTTPFileParser(source)
        parser.run()
        let errors = parser.diagnostics.filter { $0.severity == .error }
        guard errors.isEmpty else { throw RunProblem(errors, in: name) }
        guard !parser.requests.isEmpty else {
            throw RunProblem("\(name) has no request; write GET http://host/path into it")
        }
        variables = parser.variables
        requests = parser.requests
        warnings = parser.diagnostics
    }

    // MARK: Choosing

    /// The requests with these names, and before them those whose responses or captures they need, in the order of the file.
    ///
    /// - Parameters:
    ///   - names: The names; empty for all requests.
    ///   - scope: The variables that have a value before the first request.
    /// - Throws: ``RunProblem`` for an unknown name.
    func chosen(_ names: [String], in scope: RunScope) throws(RunProblem) -> [Request] {
        guard !names.isEmpty else { return requests }
        var wanted = Set<Int>()
        for name in names {
            guard let index = requests.firstIndex(where: { $0.name == name }) else {
                let all = requests.compactMap(\.name)
                throw RunProblem(
                    "there is no request \"\(SafeText.line(name))\" in \(source.name)"
                        + NearestName.advice(name, among: all, allCalled: "requests"))
            }
            add(index, to: &wanted, scope)
        }
        return requests.indices.filter(wanted.contains).map { requests[$0] }
    }

    private func add(_ index: Int, to wanted: inout Set<Int>, _ scope: RunScope) {
        guard wanted.insert(index).inserted else { return }
        // What the command line gives needs no request.
        func names(in template: Template) -> [String] {
            RunScope.names(in: template.text).filter { scope.given[$0] == nil }
        }
        var needed = requests[index].templates.flatMap(names)
        // A variable of the file may use others, which may need a request.
        var seen: Set<String> = []
        while let next = variables.first(where: { needed.contains($0.name) && !seen.contains($0.name) })?.name {
            seen.insert(next)
            needed += variables.filter { $0.name == next }.flatMap { names(in: $0.value) }
        }
        for (other, request) in requests.enumerated() where other < index {
            let isNeeded = needed.contains { name in
                request.captures.contains { $0.name == name }
                    || request.name != nil && scope.exchange(of: name) == request.name
            }
            if isNeeded { add(other, to: &wanted, scope) }
        }
    }
}

/// Why a file of requests cannot be used, or a request of it cannot be made.
struct RunProblem: Error {
    let diagnostics: [DomainTable.Diagnostic]
    let message: String

    /// A problem without a place.
    init(_ message: String) {
        diagnostics = []
        self.message = message
    }

    init(_ diagnostics: [DomainTable.Diagnostic], in name: String) {
        self.diagnostics = diagnostics
        message = "\(name) has \(TableProblem.count(diagnostics)); correct it and run the command again"
    }

    init(at range: Range<Int>, of source: SourceText, _ message: String) {
        self.init([DomainTable.Diagnostic(.error, at: range, of: source, message)], in: source.name)
    }

    func show(on console: Console) {
        console.note(diagnostics)
        console.complain(message)
    }

    /// The first problem in one line.
    var summary: String { diagnostics.first?.summary ?? message }
}
