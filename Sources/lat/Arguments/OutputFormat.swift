/// How a command shows what came of it.
enum OutputFormat: String, Hashable, Sendable, CaseIterable {
    /// For people.
    case text
    /// For programs: one JSON object.
    case json

    static let option = Option(
        "--format", value: "text|json", help: "json: one object for programs, with everything that is known.")

    /// - Throws: ``UsageError`` for another word.
    init(_ arguments: ParsedArguments) throws(UsageError) {
        guard let text = arguments.value(Self.option) else {
            self = .text
            return
        }
        guard let known = OutputFormat(rawValue: text) else {
            throw UsageError("\(Self.option.name) \"\(SafeText.line(text))\" is unknown; write text or json")
        }
        self = known
    }
}
