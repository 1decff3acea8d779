/// Field values that are lists (RFC 9110 §5.6.1).
package enum FieldList {
    /// The elements between commas, or another separator in ASCII, quoted texts kept whole, white space around them and
    /// empty ones left out.
    package static func elements(of value: String, separatedBy separator: UInt8 = UInt8(ascii: ",")) -> [String] {
        var elements: [String] = []
        var start = value.utf8.startIndex
        var isQuoted = false
        var isEscaped = false
        func take(upTo end: String.Index) {
            let element = String(value[start..<end]).trimmingFieldWhitespace
            if !element.isEmpty { elements.append(element) }
        }
        for index in value.utf8.indices {
            switch value.utf8[index] {
            case _ where isEscaped: isEscaped = false
            case UInt8(ascii: "\\") where isQuoted: isEscaped = true
            case UInt8(ascii: "\""): isQuoted.toggle()
            case separator where !isQuoted:
                take(upTo: index)
                start = value.utf8.index(after: index)
            default: break
            }
        }
        take(upTo: value.utf8.endIndex)
        return elements
    }

    /// The field names of a list, in lower case.
    package static func names(_ value: String) -> [String] { elements(of: value).map { $0.lowercased() } }

    /// Name, in lower case, and value of `name=value`, `name="value"` or `name`.
    package static func parameter(_ text: String) -> (name: String, value: String?) {
        guard let equals = text.firstIndex(of: "=") else { return (text.trimmingFieldWhitespace.lowercased(), nil) }
        let value = String(text[text.index(after: equals)...]).trimmingFieldWhitespace
        return (String(text[..<equals]).trimmingFieldWhitespace.lowercased(), unquoted(value))
    }

    /// The text inside quotes; a text without them as it is.
    package static func unquoted(_ text: String) -> String {
        guard text.utf8.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") else { return text }
        var result = ""
        var isEscaped = false
        for character in text.dropFirst().dropLast() {
            if character == "\\", !isEscaped {
                isEscaped = true
            } else {
                result.append(character)
                isEscaped = false
            }
        }
        return result
    }
}

extension String {
    /// The text without spaces and tabs at its ends.
    package var trimmingFieldWhitespace: String {
        guard let first = utf8.first, let last = utf8.last else { return self }
        guard first == 0x20 || first == 0x09 || last == 0x20 || last == 0x09 else { return self }
        let bytes = utf8
        var start = bytes.startIndex
        var end = bytes.endIndex
        while start < end, bytes[start] == 0x20 || bytes[start] == 0x09 { start = bytes.index(after: start) }
        while end > start {
            let before = bytes.index(before: end)
            guard bytes[before] == 0x20 || bytes[before] == 0x09 else { break }
            end = before
        }
        return String(self[start..<end])
    }
}
