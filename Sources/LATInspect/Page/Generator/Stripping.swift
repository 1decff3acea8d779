/// Minifies a JavaScript module or a style sheet: removes comments, indentation, and spaces and line breaks beside
/// punctuation. Strings, templates and regular expressions stay as they are.
///
/// It reads line by line, and fails where it would have to guess: at a string or template that continues in the next
/// line, and at a comment that is not a line of its own. A division needs spaces around it, and a regular expression must
/// not begin with a space.
struct Stripping {
    struct Failure: Error {
        let line: Int
        let reason: String
    }

    private let isScript: Bool
    private var line = 0
    private var rest: Substring = ""
    private var output = ""

    /// - Throws: ``Failure``.
    static func strip(_ text: String, isScript: Bool) throws -> String {
        var stripping = Stripping(isScript: isScript)
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            try stripping.take(line: line)
        }
        return stripping.output
    }

    private init(isScript: Bool) { self.isScript = isScript }

    private mutating func take(line text: Substring) throws {
        line += 1
        rest = text.drop { $0 == " " }
        while rest.last == " " { rest.removeLast() }
        if isComment { return }
        try code(inTemplate: false)
        // After these characters a statement or rule continues or has ended, so no line break is needed.
        if let last = output.last, !(isScript ? "\n,;{([" : "\n,;{}").contains(last) { output += "\n" }
    }

    private var isComment: Bool {
        guard !isScript else { return rest.hasPrefix("//") }
        return rest.hasPrefix("/*") && rest.firstRange(of: "*/")?.upperBound == rest.endIndex
    }

    /// Takes code up to the end of the line, or to the brace that ends a value in a template.
    private mutating func code(inTemplate: Bool) throws {
        var depth = 0
        while let next = rest.first {
            switch next {
            case "'", "\"": try text(until: next)
            case "`" where isScript: try template()
            case "/" where rest.hasPrefix("/*") || isScript && rest.hasPrefix("//"):
                throw failure("a comment has to be a line of its own")
            case "/" where isScript && !rest.hasPrefix("/ ") && !rest.hasPrefix("/= "): try regularExpression()
            case " ":
                rest.removeFirst()
                if let last = output.last, let next = rest.first, needsSpace(last, next) { output.append(" ") }
            case "}" where inTemplate && depth == 0: return
            default:
                depth += next == "{" ? 1 : next == "}" ? -1 : 0
                take()
            }
        }
        if inTemplate { throw failure("a template has to end in its line") }
    }

    /// In a script a space remains between two words, between two operators, which together may be another operator, and
    /// beside a point. In a style sheet a space is removed only beside punctuation: `a :hover` is not `a:hover`, and `-` needs
    /// its spaces.
    private func needsSpace(_ last: Character, _ next: Character) -> Bool {
        guard isScript else { return !"{};:,>".contains(last) && !"{};,>".contains(next) }
        func isWord(_ character: Character) -> Bool {
            character.isLetter || character.isNumber || "_$#`".contains(character)
        }
        func isSign(_ character: Character) -> Bool { "+-*/%<>=!&|?^~".contains(character) }
        return isWord(last) && isWord(next) || isSign(last) && isSign(next) || last == "." || next == "."
    }

    private mutating func text(until quote: Character) throws {
        take()
        while let next = takeUnescaped() {
            if next == quote { return }
        }
        throw failure("a string has to end in its line")
    }

    private mutating func template() throws {
        take()
        while let next = takeUnescaped() {
            if next == "`" { return }
            guard next == "$", rest.first == "{" else { continue }
            take()
            try code(inTemplate: true)
            take()
        }
        throw failure("a template has to end in its line")
    }

    private mutating func regularExpression() throws {
        var isInSet = false
        take()
        while let next = takeUnescaped() {
            if next == "[" { isInSet = true }
            if next == "]" { isInSet = false }
            if next == "/", !isInSet { return }
        }
        throw failure("a regular expression has to end in its line, and a division needs spaces around it")
    }

    @discardableResult private mutating func take() -> Character? {
        guard let next = rest.popFirst() else { return nil }
        output.append(next)
        return next
    }

    /// Takes a character, and with a backslash the one that it escapes.
    private mutating func takeUnescaped() -> Character? {
        let next = take()
        if next == "\\" { take() }
        return next
    }

    private func failure(_ reason: String) -> Failure { Failure(line: line, reason: reason) }
}
