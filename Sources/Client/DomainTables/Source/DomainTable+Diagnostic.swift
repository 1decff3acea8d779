import HTTPCore

extension DomainTable {
    /// An error or warning about a table file: the position, the problem, and what to write instead.
    ///
    /// It is printed like a compiler's diagnostic, so that terminals and editors link it to the line:
    ///
    /// ```
    /// Config/domains.json5:12:7: error: unknown key "basURL"; did you mean "baseURL"?
    ///       basURL: "https://app.example.org",
    ///       ^~~~~~
    /// ```
    public struct Diagnostic: Hashable, Sendable, CustomStringConvertible {
        /// The severity of a diagnostic.
        public enum Severity: String, Hashable, Sendable {
            /// The table cannot be used.
            case error
            /// The table works, but probably not as intended.
            case warning
        }

        /// The severity.
        public var severity: Severity
        /// The start of the text that the diagnostic is about.
        public var position: DomainTable.Position
        /// The problem and the next step, in one sentence.
        public var message: String
        /// What was expected, such as `a duration such as "60s"`; `nil` when that does not apply.
        public var expected: String?
        /// What was found, such as `the number 60`; `nil` when that does not apply.
        public var found: String?
        /// The name that was probably meant by an unknown one; `nil` when none is similar.
        public var suggestion: String?
        /// The line of the file, and a line with a caret under the position.
        public var excerpt: [String]

        package init(
            _ severity: Severity, at range: Range<Int>, of source: SourceText, _ message: String,
            expected: String? = nil,
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

        /// The diagnostic in one line: `file:line:column: error: message`.
        public var summary: String { "\(position): \(severity.rawValue): \(message)" }

        /// The ``summary`` and the ``excerpt``, one line each.
        public var description: String { ([summary] + excerpt).joined(separator: "\n") }
    }
}

extension Sequence<DomainTable.Diagnostic> {
    /// The diagnostics sorted by position.
    package var inFileOrder: [DomainTable.Diagnostic] {
        enumerated().sorted { ($0.element.position, $0.offset) < ($1.element.position, $1.offset) }.map(\.element)
    }
}

/// A line of a file with a caret under a range.
///
/// Tabs are repeated under tabs, and wide characters count as two columns, so that the caret is aligned in a terminal. Of a
/// long line only the part around the range is shown. Control characters, passwords and secret parameters in URLs, and the
/// values of secret members are hidden: those of `Secrets.standard` and of the `secretHeaders` of the file. Of a value that is
/// not well written the rest of the line is hidden.
package enum SourceExcerpt {
    private static let widest = 120
    /// How many bytes around a range are looked at.
    private static let reach = 2_048

    package static func lines(of source: SourceText, at range: Range<Int>) -> [String] {
        var (before, marked, after) = parts(of: source, at: range)
        if before.count > widest { before = ["…"] + before.suffix(widest / 2) }
        if marked.count > widest {
            marked = marked.prefix(widest / 2) + ["…"]
            after = []
        }
        if after.count > widest { after = after.prefix(widest / 2) + ["…"] }
        var shown = (before + marked + after).map(visible)
        while let last = shown.last, last == " " || last == "\t" { shown.removeLast() }
        let indent = before.map { character in
            character == "\t" ? "\t" : String(repeating: " ", count: width(of: character))
        }
        let markedWidth = marked.reduce(0) { $0 + width(of: $1) }
        let underline = "^" + String(repeating: "~", count: max(0, markedWidth - 1))
        return [String(shown), indent.joined() + underline]
    }

    /// What is before a range in its line, the range, and what is after it, without secrets.
    package static func parts(
        of source: SourceText, at range: Range<Int>
    ) -> (before: [Character], marked: [Character], after: [Character]) {
        let whole = source.line(of: range.lowerBound)
        let middle = min(range.upperBound, range.lowerBound + reach)
        let start = max(whole.lowerBound, range.lowerBound - reach)
        let line = start..<max(start, min(whole.upperBound, middle + reach))
        var before = Array(source.text(line.lowerBound..<max(line.lowerBound, min(range.lowerBound, line.upperBound))))
        let isInside = range.lowerBound < line.upperBound
        var marked = isInside ? Array(source.text(range.lowerBound..<min(middle, line.upperBound))) : []
        var after = isInside ? Array(source.text(min(middle, line.upperBound)..<line.upperBound)) : []
        // A key may be on an earlier line than its value.
        let context = Array(source.text(max(0, line.lowerBound - 1_024)..<line.lowerBound))
        hideSecrets(context, source.secretHeaders, &before, &marked, &after)
        return (before, marked, after)
    }

    private static func visible(_ character: Character) -> Character {
        if character == "\t" { return character }
        return character.unicodeScalars.contains { $0.properties.generalCategory == .control } ? "\u{FFFD}" : character
    }

    /// The number of columns that a character takes in a terminal.
    private static func width(of character: Character) -> Int {
        guard let scalar = character.unicodeScalars.first else { return 0 }
        if scalar.properties.isEmojiPresentation { return 2 }
        if character.unicodeScalars.contains("\u{FE0F}") { return 2 }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x20000...0x3FFFD:
            return 2
        default:
            return 1
        }
    }

    /// Replaces each character of the values of secret members, and of secret parameters in queries, with an asterisk.
    private static func hideSecretValues(_ line: inout [Character], _ headers: Set<String>) {
        var index = 0
        func skip(_ isSkipped: (Character) -> Bool) {
            while index < line.count, isSkipped(line[index]) { index += 1 }
        }
        func skipSpaceAndComments() {
            skip(\.isWhitespace)
            while index + 1 < line.count, line[index] == "/", line[index + 1] == "/" || line[index + 1] == "*" {
                let isLine = line[index + 1] == "/"
                index += 2
                while index < line.count,
                    isLine ? !line[index].isNewline : !(line[index - 1] == "*" && line[index] == "/")
                { index += 1 }
                index = min(index + 1, line.count)
                skip(\.isWhitespace)
            }
        }
        func hide(upTo isEnd: (Character) -> Bool) {
            while index < line.count, !isEnd(line[index]) {
                let count = line[index] == "\\" ? 2 : 1
                for hidden in index..<min(index + count, line.count) { line[hidden] = "*" }
                index += count
            }
        }
        while index < line.count {
            let start = index
            skip { $0.isLetter || $0.isNumber || "_-$%+.[]".contains($0) }
            let end = index
            guard end > start else {
                index += 1
                continue
            }
            if start > 0, "?&".contains(line[start - 1]), end < line.count, line[end] == "=" {
                index += 1
                if isSecret(String(line[start..<end]), headers) { hide { "&#\"' ".contains($0) } }
                continue
            }
            skip { "\"'".contains($0) }
            skipSpaceAndComments()
            guard index < line.count, !",}]".contains(line[index]), line[index] == ":" || isKey(line[..<start]),
                isSecret(String(line[start..<end]), headers)
            else {
                index = end
                continue
            }
            let hasColon = line[index] == ":"
            if hasColon || line[index] == "=" { index += 1 }
            skipSpaceAndComments()
            // A mistake may be an array, an object or a number in place of a string.
            let isArray = index < line.count && line[index] == "["
            repeat {
                if isArray {
                    skip { "[,".contains($0) }
                    skipSpaceAndComments()
                }
                guard index < line.count, line[index] != "]" else { break }
                let first = line[index]
                if "\"'".contains(first) {
                    index += 1
                    hide { $0 == first }
                    index += 1
                } else if first == "{" {
                    hide { $0 == "}" }
                } else if first.isNumber || "+-.".contains(first) || line[index...].starts(with: "null") {
                    hide { $0.isWhitespace || ",}]".contains($0) }
                }
                skip { $0.isWhitespace && !$0.isNewline }
                if !hasColon || index < line.count && !",}]/".contains(line[index]) { hide(upTo: \.isNewline) }
                skipSpaceAndComments()
            } while isArray && index < line.count && line[index] == ","
        }
    }

    /// Whether the key of a member may follow a text.
    private static func isKey(_ before: ArraySlice<Character>) -> Bool {
        let isQuoted = before.last.map { "\"'".contains($0) } ?? false
        let last = before.dropLast(isQuoted ? 1 : 0).last { !$0.isWhitespace || $0.isNewline }
        return last.map { $0.isNewline || "{,".contains($0) } ?? true
    }

    /// Whether a member of this name holds a secret, by the standard names and those of `secretHeaders`.
    static func isSecret(_ name: String, _ headers: Set<String>) -> Bool {
        let name = name.lowercased()
        return Secrets.standard.contains(parameter: name) || Secrets.standard.contains(header: name)
            || headers.contains(name) || name.hasSuffix("password")
    }

    /// The same, and what may be a password: in a string or word between the first colon that no slash follows and `@`.
    private static func hideSecrets(
        _ context: [Character], _ headers: Set<String>, _ before: inout [Character], _ marked: inout [Character],
        _ after: inout [Character]
    ) {
        let counts = (before.count, marked.count)
        var line = context + before + marked + after
        hideSecretValues(&line, headers)
        // The colons of the string and of the word.
        var colons: (string: Int?, word: Int?)
        for (index, character) in line.enumerated() {
            switch character {
            case "\"", "'": colons = (nil, nil)
            case _ where character.isWhitespace: colons = (character.isNewline ? nil : colons.string, nil)
            case ":" where index + 1 < line.count && line[index + 1] != "/":
                colons = (colons.string ?? index, colons.word ?? index)
            case "@":
                if let colon = colons.word ?? colons.string { for place in (colon + 1)..<index { line[place] = "*" } }
            default: break
            }
        }
        line.removeFirst(context.count)
        before = Array(line[..<counts.0])
        marked = Array(line[counts.0..<(counts.0 + counts.1)])
        after = Array(line[(counts.0 + counts.1)...])
    }
}
