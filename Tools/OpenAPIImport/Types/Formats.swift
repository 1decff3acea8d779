/// The types of scalars by their format.
enum Formats {
    /// Formats whose values are plain texts.
    private static let texts: Set<String> = [
        "password", "email", "idnemail", "hostname", "idnhostname", "ipv4", "ipv6", "ip", "cidr", "regex",
        "jsonpointer",
        "relativejsonpointer", "urireference", "urireference", "iri", "irireference", "uritemplate", "time", "duration",
        "phone", "string", "char", "text", "markdown", "html", "color", "hex", "base64url", "mac", "jwt", "currency",
        "decimal",
    ]

    private static let integers: Set<String> = ["int32", "int64", "integer", "int", "long"]
    /// Formats with values above those of `Int`, and above those of `UInt64`.
    private static let wide: Set<String> = ["uint64", "ulong", "unsignedlong"]
    private static let wider: Set<String> = ["int128", "uint128", "bigint", "biginteger"]

    /// An integer that has room for what the format or the bounds allow.
    private static func integer(_ format: String, _ flat: FlatSchema) -> SwiftType {
        if wide.contains(format) { return .uint64 }
        if wider.contains(format) { return .decimal }
        let maximum = flat.maximum?.number.flatMap { Int($0) == nil ? Double($0) : nil } ?? 0
        // A writer of JSON makes 9223372036854776000 of the largest Int.
        guard !integers.contains(format), maximum > 0x1.0001p63 else { return .int }
        let isNegative = flat.minimum?.number?.hasPrefix("-") ?? false
        return isNegative || maximum > 0x1.0001p64 ? .decimal : .uint64
    }

    static func type(
        of type: String, _ flat: FlatSchema, _ overrides: Overrides, _ warn: (String) -> Void
    ) -> SwiftType {
        let format = flat.format ?? ""
        if let override = overrides.formats[format] { return override }
        let plain = format.lowercased().filter { $0.isLetter || $0.isNumber }
        switch type {
        case "integer":
            if ["unixtime", "timestamp", "epoch", "unixtimestamp", "unix"].contains(plain) { return .unix }
            return integer(plain, flat)
        case "number":
            if ["unixtime", "timestamp", "epoch", "unixtimestamp", "unix"].contains(plain) { return .unix }
            if integers.union(wide).union(wider).contains(plain) { return integer(plain, flat) }
            return ["decimal", "decimal128", "bignumber", "currency"].contains(plain) ? .decimal : .double
        default: break
        }
        switch plain {
        case "datetime", "isodatetime", "iso8601", "rfc3339", "datetimeoffset", "timestamp":
            if !["date-time", "iso8601", "rfc3339", "iso-date-time", "timestamp"].contains(format) {
                warn("the format \(format) is read as date-time")
            }
            return .timestamp
        case "date", "fulldate": return .day
        case "rfc2822", "datetimerfc2822", "rfc1123", "datetimerfc1123", "httpdate", "rfc7231": return .mail
        case "uuid", "guid", "uuid4", "uuid7": return .verbatim(.uuid)
        case "uri", "url": return .verbatim(.url)
        case "byte", "base64": return .verbatim(.data)
        case "binary", "file": return .data
        case "" where flat.encoding?.lowercased() == "base64": return .verbatim(.data)
        case "" where ["binary", "8bit", "7bit"].contains(flat.encoding?.lowercased()): return .data
        // Of Kubernetes, beside the type string.
        case "intorstring": return .json
        default: return .string
        }
    }

    /// A note for a comment: the format of a text that has no type of its own.
    static func note(_ flat: FlatSchema, _ type: SwiftType) -> String? {
        guard type == .string, let format = flat.format, !format.isEmpty else { return nil }
        return texts.contains(format.lowercased().filter { $0.isLetter || $0.isNumber }) ? nil : "Format: \(format)."
    }
}

/// Comments of generated code.
enum Comments {
    static func text(of description: String?, _ flat: FlatSchema, _ type: SwiftType) -> String? {
        var parts: [String] = []
        if let description, !description.isEmpty { parts.append(short(description)) }
        if let last = parts.first?.last, !".!?…:;,".contains(last) { parts[0] += "." }
        if flat.isDeprecated { parts.append("Deprecated.") }
        if let note = Formats.note(flat, type) { parts.append(note) }
        if let value = flat.defaultValue, value.array == nil, value.members == nil, !value.isNull {
            parts.append("Default \(value.json).")
        }
        return parts.isEmpty ? nil : parts.joined(separator: " ")
    }

    /// The format that a comment names, if it says nothing else.
    static func format(_ comment: String?) -> Substring? {
        guard let comment, comment.hasPrefix("Format: "), comment.hasSuffix(".") else { return nil }
        let format = comment.dropFirst("Format: ".count).dropLast()
        return format.allSatisfy { $0.isLetter || $0.isNumber || "-_".contains($0) } ? format : nil
    }

    /// The first paragraph of a description, without marks of Markdown that stand alone.
    static func short(_ text: String) -> String {
        var lines: [Substring] = []
        var isBlank = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let trimmed = line.drop { $0 == " " || $0 == "\t" }
            if trimmed.isEmpty {
                isBlank = !lines.isEmpty
                continue
            }
            let isBlock = trimmed.hasPrefix("```") || trimmed.hasPrefix("|")
            if isBlock, lines.isEmpty { continue }
            // After a paragraph that ends with a colon, code in a line belongs to it.
            let isCode = trimmed.hasPrefix("`") && lines.last?.hasSuffix(":") == true
            // A list after the first lines is detail.
            let isList = !lines.isEmpty && (trimmed.hasPrefix("- ") || trimmed.hasPrefix("* "))
            if isBlock || isList || isBlank && !isCode { break }
            isBlank = false
            lines.append(trimmed)
        }
        let joined = lines.joined(separator: " ").split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let heading = joined.drop { $0 == "#" || $0 == " " }
        // What a colon announces is left out.
        if heading.hasSuffix(":") {
            let text = ["For example", "Example", "e.g."].reduce(heading.dropLast()) { text, word in
                text.hasSuffix(" " + word) ? text.dropLast(word.count + 1) : text
            }
            return text.last.map { ".!?".contains($0) } == true ? String(text) : text + " …"
        }
        guard heading.count > 400 else { return String(heading) }
        let cut = heading.prefix(400)
        return String(cut[..<(cut.lastIndex(of: " ") ?? cut.endIndex)]) + " …"
    }

    /// The lines of a comment, each with its three slashes.
    static func lines(_ text: String?, indent: Int) -> [String] {
        guard let text, !text.isEmpty else { return [] }
        let blank = String(repeating: " ", count: indent)
        var (lines, line): ([String], String) = ([], "")
        for word in words(oneLine(text)) {
            if !line.isEmpty, line.count + word.count + indent + 5 > 118 {
                lines.append("\(blank)/// \(line)")
                line = ""
            }
            line += line.isEmpty ? word : " \(word)"
        }
        if !line.isEmpty { lines.append("\(blank)/// \(line)") }
        return lines
    }

    /// A text without what ends a line, or shows it in another order than it is.
    static func oneLine(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { scalar in
                    switch scalar.properties.generalCategory {
                    case .control, .lineSeparator, .paragraphSeparator: " "
                    default: scalar.properties.isBidiControl ? " " : scalar
                    }
                }))
    }

    /// The words of a text, with short code in backticks as one word.
    private static func words(_ text: String) -> [String] {
        var (words, isCode): ([String], Bool) = ([], false)
        for word in text.split(separator: " ") {
            if isCode, let last = words.last, last.count + word.count < 60 {
                words[words.count - 1] += " \(word)"
            } else {
                isCode = false
                words.append(String(word))
            }
            if !word.filter({ $0 == "`" }).count.isMultiple(of: 2) { isCode.toggle() }
        }
        return words
    }
}
