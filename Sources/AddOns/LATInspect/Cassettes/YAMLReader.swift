internal import HTTPCore

/// A value of a YAML document, with the line in which it begins.
indirect enum YAMLValue: Equatable {
    case text(String, line: Int)
    case list([YAMLValue], line: Int)
    case map([Member], line: Int)

    struct Member: Equatable {
        var name: String
        var value: YAMLValue
    }

    var line: Int {
        switch self {
        case .text(_, let line), .list(_, let line), .map(_, let line): line
        }
    }

    var kindName: String {
        switch self {
        case .text: "a text"
        case .list: "a list"
        case .map: "names with values"
        }
    }
}

/// What is wrong in a file, and where.
struct YAMLProblem: Error, Equatable {
    var line: Int
    var message: String
}

/// Reads the subset of YAML that cassettes use: maps, lists, plain and quoted texts, blocks of text, lists in brackets.
///
/// It reads Unicode scalars, because a quote or a blank would be one character with a combining mark that follows it.
struct YAMLReader {
    private typealias Text = Substring.UnicodeScalarView

    /// The largest depth of blocks: more than any cassette needs, and safe for any stack.
    static let depthLimit = 64

    private let lines: [Text]
    private var index = 0
    private var depth = 0

    /// The documents of a file. The last line must be three dots.
    static func documents(_ text: String) throws(YAMLProblem) -> [YAMLValue] {
        let lines = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
        var reader = YAMLReader(lines: lines.map { $0.last == "\r" ? $0.dropLast() : $0 })
        return try reader.documents()
    }

    private mutating func documents() throws(YAMLProblem) -> [YAMLValue] {
        var documents: [YAMLValue] = []
        while true {
            skipBlank()
            guard index < lines.count else {
                throw YAMLProblem(
                    line: lines.count,
                    message:
                        "the file ends in the middle: its last line must be three dots (...); delete the last entry "
                        + "if it is cut, then add them, or record again with the mode all")
            }
            if isMark(lines[index], "...") { return documents }
            if isMark(lines[index], "---") { index += 1; continue }
            documents.append(try block(indent: 0))
        }
    }

    // MARK: Blocks

    private mutating func skipBlank() {
        while index < lines.count {
            let text = lines[index].drop { $0 == " " }
            guard text.isEmpty || text.first == "#" else { return }
            index += 1
        }
    }

    private func indent(of line: Text) -> Int { line.prefix { $0 == " " }.count }

    private func isMark(_ line: Text) -> Bool { isMark(line, "---") || isMark(line, "...") }

    private func isMark(_ line: Text, _ mark: String) -> Bool { line.elementsEqual(mark.unicodeScalars) }

    /// A map or a list whose lines begin at a column.
    private mutating func block(indent column: Int) throws(YAMLProblem) -> YAMLValue {
        guard depth < Self.depthLimit else {
            throw YAMLProblem(line: index + 1, message: "more than \(Self.depthLimit) blocks within each other")
        }
        depth += 1
        defer { depth -= 1 }
        let start = index + 1
        var names: Set<String> = []
        var members: [YAMLValue.Member] = []
        var elements: [YAMLValue] = []
        while true {
            skipBlank()
            guard index < lines.count, !isMark(lines[index]) else { break }
            let line = lines[index]
            let found = indent(of: line)
            if found < column { break }
            guard found == column else {
                throw YAMLProblem(
                    line: index + 1, message: "\(found) blanks at the beginning of the line; expected \(column)")
            }
            let text = line.dropFirst(column)
            if text.starts(with: "- ".unicodeScalars) {
                elements.append(try element(text.dropFirst(2)))
            } else {
                let member = try member(text, column: column)
                guard names.insert(member.name).inserted else {
                    throw YAMLProblem(
                        line: member.value.line, message: "a second \"\(shown(member.name))\"; keep one of them")
                }
                members.append(member)
            }
            guard elements.isEmpty || members.isEmpty else {
                throw YAMLProblem(line: index, message: "a list (lines that begin with -) and names are mixed")
            }
        }
        return elements.isEmpty ? .map(members, line: start) : .list(elements, line: start)
    }

    /// An element of a list: `Name: value`.
    private mutating func element(_ text: Text) throws(YAMLProblem) -> YAMLValue {
        let line = index + 1
        index += 1
        guard let (name, rest) = try nameAndRest(text, line), !rest.isEmpty else {
            throw YAMLProblem(line: line, message: "\"\(shown(text))\" is not a field; write - Name: value")
        }
        return .map([.init(name: name, value: try scalar(rest, line))], line: line)
    }

    private mutating func member(_ text: Text, column: Int) throws(YAMLProblem) -> YAMLValue.Member {
        let line = index + 1
        guard let (name, rest) = try nameAndRest(text, line) else {
            throw YAMLProblem(
                line: line, message: "\"\(shown(text))\" has no colon after a name; write name: value")
        }
        index += 1
        if ["|", "|-", "|+"].contains(String(rest)) {
            return .init(name: name, value: .text(try literal(String(rest), column), line: line))
        }
        if !rest.isEmpty { return .init(name: name, value: try scalar(rest, line)) }
        skipBlank()
        let inner = index < lines.count && !isMark(lines[index]) ? indent(of: lines[index]) : 0
        guard inner > column else {
            throw YAMLProblem(line: line, message: "\"\(shown(name))\" has no value")
        }
        return .init(name: name, value: try block(indent: inner))
    }

    /// The lines of a block of text.
    private mutating func literal(_ indicator: String, _ column: Int) throws(YAMLProblem) -> String {
        var texts: [Text] = []
        var indent = 0
        while index < lines.count, !isMark(lines[index]) {
            let line = lines[index]
            let isBlank = line.allSatisfy { $0 == " " }
            if !isBlank {
                let found = self.indent(of: line)
                if indent == 0 {
                    guard found > column else { break }
                    indent = found
                }
                guard found >= indent else { break }
            }
            texts.append(line.dropFirst(indent))
            index += 1
        }
        var trailing = 0
        while texts.last?.isEmpty == true {
            texts.removeLast()
            trailing += 1
        }
        let text = texts.map { String($0) }.joined(separator: "\n")
        switch indicator {
        case "|-": return text
        case "|": return texts.isEmpty ? "" : text + "\n"
        default: return text + String(repeating: "\n", count: trailing + (texts.isEmpty ? 0 : 1))
        }
    }

    // MARK: Texts

    /// The beginning of a text for a message: a line may be as long as the file.
    private func shown(_ text: some StringProtocol) -> String { shown(Substring(text).unicodeScalars) }

    private func shown(_ text: Text) -> String {
        let start = text.prefix(60)
        return String(start) + (start.endIndex < text.endIndex ? "…" : "")
    }

    /// The name before the colon, and the text after it.
    private func nameAndRest(_ text: Text, _ line: Int) throws(YAMLProblem) -> (String, Text)? {
        if text.first == "\"" {
            let (name, rest) = try quoted(text, line)
            guard rest.first == ":" else { return nil }
            return (name, trimmed(rest.dropFirst()))
        }
        if text.last == ":", let colon = text.firstIndex(of: ":"), text.index(after: colon) == text.endIndex {
            return (String(text.dropLast()), text[text.endIndex...])
        }
        guard let colon = text.firstRange(of: ": ".unicodeScalars) else { return nil }
        return (String(text[..<colon.lowerBound]), trimmed(text[colon.upperBound...]))
    }

    private func trimmed(_ text: Text) -> Text {
        let text = text.drop { $0 == " " }
        return text.dropLast(text.reversed().prefix { $0 == " " }.count)
    }

    private func scalar(_ text: Text, _ line: Int) throws(YAMLProblem) -> YAMLValue {
        if text.first == "\"" {
            let (value, rest) = try quoted(text, line)
            guard rest.isEmpty || trimmed(rest).first == "#" else {
                throw YAMLProblem(line: line, message: "\"\(shown(rest))\" follows the closing quote")
            }
            return .text(value, line: line)
        }
        if text.first == "[" {
            guard text.last == "]" else {
                throw YAMLProblem(line: line, message: "the list \(shown(text)) has no closing bracket in its line")
            }
            let items = text.dropFirst().dropLast().split(separator: ",")
            return .list(items.map { .text(String(trimmed($0)), line: line) }, line: line)
        }
        if let first = text.first, "{&*!|>'%@`".unicodeScalars.contains(first) {
            throw YAMLProblem(
                line: line, message: "a value that begins with \(first) must be in double quotes: \(shown(text))")
        }
        let comment = text.firstRange(of: " #".unicodeScalars)?.lowerBound ?? text.endIndex
        return .text(String(trimmed(text[..<comment])), line: line)
    }

    /// A text in double quotes, and the text after it.
    private func quoted(_ text: Text, _ line: Int) throws(YAMLProblem) -> (String, Text) {
        var end = text.index(after: text.startIndex)
        while end < text.endIndex, text[end] != "\"" {
            if text[end] == "\\" { end = text.index(after: end) }
            if end < text.endIndex { end = text.index(after: end) }
        }
        guard end < text.endIndex else {
            throw YAMLProblem(line: line, message: "the closing quote is missing: \(shown(text))")
        }
        guard let value = try? JSONValue(parsing: String(text[...end])).string else {
            throw YAMLProblem(
                line: line, message: "\(shown(text[...end])) is not quoted text; escape as in JSON")
        }
        return (value, text[text.index(after: end)...])
    }
}
