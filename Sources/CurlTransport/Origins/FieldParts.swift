/// Splits a field's value at a separator, where that does not stand in a quoted text (RFC 9110 §5.6.4).
enum FieldParts {
    /// The parts without the blanks around them; empty ones are left out.
    static func split(_ value: some StringProtocol, at separator: Character) -> [String] {
        var parts: [String] = []
        var part = ""
        var isQuoted = false
        var isEscaped = false
        for character in value {
            if isEscaped {
                isEscaped = false
            } else if isQuoted, character == "\\" {
                isEscaped = true
            } else if character == "\"" {
                isQuoted.toggle()
            } else if character == separator, !isQuoted {
                parts.append(part)
                part = ""
                continue
            }
            part.append(character)
        }
        parts.append(part)
        return parts.map(trimmed).filter { !$0.isEmpty }
    }

    /// Name, in lower case, and value of `name=value`, `name="value"` or `name`.
    static func parameter(_ text: String) -> (name: String, value: String?) {
        guard let equals = text.firstIndex(of: "=") else { return (trimmed(text).lowercased(), nil) }
        return (trimmed(text[..<equals]).lowercased(), unquoted(trimmed(text[text.index(after: equals)...])))
    }

    static func unquoted(_ text: String) -> String {
        guard text.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") else { return text }
        var result = ""
        var isEscaped = false
        for character in text.dropFirst().dropLast() {
            if character == "\\", !isEscaped {
                isEscaped = true
            } else {
                isEscaped = false
                result.append(character)
            }
        }
        return result
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        let start = text.drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(start[...last])
    }
}
