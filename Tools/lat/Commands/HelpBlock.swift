/// A part of a help text. It is written as plain text and laid out for the width of a terminal, or as a manual page.
enum HelpBlock: Hashable, Sendable {
    case paragraph(String)
    /// Words with an explanation of each.
    case terms([Term])
    /// Command lines to try.
    case examples([String])

    struct Term: Hashable, Sendable {
        let name: String
        let text: String
    }

    /// Reads the blocks of a text. An empty line ends a block. Examples are indented lines below the line `Examples`. Terms are
    /// indented lines with at least two blanks between a word and its explanation.
    static func reading(_ text: String) -> [HelpBlock] {
        text.split(separator: "\n", omittingEmptySubsequences: false).split(separator: "").map { lines in
            if lines.first == "Examples" { return .examples(lines.dropFirst().map(trimmed)) }
            guard lines.allSatisfy({ $0.hasPrefix("  ") }) else {
                return .paragraph(lines.map(trimmed).joined(separator: " "))
            }
            return .terms(
                lines.map { line in
                    let line = trimmed(line)
                    let end = line.firstRange(of: "  ")?.lowerBound ?? line.endIndex
                    return Term(name: String(line[..<end]), text: trimmed(line[end...]))
                })
        }
    }

    private static func trimmed(_ line: Substring) -> String { String(line.drop { $0 == " " }) }
}

/// A command line of the examples.
enum ShellLine {
    /// Its words, with their quotes.
    static func words(_ line: String) -> [String] {
        var words: [String] = []
        var word = ""
        var quote: Character?
        for character in line {
            if character == " ", quote == nil {
                if !word.isEmpty { words.append(word) }
                word = ""
                continue
            }
            if character == quote {
                quote = nil
            } else if quote == nil, character == "'" || character == "\"" {
                quote = character
            }
            word.append(character)
        }
        return word.isEmpty ? words : words + [word]
    }

    /// The words, each option with the word after it.
    private static func groups(_ line: String) -> [String] {
        words(line).reduce(into: []) { groups, word in
            if let last = groups.last, last.hasPrefix("-"), !last.contains(" "), !word.hasPrefix("-") {
                groups[groups.count - 1] += " " + word
            } else {
                groups.append(word)
            }
        }
    }

    /// Breaks a command line into lines of a width. Each line but the last ends with a backslash, so that a shell reads
    /// them as one.
    static func wrapped(_ line: String, to width: Int) -> [String] {
        guard line.count > width else { return [line] }
        var lines: [String] = []
        var current = ""
        for word in groups(line) {
            // Two columns are for the blank and the backslash.
            if !current.isEmpty, current.count + 1 + word.count > width - 2 {
                lines.append(current + " \\")
                current = "   "
            }
            current += (current.isEmpty ? "" : " ") + word
        }
        return lines + [current]
    }
}
