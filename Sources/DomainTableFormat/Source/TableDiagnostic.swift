/// One thing that is wrong with a table file: where, what, and what to write instead.
///
/// Printed in the form of compilers, so that terminals and editors link it to the line:
///
/// ```
/// Config/domains.json5:12:7: error: unknown key "basURL"; did you mean "baseURL"?
///       basURL: "https://app.example.org",
///       ^~~~~~
/// ```
public struct TableDiagnostic: Hashable, Sendable, CustomStringConvertible {
    /// How bad it is.
    public enum Severity: String, Hashable, Sendable {
        /// The table cannot be used.
        case error
        /// The table works, though likely not as meant.
        case warning
    }

    /// How bad it is.
    public var severity: Severity
    /// Where it begins.
    public var position: SourcePosition
    /// What is wrong and what to do, in one sentence.
    public var message: String
    /// What should stand there, as `a duration such as "60s"`; `nil` when that is not the question.
    public var expected: String?
    /// What stands there, as `the number 60`; `nil` when that is not the question.
    public var found: String?
    /// The name that was likely meant, for a name that is unknown.
    public var suggestion: String?
    /// The line of the file and the caret under it.
    public var excerpt: [String]

    package init(
        _ severity: Severity, at range: Range<Int>, of source: SourceText, _ message: String, expected: String? = nil,
        found: String? = nil, suggestion: String? = nil
    ) {
        self.severity = severity
        position = source.position(of: range.lowerBound)
        self.message = message
        self.expected = expected
        self.found = found
        self.suggestion = suggestion
        excerpt = SourceExcerpt.lines(of: source, at: range)
    }

    /// One line: `file:line:column: error: message`.
    public var summary: String { "\(position): \(severity.rawValue): \(message)" }

    /// The summary, the line of the file, and a caret under the place.
    public var description: String { ([summary] + excerpt).joined(separator: "\n") }
}

extension Sequence<TableDiagnostic> {
    /// In the order of the file, whatever order they were found in.
    package var inFileOrder: [TableDiagnostic] {
        enumerated().sorted { ($0.element.position, $0.offset) < ($1.element.position, $1.offset) }.map(\.element)
    }
}
